# SPDX-License-Identifier: Apache-2.0
"""The cycle model of switches that reduce and their endpoints, driven from outside."""

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.link.packet import FLIT_BYTES
from hw.switch.config import SwitchConfig
from hw.switch.packet import CLASSES, PASSING, Kind, Traffic
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.transmit import SEND_PACKETS
from sim.cycles.model import MOST_STEPS, Stepped
from sim.cycles.port import CHANNELS
from sim.cycles.queues import NEVER
from sim.cycles.stalls import MEMORY, delayed, stall_key, threshold
from sim.cycles.switch.background import prepare
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.notes import NOTE
from sim.cycles.switch.state import COUNTED, EVENTS, SwitchState, allocate
from sim.cycles.switch.transit import HELD, QUEUED, SENT, TAKEN, TRAVEL
from sim.cycles.switch.words import MESSAGE, PARTIAL, PUSH, RESPONSE, RESULT, STORE, SUBTOTAL, after
from sim.endpoint.background import Background
from sim.endpoint.switch_system import held_by
from sim.fields import FieldError

__all__ = ["MODES", "AllReduceJob", "SwitchModel", "SwitchNetwork", "SwitchSettings", "Transit"]

MODES = ("push", "pull", "whole")
"""Modes of reduction; ``whole``: pull for which own operands travel, too."""

_MOST_ENDPOINTS = 128
_TO_SWITCH, _TO_LANE = 7, 6  # cycles from the grant of a flit to its place at the other end
_LEFT, _RETURNED = 3, 6  # from the last flit's grant: room in the buffer; a credit at its sender
_RECEIVED = 2  # packets between the receiver and what follows
_LATE = 1  # cycles by which the model's memory acts later than the RTL's
_NOTICES = 2  # among the sources of what a lane sends
_SLICE = 100_000  # cycles in one call of compiled code, which no signal interrupts


@dataclass(frozen=True, kw_only=True)
class AllReduceJob:
    """An all-reduce: a vector of *elements* words of 32 bits at *source*, the result at
    *destination*, both in bytes; *mode* is one of `MODES`."""

    elements: int
    source: int = 0
    destination: int = 0
    mode: str = "push"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise FieldError("mode", f"must be one of {', '.join(MODES)}, not {self.mode!r}")
        for name, least in (("elements", 1), ("source", 0), ("destination", 0)):
            if getattr(self, name) < least:
                raise FieldError(name, f"must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class SwitchSettings:
    """Links, memories and settings around switches and endpoints.

    Parameters
    ----------
    latency_cycles : int
        Latency of every link.
    router_cycles : int
        Delay of packets before a switch, beside the link and the switch's own cycles; credits have
        none.
    timeout_cycles : int
        Period of the time-out of entries, 0 for never.
    read_latency_cycles : int or sequence of int
        Latency of the memory of all endpoints, or of each.
    write_latency_cycles : int
    stalls : float
        Probability that a channel of a memory port stalls in a cycle.
    seed : int
    wave_log2, waves : int or None
        Settings of all endpoints; None: those of their configuration.
    acknowledged : bool
        Beside each packet with data, a link carries a header that acknowledges one of the other
        direction, as in the published system. Our RTL has no such packets.
    operands_pass : bool
        At an input of the crossbar operands pass those for other outputs, as answers do. In the RTL
        they keep their order.
    buffer_packets : int or None
        Packets of each class that buffers at links hold, and their senders have credits for; may be
        more than can be built, to see what packets wait for. None: as configured.
    """

    latency_cycles: int = 3
    router_cycles: int = 0
    timeout_cycles: int = 0
    read_latency_cycles: int | Sequence[int] = 4
    write_latency_cycles: int = 2
    stalls: float = 0.0
    seed: int = 1
    wave_log2: int | None = None
    waves: int | None = None
    acknowledged: bool = False
    operands_pass: bool = False
    buffer_packets: int | None = None

    def __post_init__(self) -> None:
        least = {
            "latency_cycles": 1, "router_cycles": 0, "timeout_cycles": 0, "write_latency_cycles": 0,
            "wave_log2": 0, "waves": 1, "buffer_packets": 1,
        }
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise FieldError(name, f"must be at least {lowest}, not {value}")
        if np.min(self.read_latency_cycles) < 0:
            found = self.read_latency_cycles
            raise FieldError("read_latency_cycles", f"must be at least 0, not {found}")
        if not 0 <= self.stalls < 1:
            raise FieldError("stalls", f"must be from 0 to below 1, not {self.stalls}")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of events: in the units of all switches, and in all endpoints."""

    units: dict[str, int] = field(default_factory=dict)
    lanes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Transit:
    """Mean times of the packets of one kind, in cycles.

    ``travel``: from the cycle in which an endpoint or a table begins to send one to that in which a
    table or an endpoint takes it; ``held``: the part of it in buffers; ``queued``: from when a
    packet is complete, or an ordinary one is there to be sent, until an endpoint begins to send it.
    A multicast is as many ``packets`` as it has receivers.
    """

    packets: int
    travel: float
    held: float
    queued: float


class SwitchNetwork(Stepped):
    """Switches of one configuration with the links of endpoints: the base of all their models.

    Parameters
    ----------
    switch : SwitchConfig
    dma : SwitchDmaConfig
        Configuration of the endpoints' links and buffers.
    fabric : Fabric
    around : SwitchSettings
    start_cycle : int
        The first simulated cycle; a period of the time-out begins in it.
    sizes : dict
        Further parameters of `allocate`.

    Raises
    ------
    ValueError
        If the configurations do not fit each other or the fabric.
    """

    package = "sim.cycles.switch"
    title = "the switch's cycle model"
    state: SwitchState

    def __init__(
        self, switch: SwitchConfig, dma: SwitchDmaConfig, fabric: Fabric, around: SwitchSettings, *,
        start_cycle: int = 0, **sizes: int,
    ) -> None:
        members = len(fabric.places)
        _check(switch, dma, fabric, members)
        self.switch, self.dma, self.fabric, self.around = switch, dma, fabric, around
        self._now = start_cycle
        self._simulated = 0
        self.state = s = allocate(
            switch, dma, switches=fabric.switches, endpoints=members,
            buffer_packets=around.buffer_packets or 0, **sizes,
        )
        c = s.c[0]
        c["members"], c["spread"] = members, len(fabric.trees)
        c["write_latency"] = around.write_latency_cycles
        c["passing"] = sum(1 << each.value for each in PASSING)
        c["passing"] |= around.operands_pass << Traffic.REQUEST.value
        everyone = np.array([(1 << members) - 1 & 2**64 - 1, (1 << members) - 1 >> 64], np.uint64)
        c["everyone_low"], c["everyone_high"] = everyone.view(np.int64)
        c["memory_below"] = threshold(around.stalls)
        self._pools(s)
        self._program(s)
        self._connect(s)

    _acknowledges: tuple[int, ...] = (PUSH, PARTIAL, RESULT, SUBTOTAL, STORE, MESSAGE)
    """Kinds of packets beside which an acknowledgement goes."""

    def _pools(self, s: SwitchState) -> None:
        """Credits and room, all there at first."""
        switch, held = self.switch, held_by(self.switch, self.dma)
        units, lanes = len(s.unit), len(s.lane)
        n = np.arange
        s.buffer["pool"] = CLASSES * n(len(s.buffer))
        s.buffer["refund"] = _LEFT
        s.output["pool"] = CLASSES * (len(s.buffer) + n(len(s.output)))
        s.output["classes"] = CLASSES
        s.output["classes"][units : 3 * units] = 1
        kinds = [
            (CLASSES * units, 0),  # links' buffers: their room is the credits of their senders
            (CLASSES * units, switch.queue_packets),
            (CLASSES * units, 0),  # results of links: the same
            (CLASSES * lanes, SEND_PACKETS),
            (CLASSES * lanes, 0),
            (CLASSES * units, self.around.buffer_packets or held.credits_down),
            (CLASSES * units, switch.queue_packets),
            (CLASSES * units, switch.queue_packets),
            (CLASSES * lanes, self.around.buffer_packets or held.credits_up),
            (CLASSES * units, switch.queue_packets),
            (s.incoming.shape[1] * lanes, _RECEIVED),
        ]
        s.pool["level"] = np.repeat([level for _, level in kinds], [count for count, _ in kinds])
        for traffic in PASSING:
            s.pool["watched"][s.output["pool"][:units] + traffic.value] = 1
        s.pool["watched"][s.output["pool"][units : 2 * units]] = 1

    def _program(self, s: SwitchState) -> None:
        """Write the tables of the switches."""
        fabric = self.fabric
        behind = fabric.behind()
        s.timeout[:] = self.around.timeout_cycles
        s.period_at[:] = self._now
        s.expected[:] = len(fabric.places)
        for region, (tree, homes) in enumerate(zip(fabric.trees, fabric.homes)):
            s.targets[:, region] = [sum(1 << p for p in ports) for ports in tree]
            s.home[region] = np.resize(np.array(homes), self.switch.homes)
            for w, p in itertools.product(range(len(tree)), range(self.switch.ports)):
                s.behind[w, region, p] = behind(region, (w, p))
        s.route[:] = fabric.routes
        for endpoint, spots in enumerate(fabric.places):
            for w, _ in spots:
                s.local[w, endpoint] = 1

    def _connect(self, s: SwitchState) -> None:
        """Connect the links."""
        ports, links = self.switch.ports, self.dma.links
        c = s.c[0]
        latency = self.around.latency_cycles
        s.output["peer"] = -1
        if self.around.acknowledged:
            beside = sum(1 << kind for kind in self._acknowledges)
            s.output["beside"][: len(s.unit)] = s.output["beside"][c["lane_output"] :] = beside
        results = slice(int(c["result_buffer"]), int(c["send_buffer"]))
        s.buffer["refund"][: len(s.unit)] = s.buffer["refund"][results] = _RETURNED + latency
        s.buffer["refund"][c["receive_buffer"] :] = _RETURNED + latency

        def join(output: int, buffer: int, flight: int) -> None:
            s.output["peer"][output] = buffer
            s.output["flight"][output] = flight + latency
            s.buffer["pool"][buffer] = s.output["pool"][output]
            if buffer < len(s.unit):
                s.buffer["pool"][results][buffer] = s.output["pool"][output]

        to_switch = _TO_SWITCH + self.around.router_cycles
        for ends in self.fabric.cables:
            (a, p), (b, q) = ends
            join(a * ports + p, b * ports + q, to_switch)
            join(b * ports + q, a * ports + p, to_switch)
        for endpoint, spots in enumerate(self.fabric.places):
            for k, (w, p) in enumerate(spots):
                n = endpoint * links + k
                join(int(c["lane_output"]) + n, w * ports + p, to_switch)
                join(w * ports + p, int(c["receive_buffer"]) + n, _TO_LANE)

    def _simulate(self, until: int) -> None:
        """Simulate all cycles before *until*, or to the end.

        Raises
        ------
        RuntimeError
            If an operand came twice, a result lacks one, an ordinary packet is not the next that
            its source sent there, or nothing moves any more.
        ValueError
            If so many cycles of so many endpoints and switches would not end in sensible time.
        """
        parts = len(self.state.endpoint) + int(self.state.c["switches"][0])
        most = MOST_STEPS // parts
        progress, moved_at = self.progress(), self._now
        while self._now < until and not self.done:
            before = self._now
            self._now = self._run_until(before, min(until, before + _SLICE))
            self._simulated += self._now - before
            if int(self.state.c["wrong"][0]):
                raise RuntimeError("an operand came twice, or a result lacks one")
            if int(self.state.c["astray"][0]):
                raise RuntimeError("an ordinary packet came to a wrong endpoint, twice, or not")
            if self._simulated > most:
                raise ValueError(
                    f"a run must end within {most} cycles, beside those in which nothing is under "
                    f"way, with {parts} endpoints and switches"
                )
            if (carried := self.progress()) != progress:
                progress, moved_at = carried, self._now
            elif self.waits and self._now - moved_at >= self.patience:
                raise RuntimeError(f"nothing moves before cycle {self._now}")

    def skip(self, until: int) -> None:
        """Skip to cycle *until*; nothing is in flight before."""
        self._now = max(self._now, until)

    def count_periods(self, begin: int) -> None:
        """Periods of the time-out begin in cycle *begin*, not in the first one."""
        self.state.period_at[:] = begin

    @property
    def now(self) -> int:
        """The first cycle that has not been simulated."""
        return self._now

    @property
    def patience(self) -> int:
        """Cycles within which something moves, if anything ever will."""
        given = self.state.job["given_at"]
        last = int(given[given < NEVER].max(initial=0))
        around = self.around
        hop = around.latency_cycles + around.router_cycles
        access = int(np.max(around.read_latency_cycles)) + around.write_latency_cycles
        return max(100_000, 8 * around.timeout_cycles, 2 * last, 2 * (hop + access))

    def progress(self) -> int:
        """Flits that have left any output."""
        return int(self.state.output["flits"].sum())

    def link_flits(self) -> int:
        """Flits that have left by any link."""
        flits = self.state.output["flits"]
        units, lanes = len(self.state.unit), int(self.state.c["lane_output"][0])
        return int(flits[:units].sum() + flits[lanes:].sum())

    @property
    @abstractmethod
    def done(self) -> bool:
        """True when all is done."""

    @property
    def waits(self) -> bool:
        """True if something must move before long."""
        return not self.done

    def flits(self) -> NDArray[np.int64]:
        """Flits that each endpoint has sent by each of its links."""
        first = int(self.state.c["lane_output"][0])
        sent: NDArray[Any] = self.state.output["flits"][first:]
        return sent.reshape(-1, self.dma.links).copy()


class SwitchModel(SwitchNetwork):
    """Endpoints that push or pull, and switches of one configuration; cycles, and the operands of
    each sum.

    Every part of ``hw/switch`` and ``hw/switch_dma`` that an all-reduce without a fault uses is
    there, with its queues and latencies, in the order of arbitration of the hardware. Instead of
    data a packet carries the set of operands in it: none may come twice, none may be missing.

    Parameters
    ----------
    switch, dma, fabric, around, start_cycle
        See `SwitchNetwork`. With several regions, block *n* of a link is in region
        ``n % regions``; the RTL's endpoint cannot do that: an all-reduce is in one region.
    jobs : sequence of AllReduceJob
        Jobs of every endpoint, one after the other. Own operands travel in all that pull, or in
        none; with ``acknowledged`` all push, or all pull.
    given : sequence of sequences of int
        For each endpoint, the cycle from which each job is there.
    elsewhere : sequence of int
        Endpoints, and switches (numbered behind them), that are not simulated here. Packets and
        credits to them are noted (`take_notes`), those from them are given (`put_notes`).
    most_cycles : int
        Most cycles between two calls of `take_notes`, with some *elsewhere*.
    background : Background, optional
        Ordinary packets beside, until all jobs are done; those then in flight still arrive.
    """

    def __init__(
        self, switch: SwitchConfig, dma: SwitchDmaConfig, fabric: Fabric, around: SwitchSettings,
        jobs: Sequence[AllReduceJob], given: Sequence[Sequence[int]] | None = None, *,
        start_cycle: int = 0, elsewhere: Sequence[int] = (), most_cycles: int = 0,
        background: Background | None = None,
    ) -> None:
        modes = {job.mode for job in jobs}
        if modes >= {"pull", "whole"} or (around.acknowledged and len(modes) > 1):
            raise FieldError("jobs", f"must have one mode, not {', '.join(sorted(modes))}")
        if modes and "push" not in modes:
            # A load asks for the answer that it gets; what comes back the other way meanwhile is
            # acknowledged beside answers.
            self._acknowledges = (PUSH, PARTIAL, SUBTOTAL, RESPONSE, STORE, MESSAGE)
        # In a cycle a port sends a packet and gives a credit of each of two buffers, a unit and a
        # lane add an operand.
        ends = fabric.switches * switch.ports + len(fabric.places) * dma.links
        notes = 4 * most_cycles * ends if elsewhere else 0
        super().__init__(
            switch, dma, fabric, around, start_cycle=start_cycle, jobs=len(jobs), notes=notes
        )
        s = self.state
        if elsewhere:
            self._leave_out(s, elsewhere)
        s.c["whole"] = "whole" in modes
        self._lanes(s)
        for number, job in enumerate(jobs):
            self._give(s, number, job)
        s.job["given_at"] = 0 if given is None else given
        self.background = background
        if background is not None:
            prepare(s, background, switch.packet_flits + around.acknowledged)

    def _lanes(self, s: SwitchState) -> None:
        dma, around = self.dma, self.around
        endpoints = len(self.fabric.places)
        lane = s.lane
        lane["endpoint"] = np.repeat(np.arange(endpoints), dma.links)
        lane["link"] = np.tile(np.arange(dma.links), endpoints)
        largest = dma.wave_blocks.bit_length() - 1
        lane["size_log2"] = largest if around.wave_log2 is None else min(around.wave_log2, largest)
        lane["outstanding"] = dma.waves if around.waves is None else min(around.waves, dma.waves)
        latency = around.read_latency_cycles
        lane["read_latency"] = np.repeat(np.resize(latency, endpoints), dma.links)
        channels = MEMORY + np.arange(CHANNELS)
        key = stall_key(around.seed, lane["endpoint"][:, None], lane["link"][:, None], channels)
        lane["memory_key"] = delayed(key, _LATE)

    def _leave_out(self, s: SwitchState, elsewhere: Sequence[int]) -> None:
        """Endpoints and switches that are not simulated, and the links to them."""
        c, members, links = s.c[0], len(self.fabric.places), self.dma.links
        ports, units = self.switch.ports, len(s.unit)
        absent = np.zeros(members + self.fabric.switches, bool)
        absent[list(elsewhere)] = True
        c["mixed"] = 1
        s.endpoint["elsewhere"], s.elsewhere[:] = absent[:members], absent[members:]
        first, received = int(c["lane_output"]), int(c["receive_buffer"])
        for o in [*range(units), *range(first, len(s.output))]:
            peer = int(s.output["peer"][o])
            if peer < 0:
                continue
            sender = members + o // ports if o < units else (o - first) // links
            taker = members + peer // ports if peer < units else (peer - received) // links
            if absent[taker] and not absent[sender]:
                s.output["leaves"][o] = 1
            elif absent[sender] and not absent[taker]:
                s.buffer["sender"][peer] = o + 1
                if peer < units:
                    s.buffer["sender"][int(c["result_buffer"]) + peer] = o + 1

    def take_notes(self) -> NDArray[Any]:
        """Notes of what happened since the last call, records of `sim.cycles.switch.notes.NOTE`, in
        the order in which the parts of the model wrote them."""
        c = self.state.c[0]
        found = self.state.outbox[: int(c["noted"])].copy()
        c["noted"] = 0
        return found

    def put_notes(self, notes: Sequence[Sequence[int]]) -> None:
        """Enter packets and credits from elsewhere, in time for the next cycle: the fields of each
        note in order, the last ones may be left out."""
        c, count = self.state.c[0], len(notes)
        if count:
            before = int(c["admitted"])
            rows = np.zeros(count, NOTE)
            for name, values in zip(NOTE.names or (), zip(*notes)):
                rows[name] = values
            self.state.inbox[before : before + count] = rows
            c["admitted"] = before + count

    def output_of_switch(self, switch: int, port: int) -> int:
        """Number of an output of a switch, as in notes."""
        return switch * self.switch.ports + port

    def output_of_lane(self, endpoint: int, link: int) -> int:
        """Number of the output of an endpoint's link, as in notes."""
        return int(self.state.c["lane_output"][0]) + endpoint * self.dma.links + link

    def joined(self) -> None:
        """Set arbiters as they are when all endpoints have joined, by notices on all their links,
        and switches were reset since then."""
        self.state.lane["turn"][:] = after(_NOTICES)
        self.state.lane["owner"][:] = _NOTICES

    def _give(self, s: SwitchState, number: int, job: AllReduceJob) -> None:
        block = self.dma.block_elements
        s.job["pull"][:, number] = job.mode != "push"
        s.job["blocks"][:, number] = -(-job.elements // block)
        s.job["tail_beats"][:, number] = ((job.elements - 1) % block) // self.dma.lanes + 1
        s.job["source_row"][:, number] = job.source // FLIT_BYTES
        s.job["destination_row"][:, number] = job.destination // FLIT_BYTES

    @property
    def done(self) -> bool:
        """True when all jobs are complete and no ordinary packets are in flight; never if some
        endpoints or switches are elsewhere."""
        c = self.state.c[0]
        return self._jobs_done and not c["ordinary_under_way"] and not c["mixed"]

    @property
    def waits(self) -> bool:
        """True if something must move before long."""
        return not self.state.c["mixed"][0] and not self.done

    @property
    def _jobs_done(self) -> bool:
        return bool((self.state.job["done_at"] >= 0).all())

    def progress(self) -> int:
        """Flits that have left any output; while there are jobs, without those of ordinary packets,
        which come and go even if no job makes progress."""
        flits = super().progress()
        if self.background is None or self._jobs_done:
            return flits
        return flits - int(self.state.output["ordinary"].sum())

    def completions(self) -> NDArray[np.int64]:
        """Cycle of each completion: endpoints x jobs, -1 where there is none yet."""
        return self.state.job["done_at"].copy()

    def counts(self) -> Counts:
        """Events of all reduction units, and of all endpoints."""
        s = self.state
        return Counts(
            units={name: int(s.unit[name].sum()) for name in EVENTS},
            lanes={name: int(s.lane[name].sum()) for name in COUNTED},
        )


    def transits(self) -> dict[Kind, Transit]:
        """Mean times of packets on their way, by kind, once all jobs are done."""
        if not self.done:
            raise RuntimeError("packets are under way: there are jobs that are not done")
        found = {kind: self._transit(kind.value) for kind in Kind}
        return {kind: each for kind, each in found.items() if each is not None}

    def ordinary(self) -> Transit | None:
        """Mean times of ordinary packets, once all have arrived; None if there were none."""
        if not self.done:
            raise RuntimeError("packets are under way: there are jobs that are not done")
        return self._transit(int(self.state.c["ordinary_kind"][0]))

    def _transit(self, kind: int) -> Transit | None:
        of = self.state.transit[kind]
        if not of[TAKEN]:
            return None
        return Transit(
            packets=int(of[TAKEN]),
            travel=of[TRAVEL] / of[TAKEN],
            held=of[HELD] / of[TAKEN],
            queued=of[QUEUED] / of[SENT] if of[SENT] else 0.0,
        )


def _check(switch: SwitchConfig, dma: SwitchDmaConfig, fabric: Fabric, members: int) -> None:
    """Raise a ``ValueError`` if the configurations do not fit each other or the fabric."""
    if not 2 <= members <= min(_MOST_ENDPOINTS, switch.endpoints, dma.endpoints):
        most = min(_MOST_ENDPOINTS, switch.endpoints, dma.endpoints)
        raise FieldError("endpoints", f"must be from 2 to {most}, not {members}")
    if switch.payload_flits != dma.payload_flits:
        raise FieldError(
            "payload_flits", f"must be {switch.payload_flits} as the switches have it, not "
            f"{dma.payload_flits}"
        )
    for name, one, other in (
        ("credits of the endpoint", dma.credits, switch.buffer_packets),
        ("credits of the switch", switch.credits, dma.buffer_packets),
    ):
        if one > other:
            raise FieldError(name, f"must be at most the buffer's {other} packets, not {one}")
    if switch.multicast_partials != dma.multicast_partials:
        raise FieldError(
            "multicast_partials",
            f"must be {switch.multicast_partials} as the switches have it, not "
            f"{dma.multicast_partials}"
        )
    if switch.speedup != 2:
        raise FieldError("speedup", f"must be 2 in the cycle model, not {switch.speedup}")
    for name in ("half", "bfp"):
        if getattr(switch, name) or getattr(dma, name):
            raise FieldError(name, "must be False in the cycle model: its packets are of words")
    if len(fabric.trees) > switch.regions:
        raise FieldError("regions", f"must be at least {len(fabric.trees)}, not {switch.regions}")
    if any(len(spots) != dma.links for spots in fabric.places):
        raise FieldError(
            "links", f"must be {len(fabric.places[0])} of each endpoint, not {dma.links}"
        )
