# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Links with retry: RTL against RTL and against an independent model, over wires that fail."""

import random
import re
from pathlib import Path

import pytest

from gen.verilator import find_verilator, has_verilator
from gen.verilog import WAIVERS_SV, emit_files
from hw.link.retry_beats import BeatRetry
from hw.link.retry_frame import RetryConfig, RetryFormat
from hw.link.retry_link import RetryLink
from hw.switch.packet import Kind, decode
from hw.switch.retry import PacketRetry, packet_frames
from tb.link.lossy import Faults
from tb.link.retry import KINDS, BeatEnd, Link, PacketEnd, numbered_packet, retry_config
from tests.families import full
from tests.hw.common.prover import assert_moore
from tests.hw.link.retry_model import CONTENT, START, ModelEnd

FLITS, CREDITS, PACKETS = 4, 3, 250
PROBABILITIES = [0.0, 0.01, 0.1]


def packets(rng, count=PACKETS, begin=0):
    return [numbered_packet(begin + k, flits=FLITS, kind=rng.choice(KINDS), rng=rng)
            for k in range(count)]


def contents(sent):
    """Packets as the model sees them."""
    return [((flits[0] & START - 1) >> 1 & CONTENT, flits[1:]) for flits in sent]


def make(kinds, rng, *, latency, probability, stalls, slots=8, **options):
    config = retry_config(latency, slots=slots, **options)
    ends = [kind(payload_flits=FLITS, credits=CREDITS, config=config, rng=rng) for kind in kinds]
    for end in ends:
        end.stalls = stalls
    faults = [Faults.all(probability) for _ in ends]
    return ends, faults, Link(ends, latency=latency, faults=faults, seed=rng.random())


def fill(ends, rng, **options):
    """Packets for both ends to send; those that each is to get."""
    sent = [packets(rng, **options) for _ in ends]
    for end, each in zip(ends, sent):
        end.queue.extend(list(flits) for flits in each)
    return sent[::-1]


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("latency, slots, stalls", [(1, 2, 0.0), (3, 8, 0.3), (20, 16, 0.0)])
@pytest.mark.parametrize("model", [False, True], ids=["rtl", "model"])
def test_packets_arrive_once_and_in_order(probability, latency, slots, stalls, model):
    rng = random.Random(latency)
    kinds = (PacketEnd, ModelEnd) if model else (PacketEnd, PacketEnd)
    ends, faults, link = make(kinds, rng, latency=latency, probability=probability,
                              stalls=stalls, slots=slots)
    expected = fill(ends, rng)

    link.settle()

    for end, wanted in zip(ends, expected):
        wanted = contents(wanted) if isinstance(end, ModelEnd) else wanted
        assert end.packets == wanted
        assert end.credits == [CREDITS] * 3, "a credit was lost"
        assert not end.failed
    if probability > 0.01:
        met = [faults[0].met, faults[1].met]
        assert all(count > 5 for each in met for count in each.values()), met
        assert ends[0].counts["repeated"] > 0 and ends[0].counts["damaged"] > 0
    if probability == 0:
        assert ends[0].counts == {"resent": 0, "damaged": 0, "repeated": 0}


@pytest.mark.parametrize("kind", ["loss", "repetition", "damage"])
def test_each_fault_alone(kind):
    rng = random.Random(5)
    ends, faults, link = make((PacketEnd, PacketEnd), rng, latency=4, probability=0.0, stalls=0.0)
    for each in faults:
        setattr(each, kind, 0.3)
    expected = fill(ends, rng)

    link.settle()

    assert [end.packets for end in ends] == expected
    assert not any(end.counts["resent"] for end in ends) or kind != "repetition"


def test_packets_have_the_headers_that_engines_sent():
    """Nothing of the link's own is left, and the checksum is that of the header."""
    rng = random.Random(2)
    ends, _, link = make((PacketEnd, PacketEnd), rng, latency=2, probability=0.05, stalls=0.1)
    fill(ends, rng)

    link.settle()

    for end in ends:
        for flits in end.packets:
            fields = decode(flits[0] & START - 1)
            assert fields is not None and fields["offload"] == 1
            assert fields["sequence"] == fields["acknowledge"] == fields["crc"] == 0


def test_a_packet_is_as_long_as_without_retry():
    """Both directions full: no flit beside those of packets, credits and acknowledgements ride."""
    rng = random.Random(3)
    config = retry_config(4, slots=32)
    ends = [PacketEnd(payload_flits=8, credits=24, config=config, rng=rng) for _ in range(2)]
    link = Link(ends, latency=4)
    for end in ends:
        end.source = lambda: numbered_packet(0, flits=8, kind=KINDS[0], rng=rng)
    link.run(lambda: all(end.up for end in ends))
    for _ in range(1000):
        link.step()
    before, count = list(link.busy), [len(end.packets) for end in ends]
    for _ in range(1800):
        link.step()

    assert [now - then for now, then in zip(link.busy, before)] == [1800, 1800]
    assert all(len(end.packets) - then in (199, 200, 201) for end, then in zip(ends, count))


class EveryFortieth(Faults):
    """Loses every fortieth frame, and sometimes the one after it; none that is sent again."""

    drawn = 0

    def draw(self, rng):
        self.drawn += 1
        if self.drawn % 40 and self.drawn % 120 != 1:
            return None
        self.met["loss"] += 1
        return "loss"


def test_what_is_lost_is_sent_again_without_a_timeout():
    """A full link keeps its rate: each loss costs the frame that is sent again, and no more."""
    rng = random.Random(3)
    config = RetryConfig(slots=32, timeout_cycles=5000)
    ends = [PacketEnd(payload_flits=8, credits=40, config=config, rng=rng) for _ in range(2)]
    faults = [EveryFortieth(), Faults()]
    link = Link(ends, latency=10, faults=faults)
    ends[0].source = lambda: numbered_packet(0, flits=8, kind=KINDS[0], rng=rng)
    link.run(lambda: all(end.up for end in ends), deadline=30_000)
    for _ in range(200):
        link.step()
    begin, came, met = link.cycle, len(ends[1].packets), faults[0].met["loss"]
    for _ in range(3600):
        link.step()
    met = faults[0].met["loss"] - met

    lost = (link.cycle - begin) / 9 - (len(ends[1].packets) - came)
    assert met >= 12
    # The first one makes delivery a round trip late, six packets, once.
    assert met - 2 <= lost <= met + 8
    assert abs(ends[0].counts["resent"] - met) <= 2


@pytest.mark.parametrize("kind, length", [(Kind.LOAD, 1), (Kind.PUSH, 5)])
def test_latency(kind, length):
    """From the first flit of a packet to its last at the other engine; an idle link is silent."""
    rng = random.Random(3)
    ends, _, link = make((PacketEnd, PacketEnd), rng, latency=3, probability=0.0, stalls=0.0)
    link.settle()
    ends[0].queue.append(numbered_packet(1, flits=FLITS, kind=kind, rng=rng))
    begin = link.cycle

    link.run(lambda: ends[1].packets)

    # Three times the packet is passed on as a whole: engine, wire, engine.
    assert len(ends[1].packets[0]) == length
    assert link.cycle - begin == 3 + 3 * length + 6
    link.settle()
    before = list(link.busy)
    for _ in range(2000):
        link.step()
    assert link.busy == before


@pytest.mark.parametrize("kinds", [(PacketEnd, PacketEnd), (PacketEnd, ModelEnd)],
                         ids=["rtl", "model"])
@pytest.mark.parametrize("probability", [0.0, 0.1])
def test_an_end_that_is_reset_alone(kinds, probability):
    """In the middle of everything; when it is back, both directions work as before."""
    rng = random.Random(7)
    ends, _, link = make(kinds, rng, latency=5, probability=probability, stalls=0.1)
    for turn in range(4):
        fill(ends, rng, count=100, begin=1000 * turn)
        while len(ends[0].packets) < 20 + 7 * turn:
            link.step()
        for end in ends:
            end.queue.clear()
            end.strict = False
        ends[0].restart()
        link.run(lambda: not ends[0].up)
        link.run(lambda: all(end.up for end in ends))
        link.settle()
        # Engines bring their credits into step by themselves, as after an abort.
        for end in ends:
            end.begin()
            end.packets.clear()
            end.strict = True
        expected = fill(ends, rng, count=50, begin=1000 * turn + 500)
        link.settle()
        for end, wanted in zip(ends, expected):
            assert end.packets == (contents(wanted) if isinstance(end, ModelEnd) else wanted)
            assert end.credits == [CREDITS] * 3
            end.packets.clear()


class One(Faults):
    """Loses one frame, *number* from the first one on."""

    def __init__(self, number):
        super().__init__()
        self.left = number

    def draw(self, rng):
        self.left -= 1
        return "loss" if self.left == -1 else None


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("way", [0, 1])
def test_each_frame_that_brings_a_silent_link_up_again_may_be_lost(way, number):
    """An end is reset alone where nobody has anything to send: nothing else reminds the others."""
    rng = random.Random(number)
    ends, _, link = make((PacketEnd, PacketEnd), rng, latency=5, probability=0.0, stalls=0.0)
    link.settle()
    ends[0].restart()
    link.wires[way].faults = One(number)

    link.run(lambda: not ends[0].up)
    link.run(lambda: all(end.up for end in ends), deadline=20 * retry_config(5).timeout_cycles)

    expected = fill(ends, rng, count=20)
    link.settle()
    assert [end.packets for end in ends] == expected


@pytest.mark.parametrize("kinds", [(PacketEnd, PacketEnd), (PacketEnd, ModelEnd)],
                         ids=["rtl", "model"])
@pytest.mark.parametrize("wait", [0, 30, 120])
@pytest.mark.parametrize("probability", [0.0, 0.1])
def test_what_is_sent_to_an_end_in_reset_arrives_when_it_is_back(kinds, wait, probability):
    rng = random.Random(wait)
    ends, _, link = make(kinds, rng, latency=5, probability=probability, stalls=0.1)
    fill(ends, rng, count=30)
    link.settle()
    ends[0].restart()
    ends[0].packets.clear()
    for _ in range(wait):
        link.step()
    late = [numbered_packet(k, flits=FLITS, kind=kind, rng=rng) for k, kind in enumerate(KINDS)]
    ends[1].queue.extend(list(flits) for flits in late)

    link.settle()

    assert ends[0].packets == late


def test_a_dead_wire_fails_and_works_again_when_it_is_mended():
    rng = random.Random(1)
    ends, faults, link = make((PacketEnd, PacketEnd), rng, latency=3, probability=0.0, stalls=0.0,
                              tries=5)
    link.run(lambda: all(end.up for end in ends))
    faults[0].loss = 1.0
    sent = packets(rng, 3)
    ends[0].queue.extend(sent)
    timeout = retry_config(3).timeout_cycles

    begin = link.cycle
    link.run(lambda: ends[0].failed)

    assert 5 * timeout < link.cycle - begin < 7 * timeout
    assert ends[0].counts["resent"] == 5 and not ends[1].failed
    for _ in range(9 * timeout):
        link.step()
    assert ends[0].failed and not ends[0].up and not ends[1].packets
    assert ends[0].counts["resent"] == 5, "the peer is asked instead"
    faults[0].loss = 0.0
    link.settle()
    assert ends[0].up and not ends[0].failed and ends[1].packets == sent


def test_headers_that_are_wrong_already_are_dropped():
    rng = random.Random(1)
    ends, _, link = make((PacketEnd, PacketEnd), rng, latency=3, probability=0.0, stalls=0.0)
    good, bad, cut = packets(rng, 1)[0], packets(rng, 1)[0], numbered_packet(
        5, flits=FLITS, kind=KINDS[0], rng=rng)
    ends[0].credits = [100] * 3
    ends[0].limit = 100
    bad = [bad[0] ^ 1 << 40, *bad[1:]]
    ends[0].queue.extend([[*cut[:3], *good, *bad, 77], good])

    link.settle()

    assert ends[1].packets == [good, good]


@pytest.mark.parametrize(
    "flits", [1, 4, *full((2, 8))]
)
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_beats_arrive_once_and_in_order(flits, probability):
    rng = random.Random(flits)
    config = retry_config(6, slots=8)
    ends = [BeatEnd(flits=flits, config=config, rng=rng) for _ in range(2)]
    faults = [Faults.all(probability) for _ in ends]
    link = Link(ends, latency=6, faults=faults, seed=flits)
    sent = []
    for end in ends:
        end.stalls = 0.2 if probability else 0.0
        end.queue.extend(beat(rng, flits) for _ in range(500))
        sent.append(list(end.queue))
        end.freed = 200

    link.settle()

    for end, wanted in zip(ends, reversed(sent)):
        assert [existing(each, flits) for each in end.beats] == [
            existing(each, flits) for each in wanted
        ]
        assert end.credits == 200


def beat(rng, flits):
    count = flits if rng.random() < 0.8 else rng.randint(1, flits)
    keep, start = (1 << count) - 1, rng.getrandbits(count)
    return rng.getrandbits(128 * count) | keep << 128 * flits | start << 129 * flits


def existing(beat, flits):
    """A beat without what lies in flits that do not exist."""
    keep = beat >> 128 * flits & (1 << flits) - 1
    return beat & (1 << 128 * keep.bit_length()) - 1, keep, beat >> 129 * flits


def test_beats_of_a_full_link_fill_frames():
    rng = random.Random(4)
    ends = [BeatEnd(flits=4, config=retry_config(4), rng=rng) for _ in range(2)]
    link = Link(ends, latency=4)
    for end in ends:
        end.source = lambda: rng.getrandbits(512) | 15 << 512 | 1 << 516
    link.run(lambda: all(end.up for end in ends))
    for _ in range(500):
        link.step()
    count = [len(end.beats) for end in ends]
    for _ in range(1700):
        link.step()

    assert all(abs(len(end.beats) - then - 1600) <= 2 for end, then in zip(ends, count))


@pytest.mark.parametrize("fields, message", [
    ({"slots": 3}, r"^slots must be a power of two from 2 to 64, not 3$"),
    ({"slots": 128}, r"^slots must be a power of two from 2 to 64, not 128$"),
    ({"timeout_cycles": 5}, r"^timeout_cycles must be an integer from 16 to 65535, not 5$"),
    ({"tries": 0}, r"^tries must be an integer from 1 to 255, not 0$"),
])
def test_bad_configurations(fields, message):
    with pytest.raises(ValueError, match=message):
        RetryConfig(**fields)


def test_bad_formats():
    with pytest.raises(ValueError, match=r"^RetryFormat width must be at least the 128 bits"):
        RetryFormat(width=64)
    with pytest.raises(ValueError, match=r"^slots must be at most half of the 16 numbers"):
        RetryLink(RetryFormat(sequence=4), RetryConfig(slots=16))
    assert packet_frames(8).header.size == 128


@pytest.mark.parametrize("make_end", [
    lambda: PacketRetry(payload_flits=8, credits=8, config=RetryConfig()),
    lambda: BeatRetry(4, RetryConfig()),
], ids=["packets", "beats"])
def test_emitted_verilog_is_lint_clean(make_end, tmp_path):
    if not has_verilator():
        pytest.skip("needs verilator")
    (path, _) = emit_files(make_end(), tmp_path, name="retry", style="sv")

    assert not find_verilator().lint([WAIVERS_SV, path], top="retry")


def test_data_sheet_has_the_fields_of_a_frame_as_they_are():
    page = Path("docs/reference/link.md").read_text()
    text = page.partition("\n## Retry")[2].partition("| content |")[0]
    rows = re.findall(r"^\| (\d+)\.\.(\d+) \| `(\w+)` \|", text, re.MULTILINE)

    assert [(name, int(first), int(last)) for first, last, name in rows] == [
        (name, field.offset, field.offset + field.width - 1) for name, field in RetryFormat().header
    ]


def test_no_output_depends_on_an_input_of_the_same_cycle(tmp_path):
    # Events are registered where they are counted.
    assert_moore(PacketRetry(payload_flits=2, credits=1, config=RetryConfig(slots=2)), tmp_path,
                 but="o:overrun o:damaged o:resent %u %u")
