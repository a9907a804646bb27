# SPDX-License-Identifier: Apache-2.0
"""Chunk dispatcher: from a command to chunks in the FSMs, and back to a completion."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.agreement import AGREED, DIGEST_BITS, digest_of
from hw.ace.command_table import CommandTable
from hw.ace.completions import ended_layout, ticket_range
from hw.ace.config import ELEMENT_BYTES, RANK_BITS, AceConfig
from hw.ace.layouts import (
    AGE_BITS,
    admit_layout,
    load_job_layout,
    loaded_layout,
    places,
    store_job_layout,
    stored_layout,
)
from hw.ace.registers import CommandError
from hw.common.fifo import StreamFIFO
from hw.common.select import lowest, marked
from hw.fp.ops import ReduceOp

__all__ = ["Dispatcher", "command_layout"]

_COUNT_BITS = 32


def command_layout(c: AceConfig) -> data.StructLayout:
    """A collective, as written to the registers, and the settings at that moment."""
    return data.StructLayout(
        {
            "ticket": ticket_range(c),
            "rank": RANK_BITS,
            "nodes": RANK_BITS,
            "fsms": 5,
            "memory_end": c.address_bits + 1,
            "collective": c.format.collective,
            "program": 4,
            "op": ReduceOp,
            "load_all": 1,
            "store_all": 1,
            "contiguous": 1,
            # As written: what the address bus cannot carry is refused like all else beyond memory.
            "source": 64,
            "destination": 64,
            "elements": _COUNT_BITS,
            "stride": _COUNT_BITS,
            "block": _COUNT_BITS,
        }
    )


def _job_layout(c: AceConfig) -> data.StructLayout:
    """A command under way."""
    return data.StructLayout(
        {
            "command": command_layout(c),
            "rank": RANK_BITS,
            "nodes": RANK_BITS,
            "fsms": 5,
            "entry": range(max(2, c.commands)),
            "tail_block": range(c.max_nodes + 1),
            "last_block": 1,  # it is that of the last rank
            "tail": _COUNT_BITS,  # elements of the tail shard
            "digest": DIGEST_BITS,
        }
    )


def _chunk_layout(c: AceConfig) -> data.StructLayout:
    """A chunk that is being made."""
    return data.StructLayout(
        {
            "offset": _COUNT_BITS,  # first element within each shard, or of the vector
            "number": c.format.chunk,
            "first": 1,  # its number is 0
            "age": AGE_BITS,
            **places(c, "fsm", "context"),
            "block": range(c.slot_elements + 1),  # elements of a block of this chunk
            "tail_elements": range(c.slot_elements + 1),  # of its last block, or of it all
            "elements": range(c.slot_elements + 1),  # of its blocks, one behind the other
            "beats": range(c.slot_beats + 1),
            "own_rows": range(c.sram_beats),  # from the start of a slot to this rank's block
            "row": range(c.sram_beats),
        }
    )


class Dispatcher(wiring.Component):
    """Checks commands, cuts them into chunks and admits the chunks in order.

    A vector of ``elements`` lies in memory as one shard per rank, ``stride`` elements apart. Chunk
    ``n`` takes the ``n``-th piece of ``block`` elements of every shard, so every shard ends at the
    same chunk and a rank's own shard is contiguous for reduce-scatter and all-gather. With
    ``contiguous``, chunk ``n`` is the ``n``-th piece of ``stride`` elements of the vector, and its
    blocks lie one behind the other.

    Chunk ``n`` goes to FSM ``n % fsms`` on every node, and is admitted when all chunks before it
    have been: all nodes order chunks alike, and the oldest one that is not complete always has its
    context everywhere (no receiver-ready handshake can wait in a circle). A command that is not
    valid is refused as a whole, before anything is moved.

    Timing: a command is checked in 5 cycles and one for each shard before the last that holds
    anything; a refusal follows 2 cycles later. A chunk takes 5 cycles when its FSM has a context
    free and its DMA takes the job. Stalls: those two.

    Members
    -------
    command : ``In(stream)``
        Commands; one that comes while ``command.ready`` is low is to be refused by the caller.
    programs : ``In(16).array(fsms)``
        Entries of each program table that hold a program.
    limits : ``In(range(slot_beats + 1)).array(16)``, with partitions by phase
        Most beats of a block for each program.
    vacant : ``In(fsms of the first phase)``
        FSMs with a free context.
    vacant_context : ``In(range(contexts)).array(...)``
        A free one in each vacant FSM.
    admit : ``Out(stream).array(...)``
        A chunk enters an FSM.
    first : ``Out(1)``
        The chunk that is next is the first one of its collective.
    job : ``Out(store_job_layout(config))``
        Its job for the RX DMA, valid with ``admit``; the same for all FSMs.
    load : ``Out(stream).array(memory_ports)``
        Jobs for the TX DMAs.
    loaded, stored : ``In(stream)``
        Reports of the DMAs.
    ended : ``Out(stream.Signature(ended_layout(config), always_ready=True))``
        A command is complete or refused.
    memory_error : ``Out(1)``
        Pulse: a DMA reported an error.
    """

    command: stream.Interface
    programs: list
    vacant: Signal
    vacant_context: list
    admit: list
    job: data.View
    load: list
    loaded: stream.Interface
    stored: stream.Interface
    ended: stream.Interface
    memory_error: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        context = range(max(2, c.contexts))
        super().__init__(
            {
                "command": In(stream.Signature(command_layout(c))),
                "programs": In(16).array(c.fsms),
                **({"limits": In(range(c.slot_beats + 1)).array(16)} if c.phased else {}),
                "vacant": In(c.first_fsms),
                "vacant_context": In(context).array(c.first_fsms),
                "admit": Out(
                    stream.Signature(admit_layout(c), always_ready=True)
                ).array(c.first_fsms),
                **({"first": Out(1)} if c.phased else {}),
                "job": Out(store_job_layout(c)),
                "load": Out(stream.Signature(load_job_layout(c))).array(c.memory_ports),
                "loaded": In(stream.Signature(loaded_layout(c), always_ready=True)),
                "stored": In(stream.Signature(stored_layout(c), always_ready=True)),
                "ended": Out(stream.Signature(ended_layout(c), always_ready=True)),
                "memory_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.pending = pending = StreamFIFO(command_layout(c), c.commands)
        m.submodules.table = table = CommandTable(c)
        wiring.connect(m, wiring.flipped(self.command), pending.i)
        job = Signal(_job_layout(c))  # the command that is being dispatched
        chunk = Signal(_chunk_layout(c))  # its chunk
        # A command is complete or refused, which is told a cycle later.
        over = Signal(data.StructLayout({"valid": 1, "p": ended_layout(c)}))
        m.d.comb += [
            table.entry.eq(job.entry),
            table.ticket.eq(job.command.ticket),
            table.loaded.valid.eq(self.loaded.valid),
            table.loaded.p.eq(self.loaded.p),
            table.stored.valid.eq(self.stored.valid),
            table.stored.p.eq(self.stored.p),
            over.valid.eq(table.completed.valid),
            over.p.eq(table.completed.p),
        ]
        m.d.sync += [self.ended.valid.eq(over.valid), self.ended.p.eq(over.p)]
        m.d.sync += self.memory_error.eq(
            (self.loaded.valid & self.loaded.p.error) | (self.stored.valid & self.stored.p.error)
        )
        own = self._own_elements(m, job)
        product = Signal(RANK_BITS + len(chunk.block))
        with m.FSM(init="IDLE"):
            with m.State("IDLE"):
                with m.If(pending.o.valid & ~table.full):
                    m.d.comb += pending.o.ready.eq(1)
                    m.d.sync += [
                        job.command.eq(pending.o.p),
                        job.rank.eq(pending.o.p.rank),
                        job.nodes.eq(pending.o.p.nodes),
                        job.fsms.eq(pending.o.p.fsms),
                        job.tail_block.eq(0),
                        job.last_block.eq(0),
                        job.tail.eq(pending.o.p.elements),
                        job.entry.eq(table.free),
                        # Of a block that is not refused for its size.
                        product.eq(pending.o.p.block[: len(chunk.block)] * pending.o.p.nodes),
                    ]
                    m.next = "CHECK"
            self._check(m, table, job, chunk, product, own, over)
            self._cut(m, table, job, chunk)
        self._describe(m, job, chunk)
        return m

    def _own_elements(self, m, job):
        """Elements of this rank's shard."""
        own = Signal(_COUNT_BITS)
        with m.If(job.rank < job.tail_block):
            m.d.comb += own.eq(job.command.stride)
        with m.Elif(job.rank == job.tail_block):
            m.d.comb += own.eq(job.tail)
        return own

    def _check(self, m, table, job, chunk, product, own, over):
        """States that check a command; extents are those of the whole vector or of the *own*
        shard."""
        command = job.command
        error = Signal(CommandError)
        # Behind what is read and what is written; whether that lies beyond the memory.
        own_held = Signal.like(own)
        ways = ((command.source, command.load_all), (command.destination, command.store_all))
        ends = [Signal(len(command.source) + 1, name=name) for name in ("load_end", "store_end")]
        outside = Signal(len(ends))

        def refuse(reason):
            m.d.sync += [error.eq(reason)]
            m.next = "REFUSE"

        with m.State("CHECK"):
            agreed = {name: command[name] for name in AGREED}
            m.d.sync += job.digest.eq(digest_of(**agreed))
            checks = self._checks(job, product)
            faults = Signal(len(checks))
            m.d.sync += faults.eq(Cat(fault for fault, _ in checks))
            m.next = "TAIL"
        with m.State("TAIL"):
            # Whole shards before the last one that holds anything; counted in what is refused, too.
            more = (job.tail > command.stride) & ~command.contiguous
            with m.If(more):
                m.d.sync += [
                    job.tail_block.eq(job.tail_block + 1),
                    job.last_block.eq(job.tail_block + 2 == job.nodes),
                    job.tail.eq(job.tail - command.stride),
                ]
            with m.If(faults.any()):
                reasons = (Const(reason.value, CommandError.as_shape()) for _, reason in checks)
                refuse(marked(lowest(faults), reasons))
            with m.Elif(more):
                with m.If(job.last_block):
                    refuse(CommandError.STRIDE)
            with m.Else():
                m.d.sync += own_held.eq(own)
                m.next = "EXTENT"
        with m.State("EXTENT"):
            for end, (address, everything) in zip(ends, ways):
                m.d.sync += end.eq(address + (Mux(everything, command.elements, own_held) << 2))
            m.next = "RANGE"
        with m.State("RANGE"):
            m.d.sync += outside.eq(Cat(end > command.memory_end for end in ends))
            m.next = "START"
        with m.State("START"):
            with m.If(outside.any()):
                refuse(CommandError.ADDRESS)
            with m.Else():
                m.d.comb += table.start.eq(1)
                m.d.sync += [
                    chunk.offset.eq(0), chunk.number.eq(0), chunk.first.eq(1), chunk.fsm.eq(0)
                ]
                m.next = "CHUNK"
        with m.State("REFUSE"):
            with m.If(~table.completed.valid):
                m.d.comb += [
                    over.valid.eq(1),
                    over.p.ticket.eq(command.ticket),
                    over.p.error.eq(error),
                ]
                m.next = "IDLE"

    def _checks(self, job, product):
        """Faults of a command that show before anything has begun, with their reasons; the first
        one is named."""
        c, command = self._config, job.command
        beat_mask = c.lanes - 1
        # Chunks are pieces of this.
        whole = Mux(command.contiguous, command.elements, command.stride)
        piece = Mux(command.contiguous, command.stride, command.block)
        wrong = (
            (command.block == 0)
            | (command.block & beat_mask).any()
            | (command.block > min(c.slot_elements, c.block_packets * c.packet_elements))
            | (product > c.slot_elements)
            | ((whole >> c.format.chunk) >= piece)
            | (command.contiguous & ~(command.load_all & command.store_all))
        )
        if c.phased:  # parts of a chunk would not fit the slots of all partitions
            beats = command.block >> (c.lanes.bit_length() - 1)
            wrong |= beats > Array(self.limits)[command.program]
        return (
            (
                (job.nodes < 2) | (job.nodes > c.max_nodes) | (job.rank >= job.nodes),
                CommandError.NODES,
            ),
            (command.elements == 0, CommandError.EMPTY),
            (
                (command.stride == 0) | (command.stride & beat_mask).any(),
                CommandError.STRIDE,
            ),
            (wrong, CommandError.BLOCK),
            (command.contiguous & (product != command.stride), CommandError.STRIDE),
            (
                ((command.source | command.destination) & (c.bus_bytes - 1)).any(),
                CommandError.ALIGNMENT,
            ),
            ((job.fsms == 0) | (job.fsms > c.first_fsms), CommandError.FSMS),
            (
                Cat(
                    # Of later phases all FSMs are in use.
                    (job.fsms > f if f < c.first_fsms else Const(1))
                    & ~programs.bit_select(command.program, 1)
                    for f, programs in enumerate(self.programs)
                ).any(),
                CommandError.PROGRAM,
            ),
        )

    def _cut(self, m, table, job, chunk):
        """States that make a chunk and admit it, until there is none left."""
        c, command, tail = self._config, job.command, job.tail
        rest = Signal(_COUNT_BITS)  # of a shard, from this chunk on
        left = Signal(_COUNT_BITS + 1)  # of the tail shard; negative if it is over
        final = Signal()  # no chunk is left after this one
        # A multiplier lies where the device has one: its factors and its product are registers that
        # nothing else uses, and may lie there too.
        whole_blocks, block_size = Signal.like(job.tail_block), Signal.like(chunk.block)
        before_tail = Signal.like(chunk.elements)
        m.d.comb += chunk.elements.eq(before_tail + chunk.tail_elements)
        admits = [port.valid for port in self.admit]  # registers
        with m.State("CHUNK"):
            m.d.sync += [
                rest.eq(command.stride - chunk.offset), left.eq(tail - chunk.offset),
                whole_blocks.eq(job.tail_block),
            ]
            m.next = "SLOT"
        with m.State("SLOT"):
            contiguous = command.contiguous
            piece = Mux(contiguous, command.stride, command.block)
            cut = ~contiguous & (rest < command.block)
            size = Mux(cut, rest, command.block)
            # Compared with both that may be the smaller one, rather than with that one.
            least = Mux(cut, Mux(left < rest, left, rest), Mux(left < piece, left, piece))
            m.d.sync += [
                chunk.block.eq(size),
                chunk.tail_elements.eq(Mux(left[-1], 0, least)),
                chunk.beats.eq(size >> (c.lanes.bit_length() - 1)),
                chunk.context.eq(Array(self.vacant_context)[chunk.fsm]),
                final.eq(Mux(contiguous, left, rest) <= piece),
            ]
            with m.If(self.vacant.bit_select(chunk.fsm, 1)):
                m.d.sync += block_size.eq(size)
                m.next = "ROWS"
        with m.State("ROWS"):
            slots = c.slots_of(0)
            first = chunk.fsm * slots.number
            m.d.sync += [
                chunk.own_rows.eq(job.rank * chunk.beats),
                before_tail.eq(whole_blocks * block_size),
                chunk.row.eq((first + chunk.context) * slots.beats),
            ]
            m.next = "LOAD"
        with m.State("LOAD"):
            port_of = chunk.fsm % c.memory_ports
            for n, port in enumerate(self.load):
                m.d.comb += port.valid.eq(port_of == n)
            with m.If(Array(port.ready for port in self.load)[port_of]):
                m.d.sync += [valid.eq(chunk.fsm == n) for n, valid in enumerate(admits)]
                m.next = "ADMIT"
        with m.State("ADMIT"):  # a cycle of its own: all of an FSM waits for it
            m.d.sync += [valid.eq(0) for valid in admits]
            end = chunk.offset + Mux(command.contiguous, command.stride, chunk.block)
            m.d.comb += [table.admitted.eq(1), table.last.eq(final)]
            m.d.sync += [
                chunk.offset.eq(end),
                chunk.number.eq(chunk.number + 1),
                chunk.first.eq(0),
                chunk.age.eq(chunk.age + 1),
                chunk.fsm.eq(Mux(chunk.fsm + 1 == job.fsms, 0, chunk.fsm + 1)),
            ]
            m.next = "CHUNK"
            with m.If(final):
                m.next = "IDLE"

    def _describe(self, m, job, chunk):
        """Describe a chunk to the TX DMAs, to the RX DMA and to its FSM."""
        c, command = self._config, job.command
        load = Signal(load_job_layout(c))

        def walk(target, base, everything):
            # One segment where they are contiguous, else one for each block.
            several = everything & ~command.contiguous
            m.d.comb += [
                target.address.eq(base + chunk.offset * ELEMENT_BYTES),
                target.stride.eq(command.stride * ELEMENT_BYTES),
                target.first.eq(Mux(everything, 0, job.rank)),
                target.last.eq(Mux(several, job.nodes - 1, Mux(everything, 0, job.rank))),
                target.row.eq(chunk.row + Mux(everything, 0, chunk.own_rows)),
                target.beats.eq(chunk.beats),
                target.tail_block.eq(job.tail_block),
                target.tail_elements.eq(chunk.tail_elements),
            ]

        walk(load.walk, command.source, command.load_all)
        walk(self.job.walk, command.destination, command.store_all)
        if c.phased:
            # An own shard lies alone in the first slot, and the last slot is not known yet.
            m.d.comb += [
                load.walk.row.eq(chunk.row),
                self.job.walk.row.eq(Mux(command.store_all, 0, chunk.own_rows)),
                self.first.eq(chunk.first),
            ]
        for target in (load, self.job):
            m.d.comb += [
                target.fsm.eq(chunk.fsm),
                target.slot.eq(chunk.context),
                target.command.eq(job.entry),
            ]
        for port in self.load:
            m.d.comb += port.p.eq(load)
        same = {*admit_layout(c).members} & {*chunk.shape().members}
        for port in self.admit:
            m.d.comb += [port.p[name].eq(chunk[name]) for name in sorted(same)]
            m.d.comb += [
                port.p.key.collective.eq(command.collective),
                port.p.key.chunk.eq(chunk.number),
                port.p.op.eq(command.op),
                port.p.digest.eq(job.digest),
                port.p.program.eq(command.program),
            ]
            if c.phased:
                m.d.comb += port.p.row.eq(chunk.row - Mux(command.load_all, 0, chunk.own_rows))
