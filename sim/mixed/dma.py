"""TX DMA and RX DMA with their AXI masters, and the memory behind them."""

from numba import njit

from hw.ace.sram import READ_LATENCY
from sim.mixed.events import (
    ADDRESS,
    CLOSE,
    DATA,
    DISPATCH,
    LOADED,
    READ,
    STORE,
    STORED,
    WALK,
    post,
)
from sim.mixed.sram import take_bank
from sim.mixed.state import BURST, NEVER, OUTSTANDING

__all__ = ["address", "data", "read", "store", "walk"]

_BEATS_FIFO = READ_LATENCY + 4  # beats of the RX DMA between SRAM and memory


@njit(cache=True)
def _start_walk(d, job, now):  # type: ignore[no-untyped-def]
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


@njit(cache=True)
def _segment_beats(d, lanes):  # type: ignore[no-untyped-def]
    if d.block < d.tail_block:
        return d.beats
    return -(-d.tail // lanes) if d.block == d.tail_block else 0


@njit(cache=True)
def _next_segment(d, lanes):  # type: ignore[no-untyped-def]
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


@njit(cache=True)
def _next_burst(d):  # type: ignore[no-untyped-def]
    """Beats of the next burst of the segment in the splitter."""
    beats = min(d.left, BURST - (d.burst_address & (BURST - 1)))
    d.left -= beats
    d.burst_address += beats
    return beats


# ---- TX DMA: memory to SRAM.


@njit(cache=True)
def walk(s, node, m, now):  # type: ignore[no-untyped-def]
    """The walker of the TX DMA takes the next job."""
    d = s.loader[node, m]
    if d.active or d.jobs == 0 or now < d.segment_at:
        return
    job = s.load_jobs[node, m, d.job_head]
    if job.at > now:
        return
    d.job_head = (d.job_head + 1) % s.load_jobs.shape[2]
    d.jobs -= 1
    post(s, now + 1, DISPATCH, node, 0)
    _start_walk(d, job, now)
    if d.left == 0:
        _segments(s, node, m, now)


@njit(cache=True)
def _segments(s, node, m, now):  # type: ignore[no-untyped-def]
    """Segments without beats pass through; of the next one bursts are made."""
    d = s.loader[node, m]
    while d.active and d.left == 0:
        cycle = _next_segment(d, s.c[0].lanes)
        if d.left:
            d.bus_free = cycle + 1
            post(s, cycle + 1, ADDRESS, node, m)
        elif d.final:
            # It follows what is on its way; nothing else is reported before that.
            _put_burst(s, node, m, cycle + 1, 0, 1)
        if d.final:
            post(s, cycle + 1, WALK, node, m)


@njit(cache=True)
def _put_burst(s, node, m, due, beats, final):  # type: ignore[no-untyped-def]
    d = s.loader[node, m]
    burst = s.bursts[node, m, (d.open_head + d.open_count) % s.bursts.shape[2]]
    d.open_count += 1
    burst.due = due
    burst.row = d.burst_row
    burst.beats = beats
    burst.final = final
    burst.tag = d.burst_tag
    d.burst_row += beats
    if d.open_count == 1:
        post(s, max(due, d.beat_free), DATA, node, m)


@njit(cache=True)
def address(s, node, m, now):  # type: ignore[no-untyped-def]
    """The TX DMA puts the address of the next burst on the bus."""
    d = s.loader[node, m]
    if d.left == 0 or now < d.bus_free or d.acknowledged[d.bursts % OUTSTANDING] >= now:
        return
    d.acknowledged[d.bursts % OUTSTANDING] = NEVER
    d.bursts += 1
    d.bus_free = now + 1
    beats = _next_burst(d)
    _put_burst(s, node, m, now + 1 + s.c[0].memory_read, beats, d.final and d.left == 0)
    if d.left:
        post(s, now + 1, ADDRESS, node, m)
    else:
        d.splitter_free = now + 1
        _segments(s, node, m, now)


@njit(cache=True)
def data(s, node, m, now):  # type: ignore[no-untyped-def]
    """Up to a packet of beats comes from memory and goes to SRAM."""
    c = s.c[0]
    d = s.loader[node, m]
    if d.open_count == 0 or now < d.beat_free:
        return
    burst = s.bursts[node, m, d.open_head]
    if burst.due > now:
        return
    arrives = now - 1
    moves, before = d.move_free, d.move_before
    for _ in range(min(burst.beats, c.beats)):
        # A beat that cannot move on holds one more back.
        arrives = max(arrives + 1, before + 1)
        before = moves
        moves = take_bank(s, node, 1, burst.row, max(arrives + 1, moves + 1))
        burst.row += 1
        burst.beats -= 1
    d.beat_free = arrives + 1
    d.move_free, d.move_before = moves, before
    if burst.beats == 0:
        if arrives >= now:
            d.acknowledged[d.beats_done % OUTSTANDING] = arrives
            d.beats_done += 1
            post(s, arrives + 1, ADDRESS, node, m)
        d.open_head = (d.open_head + 1) % s.bursts.shape[2]
        d.open_count -= 1
        if burst.final:
            post(s, max(moves, now) + c.report, LOADED, node, burst.tag)
        if d.open_count == 0:
            return
        burst = s.bursts[node, m, d.open_head]
    post(s, max(burst.due, d.beat_free), DATA, node, m)


# ---- RX DMA: SRAM to memory.


@njit(cache=True)
def store(s, node, m, now):  # type: ignore[no-untyped-def]
    """Arbiter in front of the RX DMA, and its walker."""
    c = s.c[0]
    d = s.storer[node, m]
    if d.held and d.held_at <= now and not d.active and now >= d.segment_at:
        f = d.held - 1
        _start_walk(d, s.store_jobs[node, f], now)
        d.held = 0
        post(s, max(now + 2, d.last_read + 1), READ, node, m)
    if not d.held:
        for n in range(1, c.fsms + 1):
            f = (d.sender + n) % c.fsms
            k = s.fsm[node, f]
            if f % c.memory_ports == m and k.store and k.store_at <= now:
                d.sender = f
                d.held = f + 1
                d.held_at = now + 1
                s.store_jobs[node, f] = s.result_jobs[node, f, k.store - 1]
                k.store = 0
                post(s, now, CLOSE, node, f)
                post(s, now + 1, STORE, node, m)
                break


@njit(cache=True)
def read(s, node, m, now):  # type: ignore[no-untyped-def]
    """Up to a packet of beats is read from SRAM and written to memory."""
    c = s.c[0]
    d = s.storer[node, m]
    if now <= d.last_read:
        return
    if d.piece == 0:
        if d.left == 0:
            if not d.active:
                return
            # Four segments wait between walker and SRAM.
            d.segment_at = max(d.segment_at, d.ends[d.segments % 4] + 1)
            cycle = _next_segment(d, c.lanes)
            d.accepted = cycle
            d.burst_free = cycle + 1
            if d.final:
                post(s, max(cycle + 1, now), STORE, node, m)
            if d.left == 0:
                d.last_close = max(d.last_close + 1, cycle + 1)
                if d.final:
                    _stored(s, node, d, d.last_close)
                post(s, max(cycle + 1, d.last_read + 1), READ, node, m)
                return
            if cycle + 1 > now:
                d.piece = _begin_burst(d)
                post(s, cycle + 1, READ, node, m)
                return
        d.piece = _begin_burst(d)
    reads = max(d.last_read, d.accepted)
    for _ in range(min(d.piece, c.beats)):
        reads = max(reads + 1, d.writes[d.count % _BEATS_FIFO])
        reads = take_bank(s, node, 0, d.burst_row, reads)
        d.burst_row += 1
        d.last_write = max(reads + READ_LATENCY + c.drain, d.burst_at + c.drain, d.last_write + 1)
        d.writes[d.count % _BEATS_FIFO] = d.last_write
        d.count += 1
        d.piece -= 1
    d.last_read = reads
    if d.piece == 0:
        answered = d.last_write + c.memory_write
        d.acknowledged[d.bursts % OUTSTANDING] = answered
        d.bursts += 1
        if d.left == 0:
            d.splitter_free = d.burst_at + 1
            d.ends[d.segments % 4] = reads
            d.segments += 1
            d.last_close = max(d.last_close + 1, answered + 1)
            if d.final:
                _stored(s, node, d, d.last_close)
    post(s, reads + 1, READ, node, m)


@njit(cache=True)
def _begin_burst(d):  # type: ignore[no-untyped-def]
    beats = _next_burst(d)
    d.burst_at = max(d.burst_free, d.acknowledged[d.bursts % OUTSTANDING] + 1)
    d.burst_free = d.burst_at + 1
    return beats


@njit(cache=True)
def _stored(s, node, d, closed):  # type: ignore[no-untyped-def]
    post(s, closed + s.c[0].acknowledge, STORED, node, d.burst_tag)
