"""What the cycle model of the engine keeps: records per block of ``hw/ace``, in arrays over nodes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import AceConfig

__all__ = [
    "NEVER",
    "OP_ACK",
    "OP_COMMAND",
    "OP_COUNT",
    "OP_DELAY",
    "OP_IRQ",
    "OP_WRITE",
    "State",
    "allocate",
]

NEVER = 1 << 40
"""A cycle that does not come."""

# Host operations: what `sim.rtl` does one register access at a time.
OP_WRITE, OP_COMMAND, OP_DELAY, OP_IRQ, OP_ACK, OP_COUNT = range(6)

_SETTINGS = np.dtype(
    [
        (name, np.int64)
        for name in (
            # Sizes of the engine (AceConfig) and of the group.
            "nodes", "ports", "fsms", "contexts", "memory_ports", "banks", "shared_banks", "flits",
            "lanes", "beats", "elements", "slot_beats", "slots", "alus", "alu_latency",
            "rx_packets", "tx_packets", "commands", "scan", "queues",
            # Memory.
            "memory_read", "memory_write",
            # Latencies of blocks, see sim.mixed.latencies.
            "register_write", "register_read", "sample", "command", "check", "chunk", "report",
            "lookup", "event", "queue", "parse", "credit", "drain", "acknowledge", "interrupt",
        )
    ]
)  # fmt: skip

_CONTEXT = np.dtype(
    [
        (name, np.int64)
        for name in (
            "assigned", "live", "loaded", "receives", "sends", "announce", "fresh", "step",
            "packet", "packets", "beats", "tail_block", "tail", "program", "key", "result",
            "command", "offset",
        )
    ]
)  # fmt: skip

_FSM = np.dtype(
    [
        (name, np.int64)
        for name in (
            # Admission and contention.
            "setup", "setup_end", "asked", "ask_free", "event_free", "greet_free",
            # Send generator: what it works on, and when it looks for work again.
            "busy_until", "pick_at", "answer_at", "sleeping", "source", "target", "step", "offset",
            "turn", "announcer", "prefer_fresh", "park_head", "park_count",
            "send_valid", "send_port", "send_word", "send_row",
            # Completion.
            "closer", "result_busy", "store", "store_at",
        )
    ]
)  # fmt: skip

_PORT = np.dtype(
    [
        (name, np.int64)
        for name in (
            # Transmit port: credits, packer, link.
            "credits", "packer_free", "level", "accepted", "waiting", "flush_at", "external",
            "pace", "pace_next",
            # Forward gate.
            "gate_owner", "gate_until",
            # Send unit and its arbiter.
            "unit_free", "held", "held_at", "held_word", "held_row", "held_context", "sender",
            # Receive buffer and unit, ALU.
            "tail", "arrived", "looked", "look_free", "parsed", "credit_free", "asked_head",
            "asked", "stream_until", "collected", "outcomes", "alu_until",
            # Counters.
            "beats", "packets", "parked",
        )
    ]
    + [("stall_key", np.uint64), ("stall_below", np.uint64)]
    + [(name, np.int64, (2,)) for name in ("reserved", "head", "count")]
    + [("ring", np.int64, (16,))]
)  # fmt: skip

_DMA = np.dtype(
    [
        (name, np.int64)
        for name in (
            # Walker and splitter.
            "jobs", "job_head", "held", "held_at", "sender", "active", "block", "last_block",
            "row", "address", "stride", "beats", "tail_block", "tail", "tag", "segment_at",
            "accepted", "splitter_free", "left", "burst_row", "burst_address", "burst_tag", "final",
            # Bursts under way.
            "bus_free", "bursts", "open_head", "open_count", "beats_done", "beat_free",
            "move_free", "move_before",
            # RX DMA only.
            "piece", "burst_at", "burst_free", "last_read", "last_write", "last_close", "count",
            "segments",
        )
    ]
    + [(name, np.int64, (8,)) for name in ("writes", "acknowledged", "ends")]
)  # fmt: skip

_BURST = np.dtype([(n, np.int64) for n in ("due", "row", "beats", "final", "tag")])
_JOB = np.dtype(
    [
        (n, np.int64)
        for n in ("at", "address", "stride", "first", "last", "row", "beats", "tail_block", "tail", "tag")
    ]
)

_NODE = np.dtype(
    [
        (name, np.int64)
        for name in (
            "rank", "phase", "ready_at", "issued", "accepted", "running", "current",
            "offset", "chunk", "fsm", "slot", "result", "pulse_free",
            "irq_at", "irq", "op", "op_at",
        )
    ]
)  # fmt: skip

_COMMAND = np.dtype(
    [
        (n, np.int64)
        for n in (
            "program", "load_all", "store_all", "to_result", "elements", "stride", "block",
            "tail_block", "source", "destination",
        )
    ]
)  # fmt: skip

_CODE = np.dtype([(n, np.int64) for n in ("op", "block", "port", "step", "from_result")])
_PROGRAM = np.dtype([(n, np.int64) for n in ("receives", "sends", "ready_ports", "length")])
_LOG_BEAT = np.dtype([(n, np.int64) for n in ("node", "port", "cycle", "flits")])
_LOG_PACKET = np.dtype([(n, np.int64) for n in ("node", "port", "cycle", "word")])


class State(NamedTuple):
    """All arrays of a model, as the compiled code sees them. First axis of most: nodes."""

    c: NDArray[Any]  # (1,) settings
    heap: NDArray[np.int64]
    heap_size: NDArray[np.int64]  # (2,): events, most events
    node: NDArray[Any]
    fsm: NDArray[Any]  # nodes, fsms
    context: NDArray[Any]  # nodes, fsms, contexts
    grant: NDArray[np.int64]  # nodes, fsms, contexts, ports: cycle
    remote: NDArray[np.int64]  # nodes, fsms, contexts, ports: context of the peer
    early: NDArray[np.int64]  # nodes, fsms, ports, contexts: key or -1
    parking: NDArray[np.int64]  # nodes, fsms, room, (ready, context, step, offset)
    port: NDArray[Any]  # nodes, ports
    peer: NDArray[np.int64]  # nodes, ports, (node, port, latency)
    arriving: NDArray[np.int64]  # nodes, ports, room, (word, visible)
    asked: NDArray[np.int64]  # nodes, ports, window, (word, asked)
    queue: NDArray[np.int64]  # nodes, ports, 2, room, (word, ready)
    held: NDArray[np.int64]  # nodes, ports, flits + 1, (word, flits left); row 0: count
    loader: NDArray[Any]  # nodes, memory ports
    storer: NDArray[Any]
    load_jobs: NDArray[Any]  # nodes, memory ports, 4
    bursts: NDArray[Any]  # nodes, memory ports, 8
    store_jobs: NDArray[Any]  # nodes, fsms: job in the store register
    result_jobs: NDArray[Any]  # nodes, fsms, contexts: job of each context
    calendar: NDArray[np.int64]  # nodes, 2, banks, cycles: cycle that is taken
    left: NDArray[np.int64]  # nodes, commands: chunks not stored; admitting adds 1 << 40
    done: NDArray[np.int64]  # nodes, commands: cycle of completion
    commands: NDArray[Any]
    code: NDArray[Any]  # programs, steps
    programs: NDArray[Any]
    program_of: NDArray[np.int64]  # fsms, collectives
    script: NDArray[np.int64]  # operations, (kind, a, b)
    script_of: NDArray[np.int64]  # nodes, (first, end)
    outcome: NDArray[np.int64]  # operations: cycle
    beats: NDArray[Any]  # log of beats to external nodes
    packets: NDArray[Any]  # log of packets to external nodes, in order per port
    credits: NDArray[Any]  # log of credits to external nodes
    logged: NDArray[np.int64]  # (3,) entries of each log


CALENDAR = 1024
WINDOW = 8  # questions of a receive unit under way
OUTSTANDING = 8  # bursts under way per direction
BURST = 16  # beats


def allocate(
    config: AceConfig, nodes: int, *, commands: int, operations: int, log: int = 1
) -> State:
    """Arrays of a model at rest."""
    c = config
    ports, fsms, contexts, masters = c.ports, c.fsms, c.contexts, c.memory_ports
    per_slot = 2 * max(c.slot_beats // c.packet_beats, c.max_nodes)
    room = c.rx_packets + 2
    return State(
        c=np.zeros(1, _SETTINGS),
        heap=np.zeros(nodes * (64 + 24 * (ports + fsms + masters)) + 1024, np.int64),
        heap_size=np.zeros(2, np.int64),
        node=np.zeros(nodes, _NODE),
        fsm=np.zeros((nodes, fsms), _FSM),
        context=np.zeros((nodes, fsms, contexts), _CONTEXT),
        grant=np.full((nodes, fsms, contexts, ports), NEVER, np.int64),
        remote=np.zeros((nodes, fsms, contexts, ports), np.int64),
        early=np.full((nodes, fsms, ports, contexts), -1, np.int64),
        parking=np.zeros((nodes, fsms, contexts * per_slot, 4), np.int64),
        port=np.zeros((nodes, ports), _PORT),
        peer=np.full((nodes, ports, 3), -1, np.int64),
        arriving=np.zeros((nodes, ports, room, 2), np.int64),
        asked=np.zeros((nodes, ports, WINDOW, 2), np.int64),
        queue=np.zeros((nodes, ports, 2, c.tx_packets, 2), np.int64),
        held=np.zeros((nodes, ports, c.flits + 3, 2), np.int64),
        loader=np.zeros((nodes, masters), _DMA),
        storer=np.zeros((nodes, masters), _DMA),
        load_jobs=np.zeros((nodes, masters, 4), _JOB),
        bursts=np.zeros((nodes, masters, 2 * OUTSTANDING), _BURST),
        store_jobs=np.zeros((nodes, fsms), _JOB),
        result_jobs=np.zeros((nodes, fsms, contexts), _JOB),
        calendar=np.full((nodes, 2, c.banks, CALENDAR), -1, np.int64),
        left=np.zeros((nodes, commands), np.int64),
        done=np.full((nodes, commands), -1, np.int64),
        commands=np.zeros(commands, _COMMAND),
        code=np.zeros((1, 1), _CODE),
        programs=np.zeros(1, _PROGRAM),
        program_of=np.zeros((fsms, 3), np.int64),
        script=np.zeros((operations, 3), np.int64),
        script_of=np.zeros((nodes, 2), np.int64),
        outcome=np.full(operations, -1, np.int64),
        beats=np.zeros(log, _LOG_BEAT),
        packets=np.zeros(log, _LOG_PACKET),
        credits=np.zeros(log, _LOG_PACKET),
        logged=np.zeros(3, np.int64),
    )
