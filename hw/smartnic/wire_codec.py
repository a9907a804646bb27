# SPDX-License-Identifier: Apache-2.0
"""Compression at the edge of the datapath, block by block, or none."""

from math import gcd
from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.gearbox import run_layout
from hw.bfp.layouts import beat_layout, blocks_per_beat, lanes_layout
from hw.common.fifo import StreamFIFO
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import send_layout, wire_layout

__all__ = [
    "DECODER_STAGES", "ENCODER_STAGES", "ROWS_AHEAD", "WireDecoder", "WireEncoder", "decoded_rows",
    "packed_rows", "shape_layout", "sum_layout",
]

BLOCKS_INSIDE = 4
EXIT_ROWS = 3
"""Beats at an exit of blocks that are not compressed: no fewer are kept in rows."""
ROWS_AHEAD = 7
"""Beats behind a codec before it takes no more: there is room for them and for all inside of it.

So a codec never stalls, and no enable of its registers waits for what is behind them. A decoder
takes a beat again in time for its words to follow those that wait.
"""
ENCODER_STAGES, DECODER_STAGES = 5, 4


def packed_rows(c: SmartNicConfig) -> int:
    """Beats that the queue behind the encoder's codec has room for."""
    blocks, wire, parts = _widths(c)
    # What is in the stages or enters them; a beat in the gearbox's register, the rest of another.
    inside = -(-(ENCODER_STAGES + 1) // parts) * -(-blocks // wire) + 2
    return ROWS_AHEAD - 1 + inside


def decoded_rows(c: SmartNicConfig) -> int:
    """Beats that the queue behind a decoder's codec has room for."""
    blocks, wire, parts = _widths(c)
    # A beat in each stage; a block that leaves the gearbox, and those that are there once a beat
    # has entered it.
    inside = DECODER_STAGES + (1 + (wire + blocks - 1) // blocks) * parts
    return ROWS_AHEAD - 1 + inside


def _widths(c: SmartNicConfig) -> tuple[int, int, int]:
    """Bits of the blocks of a codec's beat and of a beat on the wire; beats of words per block."""
    fmt: Any = c.codec_format
    blocks = blocks_per_beat(fmt, c.lanes) * fmt.block_bits
    return blocks, 8 * c.bus_bytes, max(1, fmt.elements // c.lanes)


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
    a block that is not compressed, else one more than that of `hw.bfp.codec.Compressor` with
    `ENCODER_STAGES`. A compressed block starts with a fresh beat and is padded with zeros.
    ``i.ready`` depends on registers and on the kind of the beat offered, not on the exits'
    ``ready`` within the cycle.

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
        # Like those of the decoder, beats wait in rows and not in registers: what takes them comes
        # late, and would have to reach an enable of every bit. Only what ends a block is looked at.
        m.submodules.plain = plain = StreamFIFO(
            wire_layout(c), EXIT_ROWS, memory=False, kept=("data",)
        )
        kind = data.StructLayout({"compress": 1, "complete": 1, "start": 1})
        m.submodules.order = order = StreamFIFO(kind, BLOCKS_INSIDE, memory=False)
        # Known with the last beat that enters, needed with the last one that leaves.
        m.submodules.verdicts = verdicts = StreamFIFO(1, BLOCKS_INSIDE, memory=False)

        # ---- Entrance: the first beat of a block also enters its kind into the order of exit.
        start = Signal(init=1)
        paths_ready = [plain.i.ready]
        if c.codec_format is not None:
            compressor = Compressor(
                c.codec_format, lanes=c.lanes, bus_bits=8 * c.bus_bytes, stages=ENCODER_STAGES
            )
            m.submodules.compressor = compressor
            queue = StreamFIFO(
                beat_layout(8 * c.bus_bytes), packed_rows(c), memory=False, kept=("data", "keep")
            )
            m.submodules.packed = queue
            room = _room(m, queue)
            paths_ready.append(compressor.i.ready & room)
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
            packed = queue.o
            m.d.comb += [
                queue.i.valid.eq(compressor.o.valid),
                queue.i.payload.eq(compressor.o.payload),
                compressor.o.ready.eq(1),
                compressor.i.p.data.eq(self.i.p.data),
                compressor.i.p.last.eq(self.i.p.last),
                compressor.i.valid.eq(self.i.valid & admitted & self.i.p.compress & room),
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
    kinds. Latency is 1 cycle for a block that is not compressed, else two more than that of
    `hw.bfp.codec.Decompressor` with `DECODER_STAGES`. ``i.ready`` is a function of registers, and
    so is `o`: of rows of the two exits, of which one is chosen.

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
        m.submodules.coming = coming = StreamFIFO(shape_layout(c), BLOCKS_INSIDE, memory=False)
        m.submodules.leaving = leaving = StreamFIFO(1, BLOCKS_INSIDE, memory=False)
        words = lanes_layout(c.lanes)
        m.submodules.plain = plain = StreamFIFO(words, EXIT_ROWS, memory=False, kept=True)

        # ---- What is known of a block is kept for both ends of the way. Blocks of both kinds have
        # exits of their own, so that neither end of the way asks the other one.
        compress = coming.o.p.compress
        exit_valid = Signal()
        exit_beat: Any = Signal(words)
        m.d.comb += [
            coming.i.payload.eq(self.shape.payload),
            coming.i.valid.eq(self.shape.valid & leaving.i.ready),
            leaving.i.payload.eq(self.shape.p.compress),
            leaving.i.valid.eq(self.shape.valid & coming.i.ready),
            self.shape.ready.eq(coming.i.ready & leaving.i.ready),
            coming.o.ready.eq(self.i.valid & self.i.ready & self.i.p.last),
            leaving.o.ready.eq(exit_valid & self.o.ready & exit_beat.last),
            self.i.ready.eq(coming.o.valid & ~compress & plain.i.ready),
            plain.i.p.data.eq(self.i.p.data),
            plain.i.p.last.eq(self.i.p.last),
            plain.i.valid.eq(self.i.valid & coming.o.valid & ~compress),
            exit_valid.eq(plain.o.valid),
            exit_beat.eq(plain.o.p),
            plain.o.ready.eq(leaving.o.valid & ~leaving.o.payload & self.o.ready),
            self.o.payload.eq(exit_beat.data.as_value()),
            self.o.valid.eq(leaving.o.valid & exit_valid),
        ]
        if c.codec_format is None:
            return m
        decompressor = Decompressor(
            c.codec_format, lanes=c.lanes, bus_bits=8 * c.bus_bytes, stages=DECODER_STAGES,
            counted=True,
        )
        m.submodules.decompressor = decompressor
        unit = decompressor.unit
        decoded = StreamFIFO(words, decoded_rows(c), memory=False, kept=True)
        m.submodules.decoded = decoded
        packed = StreamFIFO(run_layout(8 * c.bus_bytes, unit), 2, memory=False, kept=("data",))
        m.submodules.packed = packed
        room = _room(m, decoded)
        m.d.comb += [
            decompressor.i.payload.eq(packed.o.payload),
            decompressor.i.valid.eq(packed.o.valid & room),
            packed.o.ready.eq(decompressor.i.ready & room),
            decoded.i.valid.eq(decompressor.o.valid),
            decoded.i.payload.eq(decompressor.o.payload),
            decompressor.o.ready.eq(1),
            packed.i.valid.eq(self.i.valid & coming.o.valid & compress),
            packed.i.p.data.eq(self.i.p.data),
            packed.i.p.last.eq(self.i.p.last),
            packed.i.p.units.eq(
                Mux(
                    self.i.p.last,
                    _units_of_last_beat(c, coming.o.p.beats, unit),
                    8 * c.bus_bytes // unit,
                )
            ),
            decoded.o.ready.eq(leaving.o.valid & leaving.o.payload & self.o.ready),
        ]
        with m.If(compress):
            m.d.comb += self.i.ready.eq(coming.o.valid & packed.i.ready)
        with m.If(leaving.o.payload):
            m.d.comb += [
                exit_valid.eq(decoded.o.valid),
                exit_beat.eq(decoded.o.p),
            ]
        return m


def _room(m: Module, queue: StreamFIFO) -> Signal:
    """Fewer than `ROWS_AHEAD` beats are in *queue*: known when the cycle begins."""
    room = Signal(init=1)
    pop = queue.o.valid & queue.o.ready
    beats = queue.level + queue.i.valid
    m.d.sync += room.eq(Mux(pop, beats <= ROWS_AHEAD, beats < ROWS_AHEAD))
    return room


def _units_of_last_beat(c: SmartNicConfig, beats: Signal, unit: int) -> Value:
    """Units in the last beat of a densely packed block: it has the bytes that hold a bit."""
    fmt: Any = c.codec_format
    wire = 8 * c.bus_bytes
    granule_bits = c.granule * c.lanes // fmt.elements * fmt.block_bits
    # Lengths repeat after so many granules, a power of two; all of them are listed.
    period = wire // gcd(granule_bits, wire)
    bits = [granules * granule_bits % wire or wire for granules in range(period)]
    units = Array(Const(8 * -(-each // 8) // unit, range(wire // unit + 1)) for each in bits)
    granules = (beats >> (c.granule - 1).bit_length())[: exact_log2(period)]
    return Value.cast(units[granules])
