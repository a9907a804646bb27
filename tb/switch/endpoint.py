# SPDX-License-Identifier: Apache-2.0
"""An endpoint of the switch, in Python, cycle by cycle; and packets."""

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hw.fp.ops import ReduceOp
from hw.switch.config import PlaneConfig
from hw.switch.formats import data_flits
from hw.switch.packet import (
    CLASSES,
    AbortCause,
    Format,
    Kind,
    decode,
    encode,
    notice_fields,
    notice_said,
)
from hw.switch.recount import GUARD_CYCLES
from sim.rtl.switch.orders import dtype_of, fold

__all__ = ["START", "Endpoint", "LinkEnd", "payload", "words_of"]

START = 1 << 128
"""Mark of headers on a link."""

Words: TypeAlias = NDArray[Any]
Header: TypeAlias = dict[str, int]
Key: TypeAlias = tuple[int, int]
"""Region and address of a block."""

_MASK = START - 1


def payload(words: Words | tuple[()]) -> list[int]:
    """Flits of an array of 32-bit words."""
    raw = np.ascontiguousarray(words).tobytes()
    return [int.from_bytes(raw[k : k + 16], "little") for k in range(0, len(raw), 16)]


def words_of(flits: Iterable[int], dtype: DTypeLike) -> Words:
    """The array in the payload flits of a packet."""
    return np.frombuffer(b"".join(each.to_bytes(16, "little") for each in flits), dtype=dtype)


def traffic(kind: Kind) -> int:
    return kind.value & 3


@dataclass
class Sum:
    """An incomplete sum at a home endpoint; *parts* are the partials, in order."""

    count: int = 0
    words: Words | None = None
    parts: list[tuple[int, Words, int]] = field(default_factory=list)

    poison: int = 0

    def add(self, op: ReduceOp, words: Words, count: int, source: int, poison: int) -> None:
        """Add a packet that came from *source*."""
        self.poison |= poison
        self.words = words if self.words is None else fold(op, self.words, words)
        self.count += count
        self.parts.append((count, words, source))


@dataclass
class Load(Sum):
    """An outstanding load that waits for *asked* operands."""

    asked: int = 0


class LinkEnd(ABC):
    """One end of a link: sends queued packets as credits allow, and takes whole packets.

    `recount` makes it count its credits anew; it answers when the other end does so.

    Parameters
    ----------
    config : configuration of what is at the other end
    rng : random.Random
    gaps : float
        Share of cycles in which nothing is sent, 0 to 1.
    """

    def __init__(
        self, config: PlaneConfig, rng: random.Random, *, gaps: float = 0.0
    ) -> None:
        self.config, self.rng, self.gaps = config, rng, gaps
        self.may_send = True
        self.limit = config.buffer_packets
        self.credits = [self.limit] * CLASSES
        # Packets, as lists of flits.
        self.queues: list[deque[list[int]]] = [deque() for _ in range(CLASSES)]
        self.sending: deque[int] = deque()
        self.receiving: list[int] = []
        # Packets for the other end of the link: kind, number, and whether both ends count.
        self.control: deque[tuple[Kind, int, int]] = deque()
        self.forgets = False  # incoming credits are ignored
        self.asked = 0  # number of the last count requested
        # Number of a request, None once answered; cycles to wait.
        self.answering: tuple[int | None, int] | None = None
        self.due = [0] * CLASSES  # credits to be returned anew

    def recount(self, *, both: bool = True) -> None:
        """Count the credits of this end anew, and let the other end do so, too."""
        self.asked = self.asked + 1 & 0xFF
        self.control.append((Kind.COUNT, self.asked, int(both)))

    def occupied(self) -> list[int]:
        """Number of packets held, by class."""
        return [0] * CLASSES

    def hear(self, kind: Kind, header: Header) -> None:
        """Take a control packet of the other end of the link."""
        if kind is Kind.COUNTED:
            self.forgets &= header["tag"] != self.asked
            return
        self.answering = header["tag"], GUARD_CYCLES
        if header["poison"]:
            self.recount(both=False)

    def mutes(self) -> bool:
        """Let a cycle pass; return True if no credits may be returned in it."""
        if self.answering is None:
            return False
        number, left = self.answering
        self.answering = number, left - 1
        if left > 0:
            return True
        if number is not None:
            self.control.append((Kind.COUNTED, number, 0))
            self.answering = None, GUARD_CYCLES
            return True
        self.due = [self.config.credits - each for each in self.occupied()]
        self.answering = None
        return True

    def queue(self, kind: Kind, words: Words | tuple[()], **fields: Any) -> None:
        header = encode({"kind": kind, **fields})
        data = payload(words) if len(words) else []
        self.queues[traffic(kind)].append([header | START, *data])

    def send(self) -> int | None:
        """Return the flit of this cycle, or None."""
        if not self.sending and self.control:
            kind, tag, both = self.control.popleft()
            if kind is Kind.COUNT:
                self.forgets, self.credits = True, [0] * CLASSES
            self.sending.append(encode({"kind": kind, "tag": tag, "poison": both}) | START)
        if not self.sending and self.may_send:
            ready = [k for k in range(CLASSES) if self.queues[k] and self.credits[k]]
            if ready:
                number = self.rng.choice(ready)
                self.credits[number] -= 1
                self.sending.extend(self.queues[number].popleft())
        if self.sending and self.rng.random() >= self.gaps:
            return self.sending.popleft()
        return None

    def paid(self, bits: int) -> None:
        """Take incoming credits, a bit per class."""
        for number in range(CLASSES):
            self.credits[number] += bits >> number & 1 & ~self.forgets
            assert self.credits[number] <= self.limit, "a credit was made up"

    def receive(self, flit: int) -> None:
        """Take a flit, and its packet once that is whole."""
        assert bool(flit & START) == (not self.receiving), "packets are not whole"
        self.receiving.append(flit & _MASK)
        header = decode(self.receiving[0])
        assert header is not None and header["offload"], "the checksum is wrong"
        data = data_flits(Format(header["format"]), self.config.payload_flits)
        if len(self.receiving) == (1 + data if header["kind"] & 4 else 1):
            assert header["crc"] == header["sequence"] == header["acknowledge"] == 0
            kind = Kind(header["kind"])
            if kind in (Kind.COUNT, Kind.COUNTED):
                self.hear(kind, header)
            else:
                self.arrived(header, self.receiving[1:])
            self.receiving = []

    @abstractmethod
    def arrived(self, header: Header, flits: list[int]) -> None:
        """Take a packet."""


class Endpoint(LinkEnd):
    """Pushes operands, adds partials of its home addresses, loads sums, answers loads of others,
    and takes results. Operands that are missing in its memory are sent as poison.

    It has room for *credits* packets of each class and frees it after a random time; PARTIAL and
    RESPONSE are accepted even if its own output is blocked. Answers to loads are sent in any
    order.
    """

    def __init__(
        self, number: int, config: PlaneConfig, *, expected: Mapping[int, int], rng: random.Random,
        gaps: float = 0.0, stalls: float = 0.0,
    ) -> None:
        super().__init__(config, rng, gaps=gaps)
        self.number = number
        self.expected = expected
        self.stalls = stalls
        self.closed: set[int] = set()  # classes of which no room is freed
        # Headers of packets that occupy room.
        self.held: list[deque[Header]] = [deque() for _ in range(CLASSES)]
        # Words, and the parts that this endpoint added; None if the sum came from elsewhere.
        self.results: dict[Key, tuple[Words, list[tuple[int, Words, int]] | None]] = {}
        self.sums: dict[Key, Sum] = {}
        self.memory: dict[Key, Words] = {}  # what loads read
        self.loads: dict[tuple[int, int, int], Load] = {}  # by region, address, tag
        # Answers to loads, still in memory.
        self.reads: list[tuple[Kind, Words, dict[str, int]]] = []
        self.answered = 0
        self.poisoned: set[Key] = set()  # of results that are not valid
        # (region, endpoint, notice), in order of arrival.
        self.notices: list[tuple[int, int, Any]] = []
        self.sent_at: list[int] = []

    def push(
        self, op: ReduceOp, region: int, address: int, words: Words, **fields: Any
    ) -> None:
        """Queue an operand."""
        self.queue(Kind.PUSH, words, op=op.value, region=region, address=address, count=1, **fields)

    def load(
        self, op: ReduceOp, region: int, address: int, *, own: bool = True, tag: int = 0,
        **fields: Any,
    ) -> None:
        """Queue a load; with *own*, the endpoint adds its own operand itself."""
        asked = self.expected[region] - own
        self.loads[region, address, tag] = Load(asked=asked)
        self.queue(Kind.LOAD, (), op=op.value, region=region, address=address, tag=tag,
                   count=asked, **fields)

    def tell(
        self, region: int, epoch: int, *, cause: AbortCause = AbortCause.SOFTWARE, **said: Any
    ) -> None:
        """Queue a notice: this endpoint has reached *epoch*."""
        notice = {"epoch": epoch, "cause": cause, "origin": self.number, **said}
        self.queue(Kind.SYNC, (), region=region, **notice_fields(notice))

    def queue(self, kind: Kind, words: Words | tuple[()], **fields: Any) -> None:
        super().queue(kind, words, **{"source": self.number, **fields})

    def send(self) -> int | None:
        if self.reads and self.rng.random() >= self.stalls:
            kind, words, fields = self.reads.pop(self.rng.randrange(len(self.reads)))
            self.queue(kind, words, **fields)
        return super().send()

    def arrived(self, header: Header, flits: list[int]) -> None:
        self.held[header["kind"] & 3].append(header)
        assert len(self.held[header["kind"] & 3]) <= self.config.credits, "no room"
        self.take(Kind(header["kind"]), header, flits)

    def occupied(self) -> list[int]:
        return [len(each) for each in self.held]

    def freed(self) -> int:
        """Credits that are returned in this cycle, a bit per class."""
        bits = 0
        if self.mutes():
            return bits
        if any(self.due):
            for number, left in enumerate(self.due):
                bits |= (left > 0) << number
                self.due[number] -= left > 0
            return bits
        for number, packets in enumerate(self.held):
            if packets and number not in self.closed and self.rng.random() >= self.stalls:
                packets.popleft()
                bits |= 1 << number
        return bits

    def take(self, kind: Kind, header: Header, flits: list[int]) -> None:
        op = ReduceOp(header["op"])
        words = words_of(flits, dtype_of(op)).copy()
        key = (header["region"], header["address"])
        if kind is Kind.SYNC:
            self.notices.append((key[0], header["source"], notice_said(header)))
        elif kind is Kind.LOAD:
            self.answer(header)
        elif kind is Kind.RESULT:
            assert header["count"] == self.expected[header["region"]]
            assert key not in self.results, f"{key} came twice"
            self.results[key] = (words, None)
            self.poisoned |= {key} if header["poison"] else set()
        elif kind is Kind.RESPONSE:
            assert header["destination"] == self.number
            load = self.loads[(*key, header["tag"])]
            load.add(op, words, header["count"], header["source"], header["poison"])
            assert load.count <= load.asked, "an operand came twice"
            if load.count == load.asked:
                self.finish(op, key, load)
        else:
            if self.config.multicast_partials:
                assert kind is Kind.SUBTOTAL
            else:
                assert kind is Kind.PARTIAL and header["destination"] == self.number
            assert header["count"] < self.expected[header["region"]], "a complete sum is a result"
            held = self.sums.setdefault(key, Sum())
            held.add(op, words, header["count"], header["source"], header["poison"])
            assert held.count <= self.expected[header["region"]]
            if held.count == self.expected[header["region"]]:
                assert held.words is not None
                self.store(op, key, held.words, held)

    def answer(self, header: Header) -> None:
        """Read the operand of a load, for an answer."""
        kept = ("op", "region", "address", "tag", "epoch")
        words = self.memory.get((header["region"], header["address"]))
        self.answered += 1
        self.reads.append((Kind.RESPONSE, self.nothing() if words is None else words, {
            **{name: header[name] for name in kept}, "destination": header["source"], "count": 1,
            "poison": int(words is None),
        }))

    def nothing(self) -> Words:
        """Zeros, sent in place of words that could not be read."""
        return np.zeros(self.config.payload_bytes // 4, np.int32)

    def finish(self, op: ReduceOp, key: Key, load: Load) -> None:
        """Complete a load: add the own operand unless it came, and send the result to all."""
        words = load.words
        assert words is not None
        if load.asked < self.expected[key[0]]:
            words = fold(op, words, self.memory[key])
        self.store(op, key, words, load)

    def store(self, op: ReduceOp, key: Key, words: Words, held: Sum) -> None:
        """Store a result; send it to the other members unless they compute it themselves."""
        assert key not in self.results
        self.results[key] = (words, held.parts)
        self.poisoned |= {key} if held.poison else set()
        if self.config.multicast_partials and held is self.sums.get(key):
            return
        self.queue(Kind.RESULT, words, op=op.value, region=key[0], address=key[1],
                   count=self.expected[key[0]], poison=held.poison)
