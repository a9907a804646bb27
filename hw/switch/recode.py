# SPDX-License-Identifier: Apache-2.0
"""Packets of words to packets of compressed data, and back."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from hw.bfp.codec import Compressor, Decompressor
from hw.common.fifo import StreamFIFO
from hw.common.params import require_choice, require_int, require_type
from hw.fp.convert import BFLOAT16, FPNarrow, FPWiden
from hw.fp.formats import BINARY16
from hw.link.packet import FLIT_BITS
from hw.switch.formats import BLOCK, FLIT_LANES, HALVES, LANES, data_flits
from hw.switch.packet import FLIT, HEADER, Format, beats_of, header_of

__all__ = ["CompressPackets", "ExpandPackets", "cut"]

_WORD, _HALF = 32, 16
_HEADERS = 4  # packets that may be under way


def _beat(width: int, **more: int) -> data.StructLayout:
    return data.StructLayout({"data": width, "last": 1, **more})


_FLIT = _beat(FLIT_BITS)


def cut(m: Module, i: Any, o: Any, parts: int, *, whole: Value | None = None) -> None:
    """Beats of *i* in *parts* beats of *o* each, the lowest bits first; a beat with *whole* is one
    beat of *o* as it is. A beat of *o* per cycle; all is combinational but which part comes next.
    """
    part = Signal(range(parts))
    width = len(i.p.data) // parts
    final = part == parts - 1
    shown = i.p.data.word_select(part, width)
    if whole is not None:
        final = final | whole
    m.d.comb += [
        o.valid.eq(i.valid),
        o.p.data.eq(shown),
        o.p.last.eq(i.p.last & final),
        i.ready.eq(o.ready & final),
    ]
    with m.If(o.valid & o.ready):
        m.d.sync += part.eq(Mux(final, 0, part + 1))


def _gather(m: Module, i: Any, o: Any, parts: int) -> None:
    """A beat of *o* for *parts* beats of *i*, the first in the lowest bits."""
    width = len(i.p.data)
    part, held = Signal(range(parts)), Signal((parts - 1) * width)
    final = part == parts - 1
    m.d.comb += [
        i.ready.eq(~final | o.ready),
        o.valid.eq(i.valid & final),
        o.p.data.eq(Cat(held, i.p.data)),
        o.p.last.eq(i.p.last),
    ]
    with m.If(i.valid & i.ready):
        m.d.sync += [
            part.eq(Mux(final, 0, part + 1)), held.eq(Cat(held, i.p.data)[width:])
        ]


class _Recode(wiring.Component, ABC):
    """Hands on packets in their order; their data goes by the way of their format.

    Parameters
    ----------
    payload_flits : int
        Flits of a packet's data as words.
    half, bfp : bool
        Formats that are recoded; packets of others pass as they are.
    lanes : int
        Words in a beat of data on the side where data are words: 4, 8 or 16. With more than 4,
        there are no packets of formats that are not recoded.
    aside : int
        Bits that accompany every packet.

    Members
    -------
    i, o : ``In(stream.Signature(...))``, ``Out(stream.Signature(...))``
        Packets with data. The header leaves as it came. One side has ``FLIT``, the other, where
        data are words, ``beats_of(lanes)``.
    beside : ``In(aside)``, along : ``Out(aside)``, only with *aside*
        What accompanies a packet, looked at with its header; all the while it leaves.
    empty : ``Out(1)``
        Nothing is held.
    """

    i: stream.Interface
    o: stream.Interface
    beside: Signal
    along: Signal
    empty: Signal

    _expands: ClassVar[bool]  # words are at `o`

    def __init__(
        self, *, payload_flits: int, half: bool, bfp: bool, lanes: int = FLIT_LANES, aside: int = 0
    ) -> None:
        owner = type(self).__name__
        self._flits = require_int(f"{owner} payload_flits", payload_flits, minimum=2)
        self._half = require_type(f"{owner} half", half, bool)
        self._bfp = require_type(f"{owner} bfp", bfp, bool)
        self._lanes = require_choice(f"{owner} lanes", lanes, LANES)
        self._aside = require_int(f"{owner} aside", aside, minimum=0)
        sides = [FLIT, beats_of(lanes)]
        taken, given = sides if self._expands else sides[::-1]
        super().__init__(
            {
                "i": In(stream.Signature(taken)),
                "o": Out(stream.Signature(given)),
                **({"beside": In(aside), "along": Out(aside)} if aside else {}),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        format = Signal(HEADER["format"].width)  # of the packet that is being taken
        ways = [self._plain(m)]
        formats: list[tuple[Format, ...]] = [()]
        if self._half:
            ways.append(self._halves(m, format == Format.BF16.value))
            formats.append(HALVES)
        if self._bfp:
            ways.append(self._blocks(m))
            formats.append((Format.BFP,))
        ins, outs = zip(*ways)
        layout = data.StructLayout(
            {
                "data": FLIT_BITS,
                "way": range(max(2, len(ways))),
                **({"aside": self._aside} if self._aside else {}),
            }
        )
        m.submodules.headers = headers = StreamFIFO(layout, _HEADERS, memory=False)
        within, into = Signal(), Signal(range(max(2, len(ways))))
        sending, out_of, chosen = Signal(), Signal.like(into), Signal.like(into)
        given = header_of(self.i.p)
        way: Value = Value.cast(0)
        for number, each in enumerate(formats):
            for one in each:
                way = Mux(given.format == one.value, number, way)
        ready, there, shown = Signal(), Signal(), Signal(_beat(len(self.o.p.data)))
        m.d.comb += [
            headers.i.valid.eq(self.i.valid & ~within),
            headers.i.p.data.eq(self.i.p.data),
            headers.i.p.way.eq(way),
            self.i.ready.eq(Mux(within, ready, headers.i.ready)),
            chosen.eq(Mux(sending, out_of, headers.o.p.way)),
            # A header waits for its data, so that what is behind it does not wait for both.
            self.o.valid.eq(there & (sending | headers.o.valid)),
            headers.o.ready.eq(self.o.ready & there & ~sending),
            self.o.p.first.eq(~sending),
            self.o.p.last.eq(sending & shown.last),
            self.o.p.data.eq(Mux(sending, shown.data, headers.o.p.data)),
            self.empty.eq(~within & ~sending & (headers.level == 0)),
        ]
        for number, (into_way, from_way) in enumerate(zip(ins, outs)):
            m.d.comb += [
                into_way.valid.eq(self.i.valid & within & (into == number)),
                into_way.p.data.eq(self.i.p.data),
                into_way.p.last.eq(self.i.p.last),
                from_way.ready.eq(self.o.ready & sending & (out_of == number)),
            ]
            with m.If(into == number):
                m.d.comb += ready.eq(into_way.ready)
            with m.If(chosen == number):
                m.d.comb += [there.eq(from_way.valid), shown.eq(from_way.payload)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += within.eq(~self.i.p.last)
            with m.If(~within):
                m.d.sync += [into.eq(way), format.eq(given.format)]
        begins = self.o.valid & self.o.ready & ~sending
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += sending.eq(~self.o.p.last)
        with m.If(begins):
            m.d.sync += out_of.eq(headers.o.p.way)
        if self._aside:
            kept = Signal(self._aside)
            m.d.comb += [
                headers.i.p.aside.eq(self.beside),
                self.along.eq(Mux(sending, kept, headers.o.p.aside)),
            ]
            with m.If(begins):
                m.d.sync += kept.eq(headers.o.p.aside)
        return m

    @property
    def _parts(self) -> int:
        """Flits in a beat of words."""
        return self._lanes // FLIT_LANES

    @abstractmethod
    def _plain(self, m: Module) -> tuple[Any, Any]:
        """Both ends of the way of data that are not recoded."""

    @abstractmethod
    def _halves(self, m: Module, brain: Value) -> tuple[Any, Any]:
        """Both ends of the way of 16-bit formats; *brain*: what is taken is bfloat16."""

    @abstractmethod
    def _blocks(self, m: Module) -> tuple[Any, Any]:
        """Both ends of the way of block floating point."""


class CompressPackets(_Recode):
    """Packets of words to packets of the format that their headers say: rounded once, to nearest,
    ties to even.

    Takes a beat per cycle where a flit per cycle holds what becomes of it, else gives a flit per
    cycle, but for a cycle between packets at most. A header leaves with its first flit of data: 2
    cycles after it came if its packet passes as it is; with 16 bits 2, and 3 with 4 lanes; with
    blocks 9 with 4 lanes, 7 with 8, 6 with 16.
    """

    _expands = False

    def _plain(self, m: Module) -> tuple[Any, Any]:
        m.submodules.plain = plain = StreamFIFO(_beat(self._lanes * _WORD), 2)
        if self._parts == 1:
            return plain.i, plain.o
        o = stream.Signature(_FLIT).create(path=("plain_o",))
        cut(m, plain.o, o, self._parts)
        return plain.i, o

    def _halves(self, m: Module, brain: Value) -> tuple[Any, Any]:
        lanes = self._lanes
        i = stream.Signature(_beat(lanes * _WORD)).create(path=("half_i",))
        m.submodules.half = half = StreamFIFO(_beat(max(lanes * _HALF, FLIT_BITS)), 2)
        words = []
        for lane in range(lanes):
            narrowed = []
            for name, fmt in (("fp16", BINARY16), ("bf16", BFLOAT16)):
                m.submodules[f"{name}_{lane}"] = narrow = FPNarrow(fmt)
                m.d.comb += narrow.i.eq(i.p.data.word_select(lane, _WORD))
                narrowed.append(narrow.o)
            words.append(Mux(brain, narrowed[1], narrowed[0]))
        short = stream.Signature(_beat(lanes * _HALF)).create(path=("short",))
        m.d.comb += [
            short.valid.eq(i.valid),
            short.p.data.eq(Cat(words)),
            short.p.last.eq(i.p.last),
            i.ready.eq(short.ready),
        ]
        parts = FLIT_BITS // (lanes * _HALF)
        if parts:
            _gather(m, short, half.i, parts)
            return i, half.o
        connect(m, short, half.i)
        o = stream.Signature(_FLIT).create(path=("half_o",))
        cut(m, half.o, o, lanes * _HALF // FLIT_BITS)
        return i, o

    def _blocks(self, m: Module) -> tuple[Any, Any]:
        m.submodules.blocks = blocks = Compressor(BLOCK, lanes=self._lanes, bus_bits=FLIT_BITS)
        i = stream.Signature(_beat(self._lanes * _WORD)).create(path=("blocks_i",))
        o = stream.Signature(_FLIT).create(path=("blocks_o",))
        m.d.comb += [
            blocks.i.valid.eq(i.valid),
            Value.cast(blocks.i.p.data).eq(i.p.data),
            blocks.i.p.last.eq(i.p.last),
            i.ready.eq(blocks.i.ready),
            o.valid.eq(blocks.o.valid),
            o.p.data.eq(blocks.o.p.data),
            o.p.last.eq(blocks.o.p.last),
            blocks.o.ready.eq(o.ready),
        ]
        return i, o


class ExpandPackets(_Recode):
    """Packets of the format that their headers say to packets of words, exactly. The header still
    says the format.

    Gives a beat per cycle where flits bring as much, else takes a flit per cycle, but for a cycle
    between packets at most: none with 16 bits and 8 or 16 lanes, or blocks and 16. A header leaves
    with its first beat of data: 2 cycles after it came, and one more for each flit more that this
    beat is made of; with blocks 5.
    """

    _expands = True

    def _plain(self, m: Module) -> tuple[Any, Any]:
        m.submodules.plain = plain = StreamFIFO(_beat(self._lanes * _WORD), 2)
        if self._parts == 1:
            return plain.i, plain.o
        i = stream.Signature(_FLIT).create(path=("plain_i",))
        _gather(m, i, plain.i, self._parts)
        return i, plain.o

    def _halves(self, m: Module, brain: Value) -> tuple[Any, Any]:
        lanes = self._lanes
        width = max(lanes * _HALF, FLIT_BITS)
        depth = max(2, self._flits // 2 * FLIT_BITS // width)
        m.submodules.half = half = StreamFIFO(_beat(width, brain=1), depth, memory=False)
        i = stream.Signature(_FLIT).create(path=("half_i",))
        if width > FLIT_BITS:
            _gather(m, i, half.i, width // FLIT_BITS)
        else:
            m.d.comb += [
                half.i.valid.eq(i.valid),
                half.i.p.data.eq(i.p.data),
                half.i.p.last.eq(i.p.last),
                i.ready.eq(half.i.ready),
            ]
        m.d.comb += half.i.p.brain.eq(brain)
        short = stream.Signature(_beat(lanes * _HALF)).create(path=("short",))
        o = stream.Signature(_beat(lanes * _WORD)).create(path=("half_o",))
        if width > lanes * _HALF:
            cut(m, half.o, short, width // (lanes * _HALF))
        else:
            m.d.comb += [
                short.valid.eq(half.o.valid),
                short.p.data.eq(half.o.p.data),
                short.p.last.eq(half.o.p.last),
                half.o.ready.eq(short.ready),
            ]
        words = []
        for lane in range(lanes):
            widened = []
            for name, fmt in (("fp16", BINARY16), ("bf16", BFLOAT16)):
                m.submodules[f"{name}_{lane}"] = widen = FPWiden(fmt)
                m.d.comb += widen.i.eq(short.p.data.word_select(lane, _HALF))
                widened.append(widen.o)
            words.append(Mux(half.o.p.brain, widened[1], widened[0]))
        m.d.comb += [
            o.valid.eq(short.valid),
            o.p.data.eq(Cat(words)),
            o.p.last.eq(short.p.last),
            short.ready.eq(o.ready),
        ]
        return i, o

    def _blocks(self, m: Module) -> tuple[Any, Any]:
        m.submodules.blocks = blocks = Decompressor(BLOCK, lanes=self._lanes, bus_bits=FLIT_BITS)
        i = stream.Signature(_FLIT).create(path=("blocks_i",))
        o = stream.Signature(_beat(self._lanes * _WORD)).create(path=("blocks_o",))
        bits = self._flits * FLIT_LANES // BLOCK.elements * BLOCK.block_bits
        left = bits - (data_flits(Format.BFP, self._flits) - 1) * FLIT_BITS
        whole = (1 << FLIT_BITS // 8) - 1
        m.d.comb += [
            blocks.i.valid.eq(i.valid),
            blocks.i.p.data.eq(i.p.data),
            blocks.i.p.keep.eq(Mux(i.p.last, (1 << -(-left // 8)) - 1, whole)),
            blocks.i.p.last.eq(i.p.last),
            i.ready.eq(blocks.i.ready),
            o.valid.eq(blocks.o.valid),
            o.p.data.eq(Value.cast(blocks.o.p.data)),
            o.p.last.eq(blocks.o.p.last),
            blocks.o.ready.eq(o.ready),
        ]
        return i, o
