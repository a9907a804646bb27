"""State of the smart NIC's cycle model: registers as records, queues in arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.common.fifo import BLOCK_MEMORY_DEPTH
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.engine import JOBS_AHEAD
from hw.smartnic.fetch import BLOCKS_AHEAD
from hw.smartnic.store import BLOCKS_OPEN
from hw.smartnic.wire_codec import BLOCKS_INSIDE
from sim.cycles.queues import NEVER

__all__ = ["OP_COMMAND", "OP_COUNT", "OP_DELAY", "OP_IRQ", "OP_WRITE", "NicState", "allocate"]

OP_WRITE, OP_COMMAND, OP_DELAY, OP_IRQ, OP_COUNT = range(5)
"""Operations of a host: a number of register writes, the write of a command, and waiting."""

# Queues of an engine, by the part that takes from them. Those of two flows stand side by side,
# reduce before gather.
DESCRIPTORS = 0  # of the node, kept with its first engine
JOBS = 1  # +2: sequencers
ITEMS = 3  # +2: forks to the host side and to the datapath
PATH = 5  # +2: datapaths, told of items
WORK = 7  # +2
COMING = 9  # +2: decoders' entrances
LEAVING = 11  # +2: and exits
PLAIN = 13  # +2: blocks that are not compressed, in the decoders
FETCH_BLOCKS, UNDER_READ, READ, INPUT = range(15, 19)
SUM, ORDER, PLAIN_OUT, RESULTS = range(19, 23)
TX = 23  # +2: beats
FRAMES = 25  # +2
OUT = 27
WIRE = 28  # +2: link and switch, from the next and from the previous node
RX = 30  # +2
OUTPUT, STORE_BLOCKS, MARKS, UNDER_WRITE, RUNS, WRITE, OUTCOME = range(32, 39)
READS, WRITES, RESPONSES = range(39, 42)  # of the memory: bursts
VERDICTS = 42  # on blocks that were gathered
QUEUES = 43

_ENCODER_STAGES, _DECODER_STAGES = 4, 2
_CHANNELS = 5  # of a memory port that stall by themselves


def _integers(*names: str) -> list[tuple[str, Any]]:
    return [(name, np.int64) for name in names]


_SETTINGS = np.dtype(
    _integers(
        # Sizes of the NIC (SmartNicConfig) and of the ring.
        "nodes", "engines", "block_beats", "frame_beats", "compressed_frame_beats",
        "receive_beats", "credit_beats", "control_beats", "descriptors", "burst_beats",
        # Codec: beats of a block, units of its gearboxes.
        "parts", "granule_beats", "granule_bits", "wire_bits", "unit",
        "pack_in", "pack_out", "unpack_in", "unpack_out",
        # SwitchSettings.
        "latency", "read_latency", "write_latency", "pace", "host_pace",
        "poll",
    )
    + [(name, np.uint64) for name in ("link_below", "memory_below", "host_below")]
)

_NODE = np.dtype(
    _integers(
        # Host: operation, and the cycle in which it starts or is looked at.
        "op", "op_end", "op_at", "doing", "poll_at", "issued",
        # Control.
        "accept_at", "accepting", "outstanding", "completed", "irq", "refused",
        "plan", "plan_at", "plan_free",
        "memory_free",  # shared bandwidth, in 1/65536 cycle
        "sleep",  # until this cycle nothing happens
    )
    + [("host_key", np.uint64)]
)

_SEQUENCER = np.dtype(
    _integers("state", "job", "number", "block", "offset", "span", "index", "passed")
)

_GEAR = np.dtype(_integers("level", "ending", "valid", "last"))

_DECODER = np.dtype([*_integers("part"), ("held", np.int64, (_DECODER_STAGES,)), ("gear", _GEAR)])

_ENGINE = np.dtype(
    _integers(
        "moved",  # last cycle in which a register changed or was about to
        "parts", "job_taken",
        # AXI masters and memory.
        "reading", "read_row", "read_final", "ar_valid", "ar_beats", "r_held", "read_left",
        "writing", "write_row", "aw_valid", "aw_beats", "b_held", "write_left", "sent_run",
        "fetched", "stored", "summed",
        # Encoder.
        "inside", "part",
        # Transmitter.
        "chosen", "chosen_beats", "left", "payload", "carried", "turn",
        # The switch's exit, and the beat under examination.
        "source", "examined",
    )
    + [(name, np.int64, (2,)) for name in (
        "collected", "sent", "told", "peer_freed", "link_free", "peer", "watched",
        "beats", "frames", "stalled", "first", "last",
    )]
    # Queues: beats entered and taken so far, cycle of the last one taken; how they are built.
    + [(name, np.int64, (QUEUES,)) for name in (
        "head", "tail", "popped", "depth", "latency", "origin", "mask",
    )]
    + [("encoding", np.int64, (_ENCODER_STAGES,)), ("gear", _GEAR)]
    + [("decoder", _DECODER, (2,)), ("sequencer", _SEQUENCER, (2,))]
    + [("memory_key", np.uint64, (_CHANNELS,)), ("link_key", np.uint64, (2,))]
)

_COMMAND = np.dtype(_integers("compressed", "beats", "rounds", "rest", "source", "destination"))
_OPERATION = np.dtype(_integers("kind", "value", "end"))
"""An operation of a host; ``end``: cycle of its completion, -1 before."""

_LOG = np.dtype(_integers("engine", "link", "cycle", "token"))


class NicState(NamedTuple):
    """All arrays of a model, as the compiled code sees them."""

    c: NDArray[Any]  # (1,) settings
    node: NDArray[Any]
    engine: NDArray[Any]  # nodes * engines
    slots: NDArray[np.int64]  # of all queues: (seen from, value) by turns
    commands: NDArray[Any]
    done: NDArray[np.int64]  # nodes, commands: cycle of completion
    script: NDArray[Any]  # operations
    log: NDArray[Any]  # beats to nodes that are not simulated here, or of traced links
    logged: NDArray[np.int64]  # (1,)


def _depths(c: SmartNicConfig, latency: int) -> list[tuple[int, int]]:
    """Depth and latency of each queue."""

    def fifo(depth: int) -> tuple[int, int]:
        return depth, 2 if depth >= BLOCK_MEMORY_DEPTH else 1

    skid, bursts, inside = (2, 1), (c.outstanding_bursts, 1), (BLOCKS_INSIDE, 1)
    # Beats on the wire, and those that the switch then holds; it is never full.
    wire = 2 * latency + 4 * c.receive_beats + 2 * c.frame_beats, latency + 2
    return [
        (c.descriptors, 1),
        (JOBS_AHEAD, 1), (JOBS_AHEAD, 1),
        skid, skid,
        (16, 1), (4, 1),
        (4, 1), (4, 1),
        inside, inside, inside, inside,
        skid, skid,
        (BLOCKS_AHEAD, 1), bursts, skid, fifo(c.input_beats),
        (c.alu_stages + 3, c.alu_stages + 1), inside, skid, fifo(c.block_beats),
        fifo(2 * c.frame_beats), fifo(2 * c.frame_beats),
        (8, 1), (8, 1),
        skid,
        wire, wire,
        (c.receive_beats, 1), (c.receive_beats, 1),
        fifo(c.output_beats), (4, 1), (BLOCKS_OPEN, 1), bursts, bursts, skid, skid,
        (c.outstanding_bursts + 1, 1), (c.outstanding_bursts + 1, 1),
        (c.outstanding_bursts + 1, 1),
        (BLOCKS_OPEN, 1),
    ]


def allocate(
    config: SmartNicConfig, nodes: int, *, latency: int, commands: int, operations: int, log: int
) -> NicState:
    """Arrays of a model at rest, for links of *latency* cycles."""
    units = nodes * config.engines
    depths, latencies = np.array(_depths(config, latency)).T
    rooms = 1 << np.array([(int(depth) - 1).bit_length() for depth in depths])
    s = NicState(
        c=np.zeros(1, _SETTINGS),
        node=np.zeros(nodes, _NODE),
        engine=np.zeros(units, _ENGINE),
        slots=np.zeros(2 * units * int(rooms.sum()), np.int64),
        commands=np.zeros(commands, _COMMAND),
        done=np.full((nodes, commands), -1, np.int64),
        script=np.zeros(operations, _OPERATION),
        log=np.zeros(log, _LOG),
        logged=np.zeros(1, np.int64),
    )
    s.node["accept_at"] = s.node["op_at"] = s.node["plan_at"] = NEVER
    s.node["plan"] = s.script["end"] = -1
    s.engine["source"] = s.engine["examined"] = s.engine["first"] = s.engine["last"] = -1
    s.engine["moved"] = s.engine["popped"] = -1
    s.engine["depth"], s.engine["latency"], s.engine["mask"] = depths, latencies, rooms - 1
    bases = 2 * (np.cumsum(np.tile(rooms, units)) - np.tile(rooms, units))
    s.engine["origin"] = bases.reshape(units, QUEUES)
    return s
