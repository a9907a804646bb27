"""Packets of words to packets of compressed data, and back."""

from abc import ABC, abstractmethod
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bfp.codec import Compressor, Decompressor
from hw.common.fifo import StreamFIFO
from hw.common.params import require_int, require_type
from hw.fp.convert import BFLOAT16, FPNarrow, FPWiden
from hw.fp.formats import BINARY16
from hw.link.packet import FLIT_BITS
from hw.switch.formats import BLOCK, HALVES, data_flits
from hw.switch.packet import FLIT, HEADER, Format, header_of

__all__ = ["CompressPackets", "ExpandPackets"]

_LANES = FLIT_BITS // 32
_WORD = 32
_HEADERS = 4  # packets that may be under way
_BEAT = data.StructLayout({"data": FLIT_BITS, "last": 1})


class _Recode(wiring.Component, ABC):
    """Hands on packets in their order; their data goes by the way of their format.

    Parameters
    ----------
    payload_flits : int
        Flits of a packet's data as words.
    half, bfp : bool
        Formats that are recoded; packets of others pass as they are.
    aside : int
        Bits that accompany every packet.

    Members
    -------
    i, o : ``In(stream.Signature(FLIT))``, ``Out(stream.Signature(FLIT))``
        Packets with data. The header leaves as it came.
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

    def __init__(self, *, payload_flits: int, half: bool, bfp: bool, aside: int = 0) -> None:
        owner = type(self).__name__
        self._flits = require_int(f"{owner} payload_flits", payload_flits, minimum=2)
        self._half = require_type(f"{owner} half", half, bool)
        self._bfp = require_type(f"{owner} bfp", bfp, bool)
        self._aside = require_int(f"{owner} aside", aside, minimum=0)
        super().__init__(
            {
                "i": In(stream.Signature(FLIT)),
                "o": Out(stream.Signature(FLIT)),
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
        ready, there, shown = Signal(), Signal(), Signal(_BEAT)
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

    @staticmethod
    def _plain(m: Module) -> tuple[Any, Any]:
        m.submodules.plain = plain = StreamFIFO(_BEAT, 2)
        return plain.i, plain.o

    @abstractmethod
    def _halves(self, m: Module, brain: Value) -> tuple[Any, Any]:
        """Both ends of the way of 16-bit formats; *brain*: what is taken is bfloat16."""

    @abstractmethod
    def _blocks(self, m: Module) -> tuple[Any, Any]:
        """Both ends of the way of block floating point."""


class CompressPackets(_Recode):
    """Packets of words to packets of the format that their headers say: rounded once, to nearest,
    ties to even.

    Takes a flit per cycle. A header leaves with its first flit of data: 2 cycles after it came if
    its packet passes as it is, 3 with 16 bits, 9 with blocks.
    """

    def _halves(self, m: Module, brain: Value) -> tuple[Any, Any]:
        i = stream.Signature(_BEAT).create(path=("half_i",))
        m.submodules.half = half = StreamFIFO(_BEAT, 2)
        words = []
        for lane in range(_LANES):
            narrowed = []
            for name, fmt in (("fp16", BINARY16), ("bf16", BFLOAT16)):
                m.submodules[f"{name}_{lane}"] = narrow = FPNarrow(fmt)
                m.d.comb += narrow.i.eq(i.p.data.word_select(lane, _WORD))
                narrowed.append(narrow.o)
            words.append(Mux(brain, narrowed[1], narrowed[0]))
        low, has_low = Signal(FLIT_BITS // 2), Signal()
        m.d.comb += [
            i.ready.eq(~has_low | half.i.ready),
            half.i.valid.eq(i.valid & has_low),
            half.i.p.data.eq(Cat(low, *words)),
            half.i.p.last.eq(i.p.last),
        ]
        with m.If(i.valid & i.ready):
            m.d.sync += [has_low.eq(~has_low), low.eq(Cat(words))]
        return i, half.o

    def _blocks(self, m: Module) -> tuple[Any, Any]:
        m.submodules.blocks = blocks = Compressor(BLOCK, lanes=_LANES, bus_bits=FLIT_BITS)
        i = stream.Signature(_BEAT).create(path=("blocks_i",))
        o = stream.Signature(_BEAT).create(path=("blocks_o",))
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

    Gives a flit per cycle. A header leaves with its first flit of data: 2 cycles after it came, 5
    with blocks.
    """

    def _halves(self, m: Module, brain: Value) -> tuple[Any, Any]:
        layout = data.StructLayout({"data": FLIT_BITS, "last": 1, "brain": 1})
        m.submodules.half = half = StreamFIFO(layout, max(2, self._flits // 2), memory=False)
        i = stream.Signature(_BEAT).create(path=("half_i",))
        o = stream.Signature(_BEAT).create(path=("half_o",))
        upper = Signal()
        words = []
        for lane in range(_LANES):
            word = Mux(
                upper, half.o.p.data.word_select(_LANES + lane, _WORD // 2),
                half.o.p.data.word_select(lane, _WORD // 2),
            )
            widened = []
            for name, fmt in (("fp16", BINARY16), ("bf16", BFLOAT16)):
                m.submodules[f"{name}_{lane}"] = widen = FPWiden(fmt)
                m.d.comb += widen.i.eq(word)
                widened.append(widen.o)
            words.append(Mux(half.o.p.brain, widened[1], widened[0]))
        m.d.comb += [
            half.i.valid.eq(i.valid),
            half.i.p.data.eq(i.p.data),
            half.i.p.last.eq(i.p.last),
            half.i.p.brain.eq(brain),
            i.ready.eq(half.i.ready),
            o.valid.eq(half.o.valid),
            o.p.data.eq(Cat(words)),
            o.p.last.eq(half.o.p.last & upper),
            half.o.ready.eq(o.ready & upper),
        ]
        with m.If(o.valid & o.ready):
            m.d.sync += upper.eq(~upper)
        return i, o

    def _blocks(self, m: Module) -> tuple[Any, Any]:
        m.submodules.blocks = blocks = Decompressor(BLOCK, lanes=_LANES, bus_bits=FLIT_BITS)
        i = stream.Signature(_BEAT).create(path=("blocks_i",))
        o = stream.Signature(_BEAT).create(path=("blocks_o",))
        bits = self._flits * _LANES // BLOCK.elements * BLOCK.block_bits
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
