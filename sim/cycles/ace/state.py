# SPDX-License-Identifier: Apache-2.0
"""State of the engine's cycle model: a record per block of ``hw/ace``, in arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import AceConfig
from hw.ace.dma import STORE_BEATS
from hw.ace.isa import MOST_RUNS
from hw.common.axi import BURST_BEATS, OUTSTANDING_BURSTS
from sim.cycles.ace.occupancy import UNITS, WINDOWS
from sim.cycles.host import OPERATION
from sim.cycles.queues import NEVER
from sim.cycles.records import arrays, integers

__all__ = [
    "DIGIT",
    "NEVER",
    "AceState",
    "allocate",
]

EVENTS = 16  # of one unit that FSMs have not taken yet
FLIGHTS = 8  # packets between issue and outcome
REQUESTS = 32  # beats that a client of the SRAM has asked for
WINDOW = 8  # outstanding questions of a receive unit
OUTSTANDING, BURST = OUTSTANDING_BURSTS, BURST_BEATS  # outstanding bursts per direction; beats
READIES = 3  # READY packets of a peer that a context counts
FIRST = 0  # of them
DIMENSIONS = 6  # in which blocks are counted on
CUTS = 32  # bursts and segments without beats of the RX DMA ahead of its reads
UNDER_WAY = 32  # bursts and runs of segments without beats
SEGMENTS = 16  # runs of segments without beats that the walker of the TX DMA has passed
REPORTS = 8  # of a DMA that wait for those of others

_SETTINGS = np.dtype(
    integers(
        # Sizes of the engine (AceConfig) and of the group.
        "nodes", "ports", "fsms", "contexts", "memory_ports", "banks", "shared_banks",
        "bank_mask", "group_shift", "group_mask",  # of a row
        "flits",
        "lanes", "beats", "elements", "slot_beats", "slots", "alus", "alu_latency", "results",
        "rx_packets", "tx_packets", "commands", "scan", "queues",
        # Memory.
        "memory_read", "memory_write",
        "poll",  # cycles from the end of a host's read to the next one
        # Latencies of blocks, see sim.cycles.ace.latencies.
        "register_write", "register_read", "sample", "command", "check", "chunk", "report",
        "lookup", "event", "parse", "credit", "interrupt",
        # FIFOs: headers and payloads to be sent, parked packets.
        "headers", "payloads", "parking",
        # Partitions: phases (0: a chunk keeps its slot), FSMs that chunks enter, and whom commands
        # are for; the first client that writes.
        "phases", "targets", "first_writer",
    )
    + [("program_of", np.int64, (16, 3))]
    # By FSM: its phase, and its slots in the SRAM: first row, beats, number.
    + arrays(16, "phase_of", "slot_row", "slot_size", "slot_count")
    # By partition: its first FSM, how many it has, and for results of the last phase their slots.
    + arrays(16, "fsms_from", "fsms_in")
    + arrays(16, "final_row", "final_size", "final_count")
)

_CONTEXT = np.dtype(
    integers(
        "assigned", "live", "loaded", "odd", "announce", "fresh", "step",
        "packet", "beats", "elements", "program", "key", "age", "waiting",
        "over", "over_from",  # the generator knows that the phase is; not before this cycle
        "wants",  # port, from 1, whose command has to leave before the next packet can
        "row", "results",  # of its first block, here and in the next partition
        "slot_after", "fsm_after",  # of its results
        "collective",  # by its number in the program table
        "finished_at",  # its phase; 0: it has not
    )
    # By parity of the phase: packets that have yet to arrive and to leave, and runs of blocks.
    + arrays(2, "receives", "sends", "packets", "span")
    # Of the peer on each port: cycles from which its READY packets are known, its context.
    + [("grant", np.int64, (8, READIES)), ("remote", np.int64, (8,))]
)

_JOB = np.dtype(
    integers(
        "at", "address", "stride", "first", "last", "row", "beats", "tail_block", "tail", "tag",
    )
)

_REPORT = np.dtype(integers("visible", "fsm", "event"))
_SEND = np.dtype(integers("valid", "word", "row", "place", "context", "odd"))
"""A send command of an FSM for a port; ``valid``: cycle from which it waits there."""
_PARKED = np.dtype(integers("ready", "context", "step", "offset"))

_FSM = np.dtype(
    integers(
        # Admission and contention.
        "setup", "setup_end", "asked", "placed", "ask_free", "asker", "own_at", "reporter",
        "reported_at", "greeted", "greeter", "greeted_word",
        # Send generator: what it works on, and when it looks for work again.
        "busy_until", "pick_at", "answer_at", "sleeping", "source", "target", "step", "offset",
        "passed", "announcer", "prefer_fresh", "park_head", "park_count", "parked_at",
        # Completion.
        "closer", "occupied", "store", "store_at",
        "opened_at",  # a phase, last
    )
    + [("early", np.int64, (8, 16)), ("results", _JOB, (16,))]
    # Slots for results of the last phase that are held, and their jobs.
    + [("finals_held", np.int64), ("finals", _JOB, (16,))]
)

_FLIGHT = np.dtype(integers("word", "left", "out", "parks", "onward"))

_PACKED = np.dtype(integers("word", "left"))
"""A packet whose last flit is in the packer; ``left``: flits until that one has left."""

_ASKED = np.dtype(integers("word", "at"))
_QUEUED = np.dtype(integers("word", "seen", "ready"))
"""A packet in a transmit queue; ``seen``: the cycle from which its header is."""
_ARRIVING = np.dtype(integers("word", "ends", "last_flits", "visible"))
"""A packet on a link or in a receive buffer, from its header on; ``ends``: the cycle in which its
last flit arrives. ``last_flits``: of one from outside, flits in its last beat, at most."""
_BEAT = np.dtype(integers("at", "flits"))
"""A beat on a link or in front of a receive buffer, and when it arrives."""

_END = np.dtype(integers("word", "fsm", "event"))

_PORT = np.dtype(
    integers(
        # Transmit port: credits, packer, link.
        "credits", "packer_free", "packed", "level", "accepted", "waiting", "flush_at",
        "flushed_at",
        "external", "peer", "peer_port", "latency",
        "pace", "pace_next",
        # Forward gate.
        "gate_owner", "gate_until", "gate_flights",
        # Send unit and its arbiter.
        "unit_free", "held", "held_at", "held_word", "held_row", "held_place", "held_context",
        "held_odd",
        "carried_word", "carried_fsm", "carried_context", "carried_odd",
        # Receive buffer and unit, ALU.
        "tail", "ended", "arrived", "looked", "look_free", "parsed", "credit_free", "asked_head",
        # Unpacker: beats that have been sent and taken, flits in its window, those that the packet
        # in front still needs (-1: its header, too), the next cycle.
        "beat_tail", "beat_head", "window", "needs", "unpacks_at",
        "asked", "stream_until", "alu_until", "alu_user", "alu_since", "issue_left", "offered_at",
        "reduces",
        # Beats that are reduced and wait for their operands, now and at the beginning of the cycle;
        # they go behind those of another port.
        "waits", "waited", "offers", "behind",
        "promised", "collected_at", "flight_head", "flights",
        "flown_at",  # when the last beat of a packet went on
        # Counters.
        "beats", "flits", "packets", "parked", "first_beat", "stalled",
    )
    + [("stall_key", np.uint64), ("stall_below", np.uint64)]
    + arrays(2, "reserved", "head", "count")
    # The first ``packed`` are there; the questions that wait for answers.
    + [("held_packets", _PACKED, (12,)), ("asked_words", _ASKED, (WINDOW,))]
    + [("flying", _FLIGHT, (FLIGHTS,))]
    # Packets of which the last beat waits for SRAM: what the receive unit, the send unit, and at
    # the first port the copy unit tells then; what the send unit has read.
    + arrays(3, "ends_head", "ends_count")
    + [("ends", _END, (3, 2))]
    # Events of the receive unit and of the send unit, and of the copy unit at the first port, that
    # FSMs have not taken yet.
    + arrays(3, "event_head", "event_count")
    + [("events", _REPORT, (3, EVENTS))]
)

_BURST = np.dtype(integers("due", "row", "beats", "left", "final", "tag"))
"""``beats`` have yet to come from memory, ``left`` to be written; below zero: so many segments
without any."""

_CUT = np.dtype(integers("beats", "at", "free", "accepted", "last", "final", "tag"))
"""A burst of the RX DMA, or a segment without beats; ``last``: of its segment."""

_DMA = np.dtype(
    integers(
        # Walker and splitter.
        "jobs", "job_head", "held", "held_result", "held_at", "sender", "active", "block",
        "last_block", "row", "address", "stride", "beats", "tail_block", "tail", "tag",
        "segment_at",
        "accepted", "splitter_free", "left", "burst_row", "burst_address", "burst_tag", "final",
        # Bursts under way.
        "bus_free", "bursts", "open_head", "open_count", "beats_done",
        "arrives", "moved", "moved_before", "to_come",
        "ahead",  # beats that are loaded in a skid buffer, rows that are read in a queue
        "stepped",  # TX DMA only: when a beat, or a job that ends without one, went on last
        "passing",  # such a job waits to
        "passed_head", "passed_count",
        # RX DMA only.
        "piece", "burst_at", "burst_free", "last_write", "last_close",
        "write_before", "answered", "count", "segments",
        "pushed", "issued", "cut", "taken", "to_read", "read_row", "read_tag", "from_cycle",
        "last_piece",
        "closes", "addressed",
        "pace", "pace_next",  # of beats of the memory port
        "report_head", "report_count",
    )
    + arrays(STORE_BEATS, "writes")
    + arrays(8, "acknowledged", "ends", "walk_row", "walk_beats", "walk_at")
    + arrays(REPORTS, "report_at", "report_tag")
    # By channel of the memory port: TX DMA address and data; RX DMA address, data, answer.
    + [("stall_key", np.uint64, (3,)), ("stall_below", np.uint64)]
    + [("waiting", _JOB, (4,)), ("under_way", _BURST, (UNDER_WAY,))]
    + [("passed", _BURST, (SEGMENTS,)), ("cuts", _CUT, (CUTS,))]
)

_CLIENT = np.dtype(
    [
        ("head", np.int64),
        ("count", np.int64),
        # In the registers in front of the SRAM, now and at the beginning of the cycle.
        ("inside", np.int64),
        ("before", np.int64),
        ("ready", np.int64, (REQUESTS,)),
        ("row", np.int64, (REQUESTS,)),
        ("tag", np.int64, (REQUESTS,)),
    ]
)

_NODE = np.dtype(
    integers(
        "rank", "phase", "ready_at", "issued", "accepted", "running", "current",
        "offset", "chunk", "fsm", "slot", "admitted", "pulse_free",
        "irq_at", "irq", "op", "op_at", "op_end",
        "banks_at", "banks_next", "bank_conflicts", "alu_conflicts",
    )
    + [("turn", np.int64, (2, 64)), ("choice", np.int64, (2, 64))]
    + arrays(16, "place_turn")  # by phase: the FSM of the next one whose slot is taken next
    # Of reports that chunks are stored and loaded: the DMA that was last, the next cycle for one.
    + arrays(2, "reporter", "report_free")
)

_QUEUE = np.dtype(
    integers("head", "count", "left_at") + arrays(256, "chunk", "visible")
)
"""Chunks of a phase in the order in which they entered it: FSM and slot of each, and when it
shows."""

_COPIER = np.dtype(
    integers(
        "copies", "freed_at", "promised", "head", "count",
    )
    + arrays(8, "fsm", "context")
)
"""The copy unit: commands that it has taken."""

_COMMAND = np.dtype(
    integers(
        "program", "load_all", "store_all", "contiguous", "elements", "stride", "block",
        "tail_block", "source", "destination",
    )
)

_CODE = np.dtype(integers("op", "block", "port", "step", "readies", "run", "digits", "odd"))
"""``PHASE`` has its counts in ``block`` and ``step`` and a mask in ``port``; ``run`` is its own.
``odd``: parity of the phase that an instruction belongs to.
``digits``: row of `AceState.digits`."""
DIGIT = np.dtype(integers("dimension", "blocks", "nodes", "ranked"))
"""A coordinate in the number of a block; ``ranked``: such numbers are places of ranks."""
_WAY = np.dtype(
    [("ring", np.int64), ("place", np.int64, (DIMENSIONS,)), ("port", np.int64, (8,))]
)
"""Where an FSM of a node is in its ring or torus, and the node's ports for those of the code."""
_PROGRAM = np.dtype(integers("receives", "sends", "ready_ports", "run"))
_LOG = np.dtype(integers("kind", "node", "port", "cycle", "value"))
_PROGRESS = np.dtype(integers("left", "done"))


class AceState(NamedTuple):
    """All arrays of a model, as the compiled code sees them. First axis of most: nodes."""

    c: NDArray[Any]  # (1,) settings
    heap: NDArray[np.int64]
    registers: NDArray[np.int64]  # see sim.cycles.ace.events
    node: NDArray[Any]
    fsm: NDArray[Any]  # nodes, fsms
    context: NDArray[Any]  # nodes, fsms, contexts
    command: NDArray[Any]  # nodes, fsms, ports
    parking: NDArray[Any]  # nodes, fsms, room
    port: NDArray[Any]  # nodes, ports
    arriving: NDArray[Any]  # nodes, ports, room
    beat: NDArray[Any]  # nodes, ports, room
    queue: NDArray[Any]  # nodes, ports, 2, room
    loader: NDArray[Any]  # nodes, memory ports
    storer: NDArray[Any]  # nodes, memory ports
    client: NDArray[Any]  # nodes, readers and writers of the SRAM
    progress: NDArray[Any]  # nodes, commands: chunks not in memory, cycle of completion
    commands: NDArray[Any]
    way: NDArray[Any]  # nodes, fsms
    order: NDArray[np.int64]  # rings, nodes: rank at each place
    digits: NDArray[Any]  # phases, dimensions: how blocks depend on the place of a node
    chunks: NDArray[Any]  # nodes, phases: order of the chunks in each
    copier: NDArray[Any]  # nodes
    firsts: NDArray[np.int64]  # nodes, fsms, collectives: first block of what a phase leaves
    code: NDArray[Any]  # programs, steps
    programs: NDArray[Any]
    script: NDArray[Any]  # OPERATION
    log: NDArray[Any]  # beats, packets and credits to nodes that are not simulated here
    work: NDArray[np.int64]  # nodes, units: see sim.cycles.ace.occupancy
    work_over_time: NDArray[np.int64]  # units, windows


def allocate(
    config: AceConfig, nodes: int, *, commands: int, operations: int, log: int = 1
) -> AceState:
    """Arrays of a model at rest."""
    c = config
    ports, fsms, contexts, masters = c.ports, c.fsms, c.contexts, c.memory_ports
    parked = contexts * (c.slot_beats // c.packet_beats + min(c.max_nodes, MOST_RUNS))
    # Every packet and every credit on a link is an event, and packets hold the credits.
    live = 64 + 24 * (ports + fsms + masters) + ports * c.rx_packets
    s = AceState(
        c=np.zeros(1, _SETTINGS),
        heap=np.zeros(nodes * live + 1024, np.int64),
        registers=np.zeros(5, np.int64),
        node=np.zeros(nodes, _NODE),
        fsm=np.zeros((nodes, fsms), _FSM),
        context=np.zeros((nodes, fsms, contexts), _CONTEXT),
        command=np.zeros((nodes, fsms, c.targets), _SEND),
        parking=np.zeros((nodes, fsms, parked), _PARKED),
        port=np.zeros((nodes, c.targets), _PORT),
        arriving=np.zeros((nodes, ports, c.rx_packets + 2), _ARRIVING),
        beat=np.zeros((nodes, ports, (c.rx_packets + 2) * (c.packet_beats + 1)), _BEAT),
        queue=np.zeros((nodes, ports, 2, c.tx_packets), _QUEUED),
        loader=np.zeros((nodes, masters), _DMA),
        storer=np.zeros((nodes, masters), _DMA),
        client=np.zeros((nodes, c.sram_requesters), _CLIENT),
        progress=np.zeros((nodes, commands), _PROGRESS),
        commands=np.zeros(commands, _COMMAND),
        way=np.zeros((nodes, fsms), _WAY),
        order=np.zeros((1, nodes), np.int64),
        digits=np.zeros((1, 1), DIGIT),
        chunks=np.zeros((nodes, max(1, c.phases)), _QUEUE),
        copier=np.zeros(nodes, _COPIER),
        firsts=np.zeros((nodes, fsms, 3), np.int64),
        code=np.zeros((1, 1), _CODE),
        programs=np.zeros(1, _PROGRAM),
        script=np.zeros(operations, OPERATION),
        log=np.zeros(log, _LOG),
        work=np.zeros((nodes, len(UNITS)), np.int64),
        work_over_time=np.zeros((len(UNITS), WINDOWS), np.int64),
    )
    s.node["turn"] = s.node["reporter"] = -1
    s.fsm["early"] = -1
    s.command["valid"] = s.fsm["own_at"] = NEVER
    s.fsm["opened_at"] = -NEVER
    s.fsm["closer"] = s.fsm["announcer"] = s.fsm["reporter"] = s.fsm["greeter"] = -1
    s.fsm["asker"] = ports
    s.context["grant"] = NEVER
    s.storer["sender"] = -1
    s.port["credits"] = c.rx_packets
    s.port["needs"] = -1
    s.port["flush_at"] = s.port["alu_user"] = -1
    s.port["flushed_at"] = -NEVER
    s.progress["done"] = -1
    s.chunks["left_at"] = -NEVER
    s.copier["freed_at"] = -NEVER
    return s
