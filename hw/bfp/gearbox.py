# SPDX-License-Identifier: Apache-2.0
"""Dense packing of blocks into bus beats, and the way back."""

from math import gcd
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.bfp.format import BlockFormat
from hw.bfp.layouts import beat_layout, blocks_layout, blocks_per_beat, check_lanes
from hw.common.params import require_int, require_type

__all__ = ["Gearbox", "Packer", "Unpacker", "run_layout"]


def run_layout(width: int, unit: int) -> data.StructLayout:
    """A beat of which the lowest ``units`` units of *unit* bits count; the others must be zero."""
    return data.StructLayout({"data": width, "units": range(width // unit + 1), "last": 1})


class Gearbox(wiring.Component):
    """Repacks beats of one width densely into beats of any other.

    Within a vector, which ends with ``last``, units follow each other without a gap; a vector
    begins in the lowest bits of a beat. Every beat of a vector but the last is full on both sides.
    What is left at the end of a vector and fills no beat of `o` is padded with zeros and sent, or,
    with *whole*, dropped.

    Latency is 1 cycle. `o` offers a beat in every cycle for which there are enough units; if it is
    not narrower than `i`, `i` waits only where `o` does. ``o.valid`` is a function of registers;
    ``o.payload`` is a register, or, where `o` is the narrower side, chosen from registers.
    ``i.ready`` depends on ``o.ready`` within the cycle.

    Parameters
    ----------
    i_width, o_width : int
        Bits per beat. A unit is their greatest common divisor, `unit`.
    whole : bool
        Only full beats leave, and ``last`` is on the last one of a vector. A vector whose last
        beat at `i` completes none at `o` has no ``last``.

    Members
    -------
    i : ``In(stream.Signature(run_layout(i_width, unit)))``
        At least one unit per beat.
    o : ``Out(stream.Signature(run_layout(o_width, unit)))``
        The same units in the same order.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, i_width: int, o_width: int, whole: bool) -> None:
        require_int("Gearbox i_width", i_width)
        require_int("Gearbox o_width", o_width)
        self.unit = gcd(i_width, o_width)
        self._whole = whole
        super().__init__(
            {
                "i": In(stream.Signature(run_layout(i_width, self.unit))),
                "o": Out(stream.Signature(run_layout(o_width, self.unit))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        units = [len(port.p.data) // self.unit for port in (self.i, self.o)]
        if units[0] <= units[1]:
            self._gather(m, *units)
        else:
            self._cut(m, *units)
        return m

    def _gather(self, m: Module, i_units: int, o_units: int) -> None:
        """Collect narrow beats until there is a wide one."""
        i, o, unit = self.i, self.o, self.unit
        held, level = Signal(o_units * unit), Signal(range(o_units))
        ending = Signal()  # what is held is the end of a vector and leaves next
        advance, closing = Signal(), Signal()
        # What is held, if it does not leave, and what arrives above it. How much that is, is kept:
        # it moves every bit that arrives.
        window, total = Signal((i_units + o_units - 1) * unit), Signal(range(i_units + o_units))
        stays = Signal.like(level)
        arriving = Mux(i.valid, i.p.data, 0)
        m.d.comb += [
            advance.eq(~o.valid | o.ready),
            i.ready.eq(advance),
            closing.eq(i.valid & i.p.last),
            window.eq(_moved_up(m, arriving, stays, unit) | Mux(ending, 0, held)),
            total.eq(stays + Mux(i.valid, i.p.units, 0)),
        ]
        full, rest = Signal(), Signal.like(level)
        m.d.comb += [full.eq(total >= o_units), rest.eq(Mux(full, total - o_units, total))]
        # A short end is sent at once, unless the output is taken by a full beat or the end before.
        short = closing & (rest != 0)
        later = Const(0) if self._whole else short & (full | ending)
        sends = full if self._whole else full | closing
        with m.If(advance):
            m.d.sync += [
                o.valid.eq(ending | sends),
                o.p.data.eq(Mux(ending, held, window)),
                o.p.units.eq(Mux(ending, level, Mux(full, o_units, total))),
                o.p.last.eq(ending | (closing & ~later)),
                ending.eq(later),
                stays.eq(Mux(closing, 0, rest)),
                level.eq(Mux(closing & ~later, 0, rest)),
                held.eq(
                    Mux(
                        closing & ~later,
                        0,
                        Mux(full & ~ending, window[o_units * unit :], window[: o_units * unit]),
                    )
                ),
            ]

    def _cut(self, m: Module, i_units: int, o_units: int) -> None:
        """Keep a wide beat, with the end of the one before below it, and step along."""
        i, o, unit = self.i, self.o, self.unit
        below = o_units - 1
        window = Signal((below + i_units) * unit)
        place = Signal(range(below + i_units + 1), init=below)  # of the next unit to send
        # It moves every bit of the window: half of them by a register of their own, which holds the
        # complement, as of two that are equal synthesis keeps one.
        elsewhere = Signal.like(place, init=~below & ((1 << len(place)) - 1))
        next_place = Signal.like(place)
        total = Signal(range(below + i_units + 1))
        # Units from there on, and whether they end a vector; kept with them is what follows from
        # that: a beat is there, it is the last one, what is left behind it, and it is the last that
        # must leave before another one is taken.
        left, ending = Signal.like(total), Signal()
        valid, final, rest, turns = Signal(), Signal(), Signal.like(left), Signal(init=1)

        def keep(units: Value, ends: Value) -> list[Any]:
            full, twice = units >= o_units, units >= 2 * o_units
            last = ends & (full & ~twice if self._whole else units <= o_units)
            return [
                left.eq(units),
                ending.eq(ends),
                valid.eq(full if self._whole else full | ends),
                final.eq(last),
                rest.eq(Mux(last, 0, Mux(full, units - o_units, units))),
                turns.eq(last | (~twice & ~ends)),
            ]

        m.d.comb += [
            o.valid.eq(valid),
            o.p.data.eq(_moved_down(m, window, (place, ~elsewhere), o_units, unit)),
            o.p.units.eq(Mux(left < o_units, left, o_units)),
            o.p.last.eq(final),
            i.ready.eq(~valid | (o.ready & turns)),
            total.eq(rest + i.p.units),
        ]
        with m.If(i.valid & i.ready):
            m.d.sync += window.eq(Cat(window[i_units * unit :], i.p.data))
        # Only whether anything moves waits for the output, not what then becomes of it.
        with m.If(Mux(valid, o.ready, i.valid)):
            m.d.sync += [place.eq(next_place), elsewhere.eq(~next_place)]
            with m.If(i.valid & (~valid | turns)):
                m.d.comb += next_place.eq(below - rest)
                m.d.sync += keep(total, i.p.last)
                if self._whole:
                    with m.If(i.p.last & (total < o_units)):
                        m.d.sync += [left.eq(0), ending.eq(0), rest.eq(0), turns.eq(1)]
            with m.Else():
                m.d.comb += next_place.eq(place + o_units)
                m.d.sync += keep(rest, ending & ~final)


def _moved_up(m: Module, value: Value, units: Value, unit: int) -> Value:
    """Move *value* up by so many units; it grows by what the longest move needs."""
    for level in range(len(units)):
        moved = Signal(len(value) + (unit << level), name=f"up_{level}")
        m.d.comb += moved.eq(Mux(units[level], Cat(Const(0, unit << level), value), value))
        value = moved
    return value


def _moved_down(
    m: Module, value: Value, units: tuple[Value, Value], keep: int, unit: int
) -> Value:
    """Move *value* down by so many units, told twice, for the lower and the upper half of its bits;
    of the result, *keep* units are wanted."""
    for level in reversed(range(len(units[0]))):
        # Smaller moves are still to come: so much of this one can be of use.
        wanted = min(len(value), (keep + (1 << level) - 1) * unit)
        moved = Signal(wanted, name=f"down_{level}")
        by, half = unit << level, wanted // 2
        m.d.comb += moved.eq(Cat(
            Mux(units[0][level], value[by:][:half], value[:half]),
            Mux(units[1][level], value[by:][half:], value[half:]),
        ))
        value = moved
    return value


class Packer(wiring.Component):
    """Packs blocks densely into bus beats.

    The first block of a vector starts at bit 0 of a beat, the others follow without a gap; the
    last beat of a vector is padded with zeros, and its ``keep`` has the bytes that hold a bit of a
    block. Latency is 1 cycle from the block that completes a beat; throughput is one beat of `i`
    per cycle where that is no more than the bus can carry, else one beat of `o` per cycle, so the
    bus never waits in either case. ``i.ready`` depends on ``o.ready`` within the cycle.

    Parameters
    ----------
    fmt : BlockFormat
        The format; a beat of blocks must have at least 8 bits.
    lanes : int
        Lanes of the encoder: how many blocks a beat of `i` has.
    bus_bits : int
        Width of the bus, a multiple of 8.

    Members
    -------
    i : ``In(stream.Signature(blocks_layout(fmt, lanes)))``
        Blocks.
    o : ``Out(stream.Signature(beat_layout(bus_bits)))``
        Bus beats.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, fmt: BlockFormat, *, lanes: int, bus_bits: int) -> None:
        self._width = _beat_of_blocks("Packer", fmt, lanes, bus_bits)
        super().__init__(
            {
                "i": In(stream.Signature(blocks_layout(fmt, lanes))),
                "o": Out(stream.Signature(beat_layout(bus_bits))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        i, o = self.i, self.o
        m.submodules.gearbox = gearbox = Gearbox(
            i_width=self._width, o_width=len(o.p.data), whole=False
        )
        m.d.comb += [
            i.ready.eq(gearbox.i.ready),
            gearbox.i.valid.eq(i.valid),
            gearbox.i.p.data.eq(i.p.data),
            gearbox.i.p.units.eq(self._width // gearbox.unit),
            gearbox.i.p.last.eq(i.p.last),
            gearbox.o.ready.eq(o.ready),
            o.valid.eq(gearbox.o.valid),
            o.p.data.eq(gearbox.o.p.data),
            o.p.last.eq(gearbox.o.p.last),
        ]
        for byte in range(len(o.p.keep)):
            m.d.comb += o.p.keep[byte].eq(gearbox.o.p.units > 8 * byte // gearbox.unit)
        return m


class Unpacker(wiring.Component):
    """Cuts bus beats into blocks.

    Undoes `Packer`. How many blocks the last beat of a vector holds is told by its ``keep``, whose
    ones must be a prefix; every other beat must be full. Latency is 1 cycle; throughput is one
    beat of `o` per cycle where the bus carries so much, else one beat of `i` per cycle. ``i.ready``
    depends on ``o.ready`` within the cycle.

    With *counted*, the units of a beat come in place of ``keep``, for whoever knows them earlier.

    Bytes after the last whole beat of blocks are dropped with the end of their vector. If a vector
    has no whole beat at all, or its last bus beat completes none, nothing is sent for it with
    ``last``: whoever fills the bus checks lengths.

    Parameters
    ----------
    fmt : BlockFormat
        The format; a beat of blocks must have at least 8 bits.
    lanes : int
        Lanes of the decoder: how many blocks a beat of `o` has.
    bus_bits : int
        Width of the bus, a multiple of 8.
    counted : bool
        Beats come with their number of units of `unit` bits.

    Members
    -------
    i : ``In(stream.Signature(beat_layout(bus_bits)))``
        Bus beats; *counted*: ``run_layout(bus_bits, unit)``.
    o : ``Out(stream.Signature(blocks_layout(fmt, lanes)))``
        Blocks.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(
        self, fmt: BlockFormat, *, lanes: int, bus_bits: int, counted: bool = False
    ) -> None:
        self._width = _beat_of_blocks("Unpacker", fmt, lanes, bus_bits)
        self._counted = counted
        self.unit = gcd(bus_bits, self._width)
        given = run_layout(bus_bits, self.unit) if counted else beat_layout(bus_bits)
        super().__init__(
            {
                "i": In(stream.Signature(given)),
                "o": Out(stream.Signature(blocks_layout(fmt, lanes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        i, o = self.i, self.o
        m.submodules.gearbox = gearbox = Gearbox(
            i_width=len(i.p.data), o_width=self._width, whole=True
        )
        unit = self.unit
        if self._counted:
            units = i.p.units
        else:
            # A unit is there if the byte with its last bit is.
            units = _ones(
                [i.p.keep[-(-unit * n // 8) - 1] for n in range(1, len(i.p.data) // unit + 1)]
            )
        m.d.comb += [
            i.ready.eq(gearbox.i.ready),
            gearbox.i.valid.eq(i.valid),
            gearbox.i.p.data.eq(i.p.data),
            gearbox.i.p.units.eq(units),
            gearbox.i.p.last.eq(i.p.last),
            gearbox.o.ready.eq(o.ready),
            o.valid.eq(gearbox.o.valid),
            o.p.data.eq(gearbox.o.p.data),
            o.p.last.eq(gearbox.o.p.last),
        ]
        return m


def _beat_of_blocks(owner: str, fmt: BlockFormat, lanes: int, bus_bits: int) -> int:
    require_type(f"{owner} fmt", fmt, BlockFormat)
    require_int(f"{owner} bus_bits", bus_bits, minimum=8, multiple_of=8)
    width = blocks_per_beat(fmt, check_lanes(owner, lanes)) * fmt.block_bits
    # The padding of a byte could not be told from a shorter block.
    return require_int(f"{owner} bits of blocks in a beat", width, minimum=8)


def _ones(prefix: list[Value]) -> Value:
    """Count the ones of a thermometer code: all of them stand before the first zero."""
    ends = [bit & ~after for bit, after in zip(prefix, [*prefix[1:], Const(0)], strict=True)]
    return Cat(
        Cat(end for n, end in enumerate(ends, start=1) if n >> place & 1).any()
        for place in range(ceil_log2(len(prefix) + 1))
    )
