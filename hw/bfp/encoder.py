# SPDX-License-Identifier: Apache-2.0
"""Binary32 to block floating point."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bfp.dither import STATE_BITS
from hw.bfp.format import BlockFormat
from hw.bfp.generator import Generator, dither
from hw.bfp.layouts import blocks_layout, blocks_per_beat, check_lanes, lanes_layout
from hw.bfp.pipeline import Pipeline
from hw.bfp.steps import (
    Place,
    Round,
    Split,
    aligned_layout,
    block_code,
    element_layout,
    key_bits,
    largest,
)
from hw.common.params import require_int, require_type

__all__ = ["BlockEncoder"]

# Number of stages -> steps whose outcome is registered. The first register collects a block.
_CUTS = (
    (),
    ("split",),
    ("split", "round"),
    ("split", "code", "round"),
    ("split", "code", "place", "round"),
    ("split", "compare", "code", "place", "round"),
)


class BlockEncoder(wiring.Component):
    """Encodes a stream of binary32 words as blocks.

    With fewer lanes than a block has elements, the beats of a block are collected first, and a
    block leaves for every ``elements / lanes`` beats; with more lanes, every beat becomes ``lanes /
    elements`` blocks. Throughput is 1 beat of `i` per cycle either way. Latency from the last beat
    of a block is *stages* cycles if nothing stalls. ``i.ready`` depends on ``o.ready`` within the
    cycle; with two stages or more `o` comes from registers.

    Parameters
    ----------
    fmt : BlockFormat
        The format.
    lanes : int
        Words per beat: a power of two up to 128.
    stages : int
        Pipeline registers, 0 to 5. None at all needs at least as many lanes as a block has
        elements.

    Members
    -------
    i : ``In(stream.Signature(lanes_layout(lanes)))``
        Elements. A vector is a run of whole blocks, and of whole beats, that ends with ``last``.
    o : ``Out(stream.Signature(blocks_layout(fmt, lanes)))``
        Its blocks.
    seed : ``In(64)``
        With stochastic rounding only: seed of a vector, taken with its first beat.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type or not allowed.
    """

    i: stream.Interface
    o: stream.Interface
    seed: Signal

    def __init__(self, fmt: BlockFormat, *, lanes: int, stages: int = 4) -> None:
        self.fmt = require_type("BlockEncoder fmt", fmt, BlockFormat)
        self.lanes = check_lanes("BlockEncoder", lanes)
        self._parts = max(1, fmt.elements // lanes)
        self.latency = require_int(
            "Number of encoder stages",
            stages,
            minimum=0 if self._parts == 1 else 1,
            maximum=len(_CUTS) - 1,
        )
        self._stochastic = fmt.rounding == "stochastic"
        super().__init__(
            {
                "i": In(stream.Signature(lanes_layout(lanes))),
                "o": Out(stream.Signature(blocks_layout(fmt, lanes))),
                **({"seed": In(STATE_BITS)} if self._stochastic else {}),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt, cuts = self.fmt, _CUTS[self.latency]
        part = Signal(range(self._parts))
        final = part == self._parts - 1
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += part.eq(Mux(final, 0, part + 1))
        pipe = Pipeline(m, cuts=cuts, valid=self.i.valid & final, ready=self.i.ready)

        states = self._generate(m, final) if self._stochastic else Value.cast(0)
        beat = self._split(m, states, part)
        beats: list[Any] = [beat]
        last: Any = self.i.p.last
        if "split" in cuts:
            last, states = pipe.register("split", last, states)
            beats = [
                Signal(beat.shape(), name=f"part_{n}", reset_less=True) for n in range(self._parts)
            ]
            for n, held in enumerate(beats):
                with m.If(pipe.moves & (part == n)):
                    m.d.sync += held.eq(beat)

        blocks = blocks_per_beat(fmt, self.lanes)
        keys = [key for one in beats for key in one.keys]
        each = len(keys) // blocks
        elements: Any = Signal(data.ArrayLayout(element_layout(fmt), blocks * fmt.elements))
        m.d.comb += elements.eq(Cat(one.elements for one in beats))
        if "compare" in cuts:
            few = [
                key
                for block in range(blocks)
                for key in largest(m, keys[block * each : (block + 1) * each], until=2)
            ]
            finalists: Any = Signal(data.ArrayLayout(key_bits(fmt), len(few)))
            m.d.comb += finalists.eq(Cat(few))
            elements, finalists, states, last = pipe.register(
                "compare", elements, finalists, states, last
            )
            keys, each = [finalists[n] for n in range(len(few))], len(few) // blocks
        codes: Any = Signal(data.ArrayLayout(fmt.exponent_bits, blocks))
        for block in range(blocks):
            covering = keys[block * each : (block + 1) * each]
            m.d.comb += codes[block].eq(block_code(m, fmt, covering))
        elements, codes, states, last = pipe.register("code", elements, codes, states, last)

        aligned: Any = Signal(data.ArrayLayout(aligned_layout(fmt), blocks * fmt.elements))
        for n in range(blocks * fmt.elements):
            m.submodules[f"place_{n}"] = place = Place(fmt)
            m.d.comb += [
                place.i.eq(elements[n]),
                place.code.eq(codes[n // fmt.elements]),
                aligned[n].eq(place.o),
            ]
        aligned, codes, states, last = pipe.register("place", aligned, codes, states, last)

        packed: Any = Signal(data.ArrayLayout(fmt.block_bits, blocks))
        for block in range(blocks):
            mantissas: list[Value] = []
            for element in range(fmt.elements):
                n = block * fmt.elements + element
                m.submodules[f"round_{n}"] = unit = Round(fmt)
                m.d.comb += unit.i.eq(aligned[n])
                if self._stochastic:
                    state = states.word_select(block, STATE_BITS)
                    m.d.comb += unit.dither.eq(dither(state, element))
                mantissas.append(unit.o)
            m.d.comb += packed[block].eq(Cat(codes[block], *mantissas))
        packed, last = pipe.register("round", packed, last)
        m.d.comb += [self.o.p.data.eq(packed), self.o.p.last.eq(last)]
        pipe.end(valid=self.o.valid, ready=self.o.ready)
        return m

    def _split(self, m: Module, states: Value, part: Signal) -> Any:
        """Make elements and keys of the beat at `i`; half of the comparisons are done here, or one
        less if a stage follows for others."""
        fmt = self.fmt
        run = min(self.lanes, fmt.elements)
        rounds = (fmt.elements.bit_length() - 1) // 2 - ("compare" in _CUTS[self.latency])
        kept = max(1, run >> max(0, rounds))
        units = []
        for lane in range(self.lanes):
            m.submodules[f"split_{lane}"] = unit = Split(fmt)
            m.d.comb += unit.i.eq(self.i.p.data[lane])
            if self._stochastic:
                block = lane // fmt.elements
                state = states.word_select(block, STATE_BITS)
                for n in range(self._parts):
                    element = n * self.lanes + lane - block * fmt.elements
                    with m.If(part == n):
                        m.d.comb += unit.dither.eq(dither(state, element))
            units.append(unit)
        keys: list[Value] = []
        for start in range(0, self.lanes, run):
            keys += largest(m, [unit.key for unit in units[start : start + run]], until=kept)
        layout = data.StructLayout(
            {
                "elements": data.ArrayLayout(element_layout(fmt), self.lanes),
                "keys": data.ArrayLayout(key_bits(fmt), len(keys)),
            }
        )
        beat: Any = Signal(layout)
        m.d.comb += [
            beat.elements.eq(Cat(unit.o for unit in units)),
            beat.keys.eq(Cat(keys)),
        ]
        return beat

    def _generate(self, m: Module, final: Value) -> Value:
        """States of the generator for the blocks that the beat at `i` belongs to."""
        m.submodules.generator = generator = Generator(blocks_per_beat(self.fmt, self.lanes))
        first = Signal(init=1)
        taken = self.i.valid & self.i.ready
        with m.If(taken):
            m.d.sync += first.eq(self.i.p.last & final)
        m.d.comb += [
            generator.seed.eq(self.seed),
            generator.first.eq(first),
            generator.taken.eq(taken),
            generator.final.eq(final),
        ]
        return generator.states
