"""An endpoint of the switch, in Python, cycle by cycle; and packets."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from hw.fp.ops import ReduceOp
from hw.switch.packet import CLASSES, Kind, decode, encode

__all__ = ["START", "Endpoint", "dtype_of", "fold", "payload", "words_of"]

START = 1 << 128
"""Mark of headers on a link."""

_MASK = START - 1
_FOLDS = {
    ReduceOp.SUM_F32: np.add,
    ReduceOp.MIN_F32: np.minimum,
    ReduceOp.MAX_F32: np.maximum,
    ReduceOp.SUM_I32: np.add,
}


def dtype_of(op):
    """Type of the words that an operation takes."""
    return np.int32 if op is ReduceOp.SUM_I32 else np.float32


def fold(op, left, right):
    """What a table makes of its sum and an operand."""
    with np.errstate(over="ignore"):
        return _FOLDS[op](left, right)


def payload(words):
    """Flits of an array of 32-bit words."""
    raw = np.ascontiguousarray(words).tobytes()
    return [int.from_bytes(raw[k : k + 16], "little") for k in range(0, len(raw), 16)]


def words_of(flits, dtype):
    """The array in the payload flits of a packet."""
    return np.frombuffer(b"".join(each.to_bytes(16, "little") for each in flits), dtype=dtype)


def traffic(kind):
    return kind.value & 3


@dataclass
class Sum:
    """A sum at a home endpoint that is not complete; *parts* are the partials, in order."""

    count: int = 0
    words: np.ndarray | None = None
    parts: list = field(default_factory=list)


class Endpoint:
    """Pushes operands, adds partials of the addresses it is home of, and takes results.

    It has room for *credits* packets of each class and frees it after a random time; PARTIAL is
    taken whatever becomes of its own output.
    """

    def __init__(self, number, config, *, expected, rng, gaps=0.0, stalls=0.0):
        self.number = number
        self.config = config
        self.expected = expected
        self.rng = rng
        self.gaps, self.stalls = gaps, stalls
        self.may_send = True
        self.limit = config.buffer_packets
        self.credits = [self.limit] * CLASSES
        self.queues = [deque() for _ in range(CLASSES)]  # packets, as lists of flits
        self.sending = deque()
        self.receiving = []
        self.held = [deque() for _ in range(CLASSES)]  # cycles at which packets came
        self.results = {}
        self.sums = {}
        self.sent_at = []

    def push(self, op, region, address, words, **fields):
        """Queue an operand."""
        self.queue(Kind.PUSH, words, op=op.value, region=region, address=address, count=1, **fields)

    def queue(self, kind, words, **fields):
        header = encode({"kind": kind, "source": self.number, **fields})
        self.queues[traffic(kind)].append([header | START, *payload(words)])

    def send(self):
        """The flit of this cycle, or None."""
        if not self.sending and self.may_send:
            ready = [k for k in range(CLASSES) if self.queues[k] and self.credits[k]]
            if ready:
                number = self.rng.choice(ready)
                self.credits[number] -= 1
                self.sending.extend(self.queues[number].popleft())
        if self.sending and self.rng.random() >= self.gaps:
            return self.sending.popleft()
        return None

    def receive(self, flit):
        """A flit that has arrived."""
        assert bool(flit & START) == (not self.receiving), "packets are not whole"
        self.receiving.append(flit & _MASK)
        if len(self.receiving) == self.config.packet_flits:
            header = decode(self.receiving[0])
            assert header is not None and header["offload"], "the checksum is wrong"
            self.held[header["kind"] & 3].append(header)
            assert len(self.held[header["kind"] & 3]) <= self.config.credits, "no room"
            self.take(Kind(header["kind"]), header, self.receiving[1:])
            self.receiving = []

    def freed(self):
        """Credits that are given back in this cycle, a bit per class."""
        bits = 0
        for number, packets in enumerate(self.held):
            if packets and self.rng.random() >= self.stalls:
                packets.popleft()
                bits |= 1 << number
        return bits

    def take(self, kind, header, flits):
        op = ReduceOp(header["op"])
        words = words_of(flits, dtype_of(op)).copy()
        key = (header["region"], header["address"])
        if kind is Kind.RESULT:
            assert header["count"] == self.expected[header["region"]]
            assert key not in self.results, f"{key} came twice"
            self.results[key] = (words, None)
            return
        assert kind is Kind.PARTIAL and header["destination"] == self.number
        assert header["count"] < self.expected[header["region"]], "a complete sum is a result"
        held = self.sums.setdefault(key, Sum())
        held.words = words if held.words is None else fold(op, held.words, words)
        held.count += header["count"]
        held.parts.append((header["count"], words))
        assert held.count <= self.expected[header["region"]]
        if held.count == self.expected[header["region"]]:
            assert key not in self.results
            self.results[key] = (held.words, held.parts)
            self.queue(Kind.RESULT, held.words, op=op.value, region=key[0], address=key[1],
                       count=held.count)
