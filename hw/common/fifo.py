# SPDX-License-Identifier: Apache-2.0
"""A first-in, first-out buffer between two streams."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.params import require, require_int
from hw.common.skid import SkidBuffer
from hw.common.sram import BankShape, block_memory, buffer_rows

__all__ = ["BLOCK_MEMORY_DEPTH", "QueueSize", "StreamFIFO", "room_for"]

BLOCK_MEMORY_DEPTH = 64
"""From this depth on, a FIFO keeps its beats in block memory unless told otherwise."""


@dataclass(frozen=True)
class QueueSize:
    """Shape, depth and kind of storage of a `StreamFIFO`, whose parameters these are.

    A queue is described by it, as for an estimate, without being made.
    """

    shape: Any
    depth: int
    memory: bool | None = None

    @property
    def in_block_memory(self) -> bool:
        """True if beats are kept in block memory."""
        return self.depth >= BLOCK_MEMORY_DEPTH if self.memory is None else bool(self.memory)

    @property
    def bits(self) -> int:
        """Capacity in bits."""
        return self.depth * Shape.cast(self.shape).width

    @property
    def bank(self) -> BankShape | None:
        """The bank that beats are kept in; None: registers or an Amaranth memory."""
        if not self.in_block_memory:
            return None
        return block_memory(self.depth, Shape.cast(self.shape).width)


class StreamFIFO(wiring.Component):
    """Synchronous FIFO for beats of any shape and any depth, powers of two or not.

    ``o.valid`` and ``i.ready`` are registers; so is ``o.payload``, or the output of a block memory.
    Throughput is 1 beat per cycle if the depth exceeds the latency, else *depth* beats every
    *latency* + 1 cycles. ``i`` stalls while *depth* beats are held, and only then.

    ============== ================ ======= =====================================================
    ``memory``     depth            latency beats are kept in
    ============== ================ ======= =====================================================
    ``False``      1, 2             1       registers
    ``False``      3 or more,       1       a memory with asynchronous read (FPGA: LUT RAM), the
                   any if *kept*            first one in a register, unless *kept*
    ``True``       any              2       a memory with synchronous read (FPGA: block RAM), from
                                            4096 bits on an SRAM macro
    ============== ================ ======= =====================================================

    Parameters
    ----------
    shape : shape-like
        Shape of the payload.
    depth : int
        Number of beats it can hold, at least 1.
    memory : bool or None
        Kind of storage, see above. ``None`` takes block memory from 64 beats on.
    kept : bool or tuple of str
        All of a beat, or these fields of it, begin at the LUT RAM: no register is spent on the
        first beat, nor the LUT for each bit that fills it, and whoever takes a beat late in the
        cycle moves an address, not hundreds of bits. For what goes into a register behind this FIFO
        anyway, and for what is wide and not looked at early.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Beats to keep.
    o : ``Out(stream.Signature(shape))``
        The same beats in the same order.
    level : ``Out(range(depth + 1))``
        Number of beats held, those not yet visible at ``o`` included.
    """

    i: stream.Interface
    o: stream.Interface
    level: Signal

    def __init__(
        self, shape: Any, depth: int, *, memory: bool | None = None,
        kept: bool | tuple[str, ...] = False,
    ) -> None:
        self._partly_kept = not isinstance(kept, bool)
        self._kept = _bits(shape, kept)
        self._width = Shape.cast(shape).width
        self._depth = require_int("StreamFIFO depth", depth)
        self._memory = QueueSize(shape, self._depth, memory).in_block_memory
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(self._depth + 1)),
            }
        )
        self._shape = shape

    @property
    def depth(self) -> int:
        """Number of beats that can be held."""
        return self._depth

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of a beat by an empty FIFO to its presence at ``o``."""
        return 2 if self._memory else 1

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        push = Signal()
        pop = Signal()
        m.d.comb += [
            push.eq(self.i.valid & self.i.ready),
            pop.eq(self.o.valid & self.o.ready),
        ]
        with m.If(push != pop):
            m.d.sync += self.level.eq(Mux(push, self.level + 1, self.level - 1))
        if self._memory or self._depth > 2 or (self._depth == 2 and self._partly_kept):
            self._in_memory(m, push, pop)
        elif self._depth == 2:
            m.submodules.beats = beats = SkidBuffer(self._shape)
            connect(m, flipped(self.i), beats.i)
            connect(m, beats.o, flipped(self.o))
        else:
            m.d.comb += [self.i.ready.eq(~self.level[0]), self.o.valid.eq(self.level[0])]
            with m.If(self.i.ready):
                m.d.sync += self.o.payload.eq(self.i.payload)
        return m

    def _in_memory(self, m: Module, push: Signal, pop: Signal) -> None:
        # Known a cycle early: no stream waits for a comparison of the level.
        ready = Signal(init=1)
        m.d.comb += self.i.ready.eq(ready)
        level = self.level
        fills = (level == self._depth) | ((level == self._depth - 1) & push)
        m.d.sync += ready.eq(pop | ~fills)
        if not self._memory:
            self._in_rows(m, push, pop)
            return
        first = Signal(range(self._depth))
        after_first = Signal(range(self._depth), init=1 % self._depth)
        free = Signal(range(self._depth))
        with m.If(push):
            m.d.sync += free.eq(self._next(free, self._depth))
        with m.If(pop):
            m.d.sync += [
                first.eq(after_first), after_first.eq(self._next(after_first, self._depth))
            ]
        shown = Value.cast(self.o.payload)
        # The row to show in the next cycle is read in this one. A beat that is being written now is
        # not counted yet, so no row is ever shown that was read while being written.
        m.d.sync += self.o.valid.eq(self.level != pop)
        m.d.comb += shown.eq(
            buffer_rows(
                m, self._depth, Value.cast(self.i.payload), write=push, free=free,
                row=Mux(pop, after_first, first), read=pop | ~self.o.valid,
            )
        )

    def _in_rows(self, m: Module, push: Signal, pop: Signal) -> None:
        """Beats in rows that are read in the same cycle; the first in a register as well, but for
        what is *kept*."""
        free = Signal(range(self._depth))
        m.d.sync += self.o.valid.eq(push | (self.level != pop))
        late = sorted(self._kept)
        early = [bit for bit in range(self._width) if bit not in self._kept]
        if late:
            coming, shown = self._parts(late)
            read = self._rows(m, "late_rows" if early else "rows", coming, free)
            self._advance(m, "next_late" if early else "next_read", pop, read.addr, init=0)
            m.d.comb += shown.eq(read.data)
        if early:
            coming, shown = self._parts(early)
            read = self._rows(m, "rows", coming, free)
            self._advance(m, "next_read", pop, read.addr, init=1 % self._depth)  # the second beat
            level = self.level
            front = Signal(len(early), reset_less=True)
            more = Signal()  # a second one is held
            takes = pop | ~self.o.valid  # the register takes a beat, if there is one
            m.d.comb += shown.eq(front)
            m.d.sync += more.eq(Mux(push == pop, level > 1, Mux(push, level != 0, level > 2)))
            with m.If(takes):
                m.d.sync += front.eq(Mux(more, read.data, coming))
        with m.If(push):
            m.d.sync += free.eq(self._next(free, self._depth))

    def _parts(self, bits: list[int]) -> tuple[Value, Value]:
        """These *bits* of the beats that come and of the one that is shown."""
        starts = [bit for bit in bits if bit - 1 not in bits]
        ends = [bit + 1 for bit in bits if bit + 1 not in bits]
        coming, shown = (
            Cat(Value.cast(port.payload)[start:end] for start, end in zip(starts, ends))
            for port in (self.i, self.o)
        )
        return coming, shown

    def _rows(self, m: Module, name: str, coming: Value, free: Signal) -> Any:
        """Rows for what is *coming*; the way to read them."""
        rows: Memory = Memory(shape=len(coming), depth=self._depth, init=[])
        m.submodules[name] = rows
        write, read = rows.write_port(), rows.read_port(domain="comb")
        m.d.comb += [
            # What is offered while there is room is written, a beat or not: neither what is written
            # nor where depends on what comes late.
            write.addr.eq(free), write.data.eq(coming), write.en.eq(self.i.ready),
        ]
        return read

    def _advance(
        self, m: Module, name: str, pop: Signal, row: Value, *, init: int
    ) -> None:
        """Read the rows one by one, from *init* on."""
        next_read = Signal(range(self._depth), name=name, init=init)
        m.d.comb += row.eq(next_read)
        with m.If(pop):
            m.d.sync += next_read.eq(self._next(next_read, self._depth))

    @staticmethod
    def _next(row: Signal, depth: int) -> Value:
        return Mux(row == depth - 1, 0, row + 1)


def room_for(m: Module, fifo: StreamFIFO, beats: int, *, name: str) -> Signal:
    """A register called *name* that is high while *fifo* has room for as many *beats*; as `level`
    says, but without a comparison in the way of who asks."""
    room = Signal(name=name, init=1)
    level, most = fifo.level, fifo.depth - beats
    push, pop = fifo.i.valid & fifo.i.ready, fifo.o.valid & fifo.o.ready
    m.d.sync += room.eq(
        Mux(push == pop, level <= most, Mux(push, level < most, level <= most + 1))
    )
    return room


def _bits(shape: Any, kept: bool | tuple[str, ...]) -> frozenset[int]:
    """Bits of *shape* that are *kept* in rows."""
    if isinstance(kept, bool):
        return frozenset(range(Shape.cast(shape).width if kept else 0))
    require(
        isinstance(kept, tuple)
        and isinstance(shape, data.StructLayout)
        and set(kept) <= set(shape.members),
        "StreamFIFO kept", f"True, False or names of fields of {shape!r}", kept,
    )
    fields = [shape[name] for name in kept]
    return frozenset(
        bit for field in fields for bit in range(field.offset, field.offset + field.width)
    )
