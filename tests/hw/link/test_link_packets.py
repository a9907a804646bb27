# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The header format: what is refused, what survives a round trip, what the checksum finds."""

import random
import re
from itertools import combinations
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from hw.link.packer import LinkPacker
from hw.link.packet import PacketFormat, PacketKind, checksum_of, link_beat_layout, link_flits
from hw.link.receive import ReceiveBuffer
from hw.link.transmit import PacketQueueSignature, TransmitPort
from tests.hw.link.wire import checksum


@pytest.mark.parametrize(
    "options, message",
    [
        ({"payload_bytes": 0}, "payload_bytes must be an integer from 16 to 4080, not 0"),
        ({"payload_bytes": 4096}, "payload_bytes must be an integer from 16 to 4080, not 4096"),
        ({"payload_bytes": 100}, "payload_bytes must be a multiple of 16, not 100"),
        ({"chunk": 0}, "chunk must be an integer at least 1, not 0"),
        ({"node": 16, "chunk": 32}, "header fields must fit 120 bits beside the checksum, not 154"),
    ],
)
def test_impossible_format_is_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        PacketFormat(**options)


@pytest.mark.parametrize("value", ["256", 256.0, True, None])
def test_format_parameters_must_be_integers(value):
    with pytest.raises(TypeError, match=r"^payload_bytes must be an integer"):
        PacketFormat(payload_bytes=value)
    with pytest.raises(TypeError, match=r"^context must be an integer"):
        PacketFormat(context=value)


def test_bits_that_no_field_uses_are_reserved():
    assert PacketFormat().layout["reserved"].width == 0
    assert PacketFormat(chunk=12).layout["reserved"].width == 4
    assert PacketFormat(chunk=12).layout.size == PacketFormat().layout.size == 128


def test_encoding_refuses_what_does_not_fit():
    format = PacketFormat()
    with pytest.raises(ValueError, match=r"^unknown header fields \['colour'\]; known are"):
        format.encode({"colour": 1})
    with pytest.raises(ValueError, match=r"^header field context must be an integer from 0 to 15"):
        format.encode({"context": 16})
    with pytest.raises(ValueError, match=r"^header field context must be an integer from 0 to 15"):
        format.encode({"context": -1})
    with pytest.raises(TypeError, match=r"^header field context must be an integer"):
        format.encode({"context": 1.5})


def headers(format, count):
    rng = random.Random(count)
    for _ in range(count):
        fields = format.decode(format.encode({}))
        yield {name: rng.getrandbits(format.layout[name].width) for name in fields}


def test_decode_undoes_encode_and_the_checksum_is_the_specified_one():
    format = PacketFormat()
    for fields in headers(format, 200):
        flit = format.encode(fields)
        assert format.decode(flit) == fields
        assert flit >> 120 == checksum(flit)
    assert format.decode(0) is None
    assert format.encode({"kind": PacketKind.READY}) == format.encode({"kind": 2})


def test_hardware_computes_the_checksum_of_the_model():
    format = PacketFormat()
    flit, result = Signal(128), Signal(8)
    m = Module()
    m.d.comb += result.eq(checksum_of(flit))

    async def testbench(ctx):
        for fields in headers(format, 200):
            encoded = format.encode(fields)
            ctx.set(flit, encoded ^ 0x5A << 120)
            assert ctx.get(result) == encoded >> 120

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()


def test_checksum_finds_every_burst_of_8_and_every_3_flipped_bits():
    """A sum of syndromes that is zero is an error that is not found."""
    zero = checksum(0)
    syndromes = [checksum(1 << bit) ^ zero for bit in range(120)] + [1 << bit for bit in range(8)]

    assert all(syndromes)
    # One pair escapes; its first bit is the mode bit, without which no header is believed.
    pairs = [(a, b) for a, b in combinations(range(128), 2) if syndromes[a] == syndromes[b]]
    assert pairs == [(0, 127)]
    assert PacketFormat().layout["offload"].offset == 0
    # Every syndrome has odd parity under the factor x + 1: an odd number of errors never cancels.
    assert {syndrome.bit_count() % 2 for syndrome in syndromes} == {1}
    for at in range(121):
        for pattern in range(1, 256):
            total = 0
            for bit in range(8):
                total ^= syndromes[at + bit] * (pattern >> bit & 1)
            assert total, f"burst {pattern:08b} at {at} is not found"


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: link_beat_layout(3), "flits per beat must be one of 1, 2, 4, 8, not 3"),
        (lambda: link_flits(24), "bus_bytes must be one of 16, 32, 64, 128, not 24"),
        (lambda: LinkPacker(0), "flits per beat must be one of 1, 2, 4, 8, not 0"),
        (lambda: LinkPacker(4, flush_after=0), "flush_after must be an integer at least 1, not 0"),
        (
            lambda: ReceiveBuffer(PacketFormat(), bus_bytes=64, packets=1),
            "packets must be an integer at least 2, not 1",
        ),
        (
            lambda: ReceiveBuffer(PacketFormat(payload_bytes=48), bus_bytes=32, packets=4),
            "payload_bytes must be a multiple of the 32 bus bytes, not 48",
        ),
        (
            lambda: TransmitPort(PacketFormat(), bus_bytes=64, packets=0, credits=4),
            "packets must be an integer at least 1, not 0",
        ),
        (
            lambda: TransmitPort(PacketFormat(), bus_bytes=64, packets=4, credits=0),
            "credits must be an integer at least 1, not 0",
        ),
        (
            lambda: TransmitPort(
                PacketFormat(payload_bytes=48), bus_bytes=32, packets=4, credits=4
            ),
            "payload_bytes must be a multiple of the 32 bus bytes, not 48",
        ),
    ],
)
def test_impossible_block_is_refused(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def test_queue_signatures_are_equal_when_their_parameters_are():
    wide = PacketQueueSignature(PacketFormat(), bus_bytes=64)

    assert wide == PacketQueueSignature(PacketFormat(), bus_bytes=64)
    assert wide != PacketQueueSignature(PacketFormat(), bus_bytes=32)
    assert "bus_bytes=64" in repr(wide)


def test_data_sheet_has_the_fields_as_they_are():
    text = Path("docs/reference/link.md").read_text().partition("\n## Retry")[0]
    rows = re.findall(r"^\| (\d+)(?:\.\.(\d+))? \| `(\w+)` \|", text, re.MULTILINE)
    documented = [(name, int(first), int(last or first)) for first, last, name in rows]

    layout = PacketFormat().layout
    assert documented == [
        (name, field.offset, field.offset + field.width - 1)
        for name, field in layout
        if field.width
    ]
