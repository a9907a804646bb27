# SPDX-License-Identifier: Apache-2.0
"""FP32 as integers of a unit given beforehand, and back: sums of integers have no order."""

from typing import Any

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.fp.bits import leading_zeros, shift_left, shift_right_sticky
from hw.fp.formats import BINARY32

__all__ = ["UNIT_BITS", "FixedToFloat", "FloatToFixed", "reach", "unit_of"]

UNIT_BITS = 8
"""Bits of a unit *u*, which stands for ``2**(u - 149)``: 0 is the least number of FP32."""

_WORD, _FRACTION, _PRECISION = BINARY32.width, BINARY32.fraction, BINARY32.precision
_ROOM = _WORD - 1 - _PRECISION
"""Bits by which the magnitude of an integer is wider than a significand."""
_BELOW = _ROOM + 1
"""Bits of a magnitude with its sign's place below a significand at its top."""


def reach(members: Value) -> Value:
    """A bit for each that the sum of *members* integers may have more than one of them, from the
    lowest up."""
    last = (members - 1)[: len(members)]
    return Cat(last[k:].any() for k in range(len(members)))


def unit_of(exponent: Value, members: Value) -> Value:
    """The unit for *members* operands whose exponent fields are *exponent* at most, 1 to 254.

    The least one of which the sum of all fits into an integer, but never less than FP32 has.
    """
    extra = sum(Value.cast(bit) for bit in reach(members))
    least = exponent + extra
    return Mux(least < _BELOW, 0, least - _BELOW)[:UNIT_BITS]


class FloatToFixed(wiring.Component):
    """FP32 to integers in units of ``2**(unit - 149)``, to nearest, ties to even.

    Latency is 3 cycles, throughput a beat per cycle; it stands still while its output waits. With
    `fixed` low words pass as they are, in the same time. An element is `outside` if it is infinite
    or no number, or if its integer would have more than 31 bits less those of `reach`; what
    comes out for it is not defined. So no sum of as many integers as `reach` was made for
    overflows, in whatever order.

    Parameters
    ----------
    lanes : int
        Elements of a beat.

    Members
    -------
    fixed : ``In(1)``, unit : ``In(UNIT_BITS)``, reach : ``In(9)``
        Change only while no beat is held.
    i : ``In(stream.Signature({data, error}))``
        Beats of FP32, or of words.
    o : ``Out(stream.Signature({data, error, outside}))``
        ``outside`` has a bit for each lane; ``error`` is that of the beat that came.
    """

    fixed: Signal
    unit: Signal
    reach: Signal
    i: stream.Interface
    o: stream.Interface

    def __init__(self, lanes: int) -> None:
        self._lanes = require_int("FloatToFixed lanes", lanes)
        beat = {"data": _WORD * lanes, "error": 1}
        super().__init__(
            {
                "fixed": In(1),
                "unit": In(UNIT_BITS),
                "reach": In(9),
                "i": In(stream.Signature(data.StructLayout(beat))),
                "o": Out(stream.Signature(data.StructLayout({**beat, "outside": lanes}))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        moves, error = _pipeline(m, self.i, self.o, 3, self.i.p.error)
        for k in range(self._lanes):
            lane = Module()
            word, outside = self._lane(lane, self.i.p.data.word_select(k, _WORD))
            m.submodules[f"lane_{k}"] = EnableInserter(moves)(lane)
            m.d.comb += [
                self.o.p.data.word_select(k, _WORD).eq(word),
                self.o.p.outside[k].eq(outside),
            ]
        m.d.comb += self.o.p.error.eq(error)
        return m

    def _lane(self, m: Module, word: Value) -> tuple[Value, Value]:
        exponent = word[_FRACTION:-1]
        # ---- By how much the significand, above _ROOM zeros, is to be shifted right.
        power = Cat(exponent[0] | ~exponent.any(), exponent[1:])
        right = Signal(UNIT_BITS + 2)
        held, by = Signal(_WORD), Signal(5)
        tiny, beyond = Signal(), Signal()
        m.d.comb += right.eq(self.unit + _BELOW - power)
        m.d.sync += [
            held.eq(word),
            by.eq(right),
            tiny.eq(right[5:].any()),
            beyond.eq(right[-1] | exponent.all()),
        ]
        # ---- Shifted, with the bit below; or the word as it is.
        normal = held[_FRACTION:-1].any()
        significand = Cat(held[:_FRACTION], normal) & ~tiny.replicate(_PRECISION)
        shifted, lost = shift_right_sticky(m, Cat(0, significand << _ROOM)[:_WORD], by)
        value, sticky, negative, past = Signal(_WORD), Signal(), Signal(), Signal()
        m.d.sync += [
            value.eq(Mux(self.fixed, shifted, held)),
            sticky.eq(lost),
            negative.eq(held[-1]),
            past.eq(beyond & self.fixed),
        ]
        # ---- Rounded.
        magnitude = Signal(_WORD)
        m.d.comb += magnitude.eq(value[1:] + (value[0] & (sticky | value[1])))
        # The uppermost bits, as many as the sum may need more than this.
        above = Cat(1, self.reach)
        top = Cat(magnitude[_WORD - 1 - k] for k in range(len(above)))
        integer = (magnitude ^ negative.replicate(_WORD)) + negative
        result, outside = Signal(_WORD), Signal()
        m.d.sync += [
            result.eq(Mux(self.fixed, integer, value)),
            outside.eq(past | (self.fixed & (top & above).any())),
        ]
        return result, outside


class FixedToFloat(wiring.Component):
    """Integers in units of ``2**(unit - 149)`` to FP32, to nearest, ties to even.

    Latency is 4 cycles, throughput a beat per cycle; it stands still while its output waits. With
    `fixed` low words pass as they are, in the same time. Zero is plus zero; what is too large
    for FP32 is infinite; subnormal numbers are exact, as no unit is less than FP32's.

    Parameters
    ----------
    lanes : int
        Elements of a beat.

    Members
    -------
    fixed : ``In(1)``, unit : ``In(UNIT_BITS)``
        Change only while no beat is held.
    i : ``In(stream.Signature(32 * lanes))``
        Beats of integers, or of words.
    o : ``Out(stream.Signature(32 * lanes))``
        The same beats as FP32, or as they are.
    """

    fixed: Signal
    unit: Signal
    i: stream.Interface
    o: stream.Interface

    def __init__(self, lanes: int) -> None:
        self._lanes = require_int("FixedToFloat lanes", lanes)
        beat = stream.Signature(_WORD * lanes)
        super().__init__({"fixed": In(1), "unit": In(UNIT_BITS), "i": In(beat), "o": Out(beat)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        moves, _ = _pipeline(m, self.i, self.o, 4, Value.cast(0))
        for k in range(self._lanes):
            lane = Module()
            word = self._lane(lane, self.i.payload.word_select(k, _WORD))
            m.submodules[f"lane_{k}"] = EnableInserter(moves)(lane)
            m.d.comb += self.o.payload.word_select(k, _WORD).eq(word)
        return m

    def _lane(self, m: Module, word: Value) -> Value:
        # ---- Sign and magnitude; or the word as it is.
        sign = Signal()
        magnitude = Signal(_WORD)
        minus = (word[-1] & self.fixed).replicate(_WORD)
        m.d.sync += [sign.eq(word[-1]), magnitude.eq((word ^ minus) + minus[0])]
        # ---- How far up its highest one goes, but not beyond the least exponent.
        most = Signal(UNIT_BITS + 1)
        floor = Signal(_WORD)
        m.d.comb += [
            most.eq(self.unit + _BELOW),
            floor.eq((1 << (_WORD - 1)) >> most),
        ]
        up = leading_zeros(m, magnitude | floor | 1)
        signed, whole, by = Signal(), Signal(_WORD), Signal(len(up))
        m.d.sync += [signed.eq(sign), whole.eq(magnitude), by.eq(up)]
        # ---- There, with the exponent less one where there is a hidden bit.
        shifted = shift_left(m, whole, by)
        # Either the parts of a number or, at the bottom, the word.
        kept = Signal(_WORD)
        exponent = Signal(UNIT_BITS + 1)
        rounds, negative = Signal(), Signal()
        guard, below = shifted[_BELOW - 1], shifted[: _BELOW - 1].any()
        m.d.sync += [
            kept.eq(Mux(self.fixed, shifted[_BELOW:], whole)),
            exponent.eq(Mux(whole == 0, 0, most - by)),
            rounds.eq(guard & (below | shifted[_BELOW])),
            negative.eq(signed),
        ]
        # ---- Rounded and encoded: a carry out of the significand counts the exponent up.
        encoded = Signal(_WORD + 1)
        infinite = Signal()
        top = (1 << BINARY32.exponent) - 1
        m.d.comb += [
            encoded.eq((exponent << _FRACTION) + kept[:_PRECISION] + rounds),
            infinite.eq(encoded[_FRACTION:] >= top),
        ]
        number = Cat(Mux(infinite, BINARY32.infinity, encoded)[: _WORD - 1], negative)
        result = Signal(_WORD)
        m.d.sync += result.eq(Mux(self.fixed, number, kept))
        return result


def _pipeline(
    m: Module, i: stream.Interface, o: stream.Interface, stages: int, beside: Value
) -> tuple[Value, Value]:
    """Valid bits of registers that move all at once, unless the last one waits: when they do, and
    *beside* as many stages later."""
    moves = Signal(name="moves")
    valid: Value = i.valid
    m.d.comb += [moves.eq(o.ready | ~o.valid), i.ready.eq(moves)]
    for stage in range(stages):
        there = Signal(name=f"valid_{stage + 1}")
        later = Signal(len(beside), name=f"beside_{stage + 1}")
        with m.If(moves):
            m.d.sync += [there.eq(valid), later.eq(beside)]
        valid, beside = there, later
    m.d.comb += o.valid.eq(valid)
    return moves, beside
