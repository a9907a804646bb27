# SPDX-License-Identifier: Apache-2.0
"""Two ends of a link with retry as native code, with engines in Python, on wires that fail."""

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from gen.compile import Instance
from gen.configured import compile_configured
from hw.link.packet import FLIT_BITS
from hw.link.retry_beats import BeatRetry, beat_format
from hw.link.retry_frame import RetryConfig
from hw.switch.packet import CLASSES, Kind, encode
from hw.switch.retry import PacketRetry
from tb.link.lossy import Faults, LossyWire

__all__ = ["BeatEnd", "Link", "PacketEnd", "numbered_packet"]

MASK = (1 << FLIT_BITS) - 1


def _packet_retry(settings: tuple[int, int, RetryConfig]) -> PacketRetry:
    payload_flits, credits, retry = settings
    return PacketRetry(payload_flits=payload_flits, credits=credits, config=retry)


def _beat_retry(settings: tuple[int, RetryConfig]) -> BeatRetry:
    flits, retry = settings
    return BeatRetry(flits, retry)


def numbered_packet(number: int, *, flits: int, kind: Kind, rng: random.Random) -> list[int]:
    """Flits of a switch packet that contains its *number*."""
    header = encode({"kind": kind, "address": number, "source": number >> 28 & 255,
                     "region": rng.getrandbits(6), "tag": rng.getrandbits(8)})
    data = [rng.getrandbits(FLIT_BITS) for _ in range(flits)] if kind.value & 4 else []
    return [header | 1 << FLIT_BITS, *data]


class End(ABC):
    """Base of both kinds of ends: the side of the wire."""

    bits: int
    start: int
    flits: int
    rng: random.Random
    queue: deque[Any]

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.counts = dict.fromkeys(("resent", "damaged", "repeated"), 0)
        self.restarts = 0  # sessions after the first one
        self.stalls = 0.0
        self.strict = True  # credits and room are checked

    def restart(self, cycles: int = 3) -> None:
        """Reset."""
        self.instance.set("rst", 1)
        for _ in range(cycles):
            self.instance.cycle()
        self.instance.set("rst", 0)
        self.restarts = 0
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Forget everything in flight."""

    def sent(self, ready: bool) -> int | None:
        """Return the flit that goes onto the wire in this cycle, or None."""
        get = self.instance.get
        self.instance.set("tx_ready", ready)
        if ready and get("tx_valid"):
            return get("tx_payload")
        return None

    def arrives(self, flit: int | None) -> None:
        """Drive the flit that comes from the wire in this cycle, or None."""
        self.instance.set("rx_valid", flit is not None)
        if flit is not None:
            self.instance.set("rx_payload", flit)

    @abstractmethod
    def drive(self) -> None:
        """Act as the engine in this cycle: take and send data and credits."""

    def step(self) -> None:
        for name in self.counts:
            self.counts[name] += self.instance.get(name)
        self.restarts += self.instance.get("restarted")
        self.instance.cycle()

    @property
    def up(self) -> bool:
        return bool(self.instance.get("up"))

    @property
    def failed(self) -> bool:
        return bool(self.instance.get("failed"))

    @property
    def idle(self) -> bool:
        return bool(self.instance.get("idle"))


class PacketEnd(End):
    """An end of a link of the switch.

    ``queue`` holds packets to send, as lists of flits; each takes a credit of its class.
    ``packets`` are those received, whose credits return after a random time.
    """

    bits, start = FLIT_BITS + 1, FLIT_BITS

    def __init__(
        self, *, payload_flits: int, credits: int, config: RetryConfig, rng: random.Random
    ) -> None:
        model = compile_configured(_packet_retry, (payload_flits, credits, config),
                                   name="packet_retry")
        super().__init__(model.instance())
        self.flits = payload_flits + 1
        self.limit, self.rng = credits, rng
        self.queue: deque[list[int]] = deque()
        self.packets: list[list[int]] = []
        self.source: Callable[[], list[int]] | None = None  # an endless supply of packets
        self.begin()

    def begin(self) -> None:
        self.credits = [self.limit] * CLASSES
        self.sending: deque[int] = deque()
        self.coming: list[int] = []
        self.owed = [0] * CLASSES

    def drive(self) -> None:
        put, get, rng = self.instance.set, self.instance.get, self.rng
        if get("engine_rx_valid"):
            self._take(get("engine_rx_payload"))
        back = get("engine_tx_credit")
        for k in range(CLASSES):
            self.credits[k] += back >> k & 1
            assert self.credits[k] <= self.limit or not self.strict, "a credit was made up"
            self.credits[k] = min(self.credits[k], self.limit)
        assert not (get("overrun") and self.strict)
        if not self.queue and self.source is not None:
            self.queue.append(self.source())
        if not self.sending and self.queue:
            traffic = self.queue[0][0] >> 1 & 3
            if self.credits[traffic]:
                self.credits[traffic] -= 1
                self.sending.extend(self.queue.popleft())
        goes = bool(self.sending) and rng.random() >= self.stalls
        put("engine_tx_valid", goes)
        if goes:
            put("engine_tx_payload", self.sending.popleft())
        freed = 0
        for k in range(CLASSES):
            if self.owed[k] and rng.random() >= self.stalls:
                self.owed[k] -= 1
                freed |= 1 << k
        put("engine_rx_credit", freed)

    def _take(self, flit: int) -> None:
        if flit >> FLIT_BITS:
            self.coming = []
        self.coming.append(flit)
        kind = self.coming[0] >> 1 & 15
        if len(self.coming) == (self.flits if kind & 4 else 1):
            self.packets.append(self.coming)
            self.owed[kind & 3] += 1
            room = self.owed[kind & 3] <= self.limit
            assert room or not self.strict, "sent without a credit"


class BeatEnd(End):
    """An end of a packed link: ``queue`` holds beats to send, ``beats`` those received.

    ``freed`` counts credits to return; ``credits`` those received.
    """

    def __init__(self, *, flits: int, config: RetryConfig, rng: random.Random) -> None:
        super().__init__(compile_configured(_beat_retry, (flits, config),
                                            name="beat_retry").instance())
        self.bits, self.start = (FLIT_BITS + 2) * flits, (FLIT_BITS + 1) * flits
        self.flits = beat_format(flits).flits + 1
        self.rng = rng
        self.queue: deque[int] = deque()
        self.source: Callable[[], int] | None = None
        self.offered: int | None = None
        self.beats: list[int] = []
        self.freed = 0
        self.credits = 0

    def begin(self) -> None:
        self.offered = None

    def drive(self) -> None:
        put, get, rng = self.instance.set, self.instance.get, self.rng
        if self.source is not None and not self.queue:
            self.queue.append(self.source())
        if self.offered is None and self.queue and rng.random() >= self.stalls:
            self.offered = self.queue.popleft()
        put("i_valid", self.offered is not None)
        if self.offered is not None:
            put("i_payload", self.offered)
            if get("i_ready"):
                self.offered = None
        ready = rng.random() >= self.stalls
        put("o_ready", ready)
        if ready and get("o_valid"):
            self.beats.append(get("o_payload"))
        self.credits += get("credit")
        frees = self.freed > 0 and rng.random() >= self.stalls
        self.freed -= frees
        put("freed", frees)


class Link:
    """Two ends and a wire each way.

    Parameters
    ----------
    ends : pair of End
    latency : int
    faults : pair of Faults
        Faults from the first to the second end, and back.
    """

    def __init__(
        self, ends: Sequence[End], *, latency: int, faults: Sequence[Faults] | None = None,
        seed: int = 1,
    ) -> None:
        rng = random.Random(seed)
        self.ends = ends
        faults = (Faults(), Faults()) if faults is None else faults
        self.wires = [
            LossyWire(latency, rng, each, bits=end.bits, start=end.start, flits=end.flits)
            for end, each in zip(ends, faults)
        ]
        self.busy = [0, 0]
        self.cycle = 0

    def step(self) -> None:
        for end in self.ends:
            end.drive()
        stalls = self.ends[0].stalls
        flits = []
        for end, wire in zip(self.ends, self.wires):
            flit = end.sent(wire.ready and end.rng.random() >= stalls)
            flits.append(wire.step(flit))
        for k, (end, flit) in enumerate(zip(self.ends, reversed(flits))):
            self.busy[1 - k] += flit is not None
            end.arrives(flit)
        for end in self.ends:
            end.step()
        self.cycle += 1

    def run(self, until: Callable[[], bool], *, deadline: int = 100_000) -> None:
        """Run until *until()* is true."""
        begin = self.cycle
        while not until():
            assert self.cycle - begin < deadline, "no end"
            self.step()

    def settle(self, *, quiet: int = 50, deadline: int = 100_000) -> None:
        """Run until both ends have been idle, and the wires empty, for *quiet* cycles."""
        begin, last = self.cycle, self.cycle
        while self.cycle - last < quiet:
            assert self.cycle - begin < deadline, "no end"
            before = list(self.busy)
            self.step()
            waiting = any(end.queue or not end.idle for end in self.ends)
            if waiting or self.busy != before:
                last = self.cycle


def retry_config(latency: int, **options: Any) -> RetryConfig:
    """A configuration that fits a link of *latency* cycles each way."""
    return RetryConfig(timeout_cycles=2 * latency + 80, **options)


KINDS = (Kind.PUSH, Kind.PARTIAL, Kind.RESULT, Kind.LOAD, Kind.RESPONSE, Kind.SYNC)
