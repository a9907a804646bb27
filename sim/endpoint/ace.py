# SPDX-License-Identifier: Apache-2.0
"""ACE as an event endpoint.

Sources: ACE v1 sections 4 and 5, ISCA 2021 Tables V and VI and section VI-A (papers in README).
"""

import math
from dataclasses import dataclass, field, replace

from sim.collectives.plan import AlgorithmChoice
from sim.collectives.program import Plan, Receipt, Source
from sim.endpoint.endpoint import (
    ComputeShare,
    EndpointModel,
    HardwareRing,
    Room,
    Stage,
    Unit,
)
from sim.endpoint.kinds import Bus, Npu, loggp
from sim.endpoint.latencies import EventLatencies
from sim.endpoint.rates import EndpointRates
from sim.fields import FieldError, check_at_least, check_fields, check_positive
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["AceEndpoint", "ace_v1"]

PIECES = 8
"""Pieces in which a chunk passes through the SRAM from or to memory. The banks serve requests in
turn, so messages get in between; a chunk in one piece would hold them up if memory is faster."""
_KNOWN = EventLatencies.stored()


@dataclass(frozen=True, kw_only=True)
class AceEndpoint:
    """The collectives engine, block by block as in ``hw/ace``.

    A chunk is read by the TX DMA into the SRAM partition of its first phase, passes through the
    phases from partition to partition, and is written back by the RX DMA. Each phase has its share
    of the FSMs, an FSM works on ``contexts`` chunks at a time. Arriving data are added on the fly
    (ALU), and go on from there: the SRAM reads the operand, and stores what stays at this node. The
    first packets of a phase are read from there.

    Parameters
    ----------
    sram_bytes, banks, sram_accesses
        ``sram_accesses`` 64-byte accesses a cycle over all banks. The papers' 4 single-ported banks
        have 4; about 12 sustain the published injection of 300 GB/s.
    fsms, contexts
    alus, lanes
        An ALU adds ``lanes`` binary32 a cycle.
    memory_bytes_per_s
        Bandwidth of the engine's DMA, for reading and for writing alike.
    lost_memory_bytes_per_s
        Memory bandwidth that training loses; None: that of the DMA.
    fetch_cycles, receive_cycles, alu_cycles, store_cycles
        Latencies, by default those of `EventLatencies` for a packet of 4 beats: from the last beat
        that is read to READY on the link, beyond the memory read; from the packet's last flit in to
        its first flit out; extra if it is added to; from the last beat that is written to the
        completion.
    read_latency_s : float
        Memory latency with which a chunk begins; the papers' endpoints leave it out.
    ring : HardwareRing or None
        Model of a hardware engine, used where a collective is a single ring.
    partition : str
        ``heuristic``: bandwidth times chunk size of the phase (ACE v1 4.2, the terminal partition
        like the last); ``even``. As a chunk holds its place in a phase and in the next one, the
        heuristic leaves too few places in the slow dimensions to cover their latency.
    """

    npu: Npu = field(default_factory=Npu)
    memory_bytes_per_s: float = 128e9
    bus: Bus = field(default_factory=Bus)
    sram_bytes: int = 4 << 20
    sram_accesses: int = 12
    bus_bytes: int = 64
    fsms: int = 16
    contexts: int = 4
    alus: int = 4
    lanes: int = 16
    message_bytes: float = 8192
    fetch_cycles: float = _KNOWN.ace_fetch
    receive_cycles: float = _KNOWN.ace_receive
    alu_cycles: float = _KNOWN.ace_alu
    store_cycles: float = _KNOWN.ace_end
    partition: str = "even"
    lost_memory_bytes_per_s: float | None = None
    overlaps: bool = True
    read_latency_s: float = 0.0
    ring: HardwareRing | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(
            self, "memory_bytes_per_s", "sram_bytes", "sram_accesses", "bus_bytes", "fsms",
            "contexts", "alus", "lanes",
        )
        check_at_least(self, 1, "message_bytes")
        if self.lost_memory_bytes_per_s is not None:
            check_at_least(self, 0, "lost_memory_bytes_per_s")
        check_at_least(self, 0, "fetch_cycles", "receive_cycles", "alu_cycles", "store_cycles")
        check_at_least(self, 0, "read_latency_s")
        if self.partition not in ("heuristic", "even"):
            raise FieldError("partition", f"must be heuristic or even, not {self.partition!r}")

    def planned(
        self, network: Network, kind: CollectiveKind, choice: AlgorithmChoice, plan: Plan
    ) -> Plan:
        """*plan* as the hardware carries it out."""
        ring = self.ring
        return plan if ring is None else ring.planned(network, kind, choice, plan)

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        ring = None if self.ring is None else self.ring.of(network, plan)
        if ring is not None:
            return ring.model(kind)
        cycle = self.npu.cycle_s
        port = cycle / self.bus_bytes
        sram = port / self.sram_accesses

        def access(times: float, cycles: float) -> Stage:
            return Stage(
                unit="SRAM", s_per_byte=times * sram, latency_s=cycles * cycle, share=times
            )

        def in_turn(times: float, cycles: float) -> tuple[Stage, ...]:
            piece = access(times / PIECES, 0)
            return (*[piece] * (PIECES - 1), replace(piece, latency_s=cycles * cycle))

        add = Stage(
            unit="ALUs", s_per_byte=cycle / (4 * self.lanes), latency_s=self.alu_cycles * cycle
        )
        own = (access(1, self.fetch_cycles),)
        arrive = (access(1, self.receive_cycles),)
        before = {
            Source.FRESH: own,
            Source.SUM: own,
            Source.HELD: own,
            # The operand is read and the sum goes out on the fly.
            Source.REDUCED: (access(1, self.receive_cycles), add),
            Source.FORWARD: (),
        }
        after = {
            Receipt.KEEP: arrive,
            Receipt.REDUCE: (access(1, 0), add, *arrive),
            Receipt.PASS: (),
            Receipt.RESULT: (access(1, 0),),
        }
        read = Stage(
            unit="TX DMA",
            s_per_byte=1 / self.memory_bytes_per_s,
            latency_s=self.read_latency_s,
        )
        write = Stage(unit="RX DMA", s_per_byte=1 / self.memory_bytes_per_s)
        phases = max((len(v.phases) for v in plan.variants), default=1)
        units = ("SRAM", "TX DMA", "RX DMA", "bus to engine", "bus from engine")
        return EndpointModel(
            units=(
                *(Unit(name=name) for name in units), Unit(name="ALUs", servers=self.alus),
            ),
            before=before,
            after=after,
            load=(read, self.bus.stage("bus to engine"), *in_turn(1, self.fetch_cycles)),
            store=(
                *in_turn(self._result(plan), self.store_cycles),
                self.bus.stage("bus from engine", self._result(plan)),
                replace(
                    write, s_per_byte=self._result(plan) / self.memory_bytes_per_s,
                    share=self._result(plan),
                ),
            ),
            rooms=self._rooms(network, plan),
            contexts=tuple([max(1, self.fsms * self.contexts // max(1, phases))] * max(1, phases)),
            message_bytes=self.message_bytes,
            credits=None if self.ring is None else self.ring.credits,
            polls=None if self.ring is None else self.ring.polls,
        )

    def rates(self) -> EndpointRates:
        """Every byte is read once and every byte of the result written once."""
        return EndpointRates(
            read_bytes_per_s=self.memory_bytes_per_s,
            write_bytes_per_s=self.memory_bytes_per_s,
            loads_per_byte=1.0,
            stores_per_byte=1.0,
            bus_bytes_per_s=self.bus.bytes_per_s,
            reducer_bytes_per_s=self.alus * 4 * self.lanes * self.npu.clock_hz,
        )

    @staticmethod
    def _result(plan: Plan) -> float:
        """Bytes of the result over those of the chunk."""
        return max((v.phases[-1].data_out for v in plan.variants if v.phases), default=1.0)

    def _rooms(self, network: Network, plan: Plan) -> tuple[Room, ...]:
        deepest = max((v.phases for v in plan.variants), key=len, default=())
        if not deepest:
            return ()
        weights = []
        for index, phase in enumerate(deepest):
            size = max(v.phases[index].data_in for v in plan.variants if len(v.phases) > index)
            rate = network.injection_bytes_per_s(phase.dimension)
            weights.append(rate * size if self.partition == "heuristic" else 1.0)
        weights.append(weights[-1])
        total = sum(weights)
        return tuple(
            Room(name=f"partition {i}", size_bytes=math.floor(self.sram_bytes * w / total))
            for i, w in enumerate(weights)
        )

    def share(self) -> ComputeShare:
        lost = self.lost_memory_bytes_per_s
        lost = self.memory_bytes_per_s if lost is None else lost
        memory = max(0.0, self.npu.memory_bytes_per_s - lost)
        return ComputeShare(compute=1.0, memory_bytes_per_s=memory)


def ace_v1() -> AceEndpoint:
    """That of ACE v1: a state machine works on its queue of chunks in order, one at a time, and
    partitions follow the heuristic (sections 4.3.2 and 6)."""
    return AceEndpoint(
        memory_bytes_per_s=900e9,
        lost_memory_bytes_per_s=45e9,
        bus=loggp(1e-9, 500e9),
        message_bytes=4096,
        contexts=1,
        partition="heuristic",
    )
