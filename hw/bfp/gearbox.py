"""Dense packing of blocks into bus beats, and the way back."""

from math import gcd
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.bfp.format import BlockFormat, check_block_format
from hw.bfp.layouts import blocks_layout, blocks_per_beat, check_lanes
from hw.common.params import require_int
from hw.common.width import beat_layout

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

    Latency is 1 cycle. The wider side never waits for the narrower one, nor does a vector wait for
    the one before it: `o` has a beat in every cycle for which there are enough units, and, if it is
    the wider one, `i` takes a beat in every cycle in which `o` does not stall. `o` comes from
    registers; ``i.ready`` depends on ``o.ready`` within the cycle.

    Parameters
    ----------
    i_width, o_width : int
        Bits per beat. A unit is their greatest common divisor, `unit`.
    whole : bool
        Only full beats leave. A vector that has none leaves no trace, and ``last`` is on the last
        full beat.

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
        i, o, unit = self.i, self.o, self.unit
        i_units, o_units = len(i.p.data) // unit, len(o.p.data) // unit
        # What has been taken and not sent. Once `ending`, it is the end of a vector.
        held = Signal(max(i_units, o_units) * unit)
        level = Signal(range(max(i_units, o_units) + 1))
        ending = Signal()

        advance, leaves, room, offered = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            advance.eq(~o.valid | o.ready),
            # All that is held leaves in this cycle, or is dropped after it.
            leaves.eq(ending & (level < 2 * o_units if self._whole else level <= o_units)),
            room.eq(Mux(ending, leaves, level < o_units)),
            i.ready.eq(advance & room),
            offered.eq(i.valid & room),
        ]
        arriving = Signal(range(i_units + 1))
        m.d.comb += arriving.eq(Mux(offered, i.p.units, 0))
        closing = offered & i.p.last

        # Behind the end of a vector the next one starts afresh.
        window = Signal((i_units + o_units - 1) * unit)
        position = Signal(range(o_units))
        total = Signal(range(i_units + o_units))
        m.d.comb += [
            position.eq(Mux(ending, 0, level)),
            window.eq(_moved(m, Mux(offered, i.p.data, 0), position, unit) | held),
            total.eq(level + arriving),
        ]

        full, rest = Signal(), Signal.like(level)
        m.d.comb += [full.eq(total >= o_units), rest.eq(total - o_units)]
        with m.If(advance):
            m.d.sync += [o.valid.eq(0), o.p.last.eq(0)]
            with m.If(ending):
                m.d.sync += [
                    o.valid.eq(1),
                    o.p.data.eq(held),
                    o.p.units.eq(Mux(level < o_units, level, o_units)),
                    o.p.last.eq(leaves),
                ]
                with m.If(leaves):
                    # Too short to make a beat at all: forgotten.
                    useless = closing & (arriving < o_units) if self._whole else Const(0)
                    m.d.sync += [
                        held.eq(Mux(offered & ~useless, i.p.data, 0)),
                        level.eq(Mux(useless, 0, arriving)),
                        ending.eq(closing & ~useless),
                    ]
                with m.Else():
                    m.d.sync += [held.eq(held[o_units * unit :]), level.eq(level - o_units)]
            with m.Elif(full):
                ends = closing & (rest < o_units if self._whole else rest == 0)
                m.d.sync += [
                    o.valid.eq(1),
                    o.p.data.eq(window),
                    o.p.units.eq(o_units),
                    o.p.last.eq(ends),
                    held.eq(Mux(ends, 0, window[o_units * unit :])),
                    level.eq(Mux(ends, 0, rest)),
                    ending.eq(closing & ~ends),
                ]
            with m.Else():
                m.d.sync += [held.eq(Mux(closing, 0, window)), level.eq(Mux(closing, 0, total))]
                if not self._whole:
                    with m.If(closing):
                        m.d.sync += [
                            o.valid.eq(1),
                            o.p.data.eq(window),
                            o.p.units.eq(total),
                            o.p.last.eq(1),
                        ]
        return m


def _moved(m: Module, value: Value, units: Value, unit: int) -> Value:
    """Move *value* up by so many units; it grows by what the longest move needs."""
    for level in range(len(units)):
        moved = Signal(len(value) + (unit << level), name=f"moved_{level}")
        m.d.comb += moved.eq(Mux(units[level], Cat(Const(0, unit << level), value), value))
        value = moved
    return value


class Packer(wiring.Component):
    """Packs blocks densely into bus beats.

    The first block of a vector starts at bit 0 of a beat, the others follow without a gap; the
    last beat of a vector is padded with zeros, and its ``keep`` has the bytes that hold a bit of a
    block. Latency is 1 cycle from the block that completes a beat; throughput is one beat of `i`
    per cycle where that is no more than the bus can carry, else one beat of `o` per cycle, so the
    bus never waits in either case. `o` comes from registers; ``i.ready`` depends on ``o.ready``
    within the cycle.

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
        self._width = _beat_of_blocks(fmt, lanes, bus_bits)
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
    beat of `o` per cycle where the bus carries so much, else one beat of `i` per cycle. `o` comes
    from registers; ``i.ready`` depends on ``o.ready`` within the cycle.

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

    Members
    -------
    i : ``In(stream.Signature(beat_layout(bus_bits)))``
        Bus beats.
    o : ``Out(stream.Signature(blocks_layout(fmt, lanes)))``
        Blocks.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, fmt: BlockFormat, *, lanes: int, bus_bits: int) -> None:
        self._width = _beat_of_blocks(fmt, lanes, bus_bits)
        super().__init__(
            {
                "i": In(stream.Signature(beat_layout(bus_bits))),
                "o": Out(stream.Signature(blocks_layout(fmt, lanes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        i, o = self.i, self.o
        m.submodules.gearbox = gearbox = Gearbox(
            i_width=len(i.p.data), o_width=self._width, whole=True
        )
        unit = gearbox.unit
        m.d.comb += [
            i.ready.eq(gearbox.i.ready),
            gearbox.i.valid.eq(i.valid),
            gearbox.i.p.data.eq(i.p.data),
            gearbox.i.p.units.eq(
                _ones(
                    # A unit is there if the byte with its last bit is.
                    [i.p.keep[-(-unit * n // 8) - 1] for n in range(1, len(i.p.data) // unit + 1)]
                )
            ),
            gearbox.i.p.last.eq(i.p.last),
            gearbox.o.ready.eq(o.ready),
            o.valid.eq(gearbox.o.valid),
            o.p.data.eq(gearbox.o.p.data),
            o.p.last.eq(gearbox.o.p.last),
        ]
        return m


def _beat_of_blocks(fmt: BlockFormat, lanes: int, bus_bits: int) -> int:
    check_block_format(fmt)
    require_int("bus_bits", bus_bits, minimum=8)
    if bus_bits % 8:
        raise ValueError(f"bus_bits must be a multiple of 8, not {bus_bits!r}")
    width = blocks_per_beat(fmt, check_lanes(lanes)) * fmt.block_bits
    if width < 8:
        # The padding of a byte could not be told from a block.
        raise ValueError(f"A beat of blocks must have at least 8 bits to be packed, not {width}")
    return width


def _ones(prefix: list[Value]) -> Value:
    """How many bits are one, all of them before the first zero."""
    ends = [bit & ~after for bit, after in zip(prefix, [*prefix[1:], Const(0)], strict=True)]
    return Cat(
        Cat(end for n, end in enumerate(ends, start=1) if n >> place & 1).any()
        for place in range(ceil_log2(len(prefix) + 1))
    )
