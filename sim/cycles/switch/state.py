# SPDX-License-Identifier: Apache-2.0
"""State of the cycle model of in-switch reduction: registers as records, packets in slots.

A *lane* is a link of an endpoint with all behind it (`hw.switch_dma.lane`). A *packet* has the
cycle from which it is seen, its header (`sim.cycles.switch.words`), and the set of the operands in
it, a bit per member, in two words.

Buffers stand in this order: those of the ports of all switches, of their units, and of results at
the ports; those from which lanes send; those into which lanes receive. Outputs: the links of all
switches, the ways of operands to their units, the ways of loads, the links of lanes.

Switches and endpoints may be *elsewhere*: they are not simulated, and what crosses their links
comes from and goes to whoever simulates them (`sim.cycles.switch.notes`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.common.axi import BOUNDARY_BYTES
from hw.link.packet import FLIT_BYTES
from hw.switch.config import SwitchConfig
from hw.switch.formats import FLIT_LANES
from hw.switch.packet import CLASSES
from hw.switch.reduction_datapath import row_cycles
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.transmit import SEND_PACKETS
from sim.cycles.port import CHANNELS, PORT, PORT_QUEUES, port_queues
from sim.cycles.queues import fifo, lay_out, queue_fields
from sim.cycles.records import arrays, integers
from sim.cycles.switch.notes import NOTE
from sim.cycles.switch.transit import COLUMNS
from sim.cycles.switch.words import KIND_BITS
from sim.endpoint.switch_system import Held, held_by

__all__ = [
    "BEATS",
    "COMMANDS",
    "COMPLETE",
    "COUNTED",
    "EVENTS",
    "HEADERS",
    "HOME",
    "ITEMS",
    "LOADS",
    "PARTIALS",
    "PAYLOAD",
    "QUEUES",
    "RESULTS",
    "UNANSWERED",
    "UNDER_WAY",
    "SwitchState",
    "allocate",
]

# Queues of a lane behind those of its port, by the part that takes from them.
QUEUES = 15
ITEMS, PAYLOAD, HEADERS, COMPLETE, COMMANDS, BEATS = range(PORT_QUEUES, QUEUES)

UNDER_WAY, UNANSWERED = 1, 2
"""Bits of a block: it was begun; since then no load of it was answered."""

# Packets of a lane between the receiver and what follows, by class; from the home store.
LOADS, PARTIALS, RESULTS, HOME = range(4)
_INCOMING = 4

EVENTS = ("completed", "evicted", "expired", "stalled", "bypassed", "passed")
"""Counters of a reduction unit."""

_MOST_WAVES = 32
_NOTES = 1024

_SETTINGS = np.dtype(
    integers(
        # Switches (SwitchConfig); `multicast`: partials are for all members.
        "switches", "ports", "entries", "flits", "multicast", "homes", "operand_latency",
        "sum_latency", "load_latency", "age_bits",
        # Endpoints (SwitchDmaConfig).
        "links", "waves", "blocks_under_way", "sums", "burst_beats", "payload",
        # SwitchSettings; operands of all members.
        "passing",  # classes of which packets pass older ones, a bit each
        "members", "spread", "whole", "write_latency", "everyone_low", "everyone_high",
        # First buffer, output and pool of a kind.
        "unit_buffer", "result_buffer", "send_buffer", "receive_buffer", "way", "load_way",
        "lane_output", "unit_pool", "lane_pool",
        # Software instead: messages of all endpoints, cycles until it sees one that has come.
        "messages", "fence", "work",
        "mixed", "noted", "admitted",  # whether some are elsewhere; notes taken, notes to be read
        "wrong",  # operands that came twice, and results that lack some
        # Ordinary packets: kind; 1 while sources are on; number in flight; number that came to a
        # wrong place or out of order.
        "ordinary_kind", "ordinary_on", "ordinary_under_way", "astray",
    )
    + [("memory_below", np.uint64), ("ordinary_below", np.uint64)]
)

_PACKET = np.dtype(integers("at", "header", "low", "high"))
_HELD = np.dtype(integers("at", "header", "low", "high", "targets"))
"""A packet in a buffer; ``targets``: the outputs that it has still to reach. Of a load that is for
a unit, ``low`` and ``high`` are ``expected`` and ``marks``."""

_LOAD = np.dtype(integers("at", "header", "expected", "marks"))
"""A load; ``expected``: operands in its answer; ``marks``: bits of `sim.cycles.switch.unit`."""

_TOTAL = np.dtype(integers("header", "count", "low", "high"))
"""A sum of the home store: header of its first operand, number of operands, and their set."""

_POOL = np.dtype(integers("level", "first", "free", "watched", "emptied", "opens_at"))
"""Credits or room, see `sim.cycles.switch.buffers`. ``watched``: by a `StopDetector`;
``emptied``: the cycle in which the last one was taken; ``opens_at``: when the pool was found to
have been empty for long, the cycle from which some are taken again."""

_BUFFER = np.dtype(
    integers(
        "busy", "turn", "pool", "refund", "request", "chosen_channel", "chosen", "channel", "place",
        "pending", "sender", "turn_before", "served_at",
    )
    + arrays(CLASSES, "rest", "first", "seen", "free", "passed", "changed")
)
"""A `SendBuffer`. Per class: outputs that packets have still to reach, packets that have left, that
may request, and that were entered. ``busy``: the cycle from which one is chosen again; what was
is in ``request``, the outputs, ``chosen_channel``, its class, and ``chosen``, how many packets of
the class are older; a cycle later ``channel`` and ``place`` are those of what requests outputs, and
``pending`` is its class if it is a header alone, else -1. ``changed``: the cycle from which packets
of the class are chosen again.
``passed``: times in a row that the oldest was passed. ``turn``: who goes first, from the second
cycle after ``served_at`` on; until then that is ``turn_before``. A packet that leaves returns
one to a pool: room, or a credit. ``sender``: one more than the output that sends to the buffer, if
that is elsewhere."""

_OUTPUT = np.dtype(
    integers(
        "open_at", "turn", "pool", "classes", "peer", "flight", "beside", "flits", "ordinary",
        "leaves", "turn_of_operands", "turn_asked", "younger", "own", "column_turn",
        "turn_before", "served_at", "column_before", "column_at",
    )
)
"""An `OutputPort`, with the buffer at the other end of its link; ``beside``: kinds of packets, a
bit each, beside which goes an acknowledgement; ``ordinary``: its flits of ordinary packets;
``leaves``: the buffer is elsewhere. Of a link: ``own``: its packet comes by the column that it
shares with the unit; ``column_turn``: 1 if the unit goes first. Turns are those of `_BUFFER`."""

_UNIT = np.dtype(
    integers(
        "accept_at", "pending", "accepted", "stands", "yields", "found", "turn_at",
        "valid", "late", "aged", "due",  # bits of entries
        "first", "free",  # operands
        "load_first", "load_free", "load_held", "load_counted", "load_lacked", "load_at", "fits",
        "fill_at", "owner",
        # The unit, before results of the link, at the input that they share; turns of `_BUFFER`.
        "goes_first", "went_first", "went_at",
        *EVENTS,
    )
    + arrays(CLASSES, "out_first", "out_free")
)

_ENTRY = np.dtype(integers("header", "count", "expected", "low", "high", "rank"))

_JOB = np.dtype(
    integers(
        "given_at", "done_at", "pull", "blocks", "tail_beats", "source_row", "destination_row"
    )
)

_ENDPOINT = np.dtype(
    integers("job", "running", "ends", "ready", "arrived", "woken", "missing", "elsewhere")
)
"""With software: ``ready``: messages that may be sent; ``arrived``, ``woken``: messages that have
come, and that the software has seen; ``missing``: messages to come."""

_MESSAGE = np.dtype(
    integers("source", "target", "packets", "waits", "shares", "follow_at", "follow_end")
)
"""``packets``: on every link; ``waits``: messages to wait for; ``shares``: links that are done."""

_SOURCE = np.dtype(
    integers("partner", "born", "place", "sent") + [("when", np.uint64), ("where", np.uint64)]
)
"""Source of a link's ordinary packets. ``born``: the cycle from which the next one is there;
``place``: its flits that are stored; ``partner``: receiver of all, -1 if it is any endpoint."""

_ARRIVAL = np.dtype(integers("at", "message"))
"""A message that has come, and the cycle from which the software sees it."""

_SENDER = np.dtype(integers("open_at", "message", "sent", "noted", "told"))

COUNTED = (
    "operands", "loads", "answers", "partials", "finished", "results", "unknown", "wave_wait",
    "barrier",
)
"""Counters of a lane."""

_LANE = np.dtype(
    integers(
        *PORT,
        "endpoint", "link", "running",
        # Operands.
        "active", "contract", "pull", "agreed_at", "block", "blocks", "tail_beats", "source_row",
        "destination_row", "place", "left", "sending",
        "read_latency",
        # Waves.
        "size_log2", "outstanding", "number", "contract_number", "waves_under_way",
        # Loads.
        "walked", "loaded", "heard", "heard_at", "heard_word", "number_seen", "asked", "asked_item",
        "heard_first", "heard_waits",
        # Transmitter, home store, results.
        "within", "owner", "turn", "merged", "merge_at", "merge_owner", "merge_turn", "home_at",
        "home_turn", "results_at",
        "result_held", "held_flits", "result_body", "result_within", "result_owner", "result_turn",
        "result_word", "result_low", "result_high", "judged", "judged_head", "result_place",
        "writes", "compares",
        "ends", "has_room", "looked", "looked_block", "has_sent", "has_stored", "moved_flit",
        "passed_over", "under_way",
        *COUNTED,
    )
    + queue_fields(QUEUES)
    + arrays(_INCOMING, "in_first", "in_free", "in_place")
    + arrays(_MOST_WAVES, "counts")
    + [("memory_key", np.uint64, (CHANNELS,))]
)


class SwitchState(NamedTuple):
    """All arrays of a model, as the compiled code sees them."""

    c: NDArray[Any]  # (1,) settings
    endpoint: NDArray[Any]
    job: NDArray[Any]  # endpoints, jobs
    lane: NDArray[Any]  # endpoints * links
    slots: NDArray[np.int64]  # of all queues of lanes: (seen from, value) by turns
    pending: NDArray[np.int64]  # lanes, blocks: bits UNDER_WAY, UNANSWERED
    total: NDArray[Any]  # lanes, sums of the home store
    incoming: NDArray[Any]  # lanes, 4, 2
    buffer: NDArray[Any]
    held: NDArray[Any]  # buffers, classes, room
    output: NDArray[Any]
    pool: NDArray[Any]
    due: NDArray[np.int64]  # pools, room: cycles
    unit: NDArray[Any]  # switches * ports
    entry: NDArray[Any]  # units, entries
    operand: NDArray[Any]  # units, room
    load: NDArray[Any]  # units, room
    leaving: NDArray[Any]  # units, classes, room
    timeout: NDArray[np.int64]  # switches
    period_at: NDArray[np.int64]  # the same: a cycle in which a period begins
    route: NDArray[np.int64]  # switches, endpoints: port
    local: NDArray[np.int64]  # the same: 1 if the endpoint is there
    targets: NDArray[np.int64]  # switches, regions: ports of the tree
    behind: NDArray[np.int64]  # switches, regions, ports: members that the link leads to
    home: NDArray[np.int64]  # regions, rows: endpoint
    expected: NDArray[np.int64]  # regions
    message: NDArray[Any]
    follow: NDArray[np.int64]  # messages that wait for others, by these
    ready: NDArray[np.int64]  # endpoints, messages in the order in which they may be sent
    arrived: NDArray[Any]  # the same, in the order in which they have come
    sender: NDArray[Any]  # lanes
    note: NDArray[np.int64]  # lanes, room: headers to be sent
    source: NDArray[Any]  # lanes
    sent_to: NDArray[np.int64]  # lanes, endpoints: ordinary packets
    taken_from: NDArray[np.int64]  # the same
    transit: NDArray[np.int64]  # kinds, `sim.cycles.switch.transit.COLUMNS`
    requests: NDArray[np.int64]  # outputs of a switch, within a cycle
    asking: NDArray[np.int64]  # inputs likewise: buffers that ask
    asked: NDArray[np.int64]  # classes for which they do
    granted: NDArray[np.int64]
    elsewhere: NDArray[np.int64]  # switches: 1 for those that are not simulated here
    outbox: NDArray[Any]  # notes that were written
    inbox: NDArray[Any]  # notes from elsewhere


def _queues(c: SwitchDmaConfig, held: Held) -> list[tuple[int, int]]:
    """Depth and latency of each queue of a lane."""
    return [
        *port_queues(c.outstanding_bursts), (held.reads, 1), fifo(2 * c.payload_flits), (2, 1),
        (held.window, 1), (4, 1), fifo(2 * c.payload_flits),
    ]


def _room(*packets: int) -> int:
    """A power of two that holds as many."""
    return 1 << (max(packets) - 1).bit_length()


def allocate(
    switch: SwitchConfig, dma: SwitchDmaConfig, *, switches: int, endpoints: int, jobs: int,
    messages: int = 0, follow: int = 0, most: int = 0, buffer_packets: int = 0, notes: int = 0,
) -> SwitchState:
    """Arrays of a model at rest; *messages* in all, at most *most* from or to an endpoint. Buffers
    have room for *buffer_packets*, or as many as the configurations say if these are more. At most
    *notes* are taken, and read, between two calls."""
    units, lanes = switches * switch.ports, endpoints * dma.links
    buffers, outputs = 3 * units + 2 * lanes, 3 * units + lanes
    pools = CLASSES * (buffers + outputs + units) + _INCOMING * lanes
    held = held_by(switch, dma)
    lane = np.zeros(lanes, _LANE)
    room = _room(switch.buffer_packets, dma.buffer_packets, switch.queue_packets, SEND_PACKETS,
                 buffer_packets)

    def zeros(*shape: int) -> NDArray[np.int64]:
        return np.zeros(shape, np.int64)

    s = SwitchState(
        c=np.zeros(1, _SETTINGS),
        endpoint=np.zeros(endpoints, _ENDPOINT),
        job=np.zeros((endpoints, jobs), _JOB),
        lane=lane,
        slots=lay_out(lane, _queues(dma, held)),
        pending=zeros(lanes, held.window),
        total=np.zeros((lanes, dma.sums), _TOTAL),
        incoming=np.zeros((lanes, _INCOMING, 2), _PACKET),
        buffer=np.zeros(buffers, _BUFFER),
        held=np.zeros((buffers, CLASSES, room), _HELD),
        output=np.zeros(outputs, _OUTPUT),
        pool=np.zeros(pools, _POOL),
        due=zeros(pools, room),
        unit=np.zeros(units, _UNIT),
        entry=np.zeros((units, held.entries), _ENTRY),
        operand=np.zeros((units, _room(switch.queue_packets)), _PACKET),
        load=np.zeros((units, _room(switch.queue_packets + 1)), _LOAD),
        leaving=np.zeros((units, CLASSES, _room(switch.queue_packets)), _PACKET),
        timeout=zeros(switches),
        period_at=zeros(switches),
        route=zeros(switches, endpoints),
        local=zeros(switches, endpoints),
        targets=zeros(switches, switch.regions),
        behind=zeros(switches, switch.regions, switch.ports),
        home=zeros(switch.regions, switch.homes),
        expected=zeros(switch.regions),
        message=np.zeros(messages, _MESSAGE),
        follow=zeros(follow),
        ready=zeros(endpoints, most),
        arrived=np.zeros((endpoints, most), _ARRIVAL),
        sender=np.zeros(lanes, _SENDER),
        note=zeros(lanes, _NOTES),
        source=np.zeros(lanes, _SOURCE),
        sent_to=zeros(lanes, endpoints),
        taken_from=zeros(lanes, endpoints),
        transit=zeros(1 << KIND_BITS, len(COLUMNS)),
        requests=zeros(3 * switch.ports),
        asking=zeros(2 * switch.ports),
        asked=zeros(2 * switch.ports),
        granted=zeros(2 * switch.ports),
        elsewhere=zeros(switches),
        outbox=np.zeros(notes, NOTE),
        inbox=np.zeros(notes, NOTE),
    )
    s.lane["agreed_at"] = s.job["done_at"] = -1
    s.entry["rank"] = np.arange(held.entries)
    s.unit["turn_at"] = -1
    c = s.c[0]
    c["unit_buffer"], c["result_buffer"] = units, 2 * units
    c["send_buffer"], c["receive_buffer"] = 3 * units, 3 * units + lanes
    c["way"], c["load_way"], c["lane_output"] = units, 2 * units, 3 * units
    c["unit_pool"] = CLASSES * (buffers + outputs)
    c["lane_pool"] = CLASSES * (buffers + outputs + units)
    c["switches"], c["ports"], c["entries"] = switches, switch.ports, held.entries
    c["flits"], c["payload"] = switch.packet_flits, switch.payload_flits
    c["homes"], c["age_bits"] = switch.homes, switch.age_bits
    queue = fifo(switch.queue_packets * switch.packet_flits)[1] + 1  # `PacketQueue`
    held_rows = row_cycles(
        beats=switch.payload_flits * FLIT_LANES // switch.lanes, stages=switch.alu_stages
    )
    c["operand_latency"] = 4 + queue
    c["sum_latency"] = 1 + held_rows + switch.alu_stages + queue
    c["load_latency"] = 4 + fifo(switch.queue_packets)[1]
    c["links"], c["waves"], c["blocks_under_way"] = dma.links, dma.waves, held.window
    c["multicast"], c["sums"] = switch.multicast_partials, dma.sums
    c["burst_beats"] = min(dma.max_burst, BOUNDARY_BYTES // FLIT_BYTES)
    return s
