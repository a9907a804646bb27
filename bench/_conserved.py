# SPDX-License-Identifier: Apache-2.0
"""Bytes that endpoints add, read and write in a run, against arithmetic that knows no simulator.

Every node of a group of N has (1 - 1/N) of the vector to add in a reduce-scatter, however many
phases it has: N contributions make a sum, and each node ends with its share of the sums. From what
a node sends and adds follow the reads and writes of memories. And no unit moves more than it can.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench._moved import Moved
from bench.records.registered import modules
from sim.collectives.plan import plan_collective
from sim.collectives.program import Phase, Plan, Receipt, Send, Source
from sim.endpoint.kinds import BaselineEndpoint
from sim.run import Run
from sim.units import FS_PER_S
from sim.workload.graph import CollectiveCall, CollectiveKind

__all__ = ["above_rates", "capacities", "moved_in_plan", "sums_per_byte", "wrong_sums"]

SLACK = 1.001
"""Over a rate, for messages that are rounded up to whole bytes."""


def sums_per_byte(sizes: Sequence[int], kind: CollectiveKind, style: str) -> float:
    """Bytes that a node adds, over the size of a collective, in groups with these sizes of
    dimensions."""
    sizes = [size for size in sizes if size > 1]
    if kind is CollectiveKind.ALL_REDUCE and style == "baseline":
        return sum(1 - 1 / size for size in sizes)
    if kind is CollectiveKind.ALL_REDUCE and style == "enhanced":
        first, others = sizes[:1], sizes[1:]
        inside = sum(1 - 1 / size for size in others) / math.prod(first)
        return sum(1 - 1 / size for size in first) + inside
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER):
        return 1 - 1 / math.prod(sizes)
    return 0.0


def moved_in_plan(plan: Plan, nodes: int, shares: Sequence[float]) -> Moved:
    """Bytes that a plan moves; *shares*: bytes of the collective that take each variant."""
    sent, got = dict.fromkeys(Source, 0.0), dict.fromkeys(Receipt, 0.0)
    for variant, share in zip(plan.variants, shares):
        for phase in variant.phases:
            for send, times in _sends(phase, nodes):
                amount = share * times * send.fraction / nodes
                sent[send.source] += amount
                got[send.receipt] += amount
    return Moved(sent=sent, got=got)


def _sends(phase: Phase, nodes: int) -> Iterator[tuple[Send, int]]:
    """Sends, and how often each is made by all nodes together."""
    for number, program in enumerate(phase.programs):
        here = np.full(nodes, True) if phase.role is None else phase.role == number
        for segment in program.segments:
            times = segment.steps if len(segment.sends) == 1 else 1
            for sends in segment.sends:
                for send in sends:
                    yield send, times * int((here & (send.channel.peer[:nodes] >= 0)).sum())


def wrong_sums(run: Run) -> Iterator[str]:
    """Yield what is wrong with the sums of a run at level events, and with what its endpoints moved
    for them; nothing where switches reduce."""
    endpoint = run.description.endpoint
    if getattr(endpoint, "in_switch", None):
        return
    total = Moved(sent=dict.fromkeys(Source, 0.0), got=dict.fromkeys(Receipt, 0.0))
    for number, (graph, task) in enumerate(run.record.calls):
        call = run.job.graphs[graph].tasks[task].call
        assert call is not None
        view, inside = run.network.view(call.dimensions)
        choice = run.system.algorithms[call.kind]
        plan = plan_collective(view, call.kind, choice, inside)
        if not plan.variants or not call.size_bytes:
            continue
        chunks = int(run.record.phases.chunks[number])
        shares = [call.size_bytes * each for each in _shares(plan, chunks)]
        yield from _wrong_plan(
            call, choice.style, view.shape, inside,
            moved_in_plan(plan, run.network.nodes, [each / call.size_bytes for each in shares]),
        )
        total += moved_in_plan(plan, run.network.nodes, shares)
    # Messages are rounded up to bytes, so each unit may have moved a byte more for each message.
    slack = float(run.record.phases.messages.sum()) / len(run.record.graph_of) + 1
    for name, expected in _expected(run, total):
        found = _moved(run, name)
        if not -1e-6 * expected - 1 <= found - expected <= 1e-6 * expected + 3 * slack:
            yield f"{name} moved {found:.0f} bytes, not {expected:.0f}"


def _shares(plan: Plan, chunks: int) -> list[float]:
    weights = [each.weight for each in plan.variants]
    if chunks < len(weights):
        return [1 / chunks] * chunks
    return [each / sum(weights) for each in weights]


def _wrong_plan(
    call: CollectiveCall,
    style: str,
    shape: Sequence[int],
    inside: Sequence[int] | None,
    moved: Moved,
) -> Iterator[str]:
    dimensions = range(len(shape)) if inside is None else inside
    expected = sums_per_byte([shape[each] for each in dimensions], call.kind, style)
    if not math.isclose(moved.added, expected, abs_tol=1e-9):
        yield f"{call.kind.value} adds {moved.added:.6f} of its size, not {expected:.6f}"
    by_sends = moved.got[Receipt.PASS] + moved.got[Receipt.RESULT]
    if not math.isclose(moved.sent[Source.REDUCED], by_sends, abs_tol=1e-9):
        yield f"sends add {moved.sent[Source.REDUCED]:.6f} of the size, not {by_sends:.6f}"


def _expected(run: Run, moved: Moved) -> Iterator[tuple[str, float]]:
    """Units of an endpoint, and the bytes that each has to move for so much to send and add."""
    endpoint = run.description.endpoint
    for engine in modules("moved").values():
        if isinstance(endpoint, engine.ENDPOINT):
            yield from engine.moves(moved).items()
    hops = run.description.network.packet_routing
    if isinstance(endpoint, BaselineEndpoint) and hops != "software":
        sent, got = sum(moved.sent.values()), sum(moved.got.values())
        # A sum that is stored before it is sent reads the node's own part of it apart.
        reads = sent + moved.added + moved.got[Receipt.REDUCE]
        yield "cores", reads
        yield "memory read", reads
        yield "memory write", got + moved.got[Receipt.REDUCE] + moved.got[Receipt.RESULT]
        yield "bus to fabric", sent
        yield "bus from fabric", got


def _moved(run: Run, unit: str) -> float:
    """Bytes that a unit of a node has moved, mean over nodes, in all its rings."""
    names = run.record.unit_names
    return sum(
        float(run.record.unit_bytes[number].mean())
        for number, name in enumerate(names)
        if name == unit or (name.startswith(f"{unit} ") and name[len(unit) + 1 :].isdigit())
    )


# ---- Rates.


def capacities(endpoint: Any) -> Mapping[str, float]:
    """Bytes/s that each unit of an endpoint can move, by name."""
    for engine in modules("moved").values():
        if isinstance(endpoint, engine.ENDPOINT):
            found: Mapping[str, float] = engine.capacities(endpoint)
            return found
    if not isinstance(endpoint, BaselineEndpoint):
        return {}
    npu = endpoint.npu
    return {
        "memory read": endpoint.memory_bytes_per_s,
        "memory write": endpoint.memory_bytes_per_s,
        "cores": endpoint.cores * npu.core_bytes_per_cycle * npu.clock_hz,
        "bus to fabric": endpoint.bus.bytes_per_s,
        "bus from fabric": endpoint.bus.bytes_per_s,
    }


def above_rates(run: Run) -> Iterator[str]:
    """Yield units of a run that moved more than they can in its time, or in the time for which they
    were busy."""
    record = run.record
    for name, most in capacities(run.description.endpoint).items():
        if name not in record.unit_names:
            continue
        number = record.unit_names.index(name)
        servers = record.unit_servers[number] if record.unit_servers else 1
        moved = record.unit_bytes[number].astype(np.float64)
        in_all = moved / max(1, record.end_fs) * FS_PER_S
        at_work = moved / np.maximum(1, record.unit_busy_fs[number]) * servers * FS_PER_S
        if in_all.max() > SLACK * most:
            yield f"{name} moved {in_all.max():.4g} bytes/s, above {most:.4g}"
        if moved.max() > 1 << 16 and at_work.max() > SLACK * most:
            yield f"{name} moved {at_work.max():.4g} bytes/s when busy, above {most:.4g}"
