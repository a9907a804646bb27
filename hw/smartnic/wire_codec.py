"""Compression at the edge of the datapath, block by block, or none."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.layouts import beat_layout
from hw.common.fifo import StreamFIFO
from hw.common.skid import SkidBuffer
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import send_layout, wire_layout

__all__ = ["DECODER_STAGES", "WireDecoder", "WireEncoder", "shape_layout", "sum_layout"]

BLOCKS_INSIDE = 4
DECODER_STAGES = 3


def shape_layout(c: SmartNicConfig) -> data.StructLayout:
    """Length of a block when it is not compressed, and whether it is compressed."""
    return data.StructLayout({"beats": range(c.block_beats + 1), "compress": 1})


def sum_layout(c: SmartNicConfig) -> data.StructLayout:
    """A beat of binary32 words on its way to the wire. ``last`` ends a block, and ``bad`` with it
    says that the block is not valid; ``compress``, ``complete`` and ``start`` are the same for all
    of it."""
    return data.StructLayout(
        {
            "data": 8 * c.bus_bytes,
            "last": 1,
            "bad": 1,
            "compress": 1,
            "complete": 1,
            "start": 1,
        }
    )


class WireEncoder(wiring.Component):
    """Blocks of binary32 words to the wire; each goes to one of two exits.

    Throughput is 1 beat of `i` per cycle, also between blocks of both kinds. Latency is 1 cycle for
    a block that is not compressed, else one more than that of `hw.bfp.codec.Compressor`. A
    compressed block starts with a fresh beat and is padded with zeros. ``i.ready`` depends on
    registers and on the kind of the beat offered, not on the exits' ``ready`` within the cycle.

    Parameters
    ----------
    config : SmartNicConfig
        With or without a codec.

    Members
    -------
    i : ``In(stream.Signature(sum_layout(config)))``
        Blocks of words.
    partial : ``Out(stream.Signature(send_layout(config)))``
        Blocks without ``complete``.
    complete : ``Out(stream.Signature(wire_layout(config)))``
        Blocks with ``complete``.
    """

    i: stream.Interface
    partial: stream.Interface
    complete: stream.Interface

    def __init__(self, config: SmartNicConfig) -> None:
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(sum_layout(config))),
                "partial": Out(stream.Signature(send_layout(config))),
                "complete": Out(stream.Signature(wire_layout(config))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.plain = plain = SkidBuffer(wire_layout(c))
        kind = data.StructLayout({"compress": 1, "complete": 1, "start": 1})
        m.submodules.order = order = StreamFIFO(kind, BLOCKS_INSIDE, memory=False)
        # Known with the last beat that enters, needed with the last one that leaves.
        m.submodules.verdicts = verdicts = StreamFIFO(1, BLOCKS_INSIDE, memory=False)

        # ---- Entrance: the first beat of a block also enters its kind into the order of exit.
        start = Signal(init=1)
        paths_ready = [plain.i.ready]
        if c.codec_format is not None:
            compressor = Compressor(c.codec_format, lanes=c.lanes, bus_bits=8 * c.bus_bytes)
            m.submodules.compressor = compressor
            paths_ready.append(compressor.i.ready)
        compress = Signal()
        if c.codec_format is not None:
            m.d.comb += compress.eq(self.i.p.compress)
        admitted = ~start | order.i.ready
        path_ready = Array(paths_ready)[compress]
        m.d.comb += [
            order.i.p.compress.eq(compress),
            order.i.p.complete.eq(self.i.p.complete),
            order.i.p.start.eq(self.i.p.start),
            order.i.valid.eq(self.i.valid & start & path_ready),
            plain.i.p.data.eq(self.i.p.data),
            plain.i.p.last.eq(self.i.p.last),
            plain.i.valid.eq(self.i.valid & admitted & ~compress),
            self.i.ready.eq(admitted & path_ready),
            verdicts.i.payload.eq(self.i.p.bad),
            verdicts.i.valid.eq(self.i.valid & self.i.ready & self.i.p.last),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += start.eq(self.i.p.last)

        # ---- Exit.
        valid, last, beat = plain.o.valid, plain.o.p.last, plain.o.p.data
        taken = Signal()
        if c.codec_format is not None:
            m.submodules.packed = skid = SkidBuffer(beat_layout(8 * c.bus_bytes))
            connect(m, compressor.o, skid.i)
            packed = skid.o
            m.d.comb += [
                compressor.i.p.data.eq(self.i.p.data),
                compressor.i.p.last.eq(self.i.p.last),
                compressor.i.valid.eq(self.i.valid & admitted & self.i.p.compress),
                packed.ready.eq(taken & order.o.p.compress),
            ]
            valid = Mux(order.o.p.compress, packed.valid, valid)
            last = Mux(order.o.p.compress, packed.p.last, last)
            beat = Mux(order.o.p.compress, packed.p.data, beat)
        ready = Mux(order.o.p.complete, self.complete.ready, self.partial.ready)
        m.d.comb += [
            taken.eq(order.o.valid & ready),
            plain.o.ready.eq(taken & ~order.o.p.compress),
            order.o.ready.eq(valid & ready & last),
            verdicts.o.ready.eq(taken & valid & last),
        ]
        exits = (self.partial, ~order.o.p.complete), (self.complete, order.o.p.complete)
        for port, chosen in exits:
            m.d.comb += [
                port.valid.eq(order.o.valid & valid & chosen),
                port.p.data.eq(beat),
                port.p.last.eq(last),
                port.p.bad.eq(last & verdicts.o.payload),
            ]
        m.d.comb += [
            self.partial.p.compress.eq(order.o.p.compress),
            self.partial.p.start.eq(order.o.p.start),
        ]
        return m


class WireDecoder(wiring.Component):
    """Blocks from the wire to binary32 words.

    Throughput is 1 beat of `o` per cycle where the wire brings as much, also between blocks of both
    kinds. Latency is 1 cycle for a block that is not compressed, else one more than that of
    `hw.bfp.codec.Decompressor` with `DECODER_STAGES`. ``i.ready`` is a function of registers.

    Parameters
    ----------
    config : SmartNicConfig
        With or without a codec.

    Members
    -------
    shape : ``In(stream.Signature(shape_layout(config)))``
        Of the blocks to come, in order.
    i : ``In(stream.Signature(wire_layout(config)))``
        Blocks from the wire.
    o : ``Out(stream.Signature(8 * bus_bytes))``
        As many beats per block as its shape says.
    """

    shape: stream.Interface
    i: stream.Interface
    o: stream.Interface

    def __init__(self, config: SmartNicConfig) -> None:
        self._config = config
        super().__init__(
            {
                "shape": In(stream.Signature(shape_layout(config))),
                "i": In(stream.Signature(wire_layout(config))),
                "o": Out(stream.Signature(8 * config.bus_bytes)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.plain = plain = SkidBuffer(wire_layout(c))
        m.submodules.coming = coming = StreamFIFO(shape_layout(c), BLOCKS_INSIDE, memory=False)
        m.submodules.leaving = leaving = StreamFIFO(1, BLOCKS_INSIDE, memory=False)

        # ---- Entrance. What is known of a block is kept for both ends of the way.
        compress = coming.o.p.compress
        entered = self.i.valid & self.i.ready & self.i.p.last
        m.d.comb += [
            coming.i.payload.eq(self.shape.payload),
            coming.i.valid.eq(self.shape.valid & leaving.i.ready),
            leaving.i.payload.eq(self.shape.p.compress),
            leaving.i.valid.eq(self.shape.valid & coming.i.ready),
            self.shape.ready.eq(coming.i.ready & leaving.i.ready),
            plain.i.payload.eq(self.i.payload),
            plain.i.valid.eq(self.i.valid & coming.o.valid & ~compress),
            self.i.ready.eq(coming.o.valid & plain.i.ready),
            coming.o.ready.eq(entered),
        ]

        # ---- Exit.
        valid, last = plain.o.valid, plain.o.p.last
        m.d.comb += [
            plain.o.ready.eq(leaving.o.valid & ~leaving.o.payload & self.o.ready),
            self.o.payload.eq(plain.o.p.data),
        ]
        if c.codec_format is not None:
            decompressor = Decompressor(
                c.codec_format, lanes=c.lanes, bus_bits=8 * c.bus_bytes, stages=DECODER_STAGES
            )
            m.submodules.decompressor = decompressor
            m.submodules.packed = skid = SkidBuffer(beat_layout(8 * c.bus_bytes))
            connect(m, skid.o, decompressor.i)
            packed, words = skid.i, decompressor.o
            m.d.comb += [
                packed.valid.eq(self.i.valid & coming.o.valid & compress),
                packed.p.data.eq(self.i.p.data),
                packed.p.last.eq(self.i.p.last),
                packed.p.keep.eq(
                    Mux(self.i.p.last, _bytes_in_last_beat(m, c, coming.o.p.beats), -1)
                ),
                self.i.ready.eq(coming.o.valid & Mux(compress, packed.ready, plain.i.ready)),
                words.ready.eq(leaving.o.valid & leaving.o.payload & self.o.ready),
            ]
            valid = Mux(leaving.o.payload, words.valid, valid)
            last = Mux(leaving.o.payload, words.p.last, last)
            with m.If(leaving.o.payload):
                m.d.comb += self.o.payload.eq(words.p.data)
        m.d.comb += [
            self.o.valid.eq(leaving.o.valid & valid),
            leaving.o.ready.eq(valid & last & self.o.ready),
        ]
        return m


def _bytes_in_last_beat(m: Module, c: SmartNicConfig, beats: Signal) -> Any:
    """Strobe of the bytes that hold a bit of the block, when it is packed densely."""
    fmt: Any = c.codec_format
    granules = beats >> (c.granule - 1).bit_length()
    granule_bits = c.granule * c.lanes // fmt.elements * fmt.block_bits
    last_bits = Signal(range(8 * c.bus_bytes))
    # Of the product only these bits are wanted: a few sums are shorter than a multiplier.
    ones = [place for place in range(len(last_bits)) if granule_bits >> place & 1]
    m.d.comb += last_bits.eq(sum(granules[: len(last_bits) - n] << n for n in ones))
    return Cat((last_bits == 0) | (last_bits > 8 * byte) for byte in range(c.bus_bytes))
