# SPDX-License-Identifier: Apache-2.0
"""Finds the reason why a run stayed below its bound, from the run's record.

A collective reaches its bound if the busiest resource never waits. If it did, the reason is found
by these tests, in this order:

1. A link or a unit of an endpoint was busy for `BUSY` of the time in which collectives were in
   progress: the algorithm, or the endpoint, gives it more to do than the bound counts.
2. Late nodes held up others, from the time at which the first node began a collective.
3. The time of chunks in each phase is divided in proportion to that of their messages: *latency* of
   links, the *endpoint* (its stages and its time after each message), waiting for shared *links*,
   and the *transfer* itself. A phase in which latency and endpoint exceed the waiting for links
   left links idle: more chunks in flight would have filled them. If chunks waited to be admitted,
   that was *admission*, and the fullest of their limits is named: places in queues, contexts, a
   buffer, or the dispatcher.
4. The largest of admission, latency and endpoint is named.
5. If they are small, the time that one message needs in each phase may be long in a short run.
   Phases run one after the other instead of overlapping if chunks waited for links, and the links
   of all dimensions together were busy all the time. Messages are passed on whole if the transfer
   took longest.

A part smaller than `PART` of the lost share explains nothing, and is not named.

For some of the calls of a run, tests 2 to 5 take their own chunks. Busy times of links and units
are known for all calls together only, so test 1 is left out; if their chunks waited for links most
of the time, these *links* are named.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.events.record import CallPhases, RunRecord
from sim.units import number_of

__all__ = ["HeldBy", "admission_limit", "held", "late_share"]

BUSY = 0.9
PART = 0.5
"""Least share of the lost speed that a reason explains."""


@dataclass(frozen=True, kw_only=True)
class HeldBy:
    """``by``: a word, ``why``: the figures behind it."""

    by: str
    why: str

    def __str__(self) -> str:
        return f"{self.by} ({self.why})"


def held(
    record: RunRecord, reached: float, in_progress_fs: float, *, calls: Sequence[int] | None = None
) -> HeldBy | None:
    """The reason why a run's collectives got only to the share *reached* of their bound in the time
    in which at least one was in progress; None if nothing explains it, or the level of the run does
    not record it. With *calls*, numbers in ``record.calls``: the reason for these alone."""
    if record.call_phases is None or record.admission is None or in_progress_fs <= 0:
        return None
    if calls is None:
        busiest = _busiest(record, in_progress_fs)
        if busiest is not None:
            return busiest
    of = record.phases if calls is None else record.phases.of(calls)
    lost = PART * (1 - reached)
    late = late_share(record, range(len(record.calls)) if calls is None else calls)
    if late >= lost:
        why = f"others waited for them for {_percent(late)} of the time of collectives"
        return HeldBy(by="late nodes", why=why)
    parts, life = _parts(record, of, lost)
    if not life:
        return None
    shares = {name: part / life for name, part in parts.items()}
    by = max(("admission", "latency", "endpoint"), key=lambda name: shares[name])
    if shares[by] >= lost:
        if by == "admission":
            return _admission(record, of, in_progress_fs)
        return _part(record, of, by, shares[by])
    once = _once(record, of) / in_progress_fs
    if once >= lost:
        why = f"a message in each phase, with nothing beside it, takes {_percent(once)} of the time"
        return HeldBy(by="latency", why=why)
    if shares["links"] >= max(lost, shares["transfer"]):
        if calls is None:
            return _phases(record, in_progress_fs)
        why = f"chunks waited for them for {_percent(shares['links'])} of their time in phases"
        return HeldBy(by="links", why=why)
    return _part(record, of, "transfer", shares["transfer"]) if shares["transfer"] >= lost else None


def _busiest(record: RunRecord, time_fs: float) -> HeldBy | None:
    """The resource that was busy for `BUSY` of the time, if there is one."""
    found = []
    if len(record.link_busy_fs):
        link = int(record.link_busy_fs.argmax())
        name = f"links of dimension {record.links[link].dimension}"
        found.append((float(record.link_busy_fs[link]), name))
    found += _units(record)
    busy_fs, name = max(found, default=(0.0, ""))
    if busy_fs < BUSY * time_fs:
        return None
    return HeldBy(by=name, why=f"busy for {_percent(busy_fs / time_fs)} of the time")


def late_share(record: RunRecord, calls: Sequence[int]) -> float:
    """Share of the time of collectives that passes until the last node has begun them."""
    waited = lasted = 0.0
    for graph, task in (record.calls[number] for number in calls):
        rows = record.graph_of == graph
        starts, ends = record.task_start_fs[rows, task], record.task_end_fs[rows, task]
        if len(starts) and (starts >= 0).all():
            waited += float(starts.max() - starts.min())
            lasted += float(ends.max() - starts.min())
    return waited / lasted if lasted else 0.0


def _units(record: RunRecord) -> list[tuple[float, str]]:
    """Busy time of a server of each unit of the endpoints, on the busiest node."""
    return [
        (float(record.unit_busy_fs[number].max()) / servers, name)
        for number, (name, servers) in enumerate(zip(record.unit_names, record.unit_servers))
    ]


def _parts(
    record: RunRecord, of: CallPhases, lost: float
) -> tuple[dict[str, float], float]:
    """The time of chunks in phases, by part and in total; admission is not a reason if chunks wait
    for it for less than *lost* of their life."""
    latency = of.latency_fs.astype(np.float64).sum(axis=0)
    network = of.network_delay_fs.astype(np.float64).sum(axis=0)
    endpoint = of.bus_delay_fs.astype(np.float64).sum(axis=0)
    endpoint += of.messages.astype(np.float64).sum(axis=0) * record.receive_fs
    spent = of.time_fs.astype(np.float64).sum(axis=0)
    # Busy times of links are known for all calls and phases together only.
    beside = np.maximum(0.0, network - latency)
    every = record.phases.network_delay_fs - record.phases.latency_fs
    every_fs = np.maximum(0.0, every.astype(np.float64).sum(axis=0)).sum()
    transfer = beside * min(1.0, float(record.link_busy_fs.sum()) / max(1.0, every_fs))
    links = beside - transfer
    whole = np.maximum(1.0, latency + endpoint + links + transfer)
    idle = latency + endpoint >= links
    # Chunks that are held back before one phase are missing in all of them.
    waited = float(of.queue_delay_fs.sum())
    held_back = waited >= lost * (waited + spent.sum())
    parts = {
        "admission": np.where(idle & held_back, latency + endpoint, 0.0),
        "latency": np.where(idle & ~held_back, latency, 0.0),
        "endpoint": np.where(idle & ~held_back, endpoint, 0.0),
        "links": links,
        "transfer": transfer,
    }
    times = {name: float((spent * part / whole).sum()) for name, part in parts.items()}
    return times, float(spent.sum())


def _admission(record: RunRecord, waiters: CallPhases, time_fs: float) -> HeldBy:
    """The limit on chunks that was fullest on average; *waiters* are the calls whose waiting is
    reported."""
    waited, spent = float(waiters.queue_delay_fs.sum()), float(waiters.time_fs.sum())
    share, what = _percent(waited / (waited + spent)), admission_limit(record, time_fs)
    return HeldBy(by="admission", why=f"chunks waited for {share} of their time: {what}")


def admission_limit(record: RunRecord, time_fs: float) -> str:
    """The limit on chunks that was fullest on average, with the chunks of all calls, in words; a
    run of *time_fs*."""
    of, bounds = record.phases, record.admission
    assert bounds is not None
    rows = len(record.graph_of)
    running = of.time_fs.astype(np.float64) / rows / time_fs  # chunks in each phase, in the mean
    full: list[tuple[float, str]] = []
    if bounds.places:
        fewest, most = min(bounds.places), max(bounds.places)
        of_each = "" if fewest == most else f"{fewest} to "
        text = f"{of_each}{number_of(most, 'place')} in a queue, scheduler.concurrency"
        full.append((float(running.sum()) / sum(bounds.places), text))
    for index, contexts in enumerate(bounds.contexts):
        if index + 1 < running.shape[1]:
            used = float(running[:, index + 1].sum()) / contexts
            full.append((used, f"{number_of(contexts, 'context')} for a phase"))
    waiting = of.queue_delay_fs.astype(np.float64) / rows / time_fs
    for index, (name, size_bytes) in enumerate(bounds.rooms):
        # In a phase a chunk holds a place of it and of the next, the latter until it moves on.
        chunks = np.zeros(len(running))
        for column, held_in in ((index, running), (index + 1, running), (index + 1, waiting)):
            if 0 < column < held_in.shape[1] and (held_in is running or index > 0):
                chunks += held_in[:, column]
        used = float((chunks * bounds.held_bytes[:, index]).sum()) / size_bytes
        full.append((used, f"{name}, {size_bytes:.0f} bytes"))
    ready = float(of.queue_delay_fs[:, 0].sum())
    if bounds.ready and ready > float(of.queue_delay_fs[:, 1:].sum()):
        full = [(1.0, "scheduler.threshold")]
    return max(full, default=(0.0, "nothing that is known"))[1]


def _once(record: RunRecord, of: CallPhases) -> float:
    """Time that a message needs in each phase beside its time on links."""
    sent = np.maximum(1, of.messages)
    beside = of.latency_fs + of.bus_delay_fs + of.messages * record.receive_fs
    return float((beside / sent).sum())


def _phases(record: RunRecord, time_fs: float) -> HeldBy | None:
    busy = record.link_busy_fs.astype(np.float64) / time_fs
    owner = np.array([link.dimension for link in record.links])
    of_each = [float(busy[owner == each].max()) for each in np.unique(owner)]
    if int((record.phases.time_fs.sum(axis=0) > 0).sum()) < 2 or sum(of_each) < BUSY:
        return None
    shares = ", ".join(_percent(each) for each in of_each)
    why = f"chunks waited for links, which were busy for {shares} of the time by dimension"
    return HeldBy(by="phases", why=why)


def _part(record: RunRecord, of: CallPhases, by: str, share: float) -> HeldBy:
    """A part of the time in phases as the reason, with the figures behind it."""
    messages = max(1, int(of.messages.sum()))
    if by == "endpoint":
        _, unit = max(_units(record), default=(0.0, ""))
        mean_us = float(of.bus_delay_fs.sum()) / messages / 1e9 + record.receive_fs / 1e9
        why = f"{mean_us:.3g} us for a message, {_percent(share)} of the time of chunks"
        if unit:
            why += f"; {unit} is busiest"
        return HeldBy(by=by, why=why)
    if by == "latency":
        mean_us = float(of.latency_fs.sum()) / messages / 1e9
        why = f"{mean_us:.3g} us on the way of a message, {_percent(share)} of the time of chunks"
        return HeldBy(by=by, why=f"{why}, of which few waited to be admitted")
    size_bytes = float(record.link_bytes.sum()) / messages
    why = f"messages, with {size_bytes:.0f} bytes on links each, are passed on whole"
    return HeldBy(by="messages", why=f"{why}, {_percent(share)} of the time of chunks")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
