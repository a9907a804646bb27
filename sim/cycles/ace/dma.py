# SPDX-License-Identifier: Apache-2.0
"""TX DMA and RX DMA with their AXI masters, and the memory behind them."""

from hw.ace.dma import STORE_BEATS
from hw.ace.sram import READ_LATENCY
from sim.cycles.ace.events import (
    ADDRESS,
    CLOSE,
    DATA,
    DISPATCH,
    FAULT,
    LOADED,
    NOW,
    STORE,
    STORED,
    TOO_MANY_REPORTS,
    WALK,
    post,
)
from sim.cycles.ace.occupancy import MEMORY_READ, MEMORY_WRITE, worked
from sim.cycles.ace.partitions import hand_job, leave, oldest
from sim.cycles.ace.sram import request
from sim.cycles.ace.state import BURST, CUTS, OUTSTANDING, REPORTS, SEGMENTS, UNDER_WAY
from sim.cycles.queues import NEVER
from sim.cycles.stalls import unstalled, used
from sim.native.mark import compiled

__all__ = [
    "address", "data", "fetched", "moved", "reported", "store", "walk", "written",
]

SKID_BEATS = 2  # that the AXI reader has taken and the TX DMA has not written
DRAIN_LATENCY = 2  # beats FIFO and skid buffer of the AXI writer
ACKNOWLEDGE_LATENCY = 2  # arbiter of the reports, counter of the dispatcher
_SEGMENTS_FIFO = 4  # segments of the RX DMA between walker and SRAM


@compiled
def _start_walk(d, job, now):
    """The walker takes a job in cycle *now*; its first segment is there in the next one."""
    d.active = 1
    d.block = job.first
    d.last_block = job.last
    d.row = job.row
    d.address = job.address
    d.stride = job.stride
    d.beats = job.beats
    d.tail_block = job.tail_block
    d.tail = job.tail
    d.tag = job.tag
    d.segment_at = now + 1


@compiled
def _segment_beats(d, lanes):
    if d.block < d.tail_block:
        return d.beats
    return -(-d.tail // lanes) if d.block == d.tail_block else 0


@compiled
def _next_segment(d, lanes):
    """The splitter accepts the walker's segment; returns the cycle."""
    beats = _segment_beats(d, lanes)
    cycle = max(d.segment_at, d.splitter_free) if beats else d.segment_at
    d.left = beats
    d.burst_row = d.row
    d.burst_address = d.address
    d.burst_tag = d.tag
    d.final = d.block == d.last_block
    d.block += 1
    d.row += d.beats
    d.address += d.stride
    d.segment_at = cycle + 1
    if d.final:
        d.active = 0
    return cycle


@compiled
def _next_burst(d):
    """Beats of the next burst of the segment in the splitter."""
    beats = min(d.left, BURST - (d.burst_address & (BURST - 1)))
    d.left -= beats
    d.burst_address += beats
    return beats


@compiled
def _beat(d, cycle):
    """The first cycle from *cycle* on in which the memory moves a beat."""
    if d.pace > 0:
        cycle = max(cycle, d.pace_next >> 16)
    cycle = unstalled(d.stall_key[1], d.stall_below, cycle)
    d.pace_next = used(d.pace_next, d.pace, cycle)
    return cycle


# ---- Reports of DMAs that chunks are loaded or stored: one per cycle, of all in turn.


@compiled
def _report(s, kind, node, m, d, cycle, tag):
    """A DMA reports a chunk, to be known from *cycle* on."""
    if d.report_count == REPORTS:
        s.registers[FAULT] = TOO_MANY_REPORTS
        return
    at = (d.report_head + d.report_count) % REPORTS
    d.report_count += 1
    d.report_at[at] = cycle
    d.report_tag[at] = tag
    post(s, cycle, kind, node, m)


@compiled
def reported(s, dmas, kind, node, m, now):
    """The chunk that DMA *m* reports, or -1 if another one has its turn."""
    own = s.node[node]
    which = kind - STORED  # LOADED follows it
    masters = s.c[0].memory_ports
    turn = own.report_free[which] <= now
    for n in range(1, masters):
        other = (own.reporter[which] + n) % masters
        if other == m or not turn:
            break
        d = dmas[node, other]
        turn = d.report_count == 0 or d.report_at[d.report_head] > now
    if not turn:
        post(s, now + 1, kind, node, m)
        return -1
    own.reporter[which] = m
    own.report_free[which] = now + 1
    d = dmas[node, m]
    tag = d.report_tag[d.report_head]
    d.report_head = (d.report_head + 1) % REPORTS
    d.report_count -= 1
    return tag


# ---- TX DMA: memory to SRAM.


@compiled
def walk(s, node, m, now):
    """The walker of the TX DMA takes the next job."""
    d = s.loader[node, m]
    if d.active or d.jobs == 0 or now < d.segment_at:
        return
    job = d.waiting[d.job_head]
    if job.at > now:
        return
    d.job_head = (d.job_head + 1) % 4
    d.jobs -= 1
    post(s, now + 1, DISPATCH, node, 0)
    _start_walk(d, job, now)
    _segments(s, node, m, now)


@compiled
def _segments(s, node, m, now):
    """Cut the next segment into bursts, when the splitter is free; let those without beats, with
    which jobs may end, pass in any case."""
    d = s.loader[node, m]
    lanes = s.c[0].lanes
    while d.active:
        if _segment_beats(d, lanes) == 0:
            if d.passed_count == SEGMENTS:
                return
            cycle = _pass(d)
            final = 1
        elif d.left:
            return
        else:
            cycle = _next_segment(d, lanes)
            final = d.final
            # The previous address may still be on the bus.
            d.bus_free = max(d.bus_free, cycle + 1)
            post(s, max(d.bus_free, now + 1), ADDRESS, node, m)
        if final:
            post(s, max(cycle, now) + 1, WALK, node, m)
        if d.left == 0:
            _follow(s, node, m, now)


@compiled
def _pass(d):
    """The segments without beats that end a job go, one per cycle; returns the last cycle."""
    passed = d.passed[(d.passed_head + d.passed_count) % SEGMENTS]
    d.passed_count += 1
    passed.beats = d.block - d.last_block - 1
    passed.tag = d.tag
    d.segment_at -= passed.beats
    passed.due = d.segment_at
    d.active = 0
    return passed.due - 1


@compiled
def _follow(s, node, m, now):
    """Segments without beats follow the bursts of those before them."""
    d = s.loader[node, m]
    while d.passed_count:
        passed = d.passed[d.passed_head]
        _put_burst(s, node, m, max(passed.due, now + 1), passed.beats, 1, passed.tag)
        d.passed_head = (d.passed_head + 1) % SEGMENTS
        d.passed_count -= 1


@compiled
def _put_burst(s, node, m, due, beats, final, tag):
    """Enter an outstanding burst; with *beats* below zero, as many segments without any."""
    d = s.loader[node, m]
    burst = d.under_way[(d.open_head + d.open_count) % UNDER_WAY]
    d.open_count += 1
    d.to_come += 1
    burst.due = due
    burst.row = d.burst_row
    burst.beats = burst.left = beats
    burst.final = final
    burst.tag = tag
    if beats > 0:
        d.burst_row += beats
    if d.to_come == 1:
        post(s, due, DATA, node, m)


@compiled
def address(s, node, m, now):
    """The TX DMA puts the address of the next burst on the bus."""
    d = s.loader[node, m]
    if d.left == 0 or now < d.bus_free or d.acknowledged[d.bursts % OUTSTANDING] >= now:
        return
    d.acknowledged[d.bursts % OUTSTANDING] = NEVER
    d.bursts += 1
    accepted = unstalled(d.stall_key[0], d.stall_below, now + 1)
    d.bus_free = accepted
    beats = _next_burst(d)
    due = accepted + s.c[0].memory_read
    _put_burst(s, node, m, due, beats, d.final and d.left == 0, d.burst_tag)
    if d.left:
        post(s, accepted, ADDRESS, node, m)
    else:
        d.splitter_free = now + 1
        _follow(s, node, m, now)
        _segments(s, node, m, now)


@compiled
def data(s, node, m, now):
    """Beats may come from memory: as many as the skid buffer has room for, and the one behind it.
    """
    d = s.loader[node, m]
    while d.to_come:
        burst = d.under_way[(d.open_head + d.open_count - d.to_come) % UNDER_WAY]
        if burst.beats < 0:
            # Segments without beats go when they are in front, one per cycle, and the last one,
            # which waits in the registers in front of SRAM, when the walker has come to it.
            c = s.c[0]
            if d.ahead or d.passing:
                return
            d.passing = 1
            ready = max(d.stepped - burst.beats, burst.due, now)
            request(s, node, c.first_writer + c.ports + m, -1, 1, ready)
            d.to_come -= 1
        elif d.ahead == SKID_BEATS:
            return
        else:
            _arrive(s, node, m, burst)


@compiled
def _arrive(s, node, m, burst):
    """The next beat of a burst arrives, held back by the one before the last that could not move
    on."""
    c = s.c[0]
    d = s.loader[node, m]
    offered = _beat(d, max(burst.due, d.arrives + 1))
    d.arrives = max(offered, (d.moved if d.ahead else d.moved_before) + 1)
    d.ahead += 1
    burst.beats -= 1
    if burst.beats == 0:
        d.to_come -= 1
        d.acknowledged[d.beats_done % OUTSTANDING] = d.arrives
        d.beats_done += 1
        post(s, max(d.arrives + 1, s.registers[NOW]), ADDRESS, node, m)
    client = c.first_writer + c.ports + m
    request(s, node, client, burst.row, 0, d.arrives + 1)
    burst.row += 1


@compiled
def moved(s, node, m, empty, now):
    """A beat asks SRAM for its place from the next cycle on, or a job ends without one."""
    d = s.loader[node, m]
    d.stepped = now
    if empty:
        d.passing = 0
    else:
        d.ahead -= 1
        d.moved_before = d.moved
        d.moved = now
    data(s, node, m, now)


@compiled
def written(s, node, m, now):
    """A beat is written to SRAM, or a job ends without one."""
    d = s.loader[node, m]
    burst = d.under_way[d.open_head]
    if burst.left < 0:
        burst.left = 0
    else:
        worked(s, node, MEMORY_READ, now, 1)
        burst.left -= 1
    if burst.left == 0:
        d.open_head = (d.open_head + 1) % UNDER_WAY
        d.open_count -= 1
        if burst.final:
            _report(s, LOADED, node, m, d, now + s.c[0].report, burst.tag)


# ---- RX DMA: SRAM to memory.


@compiled
def store(s, node, m, now):
    """Arbiter in front of the RX DMA, and its walker."""
    c = s.c[0]
    d = s.storer[node, m]
    if d.held and d.held_at <= now and not d.active and now >= d.segment_at:
        f = d.held - 1
        if c.phases:
            _start_walk(d, s.fsm[node, f].finals[d.held_result], now)
        else:
            _start_walk(d, s.fsm[node, f].results[d.held_result], now)
        d.held = 0
        _read(s, node, m, now)
    if not d.held and c.phases:
        _take_result(s, node, m, now)
    elif not d.held:
        for n in range(1, c.fsms + 1):
            f = (d.sender + n) % c.fsms
            k = s.fsm[node, f]
            if f % c.memory_ports == m and k.store and k.store_at <= now:
                d.sender = f
                d.held = f + 1
                d.held_at = now + 1
                d.held_result = k.store - 1
                k.store = 0
                post(s, now, CLOSE, node, f)
                post(s, now + 1, STORE, node, m)
                break


@compiled
def _take_result(s, node, m, now):
    """Take the result of the oldest chunk of the last phase, if it is for this DMA."""
    c = s.c[0]
    d = s.storer[node, m]
    chunk = oldest(s, node, c.phases - 1, now)
    if chunk < 0:
        return
    x = s.context[node, chunk >> 4, chunk & 15]
    g = x.fsm_after
    if g % c.memory_ports != m:
        return
    job = s.fsm[node, g].finals[x.slot_after]
    hand_job(s.fsm[node, chunk >> 4].results[chunk & 15], job)
    job.row += x.results
    job.tag = g << 4 | x.slot_after
    d.held = g + 1
    d.held_at = now + 1
    d.held_result = x.slot_after
    leave(s, node, c.phases - 1, now)
    post(s, now + 1, STORE, node, m)


@compiled
def _cut(s, node, m, now):
    """Walker and splitter of the RX DMA go as far ahead of the reads as there is room: four
    segments wait between walker and SRAM, and so many bursts for acknowledgements."""
    c = s.c[0]
    d = s.storer[node, m]
    while d.cut - d.taken < CUTS:
        if d.left == 0:
            if not d.active or d.pushed - d.segments == _SEGMENTS_FIFO:
                return
            d.segment_at = max(d.segment_at, d.ends[d.pushed % _SEGMENTS_FIFO] + 1)
            d.accepted = _next_segment(d, c.lanes)
            if d.final:
                post(s, max(d.accepted + 1, now), STORE, node, m)
            d.burst_free = max(d.burst_free, d.accepted + 1)
            if d.left:
                at = d.pushed % _SEGMENTS_FIFO
                d.walk_beats[at], d.walk_row[at] = d.left, d.burst_row
                d.walk_at[at] = d.accepted + 1
                d.pushed += 1
            beats = 0
        if d.left:
            if d.issued - d.bursts == OUTSTANDING:
                return
            at = max(d.burst_free, d.acknowledged[d.issued % OUTSTANDING] + 1)
            d.burst_free = unstalled(d.stall_key[0], d.stall_below, at + 1)
            d.issued += 1
            beats = _next_burst(d)
            if d.left == 0:
                d.splitter_free = at + 1
        cut = s.storer[node, m].cuts[d.cut % CUTS]
        cut.accepted = d.accepted
        cut.beats = beats
        cut.last = d.left == 0
        cut.final = d.final
        cut.tag = d.burst_tag
        if beats:
            cut.at = at
            cut.free = d.burst_free
        d.cut += 1
        _take(s, node, m)


@compiled
def _read(s, node, m, now):
    """Rows of the next beats go into the queue in front of SRAM, as far as there are places for
    beats."""
    c = s.c[0]
    d = s.storer[node, m]
    _cut(s, node, m, now)
    while d.ahead < STORE_BEATS:
        if d.to_read == 0:
            if d.segments == d.pushed:
                return
            at = d.segments % _SEGMENTS_FIFO
            d.to_read, d.read_row, d.from_cycle = d.walk_beats[at], d.walk_row[at], d.walk_at[at]
        place = d.writes[(d.count + d.ahead) % STORE_BEATS]
        d.moved = max(d.from_cycle, d.moved + 1, place)
        d.ahead += 1
        request(s, node, 2 * c.ports + m, d.read_row, 0, max(d.moved + 1, now))
        d.read_row += 1
        d.to_read -= 1
        if d.to_read == 0:
            d.ends[d.segments % _SEGMENTS_FIFO] = d.moved
            d.segments += 1
            _cut(s, node, m, now)


@compiled
def _take(s, node, m):
    """The next burst whose beats are read; segments without any are closed on the way."""
    d = s.storer[node, m]
    while d.piece == 0 and d.taken < d.cut:
        cut = s.storer[node, m].cuts[d.taken % CUTS]
        d.taken += 1
        d.piece = cut.beats
        d.burst_at, d.addressed = cut.at, cut.free
        d.last_piece, d.closes, d.read_tag = cut.last, cut.final, cut.tag
        if cut.beats == 0:
            _close_segment(s, node, m, d, cut.accepted + 1)


@compiled
def fetched(s, node, m, now):
    """A beat has been read from SRAM; it is written to memory when its burst has begun."""
    c = s.c[0]
    d = s.storer[node, m]
    d.ahead -= 1
    worked(s, node, MEMORY_WRITE, now, 1)
    d.piece -= 1
    # Into the writer's skid buffer, which holds two beats, and from there to memory.
    before = d.writes[(d.count - 1) % STORE_BEATS] - DRAIN_LATENCY
    entered = max(now + READ_LATENCY, d.burst_at, before + 1, d.write_before)
    earliest = max(entered + DRAIN_LATENCY, d.addressed + 1, d.last_write + 1)
    d.write_before = d.last_write
    d.last_write = _beat(d, earliest)
    d.writes[d.count % STORE_BEATS] = entered + DRAIN_LATENCY
    d.count += 1
    if d.piece == 0:
        answered = max(d.last_write + c.memory_write, d.answered + 1)
        answered = d.answered = unstalled(d.stall_key[2], d.stall_below, answered)
        d.acknowledged[d.bursts % OUTSTANDING] = answered
        d.bursts += 1
        if d.last_piece:
            _close_segment(s, node, m, d, answered + 1)
        _take(s, node, m)
    _read(s, node, m, now + 1)


@compiled
def _close_segment(s, node, m, d, cycle):
    """A segment is in memory, and with the last one the chunk."""
    d.last_close = max(d.last_close + 1, cycle)
    if d.closes:
        closed = max(d.last_close, s.registers[NOW])
        _report(s, STORED, node, m, d, closed + ACKNOWLEDGE_LATENCY, d.read_tag)
