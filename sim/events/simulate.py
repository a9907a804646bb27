# SPDX-License-Identifier: Apache-2.0
"""One run: a job on a network."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from gen.arguments import size_of_number
from gen.interrupts import ended_by_interrupts
from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.kinds import endpoint as named_endpoint
from sim.events.check import what_is_wrong
from sim.events.kernel import constants, loop
from sim.events.lower import Lowered, LoweringOptions, job_network, lower
from sim.events.packets import PacketOptions
from sim.events.progress import Report, reported
from sim.events.record import CallPhases, RunRecord
from sim.events.scheduler import Scheduler
from sim.events.stuck import longest_time, why_stuck
from sim.fields import FieldError, check, check_type
from sim.native.binding import bind
from sim.network.link import Link
from sim.network.network import Network
from sim.units import FS_PER_S, MOST_TIME_S, seconds_to_fs
from sim.workload.graph import CollectiveKind, Job, TaskKind

__all__ = ["SimulationError", "simulate"]


MOST_RECORDED = 1 << 31
CREDITS_LIMIT = 0.05
"""Share of the run for which a link must wait for credits to be worth a note."""


REPEATED = (
    "nodes admitted chunks in orders in which they waited for each other; repeated with a place "
    "reserved for the least live chunk of every node"
)


class SimulationError(RuntimeError):
    """A run that could not be completed; the text says what was waiting for what."""


def simulate(
    network: Network,
    job: Job,
    *,
    endpoint: Endpoint | str | None = None,
    scheduler: Scheduler | None = None,
    algorithms: AlgorithmChoice | Mapping[CollectiveKind, AlgorithmChoice] | None = None,
    granularity: str = "message",
    packets: PacketOptions | None = None,
    packet_routing: str = "hardware",
    reserve: str = "auto",
    shared_links: bool = True,
    check: bool = False,
    fold: str = "auto",
    stragglers: Mapping[int, float] | None = None,
    bucket_s: float = 0.0,
    buckets: int = 1000,
    spans: int = 0,
    share_applied: bool = False,
    report: Report | None = None,
) -> RunRecord:
    """Run *job* on every node of *network*.

    The result is a function of the arguments alone.

    Parameters
    ----------
    endpoint, scheduler, algorithms (one choice, or one for each kind of collective)
        Default to an ideal endpoint, chunks in LIFO order whose size and number under way follow
        the collective (:mod:`sim.events.defaults`), and multi-colour collectives.
        The endpoint may be a name of `sim.endpoint.kinds`. The resources that it takes from
        training do not change the times of *job*, and a note says so; descriptions apply them
        (`foldwire.run`).
    granularity : str
        ``message``: messages travel whole, links are queues; ``packet``: they are cut into
        packets and flits that need buffers (:mod:`sim.events.kernel.packets`).
    packets : PacketOptions or None
        Sizes and buffers at packet granularity; None for the defaults.
    packet_routing : str
        On a way of several hops, ``hardware``: routers forward; ``software``: every node on the way
        receives the message into its endpoint and sends it again.
    reserve : str
        ``on``: each node admits the least of its live chunks (by call and chunk) even where queues
        and rooms are full, so that nodes that admit chunks in different orders cannot wait for
        each other for ever. ``auto``: only if the run gets stuck without. ``off``.
    shared_links : bool
        False: a message finds every link free, as if it were alone (ASTRA-sim's mode without
        congestion); not with packets. Times may then be below the lower bounds.
    check : bool
        Check that nothing was lost, doubled or left behind (:mod:`sim.events.check`).
    fold : str
        ``auto``: simulate one node for all where that is exact (:mod:`sim.network.symmetry`);
        ``on``: refuse to run otherwise; ``off``.
    stragglers : mapping of node to factor
        Factors by which the nodes' computations take longer.
    bucket_s, buckets
        Width and number of the intervals of the utilisation over time; width 0 records none.
    spans : int
        Record up to that many intervals of links and chunks for a trace.
    share_applied : bool
        The times of *job* are already those with the resources that the endpoint leaves: no note.
    report : callable or None
        Called from another thread, a few times a second, with the share of the work that is done.

    Raises
    ------
    ValueError
        If the parts do not fit together.
    SimulationError
        If nodes wait for each other without end, or memory does not suffice.
    """
    endpoint = _checked(network, job, endpoint, scheduler, algorithms)
    network = job_network(network, job)
    _check_durations(job)
    _check_modes(granularity, packet_routing, reserve, shared_links, packets)
    _check_options(network, packets, stragglers, bucket_s, {"buckets": buckets, "spans": spans})
    for name, value in (("check", check), ("share_applied", share_applied)):
        check_type(name, value, "True or False", isinstance(value, bool))
    check_type("report", report, "callable or None", report is None or callable(report))
    begin = time.perf_counter()
    options = LoweringOptions(
        packets=(packets or PacketOptions()) if granularity == "packet" else None,
        software=packet_routing == "software",
        reserve=reserve == "on",
        shared_links=shared_links,
        check=check,
        fold=fold,
        stragglers=dict(stragglers or {}),
        bucket_fs=seconds_to_fs(bucket_s),
        buckets=buckets if bucket_s > 0 else 0,
        spans=spans,
    )
    lowering = partial(
        lower,
        network,
        job,
        endpoint=endpoint,
        scheduler=scheduler or Scheduler(),
        choice=algorithms or AlgorithmChoice(),
    )
    lowered = _completed(network, job, lowering, options, reserve, report)
    if not share_applied:
        lowered.notes.extend(_share_not_applied(endpoint, job))
    record = _record(network, job, lowered, time.perf_counter() - begin)
    if check and (wrong := what_is_wrong(network, lowered, record.end_fs)) is not None:
        raise SimulationError(f"the run does not balance: {wrong}")
    if (rates := getattr(endpoint, "rates", None)) is not None and record.wire_factor == 1:
        return replace(record, endpoint_rates=rates())
    return record


def _checked(
    network: object, job: object, endpoint: object, scheduler: object, algorithms: object
) -> Endpoint:
    """Return the endpoint; refuse arguments of a wrong type by name, before their fields are used.
    """
    if endpoint is None or isinstance(endpoint, str):
        endpoint = named_endpoint("ideal" if endpoint is None else endpoint)
    check_type("network", network, "a Network", isinstance(network, Network))
    check_type("job", job, "a Job", isinstance(job, Job))
    check_type(
        "endpoint",
        endpoint,
        "the name of an endpoint, or an object with model() and share()",
        callable(getattr(endpoint, "model", None)) and not isinstance(endpoint, type),
    )
    check_type(
        "scheduler",
        scheduler,
        "a Scheduler or None",
        scheduler is None or isinstance(scheduler, Scheduler),
    )
    check_type(
        "algorithms",
        algorithms,
        "an AlgorithmChoice, or one for each kind of collective",
        algorithms is None or isinstance(algorithms, AlgorithmChoice | Mapping),
    )
    if isinstance(algorithms, Mapping):
        for kind, choice in algorithms.items():
            ok = isinstance(kind, CollectiveKind) and isinstance(choice, AlgorithmChoice)
            given = {kind: choice}
            check("algorithms", given, "AlgorithmChoices by CollectiveKind", ok)
    return cast(Endpoint, endpoint)


def _check_durations(job: Job) -> None:
    for graph in job.graphs:
        for number, task in enumerate(graph.tasks):
            if task.duration_s > MOST_TIME_S:
                raise FieldError(
                    "duration_s", f"of task {number} ({task.name!r}) must be at most "
                    f"{MOST_TIME_S:g} s, not {task.duration_s:g}"
                )


def _completed(
    network: Network,
    job: Job,
    lowering: Callable[..., Lowered],
    options: LoweringOptions,
    reserve: str,
    report: Report | None,
) -> Lowered:
    """The state at the end of a run that did not get stuck."""
    for reserving in {"auto": (False, True), "on": (True,), "off": (False,)}[reserve]:
        lowered = lowering(options=options._replace(reserve=reserving))
        with reported(network, lowered, report):
            _run(network, job, lowered)
        stuck = why_stuck(job, lowered)
        if stuck is None:
            break
    if stuck is not None:
        raise SimulationError(stuck)
    if reserve == "auto" and reserving:
        lowered.notes.append(REPEATED)
    return lowered


def _check_modes(
    granularity: str, packet_routing: str, reserve: str, shared_links: bool, packets: object
) -> None:
    check_type("shared_links", shared_links, "True or False", isinstance(shared_links, bool))
    if granularity not in ("message", "packet"):
        raise FieldError("granularity", f"must be message or packet, not {granularity!r}")
    if packet_routing not in ("hardware", "software"):
        raise FieldError("packet_routing", f"must be hardware or software, not {packet_routing!r}")
    if reserve not in ("auto", "on", "off"):
        raise FieldError("reserve", f"must be auto, on or off, not {reserve!r}")
    if not shared_links and granularity == "packet":
        raise FieldError("shared_links", "must be True with granularity='packet'")
    if packets is not None and granularity != "packet":
        raise FieldError("packets", "must be None unless granularity is 'packet'")


def _check_options(
    network: Network, packets: object, stragglers: object, bucket_s: object,
    counts: Mapping[str, object],
) -> None:
    ok = packets is None or isinstance(packets, PacketOptions)
    check_type("packets", packets, "PacketOptions or None", ok)
    ok = stragglers is None or isinstance(stragglers, Mapping)
    check_type("stragglers", stragglers, "a mapping of nodes to factors, or None", ok)
    for node, factor in (cast(Mapping[int, float], stragglers) or {}).items():
        check(f"the factor of straggler {node}", factor, "a number above 0", _is_number(factor, 1))
        known = isinstance(node, int | np.integer) and 0 <= node < network.nodes
        check("stragglers", node, f"factors of nodes from 0 to {network.nodes - 1}", known)
    check("bucket_s", bucket_s, "a number of at least 0", _is_number(bucket_s))
    short = cast(float, bucket_s) <= MOST_TIME_S
    check("bucket_s", bucket_s, f"at most {MOST_TIME_S:g} s", short)
    for name, count in counts.items():
        ok = isinstance(count, int) and not isinstance(count, bool) and count >= 0
        check(name, count, "an integer of at least 0", ok)
        check(name, count, f"at most {MOST_RECORDED}", cast(int, count) <= MOST_RECORDED)


def _is_number(value: object, above: int = 0) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or size_of_number(value) is not None:
        return False
    return value > 0 if above else value >= 0  # type: ignore[operator]


def _run(network: Network, job: Job, lowered: Lowered) -> None:
    state = lowered.state
    packets = "" if lowered.packets is None else " of packets"
    call = bind(
        loop.run, state, lowered.packets, doing=f"compiling the simulator{packets} (about 20 s)"
    )
    status = ended_by_interrupts(call, lambda _: state.numbers.__setitem__(constants.STOP, 1))
    if status == constants.TOO_MANY_CHUNKS:
        raise SimulationError(
            f"more than {len(state.free_slots)} chunks in flight, for which this machine has "
            "memory; use larger chunks (scheduler.chunk_bytes), or one collective at a time "
            "(scheduler.collectives)"
        )
    if status == constants.TOO_MANY_EVENTS:
        raise SimulationError(
            f"more than {len(state.events)} messages in flight, for which this machine has memory; "
            "use larger messages (endpoint.message_bytes), larger or fewer chunks "
            "(scheduler.chunk_bytes, concurrency), or one phase per dimension "
            "(algorithm.all_to_all_span)"
        )
    if status == constants.TOO_LONG:
        raise SimulationError(
            f"the run must end within {MOST_TIME_S:g} s of simulated time, and takes longer: "
            f"{longest_time(network, job, lowered.times)}"
        )
    if status == constants.WRONG_COUNT:
        raise SimulationError(
            f"the run does not balance: chunk {state.numbers[constants.WRONG]} ended without "
            "exactly the messages that its programs send"
        )


def _share_not_applied(endpoint: Endpoint, job: Job) -> list[str]:
    taken = 100 * (1 - endpoint.share().compute)
    computes = any(task.kind == TaskKind.COMPUTE for graph in job.graphs for task in graph.tasks)
    if not computes or taken <= 0:
        return []
    share = f"{taken:.3g} % of the compute units"
    return [f"the endpoint takes {share}, which the job's times leave out"]


def _cut_series(numbers: np.ndarray, end_fs: int) -> list[str]:
    """A note where the run is longer than the intervals of its utilisation."""
    covered_fs = int(numbers[constants.BUCKETS]) * int(numbers[constants.BUCKET_FS])
    if not 0 < covered_fs < end_fs:
        return []
    share = 100 * covered_fs // end_fs
    covered = f"{covered_fs / FS_PER_S:g} s, {share} % of the run"
    return [f"utilisation over time ends after bucket_s x buckets, {covered}"]


def _cut_trace(spans: np.ndarray, left_out: int, end_fs: int) -> list[str]:
    """A note where the trace had no room for all that was to be recorded."""
    if not left_out or not len(spans):
        return []
    begun_us = 1e6 * float(spans["start_fs"].max()) / FS_PER_S
    end_us = 1e6 * end_fs / FS_PER_S
    total = len(spans) + left_out
    kept = f"the first {len(spans)} of {total} transfers and phases of chunks"
    until = f"up to {begun_us:.6g} of {end_us:.6g} us"
    return [f"the trace is cut: {kept}, {until}; run.most_spans = {total} keeps all"]


def _record(network: Network, job: Job, lowered: Lowered, wall_s: float) -> RunRecord:
    s = lowered.state
    rows, columns = lowered.rows, lowered.columns
    numbers = s.numbers
    calls = len(lowered.calls)
    left_out = max(0, int(numbers[constants.SPANS]) - len(s.spans))
    spans = s.spans[: int(numbers[constants.SPANS])]
    return RunRecord(
        nodes=network.nodes,
        switch_names=network.switch_names,
        folded=lowered.folded,
        end_fs=int(s.task_end.max(initial=0)),
        events=int(numbers[constants.EVENTS]),
        wall_s=wall_s,
        task_ready_fs=s.task_ready.reshape(rows, -1),
        task_start_fs=s.task_start.reshape(rows, -1),
        task_end_fs=s.task_end.reshape(rows, -1),
        graph_of=s.node_graph,
        calls=lowered.calls,
        call_phases=CallPhases(
            chunks=lowered.chunks,
            names=[["ready queue", *names] for names in lowered.phase_names],
            queue_delay_fs=s.queue_delay.reshape(-1, columns)[:calls],
            time_fs=s.phase_time.reshape(-1, columns)[:calls],
            network_delay_fs=s.network_delay.reshape(-1, columns)[:calls],
            latency_fs=(
                s.messages.reshape(-1, columns)[:calls] * lowered.latency_s * FS_PER_S
            ).astype(np.int64),
            bus_delay_fs=s.bus_delay.reshape(-1, columns)[:calls],
            messages=s.messages.reshape(-1, columns)[:calls],
        ),
        links=_classes(network) if lowered.folded else network.links(),
        link_bytes=np.ceil(s.link["bytes"] * lowered.wire_factor - 1e-6).astype(np.int64),
        link_busy_fs=s.link["busy"].copy(),
        unit_names=lowered.unit_names,
        unit_servers=lowered.unit_servers,
        unit_busy_fs=s.unit_busy[: len(lowered.unit_names) * rows].reshape(-1, rows),
        unit_bytes=s.unit_bytes[: len(lowered.unit_names) * rows].reshape(-1, rows),
        engine_busy_fs=s.engine_busy,
        bucket_fs=int(numbers[constants.BUCKET_FS]),
        link_series_fs=s.link_series[
            : len(network.dimensions) * int(numbers[constants.BUCKETS])
        ].reshape(len(network.dimensions), -1),
        spans=spans[spans["call"] < calls],
        spans_left_out=left_out,
        admission=lowered.admission,
        receive_fs=int(numbers[constants.RECEIVE_FS]),
        wire_factor=lowered.wire_factor,
        network_reduces=len(s.relay_needs) > 1,
        shared_links=bool(numbers[constants.SHARED_LINKS]),
        counts={}
        if not numbers[constants.HAS_TABLES]
        else dict(zip(constants.COUNTED, s.counts.tolist())),
        link_starved_fs=None if lowered.packets is None else lowered.packets.wires["starved"],
        notes=[
            *lowered.notes,
            *_starved(network, lowered),
            *_cut_series(numbers, int(s.task_end.max(initial=0))),
            *_cut_trace(spans, left_out, int(s.task_end.max(initial=0))),
            *([] if lowered.folded else [f"not folded: {lowered.why_not_folded}"]),
        ],
    )


def _starved(network: Network, lowered: Lowered) -> list[str]:
    """A note if links waited for credits for a good part of the run."""
    if lowered.packets is None or not len(network.link_source):
        return []
    starved = lowered.packets.wires["starved"]
    worst = int(starved.argmax())
    share = starved[worst] / max(1, int(lowered.state.task_end.max(initial=0)))
    if share < CREDITS_LIMIT:
        return []
    links = _classes(network) if lowered.folded else network.links()
    rate, latency_fs = links[worst].bytes_per_s, links[worst].latency_fs
    needed = 2 * rate * latency_fs / FS_PER_S
    text = (
        f"credits limit: a link of dimension {links[worst].dimension} waited for them for "
        f"{100 * share:.0f} % of the run; a round trip needs room for {needed:.0f} bytes beyond "
        "it: more or larger virtual channels (vcs_per_vnet, buffers_per_vc)"
    )
    return [text]


def _classes(network: Network) -> Sequence[Link]:
    """The links of the node that stands for all."""
    _, kind = network.link_classes()
    _, first = np.unique(kind, return_index=True)
    return network.links(first.tolist())
