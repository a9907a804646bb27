# SPDX-License-Identifier: Apache-2.0
"""Runs of descriptions on cycle models, RTL, or both."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from gen.waves import UnknownSignalError
from hw.fp.ops import ReduceOp
from sim.describe.build import DescribedSystem
from sim.describe.sections import Description
from sim.engines.engine import engine_named
from sim.engines.run import cannot_fold, engine_group
from sim.events.record import RunRecord
from sim.fields import FieldError, FoldError
from sim.results.network import middle_shares, utilisation
from sim.rtl.harness.system import WIRE_FAULTS
from sim.runs.common import WINDOWS, notes_of_engine, shortest_s
from sim.runs.job import Wait, plan_job
from sim.runs.record import record_of
from sim.runs.result import DataCheck, Run, RunParts
from sim.runs.scripts import EngineRun, draw_inputs, run_engines
from sim.workload.graph import Job
from sim.workload.host import slowed, waits_are_alike, why_not_alike

__all__ = ["run_on_engines"]


def run_on_engines(
    description: Description, system: DescribedSystem, *, start_cycle: int = 0
) -> Run:
    """Run *description* at level ``cycles`` or ``rtl``, or some nodes at each; or one for all.

    Hosts of cycle models begin in *start_cycle*, those of RTL when it is set up. Random stalls
    depend on the cycle.
    """
    group = engine_group(description, system)
    engine, settings = group.engine, group.settings
    known = engine_named(engine.kind)
    job = slowed(system.job, system.options["stragglers"], settings.nodes)
    reason = why_not_alike(system.job, system.options["stragglers"])
    if settings.folded and reason is not None:
        unlike = FoldError("folded", f"needs nodes that do the same, but {reason}")
        raise cannot_fold(description, unlike)
    wait: Wait = "all" if description.host.wait == "all" else "each"
    if wait == "each" and waits_are_alike(job):
        wait = "all"
    try:
        plan = plan_job(
            _by_rank(job, group.nodes),
            engine.kind,
            group.config,
            settings,
            clock_hz=engine.clock_hz,
            wait=wait,
            op=ReduceOp[description.workload.op.upper()],
            compress=engine.compress,
            dimensions=len(system.network.shape),
        )
    except FoldError as error:
        raise cannot_fold(description, error) from error
    except ValueError as error:
        section = {"wait": "host", "op": "workload"}.get(getattr(error, "field", ""))
        if section is not None and isinstance(error, FieldError):
            raise description.reader.error(section, error.field, error.what) from error
        what = f"does not run at level {description.level!r}: {error}"
        place = ("workload", "") if settings.algorithm is None else ("algorithm", "reductions")
        raise description.reader.error(*place, what) from error
    options: dict[str, Any] = {
        "bucket_cycles": _bucket_cycles(description, system), "start_cycle": start_cycle,
    }
    if "rtl" in group.levels:
        options |= {"threads": description.run.threads}
        options["trace_signals"] = description.run.trace_signals
    done = _traced(
        description,
        lambda: run_engines(
            engine.kind,
            group.config,
            settings,
            plan.commands,
            plan.steps[: settings.engines],
            draw_inputs(plan.commands, settings.engines, seed=description.run.seed),
            levels=cast(Any, group.levels),
            **options,
        ),
    )
    record, job = record_of(
        job,
        plan,
        done,
        system.network,
        clock_hz=engine.clock_hz,
        bus_bytes=engine.config.bus_bytes,
        nodes=group.nodes,
        crossed=group.crossed,
        network_reduces=known.network_reduces,
        wire_factor=known.wire_factor(engine),
        folded=settings.folded,
    )
    data = DataCheck(results=done.checked, wrong=done.wrong) if done.checked else None
    record.notes.extend(notes_of_engine(description))
    record.notes.extend(_busiest(record, job))
    record.notes.append(_note(description, group.levels, data) + _of_links(done.counts))
    if settings.algorithm is not None:
        record.notes.append(f"programs of algorithm {settings.algorithm.name}")
    signals = {group.nodes[rank]: each for rank, each in done.signals.items()}
    for node, each in signals.items():
        if not each.complete:
            record.notes.append(f"signals of node {node}: there was no room for later changes")
    return Run(RunParts(
        description=description, system=system, record=record, job=job, network=system.network,
        data=data, engines=done, signals=signals,
    ))


def _traced(description: Description, work: Callable[[], EngineRun]) -> EngineRun:
    """Result of *work*; an unknown signal is reported as an error of the description."""
    try:
        return work()
    except UnknownSignalError as error:
        raise description.reader.error("run", "trace_signals", error.what) from error


def _by_rank(job: Job, nodes: Sequence[int]) -> Job:
    """The job with ranks for nodes."""
    if job.graph_of is None:
        return job
    return replace(job, graph_of=tuple(job.graph_of[node] for node in nodes))


def _bucket_cycles(description: Description, system: DescribedSystem) -> int:
    assert description.engine is not None
    clock_hz = description.engine.clock_hz
    stated = description.run.bucket_s
    width_s = shortest_s(system) / WINDOWS if stated is None else stated
    return max(16, math.ceil(width_s * clock_hz))


def _of_links(counts: Mapping[str, int]) -> str:
    """Text on resent frames and faults of wires, if links have retry."""
    if "frames_resent" not in counts:
        return ""
    faults = ", ".join(f"{counts[f'wires_{what}']} {what}" for what in WIRE_FAULTS)
    return (
        f"; of the packets on wires {faults}, {counts['frames_resent']} frames were sent again"
    )


def _busiest(record: RunRecord, job: Job) -> Iterator[str]:
    """Yield what did most in the middle half of the run, and how much links did if they are not it.
    """
    shares = middle_shares(utilisation(record, job))
    if not any(shares.values()):
        return
    name, share = max(shares.items(), key=lambda each: each[1])
    text = f"busiest in the middle half of the run: {name}, {100 * share:.0f} % of the time"
    links = max((each for each in shares if each.startswith("links")), key=lambda n: shares[n])
    yield text if name == links else f"{text}; {links} {100 * shares[links]:.0f} %"


def _note(description: Description, levels: Sequence[str], data: DataCheck | None) -> str:
    """Note on the engines that ran; *levels* are those of nodes, then of switches that reduce."""
    engine = description.engine
    assert engine is not None
    nodes = math.prod(each.size for each in description.dimensions)

    def shown(of: Sequence[str]) -> str:
        return " and ".join(
            f"{of.count(level)} as {'RTL' if level == 'rtl' else 'cycle models'}"
            for level in dict.fromkeys(of)
        )

    text = f"engines: {engine.kind}, preset {engine.preset}, {shown(levels[:nodes])}"
    if folded := len(levels) < nodes:
        text += f" for all {nodes} (folded)"
    if len({*levels}) > 1 and len(levels) > nodes:
        text += f"; of switches {shown(levels[nodes:])}"
    if data_format := engine_named(engine.kind).format_note(engine):
        text += f"; {data_format}"
    if data is None:
        return text
    verdict = "all equal numpy's" if data.exact else f"{data.wrong} differ from numpy's"
    if folded:
        verdict += ", with vectors of the other ranks that are this one's, its shards moved on"
    return f"{text}; of {data.results} results {verdict}"
