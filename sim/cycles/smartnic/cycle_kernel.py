"""The cycle model's inner loop: rings of smart NICs as queues of beats, compiled by Numba.

Every queue of the hardware is a queue here, with its depth and its latency, but a beat is only the
cycle in which it may be seen. All decisions of a cycle are taken on what the queues held when it
began, as registers do.
"""

from typing import Any

import numpy as np

__all__ = ["QUEUES", "push_frame", "simulate"]

# Queues of each node. A beat pushed in cycle t can be taken from cycle t + latency on.
(
    READ,  # read data of the bus
    LOCAL,  # input FIFO
    SUM,  # adders and what follows them
    PLAIN,  # blocks that are not compressed, before the exits
    PACKED,  # compressor: finished bus beats
    TX_REDUCE,  # transmit queues: beats
    TX_GATHER,
    FORWARD,  # from the previous node: link and switch
    BACK,  # from the next node
    RX_REDUCE,  # receive buffers
    RX_GATHER,
    RESULT,
    WORDS_REDUCE,  # decoders: words
    WORDS_GATHER,
    STORED,  # output FIFO
) = range(15)
QUEUES = 15
STORE_BLOCKS = 4


def simulate(
    nodes: int,
    depth: Any,
    latency: Any,
    items_beats: Any,
    items_valid: Any,
    items_ready: Any,
    frame_beats: int,
    receive_beats: int,
    credit_beats: int,
    control_beats: int,
    wire_bits: int,
    granule_beats: int,
    granule_bits: int,
    compress: bool,
    burst_beats: int,
    burst_phase: Any,
    bursts_open: int,
    read_latency: int,
    blocks_ahead: int,
    limit: int,
) -> Any:
    """Run until every node has stored its last beat.

    Returns, for each node, the cycles of the last beat that went to memory, and of the one with
    which the store unit had room for the last item.

    ``items_beats[i]`` is the length of block *i*, the same for both flows and all nodes,
    ``items_valid[f, n, i]`` how much of it lies in memory for flow *f*, ``items_ready[f, n, i]``
    the first cycle in which the sequencer may offer it. Items come in rounds of *nodes*.
    ``burst_phase[n, i]`` is the first beat's place within a burst.
    """
    items = len(items_beats)
    room = depth.max() + 1
    stamp = np.zeros((QUEUES, nodes, room), np.int64)
    head = np.zeros((QUEUES, nodes), np.int64)
    held = np.zeros((QUEUES, nodes), np.int64)
    before = np.zeros((QUEUES, nodes), np.int64)

    # Sequencing and reading.
    fetched = np.zeros(nodes, np.int64)  # items taken by the fetch unit
    reading = np.zeros(nodes, np.int64)  # beats of the present command without a burst
    reading_at = np.zeros(nodes, np.int64)
    burst_left = np.zeros((nodes, 1024), np.int64)  # bursts under way
    burst_due = np.zeros((nodes, 1024), np.int64)
    burst_head = np.zeros(nodes, np.int64)
    bursts = np.zeros(nodes, np.int64)
    local_item = np.zeros(nodes, np.int64)
    local_beat = np.zeros(nodes, np.int64)

    # Adders, compressor, decoders.
    sum_item = np.zeros(nodes, np.int64)
    sum_beat = np.zeros(nodes, np.int64)
    out_item = np.zeros(nodes, np.int64)  # leaving the adders
    out_beat = np.zeros(nodes, np.int64)
    pack_bits = np.zeros(nodes, np.int64)
    exit_item = np.zeros(nodes, np.int64)
    exit_beat = np.zeros(nodes, np.int64)
    wire_beats = np.zeros(items, np.int64)
    for i in range(items):
        wire_beats[i] = items_beats[i]
        if compress:
            bits = items_beats[i] // granule_beats * granule_bits
            wire_beats[i] = (bits + wire_bits - 1) // wire_bits
    # Per flow: position of the decoder's entrance and exit.
    in_item = np.zeros((2, nodes), np.int64)
    in_beat = np.zeros((2, nodes), np.int64)
    in_bits = np.zeros((2, nodes), np.int64)
    word_item = np.zeros((2, nodes), np.int64)
    word_beat = np.zeros((2, nodes), np.int64)

    # Frames: built, chosen, sent, under way.
    span = 64
    frame = np.zeros((2, nodes, span), np.int64)
    frame_at = np.zeros((2, nodes, span), np.int64)
    frame_head = np.zeros((2, nodes), np.int64)
    frames = np.zeros((2, nodes), np.int64)
    frames_before = np.zeros((2, nodes), np.int64)
    collected = np.zeros((2, nodes), np.int64)
    chosen = np.zeros(nodes, np.int64)  # 0: none, else kind
    chosen_beats = np.zeros(nodes, np.int64)
    sending = np.zeros(nodes, np.int64)
    left = np.zeros(nodes, np.int64)
    turn = np.zeros(nodes, np.int64)
    sent = np.zeros((2, nodes), np.int64)
    freed = np.zeros((2, nodes), np.int64)
    told = np.zeros((2, nodes), np.int64)
    chosen_freed = np.zeros((2, nodes), np.int64)
    peer_freed = np.zeros((2, nodes), np.int64)
    # What travels: kind (1 reduce, 2 gather, 3 credit) and counts, per source link.
    roll = 4096
    note = np.zeros((2, nodes, roll, 4), np.int64)
    note_head = np.zeros((2, nodes), np.int64)
    notes = np.zeros((2, nodes), np.int64)
    source = np.full(nodes, -1, np.int64)
    arrived = np.zeros(nodes, np.int64)
    heard_at = np.zeros((nodes, 8), np.int64)  # credits that take effect later
    heard = np.zeros((nodes, 8, 2), np.int64)
    heard_count = np.zeros(nodes, np.int64)

    gather_item = np.zeros(nodes, np.int64)
    gather_beat = np.zeros(nodes, np.int64)
    store_item = np.zeros(nodes, np.int64)
    store_beat = np.zeros(nodes, np.int64)
    roomy = np.zeros(nodes, np.int64)
    written = np.full(nodes, -1, np.int64)
    finished = 0
    now = 0
    while finished < nodes and now < limit:
        before[:, :] = held
        frames_before[:, :] = frames
        for n in range(nodes):
            following = n + 1 if n + 1 < nodes else 0
            preceding = n - 1 if n > 0 else nodes - 1

            # ---- Store: one beat to the bus.
            if store_item[n] < items:
                if held[STORED, n] > 0 and stamp[STORED, n, head[STORED, n]] <= now:
                    i = store_item[n]
                    if store_beat[n] < items_valid[1, n, i]:
                        written[n] = now
                    head[STORED, n] = (head[STORED, n] + 1) % depth[STORED]
                    held[STORED, n] -= 1
                    store_beat[n] += 1
                    if store_beat[n] == items_beats[i]:
                        store_beat[n] = 0
                        store_item[n] += 1
                        if store_item[n] == items - STORE_BLOCKS:
                            roomy[n] = now
                        if store_item[n] == items:
                            finished += 1

            # ---- Decoder of the gathering, to the output FIFO.
            if before[STORED, n] < depth[STORED]:
                q = WORDS_GATHER
                if held[q, n] > 0 and stamp[q, n, head[q, n]] <= now:
                    head[q, n] = (head[q, n] + 1) % depth[q]
                    held[q, n] -= 1
                    tail = (head[STORED, n] + held[STORED, n]) % depth[STORED]
                    stamp[STORED, n, tail] = now + latency[STORED]
                    held[STORED, n] += 1

            # ---- Adders: local beats, with received words after the first block of a round.
            i = sum_item[n]
            if (
                i < items
                and before[SUM, n] < depth[SUM]
                and held[LOCAL, n] > 0
                and stamp[LOCAL, n, head[LOCAL, n]] <= now
            ):
                own = i % nodes == 0
                q = WORDS_REDUCE
                if own or (held[q, n] > 0 and stamp[q, n, head[q, n]] <= now):
                    if not own:
                        head[q, n] = (head[q, n] + 1) % depth[q]
                        held[q, n] -= 1
                    head[LOCAL, n] = (head[LOCAL, n] + 1) % depth[LOCAL]
                    held[LOCAL, n] -= 1
                    tail = (head[SUM, n] + held[SUM, n]) % depth[SUM]
                    stamp[SUM, n, tail] = now + latency[SUM]
                    held[SUM, n] += 1
                    sum_beat[n] += 1
                    if sum_beat[n] == items_beats[i]:
                        sum_beat[n] = 0
                        sum_item[n] += 1

            # ---- Decoders: a granule is there once the wire has brought all its bits.
            for f in range(2):
                q = WORDS_REDUCE if f == 0 else WORDS_GATHER
                if compress:
                    i = word_item[f, n]
                    if i < items:
                        needed = (word_beat[f, n] // granule_beats + 1) * granule_bits
                        there = in_bits[f, n] if in_item[f, n] == i else 1 << 60
                        if there >= needed and before[q, n] < depth[q]:
                            tail = (head[q, n] + held[q, n]) % depth[q]
                            stamp[q, n, tail] = now + latency[q]
                            held[q, n] += 1
                            word_beat[f, n] += 1
                            if word_beat[f, n] == items_beats[i]:
                                word_beat[f, n] = 0
                                word_item[f, n] += 1
                                # The reduction decodes only what was received.
                                if f == 0 and word_item[f, n] % nodes == 0:
                                    word_item[f, n] += 1

            # ---- Gathering: own result or received, to the decoder and on.
            i = gather_item[n]
            if i < items:
                own = i % nodes == 0
                onward = i % nodes != nodes - 1
                q = RESULT if own else RX_GATHER
                fits = True
                if compress:
                    # The unpacker takes a beat while it holds less than a granule.
                    out = word_beat[1, n] // granule_beats * granule_bits
                    same = word_item[1, n] == i
                    fits = same and in_bits[1, n] - out < granule_bits
                    fits = fits or (word_item[1, n] == i and in_beat[1, n] == 0)
                else:
                    fits = before[WORDS_GATHER, n] < depth[WORDS_GATHER]
                if onward:
                    fits = fits and (
                        before[TX_GATHER, n] < depth[TX_GATHER] and frames_before[1, n] < 8
                    )
                if fits and held[q, n] > 0 and stamp[q, n, head[q, n]] <= now:
                    head[q, n] = (head[q, n] + 1) % depth[q]
                    held[q, n] -= 1
                    if not own:
                        freed[1, n] += 1
                    if compress:
                        in_bits[1, n] += wire_bits
                        in_beat[1, n] += 1
                        if in_beat[1, n] == wire_beats[i]:
                            in_beat[1, n] = 0
                            in_bits[1, n] = 0
                            in_item[1, n] += 1
                    else:
                        w = WORDS_GATHER
                        tail = (head[w, n] + held[w, n]) % depth[w]
                        stamp[w, n, tail] = now + latency[w]
                        held[w, n] += 1
                    gather_beat[n] += 1
                    last = gather_beat[n] == wire_beats[i]
                    if last:
                        gather_beat[n] = 0
                        gather_item[n] += 1
                    if onward:
                        push_frame(
                            1,
                            n,
                            now,
                            last,
                            frame_beats,
                            frame,
                            frame_at,
                            frame_head,
                            frames,
                            collected,
                            span,
                        )
                        tail = (head[TX_GATHER, n] + held[TX_GATHER, n]) % depth[TX_GATHER]
                        stamp[TX_GATHER, n, tail] = now + latency[TX_GATHER]
                        held[TX_GATHER, n] += 1

            # ---- Reduction: received beats to the decoder.
            i = in_item[0, n]
            if i % nodes == 0 and i < items:
                i += 1
                in_item[0, n] = i
            if word_item[0, n] % nodes == 0 and word_item[0, n] < items:
                word_item[0, n] += 1
            if i < items:
                if compress:
                    out = word_beat[0, n] // granule_beats * granule_bits
                    fits = word_item[0, n] == i and in_bits[0, n] - out < granule_bits
                else:
                    fits = before[WORDS_REDUCE, n] < depth[WORDS_REDUCE]
                q = RX_REDUCE
                if fits and held[q, n] > 0 and stamp[q, n, head[q, n]] <= now:
                    head[q, n] = (head[q, n] + 1) % depth[q]
                    held[q, n] -= 1
                    freed[0, n] += 1
                    in_beat[0, n] += 1
                    if compress:
                        in_bits[0, n] += wire_bits
                    else:
                        w = WORDS_REDUCE
                        tail = (head[w, n] + held[w, n]) % depth[w]
                        stamp[w, n, tail] = now + latency[w]
                        held[w, n] += 1
                    if in_beat[0, n] == wire_beats[i]:
                        in_beat[0, n] = 0
                        in_bits[0, n] = 0
                        in_item[0, n] += 1

            # ---- Exit of the encoder: to the next node, or complete.
            i = exit_item[n]
            if i < items:
                complete = i % nodes == nodes - 1
                q = PACKED if compress else PLAIN
                if complete:
                    fits = before[RESULT, n] < depth[RESULT]
                else:
                    fits = before[TX_REDUCE, n] < depth[TX_REDUCE] and frames_before[0, n] < 8
                if fits and held[q, n] > 0 and stamp[q, n, head[q, n]] <= now:
                    head[q, n] = (head[q, n] + 1) % depth[q]
                    held[q, n] -= 1
                    exit_beat[n] += 1
                    last = exit_beat[n] == wire_beats[i]
                    if last:
                        exit_beat[n] = 0
                        exit_item[n] += 1
                    w = RESULT if complete else TX_REDUCE
                    tail = (head[w, n] + held[w, n]) % depth[w]
                    stamp[w, n, tail] = now + latency[w]
                    held[w, n] += 1
                    if not complete:
                        push_frame(
                            0,
                            n,
                            now,
                            last,
                            frame_beats,
                            frame,
                            frame_at,
                            frame_head,
                            frames,
                            collected,
                            span,
                        )

            # ---- Entrance of the encoder.
            i = out_item[n]
            if i < items and held[SUM, n] > 0 and stamp[SUM, n, head[SUM, n]] <= now:
                q = PACKED if compress else PLAIN
                if before[q, n] < depth[q]:
                    head[SUM, n] = (head[SUM, n] + 1) % depth[SUM]
                    held[SUM, n] -= 1
                    out_beat[n] += 1
                    last = out_beat[n] == items_beats[i]
                    if compress:
                        made = 0
                        if out_beat[n] % granule_beats == 0:
                            pack_bits[n] += granule_bits
                            while pack_bits[n] >= wire_bits:
                                pack_bits[n] -= wire_bits
                                made += 1
                            if last and pack_bits[n] > 0:
                                pack_bits[n] = 0
                                made += 1
                        for k in range(made):
                            tail = (head[q, n] + held[q, n]) % depth[q]
                            stamp[q, n, tail] = now + latency[q] + k
                            held[q, n] += 1
                    else:
                        tail = (head[q, n] + held[q, n]) % depth[q]
                        stamp[q, n, tail] = now + latency[q]
                        held[q, n] += 1
                    if last:
                        out_beat[n] = 0
                        out_item[n] += 1

            # ---- Sending: a header, then the payload.
            taken = False
            if left[n] == 0:
                if chosen[n] != 0:
                    taken = True
                    kind = chosen[n]
                    sending[n] = kind
                    left[n] = chosen_beats[n]
                    to_back = kind == 3
                    target = preceding if to_back else following
                    q = BACK if to_back else FORWARD
                    side = 1 if to_back else 0
                    k = (note_head[side, target] + notes[side, target]) % roll
                    note[side, target, k, 0] = kind
                    note[side, target, k, 1] = chosen_beats[n]
                    note[side, target, k, 2] = chosen_freed[0, n]
                    note[side, target, k, 3] = chosen_freed[1, n]
                    notes[side, target] += 1
                    tail = (head[q, target] + held[q, target]) % depth[q]
                    stamp[q, target, tail] = now + latency[q]
                    held[q, target] += 1
            else:
                kind = sending[n]
                there = True
                if kind != 3:
                    q = TX_REDUCE if kind == 1 else TX_GATHER
                    there = held[q, n] > 0 and stamp[q, n, head[q, n]] <= now
                    if there:
                        head[q, n] = (head[q, n] + 1) % depth[q]
                        held[q, n] -= 1
                if there:
                    left[n] -= 1
                    target = preceding if kind == 3 else following
                    q = BACK if kind == 3 else FORWARD
                    tail = (head[q, target] + held[q, target]) % depth[q]
                    stamp[q, target, tail] = now + latency[q]
                    held[q, target] += 1

            # ---- Choice of the next frame. Counts of this cycle are seen in the next.
            if heard_count[n] > 0 and heard_at[n, 0] <= now:
                peer_freed[0, n] = heard[n, 0, 0]
                peer_freed[1, n] = heard[n, 0, 1]
                for k in range(1, heard_count[n]):
                    heard_at[n, k - 1] = heard_at[n, k]
                    heard[n, k - 1, 0] = heard[n, k, 0]
                    heard[n, k - 1, 1] = heard[n, k, 1]
                heard_count[n] -= 1
            if chosen[n] == 0 or taken:
                chosen[n] = 0
                fits0 = False
                fits1 = False
                for f in range(2):
                    if frames[f, n] > 0 and frame_at[f, n, frame_head[f, n]] <= now:
                        after = sent[f, n] + frame[f, n, frame_head[f, n]] - peer_freed[f, n]
                        if after <= receive_beats:
                            if f == 0:
                                fits0 = True
                            else:
                                fits1 = True
                if (
                    freed[0, n] - told[0, n] >= credit_beats
                    or freed[1, n] - told[1, n] >= credit_beats
                ):
                    chosen[n] = 3
                    chosen_beats[n] = control_beats
                    for f in range(2):
                        chosen_freed[f, n] = freed[f, n]
                        told[f, n] = freed[f, n]
                elif fits0 or fits1:
                    f = 1 if fits1 else 0
                    if fits0 and fits1:
                        f = 1 - turn[n]
                    turn[n] = f
                    chosen[n] = f + 1
                    chosen_beats[n] = frame[f, n, frame_head[f, n]]
                    sent[f, n] += chosen_beats[n]
                    frame_head[f, n] = (frame_head[f, n] + 1) % span
                    frames[f, n] -= 1

            # ---- The switch's exit, and reception.
            side = source[n]
            if side < 0:
                if held[BACK, n] > 0 and stamp[BACK, n, head[BACK, n]] <= now:
                    side = 1
                else:
                    side = 0
            q = BACK if side == 1 else FORWARD
            if held[q, n] > 0 and stamp[q, n, head[q, n]] <= now:
                head[q, n] = (head[q, n] + 1) % depth[q]
                held[q, n] -= 1
                k = note_head[side, n]
                kind = note[side, n, k, 0]
                beats = note[side, n, k, 1]
                if arrived[n] == beats:
                    source[n] = -1
                    arrived[n] = 0
                    note_head[side, n] = (k + 1) % roll
                    notes[side, n] -= 1
                    if kind == 3:
                        h = heard_count[n]
                        heard_at[n, h] = now + 2
                        heard[n, h, 0] = note[side, n, k, 2]
                        heard[n, h, 1] = note[side, n, k, 3]
                        heard_count[n] += 1
                    else:
                        w = RX_REDUCE if kind == 1 else RX_GATHER
                        for _ in range(beats):
                            tail = (head[w, n] + held[w, n]) % depth[w]
                            stamp[w, n, tail] = now + latency[w]
                            held[w, n] += 1
                else:
                    source[n] = side
                    arrived[n] += 1

            # ---- Local beats: read data, or zeros behind the end of the vector.
            i = local_item[n]
            if i < fetched[n] and before[LOCAL, n] < depth[LOCAL]:
                present = local_beat[n] < items_valid[0, n, i]
                go = not present
                if present and held[READ, n] > 0 and stamp[READ, n, head[READ, n]] <= now:
                    head[READ, n] = (head[READ, n] + 1) % depth[READ]
                    held[READ, n] -= 1
                    go = True
                if go:
                    tail = (head[LOCAL, n] + held[LOCAL, n]) % depth[LOCAL]
                    stamp[LOCAL, n, tail] = now + latency[LOCAL]
                    held[LOCAL, n] += 1
                    local_beat[n] += 1
                    if local_beat[n] == items_beats[i]:
                        local_beat[n] = 0
                        local_item[n] += 1

            # ---- Read data on the bus.
            if bursts[n] > 0 and before[READ, n] < depth[READ]:
                k = burst_head[n]
                if burst_due[n, k] <= now:
                    tail = (head[READ, n] + held[READ, n]) % depth[READ]
                    stamp[READ, n, tail] = now + latency[READ]
                    held[READ, n] += 1
                    burst_left[n, k] -= 1
                    if burst_left[n, k] == 0:
                        burst_head[n] = (k + 1) % 1024
                        bursts[n] -= 1

            # ---- Bursts, then the next command.
            idle = reading[n] == 0
            if not idle and bursts[n] < bursts_open:
                count = min(reading[n], burst_beats - reading_at[n])
                k = (burst_head[n] + bursts[n]) % 1024
                burst_left[n, k] = count
                burst_due[n, k] = now + 1 + read_latency
                bursts[n] += 1
                reading[n] -= count
                reading_at[n] = 0
            i = fetched[n]
            if i < items and items_ready[0, n, i] <= now and i - local_item[n] < blocks_ahead:
                if items_valid[0, n, i] == 0:
                    fetched[n] += 1
                elif idle:
                    reading[n] = items_valid[0, n, i]
                    reading_at[n] = burst_phase[n, i]
                    fetched[n] += 1
        now += 1
    return written, roomy


def push_frame(
    f: int,
    n: int,
    now: int,
    last: bool,
    frame_beats: int,
    frame: Any,
    frame_at: Any,
    frame_head: Any,
    frames: Any,
    collected: Any,
    span: int,
) -> None:
    """Count a beat that enters a transmit queue; a frame is complete when full or at its end."""
    collected[f, n] += 1
    if last or collected[f, n] == frame_beats:
        k = (frame_head[f, n] + frames[f, n]) % span
        frame[f, n, k] = collected[f, n]
        frame_at[f, n, k] = now + 1
        frames[f, n] += 1
        collected[f, n] = 0
