# SPDX-License-Identifier: Apache-2.0
"""Endpoints by name: ideal ones, those that use the NPU, and those of the engines.

Sources: ACE v1 sections 4 and 5, ISCA 2021 Tables V and VI and section VI-A (papers in README). A
baseline endpoint runs collectives on the NPU: data to be sent are first read from memory, through
the cores set aside for communication, and moved over the bus to the fabric; received data go back
the same way. Endpoints of engines are in their records (`sim/engines`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sim.collectives.program import Plan, Receipt, Source
from sim.endpoint.endpoint import (
    ComputeShare,
    Endpoint,
    EndpointModel,
    Stage,
    Unit,
)
from sim.endpoint.rates import EndpointRates
from sim.engines import registry
from sim.fields import FieldError, check, check_at_least, check_fields, check_positive, not_one_of
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = [
    "KINDS", "SOFTWARE", "BaselineEndpoint", "Bus", "IdealEndpoint", "Npu", "endpoint", "loggp",
]


ACCESSES_OF_A_SUM = 3
"""Two operands are read, one result is written."""


@dataclass(frozen=True, kw_only=True)
class Npu:
    """The processor (ISCA 2021 Table V). ``core_bytes_per_cycle``: what one core can read."""

    cores: int = 80
    clock_hz: float = 1.245e9
    core_bytes_per_cycle: float = 64.0
    memory_bytes_per_s: float = 900e9

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(self, "cores", "core_bytes_per_cycle", "memory_bytes_per_s")
        check_at_least(self, 1, "clock_hz")

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
            share=times,
        )


@dataclass(frozen=True, kw_only=True)
class IdealEndpoint:
    """Handles every message in ``delay_s`` (one cycle) and leaves everything to training.

    The reference for all other endpoints: no kind of `KINDS` cuts messages finer, and the
    scheduler bounds chunks the same way for all. ``message_bytes`` None: the data of a step travel
    as one message, which every switch on the way stores whole. ``sum_bytes_per_s``: rate of the
    memory to which a sum makes three accesses, before it is sent and before it is kept (ASTRA-sim
    2.x); what is sent goes first, the rest is added meanwhile. None: it costs nothing.
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
            before={Source.REDUCED: add, Source.PART: add},
            after={Receipt.REDUCE: add, Receipt.SPLIT: ()},
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
        byte sent: 1, and 1 for every contribution that is added to it: in all-reduces of any
        phases 1.5 on average (section VI-A). Writes: what is received, and sums that stay. Cores
        add what they are about to send, three operands at once after a phase of reduce-scatter.
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
            raise FieldError("cores", f"must be at most {self.npu.cores}, not {self.cores!r}")
        if self.lost_compute is not None and not 0 <= self.lost_compute <= 1:
            raise FieldError("lost_compute", f"must be from 0 to 1, not {self.lost_compute!r}")
        if self.lost_memory_bytes_per_s is not None:
            check_at_least(self, 0, "lost_memory_bytes_per_s")

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        bus = self.bus
        reads = {Source.FRESH: 1.0, Source.REDUCED: 2.0, Source.FORWARD: 1.0}
        before = {
            source: (*self._read(times), bus.stage("bus to fabric"))
            for source, times in reads.items()
        }
        come, keep = bus.stage("bus from fabric"), self._write()
        after = {
            Receipt.KEEP: (come, keep),
            Receipt.REDUCE: (come, keep, *self._read(2.0), keep),
            # The sum that the next send makes is written, too.
            Receipt.RESULT: (come, self._write(2.0)),
            # The sends that add it read it beside another operand, a part each: in their latency.
            **dict.fromkeys(
                (Receipt.SPLIT, Receipt.OPERAND),
                (come, keep, *(replace(each, latency_s=0.0) for each in self._read(1.0))),
            ),
        }
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
            Stage(unit="cores", s_per_byte=times / rate, share=times),
        )

    def _write(self, times: float = 1.0) -> Stage:
        return self._memory().stage("memory write", times)

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


def loggp(cycle_s: float, bytes_per_s: float) -> Bus:
    """A bus of ACE v1 (Table 7), in cycles of 1 GHz."""
    return Bus(
        bytes_per_s=bytes_per_s,
        latency_s=50 * cycle_s,
        overhead_s=20 * cycle_s,
        gap_s=20 * cycle_s,
    )


# ACE v1: buses by LogGP at 1 GHz with the bandwidth of Table 7, and 4 kB messages. Cores and memory
# do not limit communication there; training loses 5 % of compute and 20 % (ACE: 5 %) of memory
# bandwidth.
_V1_HOST: Any = {
    "cores": 80,
    "memory_bytes_per_s": 900e9,
    "bus": loggp(1e-9, 500e9),
    "memory_bus": loggp(1e-9, 900e9),
    "message_bytes": 4096,
}

SOFTWARE: Mapping[str, Endpoint] = {
    "ideal": IdealEndpoint(),
    "baseline_no_overlap": BaselineEndpoint(cores=80, memory_bytes_per_s=900e9, overlaps=False),
    "baseline_comm_opt": BaselineEndpoint(cores=6, memory_bytes_per_s=450e9),
    "baseline_comp_opt": BaselineEndpoint(cores=2, memory_bytes_per_s=128e9),
    "baseline": BaselineEndpoint(**_V1_HOST, lost_compute=0.05, lost_memory_bytes_per_s=180e9),
    "baseline_plus_plus": BaselineEndpoint(
        **_V1_HOST, lost_compute=0.0, lost_memory_bytes_per_s=45e9
    ),
}
"""Endpoints that are no hardware."""


class _Kinds(Mapping[str, Endpoint]):
    """Endpoints of software, and those of the engines, whose records are loaded when one is asked
    for."""

    def __getitem__(self, kind: str) -> Endpoint:
        if kind in SOFTWARE:
            return SOFTWARE[kind]
        for record in registry.records():
            for endpoints in (record.events, record.published):
                if kind in endpoints:
                    found: Endpoint = endpoints[kind]
                    return found
        raise KeyError(kind)

    def __iter__(self) -> Iterator[str]:
        yield from SOFTWARE
        for record in registry.records():
            yield from record.events
            yield from record.published

    def __len__(self) -> int:
        return sum(1 for _ in self)


KINDS: Mapping[str, Endpoint] = _Kinds()


def endpoint(kind: str, **changes: Any) -> Endpoint:
    """An endpoint by name, with changed parameters.

    Raises
    ------
    ValueError
        For an unknown kind or parameter.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise FieldError("endpoint", not_one_of(kind, KINDS))
    base = KINDS[kind]
    known = [f.name for f in fields(base)]  # type: ignore[arg-type]
    for name in changes:
        if name not in known:
            raise FieldError(kind, f"has no parameter {name!r}; it has {', '.join(known)}")
    return replace(base, **changes)  # type: ignore[type-var]
