"""Chunk dispatcher: from a command to chunks in the FSMs, and back to a completion."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.ace.layouts import (
    admit_layout,
    load_job_layout,
    loaded_layout,
    store_job_layout,
    stored_layout,
)
from hw.ace.registers import CommandError
from hw.common.fifo import StreamFIFO
from hw.fp.ops import ReduceOp

__all__ = ["Dispatcher", "command_layout"]

_COUNT_BITS = 32


def command_layout(c: AceConfig) -> data.StructLayout:
    """A collective, as written to the registers."""
    return data.StructLayout(
        {
            "collective": c.format.collective,
            "program": 4,
            "op": ReduceOp,
            "load_all": 1,
            "store_all": 1,
            "load_to_result": 1,
            # As written: what the address bus cannot carry is refused like all else beyond memory.
            "source": 64,
            "destination": 64,
            "elements": _COUNT_BITS,
            "stride": _COUNT_BITS,
            "block": _COUNT_BITS,
        }
    )


class Dispatcher(wiring.Component):
    """Checks commands, cuts them into chunks and admits the chunks in order.

    A vector of ``elements`` lies in memory as one shard per rank, ``stride`` elements apart. Chunk
    ``n`` takes the ``n``-th piece of ``block`` elements of every shard, so every shard ends at the
    same chunk and a rank's own shard is contiguous for reduce-scatter and all-gather. Chunk ``n``
    goes to FSM ``n % fsms`` on every node, and is admitted when all chunks before it have been:
    all nodes order chunks alike, and the oldest one that is not complete always has its context
    everywhere (no receiver-ready handshake can wait in a circle). A command that is not valid is
    refused as a whole, before anything is moved.

    Members
    -------
    command : ``In(stream)``
        Commands; one that comes while ``command.ready`` is low is to be refused by the caller.
    rank, nodes, fsms, memory_end : ``In``
        Settings; sampled by each command.
    vacant, vacant_context, vacant_result : ``In``, arrays over the FSMs
    admit : ``Out(stream).array(fsms)``, job : ``Out``
    load : ``Out(stream).array(memory_ports)``
    loaded, stored : ``In(stream)``
        Reports of the DMAs.
    completed, completed_collective : ``Out``
        Pulse, and which collective.
    refused, refusal, refused_collective : ``Out``
        Pulse, why, and which collective.
    memory_error : ``Out(1)``
        Pulse: a DMA reported an error.
    outstanding : ``Out``
        Commands accepted and not completed.
    """

    command: stream.Interface
    rank: Signal
    nodes: Signal
    fsms: Signal
    memory_end: Signal
    vacant: Signal
    vacant_context: list
    vacant_result: list
    admit: list
    job: data.View
    load: list
    loaded: stream.Interface
    stored: stream.Interface
    completed: Signal
    completed_collective: Signal
    refused: Signal
    refusal: Signal
    refused_collective: Signal
    memory_error: Signal
    outstanding: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        context = range(max(2, c.contexts))
        super().__init__(
            {
                "command": In(stream.Signature(command_layout(c))),
                "rank": In(12),
                "nodes": In(12),
                "fsms": In(5),
                "memory_end": In(c.address_bits + 1),
                "vacant": In(c.fsms),
                "vacant_context": In(context).array(c.fsms),
                "vacant_result": In(context).array(c.fsms),
                "admit": Out(stream.Signature(admit_layout(c), always_ready=True)).array(c.fsms),
                "job": Out(store_job_layout(c)),
                "load": Out(stream.Signature(load_job_layout(c))).array(c.memory_ports),
                "loaded": In(stream.Signature(loaded_layout(c), always_ready=True)),
                "stored": In(stream.Signature(stored_layout(c), always_ready=True)),
                "completed": Out(1),
                "completed_collective": Out(c.format.collective),
                "refused": Out(1),
                "refusal": Out(CommandError),
                "refused_collective": Out(c.format.collective),
                "memory_error": Out(1),
                "outstanding": Out(range(c.commands * 2 + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.pending = pending = StreamFIFO(command_layout(c), c.commands)
        wiring.connect(m, wiring.flipped(self.command), pending.i)

        command = Signal(command_layout(c))
        rank = Signal.like(self.rank)
        nodes = Signal.like(self.nodes)
        fsms = Signal.like(self.fsms)
        tail_block = Signal(range(c.max_nodes + 1))
        tail = Signal(_COUNT_BITS)  # elements of the tail shard
        offset = Signal(_COUNT_BITS)  # first element of the chunk within each shard
        chunk = Signal(c.format.chunk)
        fsm = Signal(range(max(2, c.fsms)))
        block = Signal(range(c.slot_elements + 1))  # elements of a block of this chunk
        tail_elements = Signal(range(c.slot_elements + 1))
        packets = Signal(range(c.block_packets + 1))
        beats = Signal(range(c.slot_beats + 1))
        own_rows = Signal(range(c.sram_beats))  # from the start of a slot to this rank's block
        source_row = Signal(range(c.sram_beats))
        result_row = Signal(range(c.sram_beats))
        context = Signal(range(max(2, c.contexts)))
        result = Signal(range(max(2, c.contexts)))
        product = Signal(12 + len(block))

        # ---- Collectives under way: chunks that are not in memory yet.
        running = Signal(c.commands)
        admitting = Signal(c.commands)
        chunks_left = [
            Signal(c.format.chunk + 1, name=f"chunks_left_{n}") for n in range(c.commands)
        ]
        names = [Signal(c.format.collective, name=f"collective_{n}") for n in range(c.commands)]
        entry = Signal(range(max(2, c.commands)))
        admitted = Signal()
        free_entry = Signal(range(max(2, c.commands)))
        for n in reversed(range(c.commands)):
            with m.If(~running[n]):
                m.d.comb += free_entry.eq(n)
        finished = Signal(c.commands)
        for n in range(c.commands):
            up = admitted & (entry == n)
            down = self.stored.valid & (self.stored.p.command == n)
            m.d.sync += chunks_left[n].eq(chunks_left[n] + up - down)
            m.d.comb += finished[n].eq(running[n] & ~admitting[n] & (chunks_left[n] == 0))
        one_finished = finished & -finished
        m.d.sync += [
            self.completed.eq(finished.any()),
            self.memory_error.eq(
                (self.loaded.valid & self.loaded.p.error)
                | (self.stored.valid & self.stored.p.error)
            ),
        ]
        for n in range(c.commands):
            with m.If(one_finished[n]):
                m.d.sync += [running[n].eq(0), self.completed_collective.eq(names[n])]
        checking = Signal()  # a command is not pending any more and not running yet
        m.d.comb += self.outstanding.eq(
            pending.level + sum(Cat(running[n]) for n in range(c.commands)) + checking
        )

        # ---- Checks. Extents are those of the whole vector or of this rank's shard.
        error = Signal(CommandError)
        beat_mask = c.lanes - 1
        own = Signal(_COUNT_BITS)
        with m.If(rank < tail_block):
            m.d.comb += own.eq(command.stride)
        with m.Elif(rank == tail_block):
            m.d.comb += own.eq(tail)

        def outside(address, everything):
            extent = Mux(everything, command.elements, own)
            return address + (extent << 2) > self.memory_end

        def refuse(reason):
            m.d.sync += [error.eq(reason)]
            m.next = "REFUSE"

        m.d.sync += self.refused.eq(0)
        at_load = Array(port.ready for port in self.load)[fsm % c.memory_ports]
        with m.FSM(init="IDLE") as states:
            m.d.comb += checking.eq(
                Cat(states.ongoing(name) for name in ("CHECK", "TAIL", "RANGE", "REFUSE")).any()
            )
            with m.State("IDLE"):
                with m.If(pending.o.valid & ~running.all()):
                    m.d.comb += pending.o.ready.eq(1)
                    m.d.sync += [
                        command.eq(pending.o.p),
                        rank.eq(self.rank),
                        nodes.eq(self.nodes),
                        fsms.eq(self.fsms),
                        tail_block.eq(0),
                        tail.eq(pending.o.p.elements),
                        product.eq(pending.o.p.block * self.nodes),
                        entry.eq(free_entry),
                    ]
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.next = "TAIL"
                with m.If((nodes < 2) | (nodes > c.max_nodes) | (rank >= nodes)):
                    refuse(CommandError.NODES)
                with m.Elif(command.elements == 0):
                    refuse(CommandError.EMPTY)
                with m.Elif((command.stride == 0) | (command.stride & beat_mask).any()):
                    refuse(CommandError.STRIDE)
                with m.Elif(
                    (command.block == 0)
                    | (command.block & beat_mask).any()
                    | (command.block > c.slot_elements)
                    | (product > c.slot_elements)
                    | ((command.stride >> c.format.chunk) >= command.block)
                ):
                    refuse(CommandError.BLOCK)
                with m.Elif(((command.source | command.destination) & (c.bus_bytes - 1)).any()):
                    refuse(CommandError.ALIGNMENT)
                with m.Elif((fsms == 0) | (fsms > c.fsms)):
                    refuse(CommandError.FSMS)
            with m.State("TAIL"):
                # Whole shards before the last one that holds anything.
                with m.If(tail > command.stride):
                    with m.If(tail_block + 1 == nodes):
                        refuse(CommandError.STRIDE)
                    with m.Else():
                        m.d.sync += [tail_block.eq(tail_block + 1), tail.eq(tail - command.stride)]
                with m.Else():
                    m.next = "RANGE"
            with m.State("RANGE"):
                with m.If(
                    outside(command.source, command.load_all)
                    | outside(command.destination, command.store_all)
                ):
                    refuse(CommandError.ADDRESS)
                with m.Else():
                    m.d.sync += [offset.eq(0), chunk.eq(0), fsm.eq(0)]
                    for n in range(c.commands):
                        with m.If(entry == n):
                            m.d.sync += [
                                running[n].eq(1),
                                admitting[n].eq(1),
                                names[n].eq(command.collective),
                                chunks_left[n].eq(0),
                            ]
                    m.next = "CHUNK"
            with m.State("REFUSE"):
                m.d.sync += [
                    self.refused.eq(1),
                    self.refusal.eq(error),
                    self.refused_collective.eq(command.collective),
                ]
                m.next = "IDLE"
            with m.State("CHUNK"):
                rest = command.stride - offset
                size = Mux(rest < command.block, rest, command.block)
                m.d.sync += block.eq(size)
                with m.If(tail > offset):
                    m.d.sync += tail_elements.eq(Mux(tail - offset < size, tail - offset, size))
                with m.Else():
                    m.d.sync += tail_elements.eq(0)
                m.next = "SLOT"
            with m.State("SLOT"):
                m.d.sync += [
                    packets.eq(
                        (block + (c.packet_elements - 1)) >> (c.packet_elements.bit_length() - 1)
                    ),
                    beats.eq(block >> (c.lanes.bit_length() - 1)),
                    context.eq(Array(self.vacant_context)[fsm]),
                    result.eq(Array(self.vacant_result)[fsm]),
                ]
                with m.If(self.vacant.bit_select(fsm, 1)):
                    m.next = "ROWS"
            with m.State("ROWS"):
                m.d.sync += [
                    own_rows.eq(rank * beats),
                    source_row.eq((fsm * c.contexts + context) * c.slot_beats),
                    result_row.eq((fsm * c.contexts + result + c.slots) * c.slot_beats),
                ]
                m.next = "LOAD"
            with m.State("LOAD"):
                for n, port in enumerate(self.load):
                    m.d.comb += port.valid.eq(fsm % c.memory_ports == n)
                with m.If(at_load):
                    m.d.comb += admitted.eq(1)
                    for n, port in enumerate(self.admit):
                        m.d.comb += port.valid.eq(fsm == n)
                    m.d.sync += [
                        offset.eq(offset + block),
                        chunk.eq(chunk + 1),
                        fsm.eq(Mux(fsm + 1 == fsms, 0, fsm + 1)),
                    ]
                    m.next = "CHUNK"
                    with m.If(offset + block >= command.stride):
                        for n in range(c.commands):
                            with m.If(entry == n):
                                m.d.sync += admitting[n].eq(0)
                        m.next = "IDLE"

        # ---- What a chunk is, for those who handle it.
        byte_offset = offset * ELEMENT_BYTES
        stride_bytes = command.stride * ELEMENT_BYTES
        load = Signal(load_job_layout(c))

        def walk(target, base, everything, rows):
            m.d.comb += [
                target.address.eq(base + byte_offset),
                target.stride.eq(stride_bytes),
                target.first.eq(Mux(everything, 0, rank)),
                target.last.eq(Mux(everything, nodes - 1, rank)),
                target.row.eq(rows + Mux(everything, 0, own_rows)),
                target.beats.eq(beats),
                target.tail_block.eq(tail_block),
                target.tail_elements.eq(tail_elements),
            ]

        walk(
            load.walk,
            command.source,
            command.load_all,
            Mux(command.load_to_result, result_row, source_row),
        )
        walk(self.job.walk, command.destination, command.store_all, result_row)
        m.d.comb += [
            load.fsm.eq(fsm),
            load.slot.eq(context),
            load.command.eq(entry),
            self.job.fsm.eq(fsm),
            self.job.slot.eq(result),
            self.job.command.eq(entry),
        ]
        for port in self.load:
            m.d.comb += port.p.eq(load)
        for port in self.admit:
            m.d.comb += [
                port.p.context.eq(context),
                port.p.result.eq(result),
                port.p.key.collective.eq(command.collective),
                port.p.key.chunk.eq(chunk),
                port.p.op.eq(command.op),
                port.p.program.eq(command.program),
                port.p.packets.eq(packets),
                port.p.beats.eq(beats),
                port.p.tail_block.eq(tail_block),
                port.p.tail_elements.eq(tail_elements),
                port.p.source_row.eq(source_row),
                port.p.result_row.eq(result_row),
            ]
        return m
