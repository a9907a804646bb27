"""The endpoints of the papers: ideal, those that use the NPU, and ACE.

Sources: ACE v1 sections 4 and 5, ISCA 2021 Tables V and VI and section VI-A (papers in README). A
baseline endpoint runs collectives on the NPU: data to be sent are first read from memory, through
the cores set aside for communication, and moved over the bus to the fabric; received data go back
the same way. ACE reads every byte once, keeps it in its SRAM and writes the result once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sim.collectives.program import Plan, Receipt, Source
from sim.endpoint.endpoint import (
    ComputeShare,
    Endpoint,
    EndpointModel,
    HardwareRing,
    Room,
    Stage,
    Unit,
)
from sim.endpoint.in_switch import InSwitchEndpoint
from sim.endpoint.rates import EndpointRates
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.fields import check, check_at_least, check_fields, check_positive, not_one_of
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = [
    "KINDS",
    "AceEndpoint",
    "BaselineEndpoint",
    "Bus",
    "IdealEndpoint",
    "Npu",
    "endpoint",
]


ACCESSES_OF_A_SUM = 3
"""Two operands are read, one result is written."""

PIECES = 8
"""Pieces in which a chunk passes through the SRAM from or to memory. The banks serve requests in
turn, so messages get in between; a chunk in one piece would hold them up if memory is faster."""


@dataclass(frozen=True, kw_only=True)
class Npu:
    """The processor (ISCA 2021 Table V). ``core_bytes_per_cycle``: what one core can read."""

    cores: int = 80
    clock_hz: float = 1.245e9
    core_bytes_per_cycle: float = 64.0
    memory_bytes_per_s: float = 900e9

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(self, "cores", "clock_hz", "core_bytes_per_cycle", "memory_bytes_per_s")

    @property
    def cycle_s(self) -> float:
        return 1 / self.clock_hz


@dataclass(frozen=True, kw_only=True)
class Bus:
    """A bus by LogGP: a transfer of b bytes occupies it for max(o + b / bandwidth, g) and arrives
    L + o later (ACE v1 Table 7 has L = 50, o = g = 20 cycles; queueing alone is L = o = g = 0)."""

    bytes_per_s: float = field(default=500e9, metadata={"infinite": True})
    latency_s: float = 0.0
    overhead_s: float = 0.0
    gap_s: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        check("bytes_per_s", self.bytes_per_s, "above 0", self.bytes_per_s > 0)
        check_at_least(self, 0, "latency_s", "overhead_s", "gap_s")

    def stage(self, unit: str, times: float = 1.0) -> Stage:
        """*times* transfers of the whole message, one after the other."""
        fixed = max(self.overhead_s, self.gap_s)
        return Stage(
            unit=unit,
            s_per_byte=times / self.bytes_per_s,
            fixed_s=fixed * max(1.0, times) if times else 0.0,
            latency_s=self.latency_s + self.overhead_s,
        )


@dataclass(frozen=True, kw_only=True)
class IdealEndpoint:
    """Handles every message in ``delay_s`` (one cycle) and leaves everything to training.

    The reference for all other endpoints: no kind of `KINDS` cuts messages finer, and the
    scheduler bounds chunks the same way for all. ``message_bytes`` None: the data of a step travel
    as one message, which every switch on the way stores whole. ``sum_bytes_per_s``: rate of the
    memory to which a sum makes three accesses, before it is sent and before it is kept (ASTRA-sim
    2.x); None: it costs nothing.
    """

    npu: Npu = field(default_factory=Npu)
    delay_s: float = 1 / 1.245e9
    message_bytes: float | None = 4096
    sum_bytes_per_s: float | None = None
    overlaps: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(self, 0, "delay_s")
        if self.message_bytes is not None:
            check_at_least(self, 1, "message_bytes")
        if self.sum_bytes_per_s is not None:
            check_positive(self, "sum_bytes_per_s")

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        add: tuple[Stage, ...] = ()
        if self.sum_bytes_per_s is not None:
            add = (Stage(unit=None, s_per_byte=ACCESSES_OF_A_SUM / self.sum_bytes_per_s),)
        return EndpointModel(
            before={Source.REDUCED: add},
            after={Receipt.REDUCE: add},
            receive_delay_s=self.delay_s,
            message_bytes=self.message_bytes,
        )

    def share(self) -> ComputeShare:
        return ComputeShare(compute=1.0, memory_bytes_per_s=self.npu.memory_bytes_per_s)


@dataclass(frozen=True, kw_only=True)
class BaselineEndpoint:
    """Collectives on the NPU, which takes a cycle at least for every message.

    Parameters
    ----------
    cores : float
        Cores that run collectives; they bound what can be read at ``npu.core_bytes_per_cycle``.
    memory_bytes_per_s : float
        Memory bandwidth set aside for communication, for reading and for writing alike. Reads per
        byte sent: 1, and 2 where a sum is sent (section VI-A: 1.5 on average).
    lost_compute, lost_memory_bytes_per_s
        Resources that training loses; None: all that communication has. Baseline++ of ACE v1 loses
        less.
    overlaps : bool
        False: collectives are issued at the end of back-propagation and have the whole NPU.
    """

    npu: Npu = field(default_factory=Npu)
    cores: float = 6
    memory_bytes_per_s: float = 450e9
    bus: Bus = field(default_factory=Bus)
    memory_bus: Bus = field(default_factory=lambda: Bus(bytes_per_s=900e9))
    message_bytes: float = 8192
    lost_compute: float | None = None
    lost_memory_bytes_per_s: float | None = None
    overlaps: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(self, "cores", "memory_bytes_per_s")
        check_at_least(self, 1, "message_bytes")
        if self.cores > self.npu.cores:
            raise ValueError(f"cores must be at most {self.npu.cores}, not {self.cores!r}")
        if self.lost_compute is not None and not 0 <= self.lost_compute <= 1:
            raise ValueError(f"lost_compute must be from 0 to 1, not {self.lost_compute!r}")
        if self.lost_memory_bytes_per_s is not None:
            check_at_least(self, 0, "lost_memory_bytes_per_s")

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        bus = self.bus
        reads = {Source.FRESH: 1.0, Source.REDUCED: 2.0, Source.FORWARD: 1.0}
        before = {
            source: (*self._read(times), bus.stage("bus to fabric"))
            for source, times in reads.items()
        }
        keep = (bus.stage("bus from fabric"), self._write())
        after = {Receipt.KEEP: keep, Receipt.REDUCE: (*keep, *self._read(2.0), self._write())}
        names = ("memory read", "cores", "bus to fabric", "bus from fabric", "memory write")
        return EndpointModel(
            units=tuple(Unit(name=name) for name in names),
            before=before,
            after=after,
            message_bytes=self.message_bytes,
            # Rates alone would handle a message of a few bytes faster than the ideal endpoint.
            receive_delay_s=max(0.0, self.npu.cycle_s - bus.latency_s - bus.overhead_s),
        )

    def _memory(self) -> Bus:
        return replace(self.memory_bus, bytes_per_s=self.memory_bytes_per_s)

    def _read(self, times: float) -> tuple[Stage, ...]:
        rate = self.cores * self.npu.core_bytes_per_cycle * self.npu.clock_hz
        return (
            self._memory().stage("memory read", times),
            Stage(unit="cores", s_per_byte=times / rate),
        )

    def _write(self) -> Stage:
        return self._memory().stage("memory write")

    def rates(self) -> EndpointRates:
        """At best every byte sent is read once and every byte received written once."""
        cores = self.cores * self.npu.core_bytes_per_cycle * self.npu.clock_hz
        return EndpointRates(
            read_bytes_per_s=min(self.memory_bytes_per_s, cores),
            write_bytes_per_s=self.memory_bytes_per_s,
            reads_per_byte_sent=1.0,
            writes_per_byte_sent=1.0,
            bus_bytes_per_s=self.bus.bytes_per_s,
        )

    def share(self) -> ComputeShare:
        if not self.overlaps:
            return ComputeShare(compute=1.0, memory_bytes_per_s=self.npu.memory_bytes_per_s)
        lost = self.cores / self.npu.cores if self.lost_compute is None else self.lost_compute
        memory = self.lost_memory_bytes_per_s
        memory = self.memory_bytes_per_s if memory is None else memory
        return ComputeShare(
            compute=1 - lost, memory_bytes_per_s=max(0.0, self.npu.memory_bytes_per_s - memory)
        )


@dataclass(frozen=True, kw_only=True)
class AceEndpoint:
    """The collectives engine, block by block as in ``hw/ace``.

    A chunk is read by the TX DMA into the SRAM partition of its first phase, passes through the
    phases from partition to partition, and is written back by the RX DMA. Each phase has its share
    of the FSMs, an FSM works on ``contexts`` chunks at a time. Arriving data are added on the fly
    (ALU), stored, and forwarded from there.

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
        Latencies read from the RTL. A packet of 4 beats takes 21 cycles from its last flit in to
        its first flit out, whether added to or copied; loading takes 12 beyond the memory read
        (check, context, report, SRAM), storing 4 (event, interrupt).
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
    fetch_cycles: float = 12
    receive_cycles: float = 21
    alu_cycles: float = 0
    store_cycles: float = 4
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
            raise ValueError(f"partition must be heuristic or even, not {self.partition!r}")

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        if self.ring is not None and all(len(each.phases) == 1 for each in plan.variants):
            return self.ring.model(kind)
        cycle = self.npu.cycle_s
        port = cycle / self.bus_bytes
        sram = port / self.sram_accesses

        def access(times: float, cycles: float) -> Stage:
            return Stage(unit="SRAM", s_per_byte=times * sram, latency_s=cycles * cycle)

        def in_turn(times: float, cycles: float) -> tuple[Stage, ...]:
            piece = access(times / PIECES, 0)
            return (*[piece] * (PIECES - 1), replace(piece, latency_s=cycles * cycle))

        add = Stage(
            unit="ALUs", s_per_byte=cycle / (4 * self.lanes), latency_s=self.alu_cycles * cycle
        )
        arrive = (access(1, self.receive_cycles),)
        before = {
            Source.FRESH: (access(1, self.fetch_cycles),),
            # The operand is read and the sum goes out on the fly; it is stored at the end only.
            Source.REDUCED: (access(1, 0), add),
            Source.FORWARD: (),
        }
        after = {Receipt.KEEP: arrive, Receipt.REDUCE: (access(1, 0), add, *arrive)}
        read = Stage(
            unit="TX DMA",
            s_per_byte=1 / self.memory_bytes_per_s,
            latency_s=self.read_latency_s,
        )
        write = Stage(unit="RX DMA", s_per_byte=1 / self.memory_bytes_per_s)
        phases = max((len(v.phases) for v in plan.variants), default=1)
        units = ("SRAM", "TX DMA", "RX DMA", "bus to engine", "bus from engine")
        return EndpointModel(
            units=(*(Unit(name=name) for name in units), Unit(name="ALUs", servers=self.alus)),
            before=before,
            after=after,
            load=(read, self.bus.stage("bus to engine"), *in_turn(1, self.fetch_cycles)),
            store=(
                *in_turn(self._result(plan), self.store_cycles),
                self.bus.stage("bus from engine", self._result(plan)),
                replace(write, s_per_byte=self._result(plan) / self.memory_bytes_per_s),
            ),
            rooms=self._rooms(network, plan),
            contexts=tuple([max(1, self.fsms * self.contexts // max(1, phases))] * max(1, phases)),
            message_bytes=self.message_bytes,
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


def _loggp(cycle_s: float, bytes_per_s: float) -> Bus:
    return Bus(
        bytes_per_s=bytes_per_s,
        latency_s=50 * cycle_s,
        overhead_s=20 * cycle_s,
        gap_s=20 * cycle_s,
    )


# ACE v1: buses by LogGP at 1 GHz with the bandwidth of Table 7, and 4 kB messages. Cores and memory
# do not limit communication there; training loses 5 % of compute and 20 % (ACE: 5 %) of memory
# bandwidth. A state machine works on its queue of chunks in order, one at a time, and partitions
# follow the heuristic (sections 4.3.2 and 6).
_V1_HOST: Any = {
    "cores": 80,
    "memory_bytes_per_s": 900e9,
    "bus": _loggp(1e-9, 500e9),
    "memory_bus": _loggp(1e-9, 900e9),
    "message_bytes": 4096,
}

KINDS: Mapping[str, Endpoint] = {
    "ideal": IdealEndpoint(),
    "baseline_no_overlap": BaselineEndpoint(cores=80, memory_bytes_per_s=900e9, overlaps=False),
    "baseline_comm_opt": BaselineEndpoint(cores=6, memory_bytes_per_s=450e9),
    "baseline_comp_opt": BaselineEndpoint(cores=2, memory_bytes_per_s=128e9),
    "baseline": BaselineEndpoint(**_V1_HOST, lost_compute=0.05, lost_memory_bytes_per_s=180e9),
    "baseline_plus_plus": BaselineEndpoint(
        **_V1_HOST, lost_compute=0.0, lost_memory_bytes_per_s=45e9
    ),
    "ace": AceEndpoint(),
    "ace_v1": AceEndpoint(
        memory_bytes_per_s=900e9,
        lost_memory_bytes_per_s=45e9,
        bus=_loggp(1e-9, 500e9),
        message_bytes=4096,
        contexts=1,
        partition="heuristic",
    ),
    "smartnic": SmartNicEndpoint(),
    "smartnic_bfp": SmartNicEndpoint(codec="bfp16"),
    "in_switch": InSwitchEndpoint(),
}


def endpoint(kind: str, **changes: Any) -> Endpoint:
    """An endpoint by name, with changed parameters.

    Raises
    ------
    ValueError
        For an unknown kind or parameter.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"endpoint {not_one_of(kind, KINDS)}")
    base = KINDS[kind]
    known = [f.name for f in fields(base)]  # type: ignore[arg-type]
    for name in changes:
        if name not in known:
            raise ValueError(f"{kind} has no parameter {name!r}; it has {', '.join(known)}")
    return replace(base, **changes)  # type: ignore[type-var]
