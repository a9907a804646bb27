# SPDX-License-Identifier: Apache-2.0
"""Independent model of packets on a wire, and a rig that drives both ends of a compiled link.

The model knows the specification only: a checksum computed bit by bit, flits one after the other.
"""

import functools
import random
from collections import deque
from dataclasses import dataclass, field

from amaranth.hdl import Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from gen.compile import compile_model
from hw.link.packet import PacketFormat, PacketKind
from hw.link.receive import ReceiveBuffer
from hw.link.transmit import TransmitPort

FLIT = 128
MASK = (1 << FLIT) - 1


def checksum(header: int) -> int:
    """CRC-8 (x^8 + x^2 + x + 1, start all ones) of the first 120 bits, low bit first."""
    register = 0xFF
    for bit in range(120):
        feedback = (register ^ header >> bit) & 1
        register = register >> 1 ^ (0xE0 if feedback else 0)
    return register


@dataclass(frozen=True)
class Packet:
    """What was sent, or what arrived: the header without its checksum, and the payload."""

    header: int
    payload: bytes

    def flits(self):
        """The packet as (bits, start) pairs."""
        padded = self.payload + bytes(-len(self.payload) % 16)
        yield self.header | checksum(self.header) << 120, 1
        for at in range(0, len(padded), 16):
            yield int.from_bytes(padded[at : at + 16], "little"), 0


def make_packet(format, rng, length=None):
    """A random packet; one without payload is a READY or an empty DATA packet."""
    if length is None:
        length = rng.choice([0, 0, 1, 16, 17, format.payload_bytes, rng.randint(0, 16)])
        length = rng.choice([length, rng.randint(0, format.payload_bytes)])
    kind = PacketKind.DATA
    if length == 0 and rng.random() < 0.5:
        kind = PacketKind.READY
    layout = format.layout
    header = rng.getrandbits(120)
    # The transmit port fills in epoch and sequence number.
    for name, value in (
        ("offload", 1), ("kind", kind.value), ("length", length), ("epoch", 0), ("sequence", 0)
    ):
        place = layout[name]
        header &= ~(((1 << place.width) - 1) << place.offset)
        header |= value << place.offset
    return Packet(header, rng.randbytes(length))


def get_field(format, header, name):
    place = format.layout[name]
    return header >> place.offset & ((1 << place.width) - 1)


def to_beats(flits, width):
    """(bits, start) pairs packed without gaps into beats; the last one may be short."""
    flits = list(flits)
    return [to_beat(flits[at : at + width], width) for at in range(0, len(flits), width)]


def to_beat(flits, width):
    value = 0
    for n, (bits, start) in enumerate(flits):
        value |= bits << FLIT * n | 1 << FLIT * width + n | start << (FLIT + 1) * width + n
    return value


def from_beat(beat, width):
    """The (bits, start) pairs of a beat; what is kept must be a prefix of at least one flit."""
    keep = beat >> FLIT * width & (1 << width) - 1
    start = beat >> (FLIT + 1) * width
    assert keep and keep & keep + 1 == 0, f"keep {keep:b} is no prefix"
    assert start & ~keep == 0, f"start {start:b} marks flits that do not exist ({keep:b})"
    return [(beat >> FLIT * n & MASK, start >> n & 1) for n in range(keep.bit_length())]


WIDTHS = (1, 2, 4, 8)
TX_PACKETS = 4
RX_PACKETS = 24


def beats_of(width):
    """Beats per packet: the published format at 4 flits, elsewhere no power of two."""
    return 4 if width == 4 else 3


def format_of(width):
    return PacketFormat(payload_bytes=16 * width * beats_of(width))


class LinkEnds(wiring.Component):
    """Transmit ports (`s`) and receive buffers (`r`) of all widths, not connected: plain ports."""

    def __init__(self, widths=WIDTHS):
        self.ends = {}
        for width in widths:
            common = {"bus_bytes": 16 * width}
            self.ends[f"s{width}"] = TransmitPort(
                format_of(width), packets=TX_PACKETS, credits=RX_PACKETS, **common
            )
            self.ends[f"r{width}"] = ReceiveBuffer(format_of(width), packets=RX_PACKETS, **common)
        self.wires = {}
        for prefix, end in self.ends.items():
            for path, member, value in end.signature.flatten(end):
                inside = Value.cast(value)
                if not isinstance(inside, Const):  # ready of a stream that never stalls
                    name = "_".join([prefix, *map(str, path)])
                    self.wires[name] = (member.flow, inside)
        super().__init__({name: flow(len(value)) for name, (flow, value) in self.wires.items()})

    def elaborate(self, platform):
        m = Module()
        for name, end in self.ends.items():
            m.submodules[name] = end
        for name, (flow, inside) in self.wires.items():
            outside = getattr(self, name)
            m.d.comb += outside.eq(inside) if flow is Out else inside.eq(outside)
        return m


@functools.cache
def link_model(width):
    """Both ends of one width."""
    return compile_model(LinkEnds([width]), name=f"link_ends_{width}")


@dataclass
class Rig:
    """Drives both ends, cycle by cycle. `chance` maps a place to how often it pauses.

    Places: `write` (a writer), `wire` (tx.ready), `header` and `read` (the consumer). The checks
    that must always hold are here; what was delivered is in `received`.
    """

    width: int
    seed: int = 0
    latency: int = 1
    chance: dict = field(default_factory=dict)
    to_send: tuple = ((), ())
    raw: tuple = ()  # flits put on the wire in place of what the transmit port sends
    trust: bool = True  # the sender obeys its credits
    paced: bool = True  # no more packets than cycles: rx.ready must be high for every beat
    lost_marks: int = 0  # headers that were paid for and are not marked

    def __post_init__(self):
        self.format = format_of(self.width)
        self.beats = beats_of(self.width)
        self.model = link_model(self.width).instance()
        self.rng = random.Random(self.seed)
        self.queues = [deque(packets) for packets in self.to_send]
        self.writing = [None, None]
        self.raw_beats = deque(to_beats(self.raw, self.width))
        self.line, self.credit_line = deque(), deque()
        self.credits = RX_PACKETS - self.lost_marks
        self.now = self.dropped = self.slot = self.returned = 0
        self.received, self.reading, self.expected_row = [], deque(), None
        self.activity, self.offered = [], None

    def pauses(self, place):
        return self.rng.random() < self.chance.get(place, 0.0)

    def port(self, name):
        return f"{name[0]}{self.width}{name[1:]}"

    def get(self, name):
        return self.model.get(self.port(name))

    def cycle(self):
        """One clock cycle. Outputs are registers' functions, so they are read first."""
        names = [f"s_queue_{n}_room" for n in range(2)] + [
            "s_tx_valid", "s_tx_payload", "r_rx_ready", "r_credit", "r_dropped",
            "r_header_valid", "r_header_payload", "r_payload_data",
        ]
        seen = {name: self.get(name) for name in names}
        drive = {}
        self.write(seen, drive)
        self.carry(seen, drive)
        self.consume(seen, drive)
        for name, value in drive.items():
            self.model.set(self.port(name), int(value))
        self.model.cycle()
        self.now += 1

    def write(self, seen, drive):
        beat_bytes = 16 * self.width
        for n, queue in enumerate(self.queues):
            name = f"s_queue_{n}_"
            for part in ("reserve", "data_valid", "header_valid"):
                drive[name + part] = 0
            if self.pauses("write"):
                continue
            work = self.writing[n]
            if work is None and queue and seen[name + "room"]:
                drive[name + "reserve"] = 1
                packet = queue.popleft()
                body = packet.payload
                work = (packet, [body[k : k + beat_bytes] for k in range(0, len(body), beat_bytes)])
            if work is None:
                continue
            packet, body = work
            if body:
                drive[name + "data_valid"] = 1
                drive[name + "data_payload"] = int.from_bytes(body.pop(0), "little")
            if not body and not self.pauses("write"):
                drive[name + "header_valid"] = 1
                drive[name + "header_payload"] = self.queued(packet)
                work = None
            self.writing[n] = work

    def queued(self, packet):
        """The header with its checksum, which epoch and number change, and what follows it."""
        flits = -(-len(packet.payload) // 16)
        entry = packet.header | checksum(packet.header) << 120
        place = FLIT
        for value, bits in (
            (flits, self.format.payload_flits.bit_length()),
            (flits <= self.width, 1), (flits >= self.width, 1), (flits == 0, 1),
        ):
            entry |= value << place
            place += bits
        return entry

    def carry(self, seen, drive):
        ready = not self.pauses("wire")
        drive["s_tx_ready"] = ready
        if self.offered is not None:
            assert seen["s_tx_valid"] and seen["s_tx_payload"] == self.offered, "not stable"
        self.offered = seen["s_tx_payload"] if seen["s_tx_valid"] and not ready else None
        beat = None
        if seen["s_tx_valid"] and ready:
            beat = seen["s_tx_payload"]
        elif self.raw_beats:
            marks = sum(start for _, start in from_beat(self.raw_beats[0], self.width))
            obeys = marks <= self.credits or not self.trust
            if ready and obeys and len(self.line) <= self.latency:
                beat = self.raw_beats.popleft()
        if beat is not None:
            flits = from_beat(beat, self.width)
            self.credits -= sum(start for _, start in flits)
            assert self.credits >= 0 or not self.trust, "sent without credit"
            self.line.append((self.now + self.latency, beat))
        self.activity.append(0 if beat is None else len(flits))

        drive["r_rx_valid"] = 0
        if self.line and self.line[0][0] <= self.now:
            drive["r_rx_valid"] = 1
            drive["r_rx_payload"] = self.line[0][1]
            if seen["r_rx_ready"]:
                self.line.popleft()
            assert seen["r_rx_ready"] or not self.paced, "overrun"

        if seen["r_credit"]:
            self.returned += 1
            self.credit_line.append(self.now + self.latency)
        drive["s_credit"] = 0
        if self.credit_line and self.credit_line[0] <= self.now:
            self.credit_line.popleft()
            self.credits += 1
            drive["s_credit"] = not self.raw
            assert self.credits <= RX_PACKETS or not self.trust, "more credits than slots"

    def consume(self, seen, drive):
        self.dropped += seen["r_dropped"]
        drive |= {"r_payload_release": 0, "r_payload_release_control": 0, "r_payload_enable": 0}
        beat_bytes = 16 * self.width
        if self.expected_row is not None:
            packet, data = self.expected_row
            data += seen["r_payload_data"].to_bytes(beat_bytes, "little")
            self.expected_row = None
            length = get_field(self.format, packet, "length")
            if len(data) >= length:
                self.finish(packet, bytes(data[:length]))
        if self.reading and not self.pauses("read"):
            header, data, slot, done = self.reading[0]
            drive["r_payload_enable"] = 1
            drive["r_payload_row"] = slot * self.beats + done
            self.expected_row = (header, data)
            done += 1
            if done * beat_bytes >= get_field(self.format, header, "length"):
                self.reading.popleft()
                drive["r_payload_release"] = 1
            else:
                self.reading[0] = (header, data, slot, done)
        take = not self.pauses("header")
        drive["r_header_ready"] = take
        if take and seen["r_header_valid"]:
            header = seen["r_header_payload"]
            assert header >> 120 == checksum(header)
            if get_field(self.format, header, "kind") == PacketKind.DATA.value:
                self.received.append([header & ~(0xFF << 120), None])
                self.reading.append((header, bytearray(), self.slot, 0))
                self.slot = (self.slot + 1) % RX_PACKETS
            else:
                self.received.append([header & ~(0xFF << 120), b""])
                drive["r_payload_release_control"] = 1

    def finish(self, header, payload):
        entry = next(entry for entry in self.received if entry[1] is None)
        assert entry[0] == header & ~(0xFF << 120)
        entry[1] = payload

    def run(self, deadline=50_000):
        """Until everything has been sent and read and nothing more comes."""
        quiet = 0
        while quiet < 60:
            self.cycle()
            assert self.now < deadline, "not finished"
            busy = (
                any(self.queues) or any(self.writing) or self.raw_beats or self.line
                or self.credit_line or self.reading or self.expected_row is not None
            )
            quiet = 0 if busy else quiet + 1
        place = self.format.layout["sequence"]
        packets = []
        for number, (header, payload) in enumerate(self.received):
            if not self.raw:
                numbers = 1 << place.width
                assert get_field(self.format, header, "sequence") == number % numbers
                header &= ~((numbers - 1) << place.offset)
            packets.append(Packet(header, payload))
        return packets
