# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Packets between words and compressed data, beside numpy and the codec's golden model."""

import numpy as np
import pytest

from gen.compile import compile_model
from hw.switch.formats import data_flits
from hw.switch.packet import Format, Kind, beats_of, encode
from hw.switch.recode import CompressPackets, ExpandPackets
from sim.rtl.switch.formats import packed, rounded, unpacked

FLITS = 8


def packet(format, data, tag, lanes=4):
    """Beats of a packet."""
    header = encode({"kind": Kind.PUSH, "format": format, "tag": tag})
    size = 4 * lanes
    flits = [
        header, *(int.from_bytes(data[k : k + size], "little") for k in range(0, len(data), size))
    ]
    layout = beats_of(lanes)
    return [
        layout.const({"data": flit, "first": k == 0, "last": k == len(flits) - 1}).as_bits()
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
    """What comes out of it, beat by beat, the cycles that took, and what came along."""
    kind, given = given
    out, along, cycles = [], [], 0
    asides = list(aside or ())
    with model.instance() as instance:
        left = list(given)
        valid = False
        while len(out) < len(given) * 4 and cycles < 40 * len(given) + 200:
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
                last = left.pop(0) >> kind.size - 1
                if asides and last:
                    asides.pop(0)
            if not left and instance.get("empty"):
                break
    return out, cycles, along


@pytest.fixture(
    scope="module",
    params=[
        (True, True, 4), (True, True, 16), (False, True, 4),
        pytest.param((True, False, 4), marks=pytest.mark.full),
        pytest.param((True, True, 8), marks=pytest.mark.full),
    ],
    ids=["all", "16 lanes", "bfp", "half", "8 lanes"],
)
def models(request):
    half, bfp, lanes = request.param
    made = {}
    for kind in (CompressPackets, ExpandPackets):
        name = f"{kind.__name__.lower()}_{half:d}{bfp:d}_{lanes}"
        component = kind(payload_flits=FLITS, half=half, bfp=bfp, lanes=lanes, aside=3)
        made[kind] = compile_model(component, name=name)
    recoded = {Format.WORDS, *([Format.FP16, Format.BF16] if half else []),
               *([Format.BFP] if bfp else [])}
    return made, recoded, lanes


@pytest.mark.parametrize("stalls", [0.0, 0.5])
def test_packets_of_all_formats_in_their_order(models, stalls):
    """Those of formats that it does not know pass as they are."""
    made, recoded, lanes = models
    wide, flit = beats_of(lanes), beats_of(4)
    rng = np.random.default_rng(3)
    to_wire, of_wire, words, asides = [], [], [], []
    for tag in range(60):
        format = Format(int(rng.integers(4)))
        values = drawn(rng, format)
        short = packed(format, values)
        assert len(short) == 16 * data_flits(format, FLITS)
        long = values.tobytes() if format in recoded else short
        to_wire += packet(format, long, tag, lanes)
        of_wire += packet(format, short, tag)
        back = unpacked(format, short)[: 4 * FLITS].tobytes() if format in recoded else short
        words += packet(format, back, tag, lanes)
        asides.append(int(rng.integers(8)))
    out, _, along = streamed(made[CompressPackets], (wide, to_wire), stalls, rng, asides)
    assert out == of_wire
    lengths = np.diff([*np.flatnonzero([flit.from_bits(each).first for each in out]), len(out)])
    assert along == list(np.repeat(asides, lengths))
    assert streamed(made[ExpandPackets], (flit, of_wire), stalls, rng)[0] == words


@pytest.mark.parametrize("format", list(Format))
def test_a_beat_per_cycle_on_the_side_that_has_more(models, format):
    """But for a cycle between packets."""
    made, recoded, lanes = models
    rng = np.random.default_rng(5)
    packets = 20
    values = [drawn(rng, format) for _ in range(packets)]
    short = [packed(format, each) for each in values]
    long = [each.tobytes() if format in recoded else data for each, data in zip(values, short)]
    wide = [packet(format, data, tag, lanes) for tag, data in enumerate(long)]
    flits = [packet(format, data, tag) for tag, data in enumerate(short)]
    most = packets * (1 + max(len(wide[0]), len(flits[0]))) + 10
    for kind, layout, given in (
        (CompressPackets, beats_of(lanes), wide), (ExpandPackets, beats_of(4), flits)
    ):
        beats = [beat for each in given for beat in each]
        assert streamed(made[kind], (layout, beats), 0.0, rng)[1] <= most


@pytest.mark.parametrize("kind, latencies", [
    (CompressPackets, {Format.WORDS: [2, 2, 2], Format.FP16: [3, 2, 2], Format.BFP: [9, 7, 6]}),
    (ExpandPackets, {Format.WORDS: [2, 3, 5], Format.FP16: [2, 2, 3], Format.BFP: [5, 5, 5]}),
])
def test_latency(models, kind, latencies):
    """Of a header, in cycles, with 4, 8 and 16 lanes."""
    made, recoded, lanes = models
    for format, by_lanes in latencies.items():
        cycles = by_lanes[[4, 8, 16].index(lanes)]
        values = np.ones(4 * FLITS, np.float32)
        data = packed(format, values)
        if kind is CompressPackets and format in recoded:
            data = values.tobytes()
        with made[kind].instance() as instance:
            instance.set("o_ready", 1)
            left = packet(format, data, 0, lanes if kind is CompressPackets else 4)
            took = 0
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
