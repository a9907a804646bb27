# SPDX-License-Identifier: Apache-2.0
"""Both ends of the wire: encoder with packer, and unpacker with decoder."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.bfp.decoder import BlockDecoder
from hw.bfp.dither import STATE_BITS
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import BlockFormat
from hw.bfp.gearbox import Packer, Unpacker
from hw.bfp.layouts import beat_layout, lanes_layout

__all__ = ["Compressor", "Decompressor"]


class Compressor(wiring.Component):
    """Binary32 to densely packed blocks: `BlockEncoder`, then `Packer`.

    Latency is `latency` cycles from the last element of the block that completes a bus beat, or
    that ends a vector, to that beat. Throughput is 1 beat of `i` per cycle unless the bus is too
    narrow for what becomes of it; then it is 1 beat of `o` per cycle. ``i.ready`` depends on
    ``o.ready`` within the cycle; `o` comes from registers.

    Parameters
    ----------
    fmt : BlockFormat
        The format.
    lanes : int
        Words per beat: a power of two up to 128.
    bus_bits : int
        Width of the bus, a multiple of 8.
    stages : int
        Pipeline registers of the encoder, 1 to 5 (0 with a whole block per beat).

    Members
    -------
    i : ``In(stream.Signature(lanes_layout(lanes)))``
        Elements. A vector is a run of whole blocks, and of whole beats, that ends with ``last``.
    o : ``Out(stream.Signature(beat_layout(bus_bits)))``
        Bus beats; a vector starts with a fresh one.
    seed : ``In(64)``
        With stochastic rounding only: seed of a vector, taken with its first beat.
    """

    i: stream.Interface
    o: stream.Interface
    seed: Signal

    def __init__(self, fmt: BlockFormat, *, lanes: int, bus_bits: int, stages: int = 4) -> None:
        self._encoder = BlockEncoder(fmt, lanes=lanes, stages=stages)
        self._packer = Packer(fmt, lanes=lanes, bus_bits=bus_bits)
        self.fmt = fmt
        self.latency = self._encoder.latency + 1
        self._stochastic = fmt.rounding == "stochastic"
        super().__init__(
            {
                "i": In(stream.Signature(lanes_layout(lanes))),
                "o": Out(stream.Signature(beat_layout(bus_bits))),
                **({"seed": In(STATE_BITS)} if self._stochastic else {}),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.encoder = encoder = self._encoder
        m.submodules.packer = packer = self._packer
        connect(m, flipped(self.i), encoder.i)
        connect(m, encoder.o, packer.i)
        connect(m, packer.o, flipped(self.o))
        if self._stochastic:
            m.d.comb += encoder.seed.eq(self.seed)
        return m


class Decompressor(wiring.Component):
    """Densely packed blocks to binary32: `Unpacker`, then `BlockDecoder`.

    Latency is `latency` cycles from the bus beat that completes a block to its first elements.
    Throughput is 1 beat of `o` per cycle where the bus carries so much. ``i.ready`` depends on
    ``o.ready`` within the cycle.

    Parameters
    ----------
    fmt : BlockFormat
        The format.
    lanes : int
        Words per beat: a power of two up to 128.
    bus_bits : int
        Width of the bus, a multiple of 8.
    stages : int
        Pipeline registers of the decoder, 0 to 4.
    counted : bool
        Bus beats come with their number of units of `unit` bits, as `Unpacker` has it.

    Members
    -------
    i : ``In(stream.Signature(beat_layout(bus_bits)))``
        Bus beats as `Compressor` makes them; see `Unpacker` for others.
    o : ``Out(stream.Signature(lanes_layout(lanes)))``
        Elements; ``last`` on the last beat of a vector.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(
        self, fmt: BlockFormat, *, lanes: int, bus_bits: int, stages: int = 2, counted: bool = False
    ) -> None:
        self._unpacker = Unpacker(fmt, lanes=lanes, bus_bits=bus_bits, counted=counted)
        self.unit = self._unpacker.unit
        self._decoder = BlockDecoder(fmt, lanes=lanes, stages=stages)
        self.fmt = fmt
        self.latency = self._decoder.latency + 1
        super().__init__(
            {
                "i": self._unpacker.signature.members["i"],
                "o": Out(stream.Signature(lanes_layout(lanes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.unpacker = unpacker = self._unpacker
        m.submodules.decoder = decoder = self._decoder
        connect(m, flipped(self.i), unpacker.i)
        connect(m, unpacker.o, decoder.i)
        connect(m, decoder.o, flipped(self.o))
        return m
