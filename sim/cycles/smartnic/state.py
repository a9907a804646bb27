# SPDX-License-Identifier: Apache-2.0
"""State of the smart NIC's cycle model: registers as records, queues in arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.smartnic.config import SmartNicConfig
from hw.smartnic.engine import JOBS_AHEAD
from hw.smartnic.fetch import BLOCKS_AHEAD
from hw.smartnic.store import BLOCKS_OPEN
from hw.smartnic.wire_codec import (
    BLOCKS_INSIDE,
    DECODER_STAGES,
    ENCODER_STAGES,
    EXIT_ROWS,
    decoded_rows,
    packed_rows,
)
from sim.cycles.host import OPERATION
from sim.cycles.port import CHANNELS, PORT, PORT_QUEUES, port_queues
from sim.cycles.queues import NEVER, fifo, lay_out, queue_fields
from sim.cycles.records import arrays, integers

__all__ = ["NicState", "allocate"]

# Queues of an engine behind those of its port, by the part that takes from them. Those of two flows
# stand side by side, reduce before gather.
DESCRIPTORS = PORT_QUEUES  # of the node, kept with its first engine
JOBS = 10  # +2: sequencers
ITEMS = 12  # +2: forks to the host side and to the datapath
PATH = 14  # +2: datapaths, told of items
WORK = 16  # +2
COMING = 18  # +2: decoders' entrances
LEAVING = 20  # +2: and exits
WORDS = 22  # +2: from the decoders' pipelines
FETCH_BLOCKS, INPUT, SUM, ORDER, PLAIN_OUT, RESULTS = range(24, 30)
TX = 30  # +2: beats
FRAMES = 32  # +2
OUT = 34
WIRE = 35  # +2: link and switch, from the next and from the previous node
RX = 37  # +2
OUTPUT, STORE_BLOCKS, MARKS = range(39, 42)
VERDICTS = 42  # on blocks that were gathered
UNPACK = 43  # +2: decoders' gearboxes
PACKED = 45  # from the encoder's gearbox
PLAIN = 46  # +2: through the decoders as they are
QUEUES = 48


_SETTINGS = np.dtype(
    integers(
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
    integers(
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
    integers("state", "job", "number", "block", "offset", "span", "index", "passed")
)

_GEAR = np.dtype(integers("level", "ending", "valid", "last"))

_DECODER = np.dtype(
    [*integers("part", "block"), ("held", np.int64, (DECODER_STAGES - 1,)), ("gear", _GEAR)]
)

_ENGINE = np.dtype(
    integers(
        *PORT,
        "parts", "ended", "job_taken",
        "fetched", "stored", "summed",
        # Encoder.
        "inside", "part",
        # Transmitter.
        "chosen", "chosen_beats", "left", "payload", "carried", "turn", "credit_due",
        # The switch's exit, the beat under examination, and a credit frame behind it.
        "source", "examined", "credited",
    )
    + arrays(
        2,
        "collected", "sent", "told", "fits", "peer_freed", "link_free", "peer", "watched",
        "beats", "frames", "stalled", "first", "last",
    )
    + queue_fields(QUEUES)
    + [("encoding", np.int64, (ENCODER_STAGES,)), ("gear", _GEAR)]
    + [("decoder", _DECODER, (2,)), ("sequencer", _SEQUENCER, (2,))]
    + [("memory_key", np.uint64, (CHANNELS,)), ("link_key", np.uint64, (2,))]
)

_COMMAND = np.dtype(integers("compressed", "beats", "rounds", "rest", "source", "destination"))
_LOG = np.dtype(integers("engine", "link", "cycle", "token"))


class NicState(NamedTuple):
    """All arrays of a model, as the compiled code sees them."""

    c: NDArray[Any]  # (1,) settings
    node: NDArray[Any]
    engine: NDArray[Any]  # nodes * engines
    slots: NDArray[np.int64]  # of all queues: (seen from, value) by turns
    commands: NDArray[Any]
    done: NDArray[np.int64]  # nodes, commands: cycle of completion
    script: NDArray[Any]  # OPERATION
    log: NDArray[Any]  # beats to nodes that are not simulated here, or of traced links
    logged: NDArray[np.int64]  # (1,)


def _queues(c: SmartNicConfig, latency: int) -> list[tuple[int, int]]:
    """Depth and latency of each queue."""
    skid, rows, inside = (2, 1), (EXIT_ROWS, 1), (BLOCKS_INSIDE, 1)
    coded = c.codec_format is not None
    decoded = (decoded_rows(c) if coded else 1), 1
    packed = (packed_rows(c) if coded else 1), 1
    # Beats on the wire, and those that the switch then holds; it is never full.
    wire = 2 * latency + 4 * c.receive_beats + 2 * c.frame_beats, latency + 2
    return [
        *port_queues(c.outstanding_bursts),
        (c.descriptors, 1),
        (JOBS_AHEAD, 1), (JOBS_AHEAD, 1),
        skid, skid,
        (16, 1), (4, 1),
        (4, 1), (4, 1),
        inside, inside, inside, inside,
        decoded, decoded,
        (BLOCKS_AHEAD, 1), fifo(c.input_beats),
        (c.alu_stages + 4, c.alu_stages + 2), inside, rows, fifo(c.block_beats),
        fifo(2 * c.frame_beats), fifo(2 * c.frame_beats),
        (8, 1), (8, 1),
        skid,
        wire, wire,
        (c.receive_beats, 1), (c.receive_beats, 1),
        fifo(c.output_beats), (4, 1), (BLOCKS_OPEN, 1), (BLOCKS_OPEN, 1),
        skid, skid, packed,
        rows, rows,
    ]


def allocate(
    config: SmartNicConfig, nodes: int, *, latency: int, commands: int, operations: int, log: int
) -> NicState:
    """Arrays of a model at rest, for links of *latency* cycles."""
    units = nodes * config.engines
    engine = np.zeros(units, _ENGINE)
    s = NicState(
        c=np.zeros(1, _SETTINGS),
        node=np.zeros(nodes, _NODE),
        engine=engine,
        slots=lay_out(engine, _queues(config, latency)),
        commands=np.zeros(commands, _COMMAND),
        done=np.full((nodes, commands), -1, np.int64),
        script=np.zeros(operations, OPERATION),
        log=np.zeros(log, _LOG),
        logged=np.zeros(1, np.int64),
    )
    s.node["accept_at"] = s.node["op_at"] = s.node["plan_at"] = NEVER
    s.node["plan"] = -1
    for name in "source", "examined", "credited", "first", "last":
        s.engine[name] = -1
    return s
