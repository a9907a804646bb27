# amaranth: UnusedElaboratable=no
"""Packets between words and compressed data, beside numpy and the codec's golden model."""

import numpy as np
import pytest

from gen.compile import compile_model
from hw.switch.formats import data_flits
from hw.switch.packet import FLIT, Format, Kind, encode
from hw.switch.recode import CompressPackets, ExpandPackets
from tb.switch.formats import packed, rounded, unpacked

FLITS = 8


def packet(format, data, tag):
    """Flits of a packet."""
    header = encode({"kind": Kind.PUSH, "format": format, "tag": tag})
    flits = [header, *(int.from_bytes(data[k : k + 16], "little") for k in range(0, len(data), 16))]
    return [
        FLIT.const({"data": flit, "first": k == 0, "last": k == len(flits) - 1}).as_bits()
        for k, flit in enumerate(flits)
    ]


def drawn(rng, format):
    """Data of a packet: of all sizes, zeros, subnormals, infinities and NaNs."""
    values = rng.standard_normal(4 * FLITS) * 10.0 ** rng.integers(-9, 9)
    words = values.astype(np.float32).view(np.uint32)
    kind = rng.integers(4)
    if kind == 0:
        words = rng.integers(0, 1 << 32, 4 * FLITS).astype(np.uint32)
    elif kind == 1:
        words[rng.integers(4 * FLITS)] = rng.choice([0, 1 << 31, 1, 0x7F80_0000, 0x7FC0_0001])
    return words.view(np.float32)


def streamed(model, given, stalls, rng, aside=None):
    """What comes out of it, flit by flit, the cycles that took, and what came along."""
    out, along, cycles = [], [], 0
    asides = list(aside or ())
    with model.instance() as instance:
        left = list(given)
        valid = False
        while len(out) < len(given) * 2 and cycles < 40 * len(given) + 200:
            valid = bool(left) and (valid or rng.random() >= stalls)
            instance.set("i_valid", valid)
            if left:
                instance.set("i_payload", left[0])
            if asides:
                instance.set("beside", asides[0])
            ready = rng.random() >= stalls
            instance.set("o_ready", ready)
            if ready and instance.get("o_valid"):
                out.append(instance.get("o_payload"))
                if aside is not None:
                    along.append(instance.get("along"))
            taken = valid and instance.get("i_ready")
            instance.cycle()
            cycles += 1
            if taken:
                flit = FLIT.from_bits(left.pop(0))
                if asides and flit.last:
                    asides.pop(0)
            if not left and instance.get("empty"):
                break
    return out, cycles, along


@pytest.fixture(scope="module", params=[(True, True), (True, False), (False, True)],
                ids=["all", "half", "bfp"])
def models(request):
    half, bfp = request.param
    made = {}
    for kind in (CompressPackets, ExpandPackets):
        name = f"{kind.__name__.lower()}_{half:d}{bfp:d}"
        component = kind(payload_flits=FLITS, half=half, bfp=bfp, aside=3)
        made[kind] = compile_model(component, name=name)
    recoded = {Format.WORDS, *([Format.FP16, Format.BF16] if half else []),
               *([Format.BFP] if bfp else [])}
    return made, recoded


@pytest.mark.parametrize("stalls", [0.0, 0.5])
def test_packets_of_all_formats_in_their_order(models, stalls):
    """Those of formats that it does not know pass as they are."""
    made, recoded = models
    rng = np.random.default_rng(3)
    to_wire, of_wire, words, asides = [], [], [], []
    for tag in range(60):
        format = Format(int(rng.integers(4)))
        values = drawn(rng, format)
        short = packed(format, values)
        assert len(short) == 16 * data_flits(format, FLITS)
        long = values.tobytes() if format in recoded else short
        to_wire += packet(format, long, tag)
        of_wire += packet(format, short, tag)
        back = unpacked(format, short)[: 4 * FLITS].tobytes() if format in recoded else short
        words += packet(format, back, tag)
        asides.append(int(rng.integers(8)))
    out, _, along = streamed(made[CompressPackets], to_wire, stalls, rng, asides)
    assert out == of_wire
    lengths = np.diff([*np.flatnonzero([FLIT.from_bits(each).first for each in out]), len(out)])
    assert along == list(np.repeat(asides, lengths))
    assert streamed(made[ExpandPackets], of_wire, stalls, rng)[0] == words


@pytest.mark.parametrize("format", list(Format))
def test_a_flit_of_words_per_cycle(models, format):
    made, recoded = models
    rng = np.random.default_rng(5)
    packets = 20
    values = [drawn(rng, format) for _ in range(packets)]
    short = [packed(format, each) for each in values]
    long = [each.tobytes() if format in recoded else data for each, data in zip(values, short)]
    most = packets * (1 + max(len(each) for each in long) // 16) + 25
    for kind, given in ((CompressPackets, long), (ExpandPackets, short)):
        flits = [flit for tag, data in enumerate(given) for flit in packet(format, data, tag)]
        assert streamed(made[kind], flits, 0.0, rng)[1] <= most


@pytest.mark.parametrize("kind, latencies", [
    (CompressPackets, {Format.WORDS: 2, Format.FP16: 3, Format.BFP: 9}),
    (ExpandPackets, {Format.WORDS: 2, Format.FP16: 2, Format.BFP: 5}),
])
def test_latency(models, kind, latencies):
    """Of a header, in cycles."""
    made, recoded = models
    for format, cycles in latencies.items():
        values = np.ones(4 * FLITS, np.float32)
        data = packed(format, values)
        if kind is CompressPackets and format in recoded:
            data = values.tobytes()
        with made[kind].instance() as instance:
            instance.set("o_ready", 1)
            left, took = packet(format, data, 0), 0
            while not instance.get("o_valid"):
                instance.set("i_valid", bool(left))
                instance.set("i_payload", left[0] if left else 0)
                taken = bool(left) and instance.get("i_ready")
                instance.cycle()
                left = left[taken:]
                took += 1
        assert took == (cycles if format in recoded else 2), (format, took)


@pytest.mark.parametrize("format", [Format.FP16, Format.BF16, Format.BFP])
def test_what_was_rounded_is_not_rounded_again(format):
    """The golden model's, hence the hardware's."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        once = rounded(format, drawn(rng, format))
        assert rounded(format, once).tobytes() == once.tobytes()
