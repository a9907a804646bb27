"""The event loop: instances, steps, resources and time.

A few words are all the kernel knows. A *chunk* passes its *phases* on each node. In a phase a node
runs a *program* once per message: wait for a counter, send, and so on. A message occupies the
*units* of the sending endpoint (stages before), the *links* of its route, and the units of the
receiving endpoint (stages after); then it counts at the receiver. *Queues* bound how many chunks
of a node are in a phase, *rooms* how many bytes. *Tasks* are computations and collective calls.

Resources serve in the order of requests. A request is an event, so that order is that of time and,
at equal times, of keys; see :mod:`sim.events.kernel.queue`.
"""

import numpy as np

from sim.events.kernel.packets import PACKET, inject, packet_event
from sim.events.kernel.queue import enter, pop_bucket, push
from sim.native import compiled

__all__ = [
    "DONE",
    "LINK_SPAN",
    "NUMBERS",
    "PHASE_SPAN",
    "TOO_MANY_CHUNKS",
    "TOO_MANY_EVENTS",
    "WRONG_COUNT",
    "run",
]

# Kinds of events, the lowest bits of the key. Above them: stage, entry, message, phase, chunk
# (or task), so that of two things at one time the older chunk's comes first.
ARRIVE, AFTER, BEFORE, HOP, TASK_END, TASK_START, CHUNK_STAGE = range(7)  # 7: PACKET
STAGE_AT, ENTRY_AT, MESSAGE_AT, PHASE_AT, CHUNK_AT = 3, 11, 28, 38, 42
STAGE_MASK, ENTRY_MASK, MESSAGE_MASK, PHASE_MASK = 255, (1 << 17) - 1, 1023, 15
LIMITS = {
    "hops": 255,
    "entries": 1 << 17,
    "messages": 1 << 10,
    "phases": 1 << 4,
    "chunks": 1 << 21,
}

# Work at one node and time.
ADVANCE, PHASE_END, REQUEST, ADMIT, BEGIN, CHUNK_END, TASK_DONE, TASK_READY, DISPATCH = range(9)

# Entries of State.numbers.
NODES, WIDTH, QUEUES, UNITS, ROOMS, PLACES, MAX_TASKS, THRESHOLD, ISSUE, RECEIVE_FS = range(10)
BUCKET_FS, BUCKETS, RECORD, CUT_THROUGH_BYTES, FREE_SLOTS, NOW, EVENTS, SPANS = range(10, 18)
FIRST_TRANSFER, RESERVE, CHECK, WRONG = range(18, 22)
NUMBERS = 24

# Kinds of spans.
LINK_SPAN, PHASE_SPAN = 0, 1

# Phases of a chunk at a node when it is in none, and whether it has been admitted to its phase.
NOT_ISSUED, IN_READY_QUEUE, ENDED = -1, -2, -3
WAITS, RUNS, MOVES = range(3)  # MOVES: between memory and engine

DONE, TOO_MANY_CHUNKS, TOO_MANY_EVENTS, WRONG_COUNT = range(4)
COMPUTE, COLLECTIVE, SEND, RECEIVE, DELAY = range(5)
STACK = 1 << 16


@compiled
def run(s, p):
    """Run until nothing is left to do; returns DONE or what there was no room for.

    *p* is the :class:`~sim.events.kernel.packets.PacketState`, or None for messages that travel
    whole. Each is compiled apart.
    """
    number = s.numbers
    events, buckets, heap, cache, registers = s.events, s.buckets, s.heap, s.cache, s.registers
    n_nodes = number[NODES]
    width = number[WIDTH]
    n_queues = number[QUEUES]
    n_rooms = number[ROOMS]
    places = number[PLACES]
    max_tasks = number[MAX_TASKS]
    receive_fs = number[RECEIVE_FS]
    bucket_fs = number[BUCKET_FS]
    record = number[RECORD]
    reserve = number[RESERVE]
    check = number[CHECK]
    forced = np.int64(-1)
    cut_through = number[CUT_THROUGH_BYTES]
    first_hop = HOP if p is None else PACKET
    ready_queue = n_queues  # the queue of chunks that have not been issued
    work = s.work
    handled = number[EVENTS]
    if handled == 0:
        _begin(s)
    event_limit = len(events) - (1 << 20)
    bucket_limit = len(buckets) - (1 << 20)

    while registers[0] > 0:
        bucket = pop_bucket(buckets, heap, registers)
        now = buckets[bucket].time
        key = buckets[bucket].key
        event = buckets[bucket].head
        # Free the bucket at once; a time that cannot come again keeps the cache from using it.
        buckets[bucket].time = -1
        buckets[bucket].head = registers[4]
        registers[4] = bucket
        if registers[1] > event_limit or registers[3] > bucket_limit:
            return TOO_MANY_EVENTS
        kind = key & 7
        stage = (key >> STAGE_AT) & STAGE_MASK
        entry = (key >> ENTRY_AT) & ENTRY_MASK
        message = (key >> MESSAGE_AT) & MESSAGE_MASK
        phase = (key >> PHASE_AT) & PHASE_MASK
        chunk = key >> CHUNK_AT

        while event >= 0:
            node = events[event].node
            following = events[event].next
            events[event].next = registers[2]
            registers[2] = event
            event = following
            handled += 1
            depth = 0

            if kind == ARRIVE:
                counter = s.entries[entry].slot
                if counter >= 0:
                    at = s.chunks[chunk].slot * n_nodes + node
                    row = s.chunks[chunk].phase + phase
                    place = at * width + s.phases[row].state + message * s.phases[row].width
                    s.counters[place + 1 + counter] += 1
                    if s.slot_state[at].phase == phase and s.slot_state[at].running == RUNS:
                        work[0] = ADVANCE
                        work[1] = chunk
                        work[2] = message
                        depth = 1
                elif s.entries[entry].onward >= 0:
                    # This node only passes it on.
                    row = s.chunks[chunk].phase + phase
                    s.messages[s.chunks[chunk].call * places + s.phases[row].place] += 1
                    onward = np.int64(s.entries[entry].onward)
                    out_key = (key & ~np.int64(ENTRY_MASK << ENTRY_AT)) | (onward << ENTRY_AT)
                    if s.entries[onward].before < s.entries[onward].before_end:
                        out_key |= BEFORE
                    else:
                        out_key |= first_hop
                    enter(events, buckets, heap, cache, registers, now, out_key, node)
                else:
                    # A part of a transfer; the last one ends its two tasks.
                    transfer = chunk - number[FIRST_TRANSFER]
                    s.transfers[transfer].left -= 1
                    if s.transfers[transfer].left == 0:
                        enter(events, buckets, heap, cache, registers, now,
                             (np.int64(s.transfers[transfer].send) << CHUNK_AT) | TASK_END,
                             s.transfers[transfer].source)
                        local = node * max_tasks + s.transfers[transfer].receive
                        if s.task_start[local] >= 0:
                            work[0] = TASK_DONE
                            work[1] = s.transfers[transfer].receive
                            depth = 1
                        else:
                            s.task_next[local] = 1
            elif kind == TASK_END:
                work[0] = TASK_DONE
                work[1] = chunk
                depth = 1
            elif kind == TASK_START:
                work[0] = TASK_READY
                work[1] = chunk
                depth = 1
            elif kind == CHUNK_STAGE:
                call = s.chunks[chunk].call
                if phase == 0:
                    index = s.calls[call].load + stage
                    end = s.calls[call].load_end
                else:
                    index = s.calls[call].store + stage
                    end = s.calls[call].store_end
                if index == end:
                    work[0] = BEGIN if phase == 0 else CHUNK_END
                    work[1] = chunk
                    depth = 1
                else:
                    size = s.chunks[chunk].size
                    unit = s.stages[index].unit
                    fixed = s.stages[index].fixed_fs
                    busy = fixed + np.int64(size * s.stages[index].fs_per_byte + 0.5)
                    finish = now + busy
                    if unit >= 0:
                        base = s.units[unit].base + node * s.units[unit].servers
                        best = base
                        for server in range(base + 1, base + s.units[unit].servers):
                            if s.unit_free[server] < s.unit_free[best]:
                                best = server
                        begin = max(now, s.unit_free[best])
                        finish = begin + busy
                        s.unit_free[best] = finish
                        s.unit_busy[unit * n_nodes + node] += busy
                        s.unit_bytes[unit * n_nodes + node] += np.int64(size + 0.5)
                    finish += s.stages[index].latency_fs
                    s.bus_delay[call * places + s.phases[s.chunks[chunk].phase].place] += (
                        finish - now
                    )
                    enter(events, buckets, heap, cache, registers, finish,
                         key + (1 << STAGE_AT), node)
            elif p is not None and kind == PACKET:
                if key > 0 and stage == 0:
                    row = s.chunks[chunk].phase + phase
                    size = s.chunks[chunk].size * s.entries[entry].fraction
                    if not inject(
                        p, events, buckets, heap, cache, registers, now, key, node,
                        s.entries[entry].links + node, s.entries[entry].hops,
                        p.packet_bytes[entry],
                        np.int64(np.ceil(size / s.phases[row].messages - 1e-6)),
                    ):
                        return TOO_MANY_EVENTS
                    continue
                sent, link, busy, amount, arrival = packet_event(
                    p, events, buckets, heap, cache, registers, now, key, node
                )
                if sent == -2:
                    return TOO_MANY_EVENTS
                if sent < 0:
                    continue
                s.link_bytes[link] += amount
                s.link_busy[link] += busy
                base_key = p.packet_messages[sent].key
                it = base_key >> CHUNK_AT
                row = s.chunks[it].phase + ((base_key >> PHASE_AT) & PHASE_MASK)
                if bucket_fs > 0:
                    _into_series(
                        s.link_series, s.link_dimension[link] * number[BUCKETS], number[BUCKETS],
                        bucket_fs, now, busy,
                    )
                if record and number[SPANS] < len(s.spans):
                    span = number[SPANS]
                    s.spans[span].kind = LINK_SPAN
                    s.spans[span].row = p.packet_messages[sent].node
                    s.spans[span].lane = link
                    s.spans[span].call = s.chunks[it].call
                    s.spans[span].chunk = it - s.calls[s.chunks[it].call].first_chunk
                    s.spans[span].phase = s.phases[row].place
                    s.spans[span].start_fs = now
                    s.spans[span].end_fs = now + busy
                    number[SPANS] += 1
                if arrival >= 0:
                    s.network_delay[s.chunks[it].call * places + s.phases[row].place] += (
                        arrival - p.packet_messages[sent].begun
                    )
                    last_entry = (base_key >> ENTRY_AT) & ENTRY_MASK
                    goal = s.peers[s.entries[last_entry].peers + p.packet_messages[sent].node]
                    if s.entries[last_entry].after == s.entries[last_entry].after_end:
                        enter(events, buckets, heap, cache, registers, arrival + receive_fs,
                             base_key | ARRIVE, goal)
                    else:
                        enter(events, buckets, heap, cache, registers, arrival,
                             base_key | AFTER, goal)
                continue
            else:
                # A message in the middle of its way.
                row = s.chunks[chunk].phase + phase
                size = s.chunks[chunk].size * s.entries[entry].fraction / s.phases[row].messages
                amount = np.int64(np.ceil(size - 1e-6))
                statistic = s.chunks[chunk].call * places + s.phases[row].place
                if kind == HOP:
                    hop = stage
                    link = s.links[s.entries[entry].links + hop * n_nodes + node]
                    hops = s.entries[entry].hops
                    busy = max(np.int64(amount * s.link_rate[link] + 0.5), 1)
                    begin = max(now, s.link_free[link])
                    s.link_free[link] = begin + busy
                    s.link_bytes[link] += amount
                    s.link_busy[link] += busy
                    last = hop + 1 == hops or (
                        s.links[s.entries[entry].links + (hop + 1) * n_nodes + node] < 0
                    )
                    slowest = busy
                    ahead = busy
                    if cut_through > 0:
                        for earlier in range(hop):
                            other = s.links[s.entries[entry].links + earlier * n_nodes + node]
                            slowest = max(slowest, np.int64(amount * s.link_rate[other] + 0.5))
                        if not last:
                            head = min(amount, cut_through)
                            ahead = max(np.int64(head * s.link_rate[link] + 0.5), 1)
                    arrival = begin + (slowest if last else ahead) + s.link_latency[link]
                    s.network_delay[statistic] += arrival - now
                    if bucket_fs > 0:
                        _into_series(
                            s.link_series, s.link_dimension[link] * number[BUCKETS],
                            number[BUCKETS], bucket_fs, begin, busy,
                        )
                    if record and number[SPANS] < len(s.spans):
                        span = number[SPANS]
                        s.spans[span].kind = LINK_SPAN
                        s.spans[span].row = node
                        s.spans[span].lane = link
                        s.spans[span].call = s.chunks[chunk].call
                        s.spans[span].chunk = chunk - s.calls[s.chunks[chunk].call].first_chunk
                        s.spans[span].phase = s.phases[row].place
                        s.spans[span].start_fs = begin
                        s.spans[span].end_fs = begin + busy
                        number[SPANS] += 1
                    if not last:
                        enter(events, buckets, heap, cache, registers, arrival,
                             key + (1 << STAGE_AT), node)
                    else:
                        goal = s.peers[s.entries[entry].peers + node]
                        base_key = key & ~np.int64((STAGE_MASK << STAGE_AT) | 7)
                        if s.entries[entry].after == s.entries[entry].after_end:
                            push(events, buckets, heap, cache, registers, arrival + receive_fs,
                                 base_key | ARRIVE, goal)
                        else:
                            push(events, buckets, heap, cache, registers, arrival,
                                 base_key | AFTER, goal)
                else:
                    if kind == BEFORE:
                        index = s.entries[entry].before + stage
                        end = s.entries[entry].before_end
                    else:
                        index = s.entries[entry].after + stage
                        end = s.entries[entry].after_end
                    unit = s.stages[index].unit
                    fixed = s.stages[index].fixed_fs
                    busy = fixed + np.int64(amount * s.stages[index].fs_per_byte + 0.5)
                    finish = now + busy
                    if unit >= 0:
                        base = s.units[unit].base + node * s.units[unit].servers
                        best = base
                        for server in range(base + 1, base + s.units[unit].servers):
                            if s.unit_free[server] < s.unit_free[best]:
                                best = server
                        begin = max(now, s.unit_free[best])
                        finish = begin + busy
                        s.unit_free[best] = finish
                        s.unit_busy[unit * n_nodes + node] += busy
                        s.unit_bytes[unit * n_nodes + node] += amount
                    finish += s.stages[index].latency_fs
                    s.bus_delay[statistic] += finish - now
                    if index + 1 < end:
                        next_key = key + (1 << STAGE_AT)
                    elif kind == BEFORE:
                        next_key = (key & ~np.int64((STAGE_MASK << STAGE_AT) | 7)) | first_hop
                    else:
                        next_key = (key & ~np.int64((STAGE_MASK << STAGE_AT) | 7)) | ARRIVE
                        finish += receive_fs
                    push(events, buckets, heap, cache, registers, finish, next_key, node)

            # What follows at this node, now.
            while depth > 0 or reserve > 0:
                if depth == 0:
                    # The least of the node's live chunks never waits for room.
                    forced, queue = _reserved(
                        s.chunks, s.calls, s.phases, s.slot_state, s.nodes, s.queue_head,
                        s.queue_tail, s.queue_delay, n_nodes, n_queues, places, node, now,
                    )
                    if forced < 0:
                        break
                    work[0] = ADMIT
                    work[1] = queue
                    depth = 1
                depth -= 1
                what = work[3 * depth]
                it = work[3 * depth + 1]

                if what == ADVANCE:
                    piece = work[3 * depth + 2]
                    at = s.chunks[it].slot * n_nodes + node
                    current = s.slot_state[at].phase
                    row = s.chunks[it].phase + current
                    place = at * width + s.phases[row].state + piece * s.phases[row].width
                    program = s.phases[row].program
                    if s.phases[row].roles >= 0:
                        program = s.role_program[s.phases[row].roles + node]
                    step = s.counters[place]
                    steps = s.programs[program].steps
                    if step >= steps:
                        continue
                    segment = s.programs[program].segment
                    while step < steps:
                        while step >= s.segments[segment].end_step:
                            segment += 1
                        inside = step - s.segments[segment].first_step
                        slot = s.segments[segment].slot + inside * s.segments[segment].slot_stride
                        need = s.segments[segment].count + inside * s.segments[segment].count_stride
                        if s.counters[place + 1 + slot] < need:
                            break
                        first = (
                            s.segments[segment].entry + inside * s.segments[segment].entry_stride
                        )
                        for sent in range(first, first + s.segments[segment].entries):
                            if s.peers[s.entries[sent].peers + node] < 0:
                                continue
                            s.messages[s.chunks[it].call * places + s.phases[row].place] += 1
                            out_key = (
                                (it << CHUNK_AT)
                                | (np.int64(current) << PHASE_AT)
                                | (piece << MESSAGE_AT)
                                | (np.int64(sent) << ENTRY_AT)
                            )
                            simple = (
                                s.entries[sent].hops == 1
                                and s.entries[sent].before == s.entries[sent].before_end
                                and bucket_fs == 0
                                and not record
                                and p is None
                            )
                            if simple:
                                # One link and nothing before it: the request is made here.
                                link = s.links[s.entries[sent].links + node]
                                size = s.chunks[it].size * s.entries[sent].fraction
                                amount = np.int64(np.ceil(size / s.phases[row].messages - 1e-6))
                                busy = max(np.int64(amount * s.link_rate[link] + 0.5), 1)
                                begin = max(now, s.link_free[link])
                                s.link_free[link] = begin + busy
                                s.link_bytes[link] += amount
                                s.link_busy[link] += busy
                                arrival = begin + busy + s.link_latency[link]
                                s.network_delay[
                                    s.chunks[it].call * places + s.phases[row].place
                                ] += arrival - now
                                if s.entries[sent].after == s.entries[sent].after_end:
                                    arrival += receive_fs
                                else:
                                    out_key |= AFTER
                                push(events, buckets, heap, cache, registers, arrival, out_key,
                                     s.peers[s.entries[sent].peers + node])
                            elif s.entries[sent].before == s.entries[sent].before_end:
                                push(events, buckets, heap, cache, registers, now,
                                     out_key | first_hop, node)
                            elif (
                                s.entries[sent].before + 1 == s.entries[sent].before_end
                                and s.stages[s.entries[sent].before].unit < 0
                            ):
                                # A mere delay needs no event of its own.
                                index = s.entries[sent].before
                                size = s.chunks[it].size * s.entries[sent].fraction
                                amount = np.int64(np.ceil(size / s.phases[row].messages - 1e-6))
                                pause = (
                                    s.stages[index].fixed_fs
                                    + np.int64(amount * s.stages[index].fs_per_byte + 0.5)
                                    + s.stages[index].latency_fs
                                )
                                s.bus_delay[s.chunks[it].call * places + s.phases[row].place] += (
                                    pause
                                )
                                push(events, buckets, heap, cache, registers, now + pause,
                                     out_key | first_hop, node)
                            else:
                                push(events, buckets, heap, cache, registers, now,
                                     out_key | BEFORE, node)
                        step += 1
                    s.counters[place] = step
                    if step == steps:
                        s.slot_state[at].messages += 1
                        if s.slot_state[at].messages == s.phases[row].messages:
                            work[3 * depth] = PHASE_END
                            work[3 * depth + 1] = it
                            depth += 1

                elif what == PHASE_END:
                    at = s.chunks[it].slot * n_nodes + node
                    current = s.slot_state[at].phase
                    row = s.chunks[it].phase + current
                    call = s.chunks[it].call
                    statistic = call * places + s.phases[row].place
                    s.phase_time[statistic] += now - s.slot_state[at].since
                    if record and number[SPANS] < len(s.spans):
                        span = number[SPANS]
                        s.spans[span].kind = PHASE_SPAN
                        s.spans[span].row = node
                        s.spans[span].lane = s.phases[row].queue
                        s.spans[span].call = call
                        s.spans[span].chunk = it - s.calls[call].first_chunk
                        s.spans[span].phase = s.phases[row].place
                        s.spans[span].start_fs = s.slot_state[at].since
                        s.spans[span].end_fs = now
                        number[SPANS] += 1
                    s.slot_state[at].running = WAITS
                    queue = s.phases[row].queue
                    s.queue_used[node * n_queues + queue] -= 1
                    if s.phases[row].room_in >= 0:
                        s.room_used[node * n_rooms + s.phases[row].room_in] -= np.int64(
                            s.chunks[it].size * s.phases[row].in_fraction + 0.5
                        )
                        # Room may be what chunks of any queue wait for.
                        for other in range(n_queues):
                            if other != queue:
                                work[3 * depth] = ADMIT
                                work[3 * depth + 1] = other
                                depth += 1
                    if current == 0:
                        s.nodes[node].first_phase -= 1
                        work[3 * depth] = DISPATCH
                        depth += 1
                    work[3 * depth] = ADMIT
                    work[3 * depth + 1] = queue
                    depth += 1
                    if current + 1 < s.chunks[it].phases:
                        s.slot_state[at].phase = current + 1
                        work[3 * depth] = REQUEST
                        work[3 * depth + 1] = it
                        depth += 1
                    elif s.calls[call].store < s.calls[call].store_end:
                        s.slot_state[at].running = MOVES
                        enter(events, buckets, heap, cache, registers, now,
                             (it << CHUNK_AT) | (np.int64(1) << PHASE_AT) | CHUNK_STAGE,
                             node)
                    else:
                        work[3 * depth] = CHUNK_END
                        work[3 * depth + 1] = it
                        depth += 1

                elif what == REQUEST:
                    # Enter the queue of the next phase, behind those of equal or lower rank.
                    at = s.chunks[it].slot * n_nodes + node
                    row = s.chunks[it].phase + s.slot_state[at].phase
                    queue = s.phases[row].queue
                    s.slot_state[at].since = now
                    _insert(s.chunks, s.slot_state, s.queue_head, s.queue_tail,
                            node * (n_queues + 1) + queue, it, node, n_nodes)
                    work[3 * depth] = ADMIT
                    work[3 * depth + 1] = queue
                    depth += 1

                elif what == ADMIT:
                    head = node * (n_queues + 1) + it
                    while s.queue_head[head] >= 0 and (
                        s.queue_used[node * n_queues + it] < s.queue_limit[it]
                        or s.queue_head[head] == forced
                    ):
                        first = s.queue_head[head]
                        at = s.chunks[first].slot * n_nodes + node
                        row = s.chunks[first].phase + s.slot_state[at].phase
                        into = s.phases[row].room_in
                        out = s.phases[row].room_out
                        size = s.chunks[first].size
                        in_size = np.int64(size * s.phases[row].in_fraction + 0.5)
                        out_size = np.int64(size * s.phases[row].out_fraction + 0.5)
                        starts = s.slot_state[at].phase == 0
                        if (
                            starts
                            and into >= 0
                            and (s.room_used[node * n_rooms + into] + in_size > s.room_limit[into])
                            and first != forced
                        ):
                            break
                        if (
                            out >= 0
                            and (s.room_used[node * n_rooms + out] + out_size > s.room_limit[out])
                            and first != forced
                        ):
                            break
                        if starts and into >= 0:
                            s.room_used[node * n_rooms + into] += in_size
                        if out >= 0:
                            s.room_used[node * n_rooms + out] += out_size
                        s.queue_head[head] = s.slot_state[at].next
                        s.queue_used[node * n_queues + it] += 1
                        call = s.chunks[first].call
                        s.queue_delay[call * places + s.phases[row].place] += (
                            now - s.slot_state[at].since
                        )
                        s.slot_state[at].since = now
                        if starts and s.calls[call].load < s.calls[call].load_end:
                            s.slot_state[at].running = MOVES
                            enter(events, buckets, heap, cache, registers, now,
                                 (np.int64(first) << CHUNK_AT) | CHUNK_STAGE, node)
                        else:
                            work[3 * depth] = BEGIN
                            work[3 * depth + 1] = first
                            depth += 1

                elif what == BEGIN:
                    at = s.chunks[it].slot * n_nodes + node
                    s.slot_state[at].messages = 0
                    s.slot_state[at].running = RUNS
                    row = s.chunks[it].phase + s.slot_state[at].phase
                    for piece in range(s.phases[row].messages - 1, -1, -1):
                        work[3 * depth] = ADVANCE
                        work[3 * depth + 1] = it
                        work[3 * depth + 2] = piece
                        depth += 1

                elif what == CHUNK_END:
                    at = s.chunks[it].slot * n_nodes + node
                    row = s.chunks[it].phase + s.slot_state[at].phase
                    if s.chunks[it].phases > 0 and s.phases[row].room_out >= 0:
                        s.room_used[node * n_rooms + s.phases[row].room_out] -= np.int64(
                            s.chunks[it].size * s.phases[row].out_fraction + 0.5
                        )
                        for other in range(n_queues):
                            work[3 * depth] = ADMIT
                            work[3 * depth + 1] = other
                            depth += 1
                    s.slot_state[at].phase = ENDED
                    s.chunks[it].open -= 1
                    if s.chunks[it].open == 0:
                        if check and not _counts_agree(
                            s.chunks, s.phases, s.counters, s.expected, n_nodes, width, it
                        ):
                            number[WRONG] = it
                            return WRONG_COUNT
                        s.free_slots[number[FREE_SLOTS]] = s.chunks[it].slot
                        number[FREE_SLOTS] += 1
                    s.nodes[node].chunks -= 1
                    if s.nodes[node].chunks == 0:
                        s.engine_busy[node] += now - s.nodes[node].since
                    call = s.chunks[it].call
                    s.call_left[call * n_nodes + node] -= 1
                    if s.call_left[call * n_nodes + node] == 0:
                        task = s.call_left[(len(s.calls) + call) * n_nodes + node]
                        pause = s.tasks[s.graph_first[s.node_graph[node]] + task].duration_fs
                        if pause > 0:
                            enter(events, buckets, heap, cache, registers, now + pause,
                                 (np.int64(task) << CHUNK_AT) | TASK_END, node)
                        else:
                            work[3 * depth] = TASK_DONE
                            work[3 * depth + 1] = task
                            depth += 1

                elif what == DISPATCH:
                    # While fewer than T chunks are in their first phase, issue P more.
                    head = node * (n_queues + 1) + ready_queue
                    while s.nodes[node].first_phase < number[THRESHOLD] and s.queue_head[head] >= 0:
                        issued = 0
                        while issued < number[ISSUE] and s.queue_head[head] >= 0:
                            first = s.queue_head[head]
                            at = s.chunks[first].slot * n_nodes + node
                            s.queue_head[head] = s.slot_state[at].next
                            call = s.chunks[first].call
                            s.queue_delay[call * places] += now - s.slot_state[at].since
                            issued += 1
                            s.nodes[node].first_phase += 1
                            row = s.chunks[first].phase
                            s.slot_state[at].phase = 0
                            s.slot_state[at].since = now
                            _insert(s.chunks, s.slot_state, s.queue_head, s.queue_tail,
                                    node * (n_queues + 1) + s.phases[row].queue,
                                    first, node, n_nodes)
                        if issued > 0:
                            for other in range(n_queues):
                                work[3 * depth] = ADMIT
                                work[3 * depth + 1] = other
                                depth += 1

                elif what == TASK_READY:
                    task = s.graph_first[s.node_graph[node]] + it
                    local = node * max_tasks + it
                    s.task_ready[local] = now
                    task_kind = s.tasks[task].kind
                    if task_kind == COMPUTE:
                        # Into the list of ready computations, in the order of numbers.
                        before = np.int32(-1)
                        after = s.nodes[node].task_head
                        while after >= 0 and after < it:
                            before = after
                            after = s.task_next[node * max_tasks + after]
                        s.task_next[local] = after
                        if before < 0:
                            s.nodes[node].task_head = it
                        else:
                            s.task_next[node * max_tasks + before] = it
                    elif task_kind == COLLECTIVE:
                        s.task_start[local] = now
                        call = s.tasks[task].call
                        s.call_left[call * n_nodes + node] = s.calls[call].chunks
                        s.call_left[(len(s.calls) + call) * n_nodes + node] = it
                        if s.calls[call].chunks == 0:
                            work[3 * depth] = TASK_DONE
                            work[3 * depth + 1] = it
                            depth += 1
                        first = s.calls[call].first_chunk
                        s.nodes[node].least = min(s.nodes[node].least, first)
                        s.nodes[node].most = max(s.nodes[node].most, first + s.calls[call].chunks)
                        for new in range(first, first + s.calls[call].chunks):
                            if s.chunks[new].slot < 0:
                                if number[FREE_SLOTS] == 0:
                                    return TOO_MANY_CHUNKS
                                number[FREE_SLOTS] -= 1
                                slot = s.free_slots[number[FREE_SLOTS]]
                                s.chunks[new].slot = slot
                                s.chunks[new].open = n_nodes
                                for at in range(slot * n_nodes, (slot + 1) * n_nodes):
                                    s.slot_state[at].phase = NOT_ISSUED
                                    s.slot_state[at].running = WAITS
                                    s.slot_state[at].messages = 0
                                for at in range(
                                    slot * n_nodes * width, (slot + 1) * n_nodes * width
                                ):
                                    s.counters[at] = 0
                            at = s.chunks[new].slot * n_nodes + node
                            s.slot_state[at].phase = IN_READY_QUEUE
                            s.slot_state[at].since = now
                            if s.nodes[node].chunks == 0:
                                s.nodes[node].since = now
                            s.nodes[node].chunks += 1
                            _insert(s.chunks, s.slot_state, s.queue_head, s.queue_tail,
                                    node * (n_queues + 1) + ready_queue,
                                    new, node, n_nodes)
                        work[3 * depth] = DISPATCH
                        depth += 1
                    elif task_kind == SEND:
                        s.task_start[local] = now
                        it_chunk = np.int64(s.task_transfer[local])
                        row = s.chunks[it_chunk].phase
                        sent = np.int64(s.transfers[it_chunk - number[FIRST_TRANSFER]].entry)
                        s.messages[s.chunks[it_chunk].call * places + s.phases[row].place] += (
                            s.phases[row].messages
                        )
                        out_key = (it_chunk << CHUNK_AT) | (sent << ENTRY_AT)
                        if s.peers[s.entries[sent].peers + node] == node:
                            out_key |= ARRIVE
                        elif s.entries[sent].before < s.entries[sent].before_end:
                            out_key |= BEFORE
                        else:
                            out_key |= first_hop
                        for piece in range(s.phases[row].messages):
                            enter(events, buckets, heap, cache, registers, now,
                                 out_key | (piece << MESSAGE_AT), node)
                    elif task_kind == RECEIVE:
                        s.task_start[local] = now
                        if s.task_next[local] > 0:
                            work[3 * depth] = TASK_DONE
                            work[3 * depth + 1] = it
                            depth += 1
                    else:
                        s.task_start[local] = now
                        enter(events, buckets, heap, cache, registers,
                             now + s.tasks[task].duration_fs,
                             (np.int64(it) << CHUNK_AT) | TASK_END, node)

                elif what == TASK_DONE:
                    task = s.graph_first[s.node_graph[node]] + it
                    s.task_end[node * max_tasks + it] = now
                    if s.nodes[node].busy == it:
                        s.nodes[node].busy = -1
                    for index in range(s.tasks[task].after_end - 1, s.tasks[task].after - 1, -1):
                        later = s.successors[index]
                        s.task_waits[node * max_tasks + later] -= 1
                        if s.task_waits[node * max_tasks + later] == 0:
                            work[3 * depth] = TASK_READY
                            work[3 * depth + 1] = later
                            depth += 1

            # The compute units take the first of the ready computations.
            if s.nodes[node].busy < 0 and s.nodes[node].task_head >= 0:
                it = s.nodes[node].task_head
                local = node * max_tasks + it
                s.nodes[node].task_head = s.task_next[local]
                s.nodes[node].busy = it
                s.task_start[local] = now
                lasts = s.tasks[s.graph_first[s.node_graph[node]] + it].duration_fs
                enter(events, buckets, heap, cache, registers,
                     now + np.int64(lasts * s.node_scale[node] + 0.5),
                     (np.int64(it) << CHUNK_AT) | TASK_END, node)
        number[NOW] = now
    number[EVENTS] = handled
    return DONE


@compiled
def _into_series(series, place, buckets, bucket_fs, begin, busy):
    """Spread a busy interval over the buckets of the utilisation over time."""
    slot = begin // bucket_fs
    room = (slot + 1) * bucket_fs - begin
    while busy > 0 and slot < buckets:
        part = min(busy, room)
        series[place + slot] += part
        busy -= part
        slot += 1
        room = bucket_fs


@compiled
def _reserved(
    chunks, calls, phases, slot_state, nodes, queue_head, queue_tail, queue_delay, n_nodes,
    n_queues, places, node, now,
):
    """If the node's least live chunk waits for admission, move it to the front of its queue.

    Returns the chunk and the queue; chunk -1 if there is nothing to do. Chunks are numbered alike
    everywhere, so the least chunk of all that are live makes progress on every node.
    """
    least = nodes[node].least
    state = np.int32(ENDED)
    while least < nodes[node].most:
        if chunks[least].open > 0:
            state = slot_state[chunks[least].slot * n_nodes + node].phase
            if state >= 0 or state == IN_READY_QUEUE:
                break
        least += 1
    nodes[node].least = least
    if least >= nodes[node].most:
        return np.int64(-1), np.int64(0)
    at = chunks[least].slot * n_nodes + node
    if state >= 0 and slot_state[at].running != WAITS:
        return np.int64(-1), np.int64(0)
    queue = np.int64(phases[chunks[least].phase + max(state, 0)].queue)
    waits_in = node * (n_queues + 1) + (n_queues if state == IN_READY_QUEUE else queue)
    before = np.int64(-1)
    after = np.int64(queue_head[waits_in])
    while after != least:
        before = after
        after = np.int64(slot_state[chunks[after].slot * n_nodes + node].next)
    after = np.int64(slot_state[at].next)
    if before < 0:
        queue_head[waits_in] = after
    else:
        slot_state[chunks[before].slot * n_nodes + node].next = after
    if after < 0:
        queue_tail[waits_in] = before
    if state == IN_READY_QUEUE:
        queue_delay[chunks[least].call * places] += now - slot_state[at].since
        nodes[node].first_phase += 1
        slot_state[at].phase = 0
        slot_state[at].since = now
    front = node * (n_queues + 1) + queue
    slot_state[at].next = queue_head[front]
    if queue_head[front] < 0:
        queue_tail[front] = least
    queue_head[front] = least
    return np.int64(least), queue


@compiled
def _counts_agree(chunks, phases, counters, expected, n_nodes, width, chunk):
    """Whether every node has got exactly the messages of a chunk that ended."""
    for row in range(chunks[chunk].phase, chunks[chunk].phase + chunks[chunk].phases):
        slots = phases[row].width - 1
        for node in range(n_nodes):
            for message in range(phases[row].messages):
                at = (chunks[chunk].slot * n_nodes + node) * width
                at += phases[row].state + message * phases[row].width + 1
                for slot in range(slots):
                    if counters[at + slot] != expected[phases[row].expected + node * slots + slot]:
                        return False
    return True


@compiled
def _insert(chunks, slot_state, queue_head, queue_tail, head, chunk, node, n_nodes):
    """Put a chunk into a waiting list, after those whose rank is not higher than its own."""
    rank = chunks[chunk].rank
    before = np.int64(-1)
    after = queue_head[head]
    if after >= 0 and chunks[queue_tail[head]].rank <= rank:
        before = queue_tail[head]
        after = np.int32(-1)
    else:
        while after >= 0 and chunks[after].rank <= rank:
            before = after
            after = slot_state[chunks[after].slot * n_nodes + node].next
    slot_state[chunks[chunk].slot * n_nodes + node].next = after
    if before < 0:
        queue_head[head] = chunk
    else:
        slot_state[chunks[before].slot * n_nodes + node].next = chunk
    if after < 0:
        queue_tail[head] = chunk


@compiled
def _begin(s):
    """Enter the tasks that wait for nothing."""
    for node in range(s.numbers[NODES]):
        graph = s.node_graph[node]
        first = s.graph_first[graph]
        for task in range(s.graph_first[graph + 1] - first):
            s.task_waits[node * s.numbers[MAX_TASKS] + task] = s.tasks[first + task].waits
            if s.tasks[first + task].waits == 0:
                enter(s.events, s.buckets, s.heap, s.cache, s.registers, np.int64(0),
                     (np.int64(task) << CHUNK_AT) | TASK_START, node)
