# SPDX-License-Identifier: Apache-2.0
"""Block floating point to binary32."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bfp.format import BlockFormat
from hw.bfp.layouts import blocks_layout, blocks_per_beat, check_lanes, lanes_layout
from hw.bfp.pipeline import Pipeline
from hw.bfp.steps import Count, Expand, block_scale, counted_layout, number_layout, scale_layout
from hw.common.params import require_int, require_type

__all__ = ["BlockDecoder"]

_CUTS = (
    (),
    ("expand",),
    ("count", "expand"),
    ("part", "count", "expand"),
    ("block", "part", "count", "expand"),
)


class BlockDecoder(wiring.Component):
    """Decodes blocks to a stream of binary32 words.

    With fewer lanes than a block has elements, a block becomes ``elements / lanes`` beats; with
    more lanes, ``lanes / elements`` blocks become one beat. Throughput is 1 beat of `o` per cycle
    either way. Latency to the first beat of a block is *stages* cycles if nothing stalls.
    ``i.ready`` depends on ``o.ready`` within the cycle; with a stage or more `o` comes from
    registers.

    Any block is decoded, whether or not an encoder would make it; see `BlockFormat`.

    Parameters
    ----------
    fmt : BlockFormat
        The format.
    lanes : int
        Words per beat: a power of two up to 128.
    stages : int
        Pipeline registers, 0 to 4; the fourth one holds a block whose parts are chosen.

    Members
    -------
    i : ``In(stream.Signature(blocks_layout(fmt, lanes)))``
        Blocks; ``last`` ends a vector.
    o : ``Out(stream.Signature(lanes_layout(lanes)))``
        Their elements; ``last`` on the last beat of the vector.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type or not allowed.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, fmt: BlockFormat, *, lanes: int, stages: int = 2) -> None:
        self.fmt = require_type("BlockDecoder fmt", fmt, BlockFormat)
        self.lanes = check_lanes("BlockDecoder", lanes)
        self._parts = max(1, fmt.elements // lanes)
        self.latency = require_int(
            "Number of decoder stages", stages, minimum=0, maximum=len(_CUTS) - 1
        )
        super().__init__(
            {
                "i": In(stream.Signature(blocks_layout(fmt, lanes))),
                "o": Out(stream.Signature(lanes_layout(lanes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self.fmt
        cuts = _CUTS[self.latency]
        entry = Pipeline(
            m, cuts=[cut for cut in cuts if cut == "block"],
            valid=self.i.valid, ready=self.i.ready,
        )
        block_bits, block_last = entry.register("block", self.i.p.data, self.i.p.last)
        # A block stays there until the last of its parts has been taken.
        part = Signal(range(self._parts))
        final = part == self._parts - 1
        there, taken = Signal(), Signal()
        with m.If(there & taken):
            m.d.sync += part.eq(Mux(final, 0, part + 1))
        entry.end(valid=there, ready=taken & final)
        pipe = Pipeline(m, cuts=cuts, valid=there, ready=taken)

        blocks = blocks_per_beat(fmt, self.lanes)
        codes: Any = Signal(data.ArrayLayout(fmt.mantissa_bits, self.lanes))
        exponents: Any = Signal(data.ArrayLayout(fmt.exponent_bits, blocks))
        for block, bits in enumerate(block_bits):
            m.d.comb += exponents[block].eq(bits[: fmt.exponent_bits])
        for lane in range(self.lanes):
            mantissas = block_bits[lane // fmt.elements][fmt.exponent_bits :]
            for n in range(self._parts):
                element = (n * self.lanes + lane) % fmt.elements
                with m.If(part == n):
                    m.d.comb += codes[lane].eq(mantissas.word_select(element, fmt.mantissa_bits))
        codes, exponents, last = pipe.register("part", codes, exponents, block_last & final)

        counted: Any = Signal(data.ArrayLayout(counted_layout(fmt), self.lanes))
        scales: Any = Signal(data.ArrayLayout(scale_layout(), blocks))
        for block in range(blocks):
            m.d.comb += scales[block].eq(block_scale(fmt, exponents[block]))
        for lane in range(self.lanes):
            m.submodules[f"count_{lane}"] = count = Count(fmt)
            m.d.comb += [
                count.i.eq(codes[lane]),
                count.scale.eq(scales[lane // fmt.elements]),
                counted[lane].eq(count.o),
            ]
        counted, scales, last = pipe.register("count", counted, scales, last)

        numbers: Any = Signal(data.ArrayLayout(number_layout(fmt), self.lanes))
        for lane in range(self.lanes):
            m.submodules[f"expand_{lane}"] = expand = Expand(fmt)
            m.d.comb += [
                expand.i.eq(counted[lane]),
                expand.scale.eq(scales[lane // fmt.elements]),
                numbers[lane].eq(expand.o),
            ]
        numbers, last = pipe.register("expand", numbers, last)
        for lane, word in enumerate(self.o.p.data):
            number = Value.cast(numbers[lane])
            m.d.comb += word.eq(Cat(Const(0, 32 - len(number)), number))
        m.d.comb += self.o.p.last.eq(last)
        pipe.end(valid=self.o.valid, ready=self.o.ready)
        return m
