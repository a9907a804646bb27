# SPDX-License-Identifier: Apache-2.0
"""Every component of `hw` in a small configuration, for proofs and measurements."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import walk_packages

from amaranth.lib import data, wiring

import hw
from bench.records.registered import modules
from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.decoder import BlockDecoder
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import BlockFormat
from hw.bfp.gearbox import Gearbox, Packer, Unpacker
from hw.bfp.generator import Generator
from hw.bfp.steps import Count, Expand, Place, Round, Split
from hw.common import (
    arbiter,
    axi,
    axi_read,
    axi_write,
    demux,
    fifo,
    idle,
    records,
    select,
    skid,
    sram,
    watchdog,
)
from hw.fp import adder, alu, convert, formats, minmax
from hw.link import (
    packer,
    packet,
    receive,
    retry_beats,
    retry_frame,
    retry_link,
    retry_receiver,
    retry_sender,
    retry_session,
    retry_store,
    transmit,
)

__all__ = ["LIBRARY", "PARTS", "WHOLE", "component_classes"]

_BLOCKS = BlockFormat(elements=4, exponent_bits=5, mantissa_bits=3)
_PACKETS = packet.PacketFormat(payload_bytes=32)
_FRAMES = retry_frame.RetryFormat(
    width=57, flits=2, content=18, sequence=2, classes=1, credit=1, session=3
)
_RETRY = retry_frame.RetryConfig(slots=2, timeout_cycles=16, tries=2, keepalive_cycles=16)
_PACKET = data.StructLayout({"last": 1, "data": 4})
_BUS = {"addr_width": 16, "data_width": 32, "max_burst": 4}

Make = Callable[[], wiring.Component]
ENGINES = modules("parts").values()

LIBRARY: dict[str, Make] = {
    "SkidBuffer": lambda: skid.SkidBuffer(4),
    "SkidBuffer, wide": lambda: skid.SkidBuffer(17),
    "StreamFIFO": lambda: fifo.StreamFIFO(5, 3),
    "StreamFIFO, 1 beat": lambda: fifo.StreamFIFO(5, 1),
    "StreamFIFO, 2 beats": lambda: fifo.StreamFIFO(5, 2),
    "StreamFIFO, kept": lambda: fifo.StreamFIFO(5, 3, kept=True),
    "StreamFIFO, partly kept": lambda: fifo.StreamFIFO(_PACKET, 3, kept=("last",)),
    "StreamFIFO, block memory": lambda: fifo.StreamFIFO(5, 4, memory=True),
    "Selector": lambda: select.Selector(4, 3),
    "Selector, by a bit": lambda: select.Selector(4, 3, one_hot=True),
    "RoundRobinArbiter": lambda: arbiter.RoundRobinArbiter(3),
    "RoundRobinArbiter, one": lambda: arbiter.RoundRobinArbiter(1),
    "AgeArbiter": lambda: arbiter.AgeArbiter(3),
    "_Unbeaten": lambda: arbiter._Unbeaten(3),
    "StreamDemux": lambda: demux.StreamDemux(4, 3),
    "ValidDecoder": lambda: demux.ValidDecoder(3),
    "StreamArbiter": lambda: arbiter.StreamArbiter(4, 3),
    "StreamArbiter, always ready": lambda: arbiter.StreamArbiter(4, 3, always_ready=True),
    "StreamArbiter, packets": lambda: arbiter.StreamArbiter(_PACKET, 2, last="last"),
    "IdleDetector": lambda: idle.IdleDetector(3),
    "IdleDetector, one cycle": lambda: idle.IdleDetector(1),
    "Watchdog": lambda: watchdog.Watchdog(5),
    "Watchdog, tries": lambda: watchdog.Watchdog(5, tries_bits=2),
    "SRAMBank": lambda: sram.SRAMBank(depth=4, width=6),
    "SRAMBank, one port": lambda: sram.SRAMBank(depth=4, width=6, ports="1rw", granularity=3),
}
"""The blocks that everything else is made of; proved in less than a second each."""

PARTS: dict[str, Make] = {
    **LIBRARY,
    "BurstSplitter": lambda: axi.BurstSplitter(**_BUS),
    "AXI4Reader": lambda: axi_read.AXI4Reader(**_BUS, outstanding=2),
    "AXI4Writer": lambda: axi_write.AXI4Writer(**_BUS, outstanding=2),
    "FPAdder": lambda: adder.FPAdder(fmt=formats.BINARY16, stages=3),
    "FPAdder, combinational": lambda: adder.FPAdder(fmt=formats.BINARY16, stages=0),
    "FPMinMax": lambda: minmax.FPMinMax(fmt=formats.BINARY16),
    "FPNarrow": lambda: convert.FPNarrow(formats.BINARY16),
    "FPNarrow, bfloat16": lambda: convert.FPNarrow(convert.BFLOAT16),
    "FPWiden": lambda: convert.FPWiden(formats.BINARY16),
    "FPWiden, bfloat16": lambda: convert.FPWiden(convert.BFLOAT16),
    "ReduceLane": lambda: alu.ReduceLane(stages=2),
    "ReduceLane, keeps": lambda: alu.ReduceLane(stages=2, keeps=True),
    "ReduceALU": lambda: alu.ReduceALU(2, stages=1),
    "LinkPacker": lambda: packer.LinkPacker(2, flit_bits=8),
    "LinkReceiveBuffer": lambda: receive.ReceiveBuffer(_PACKETS, bus_bytes=16, packets=4),
    "TransmitPort": lambda: transmit.TransmitPort(_PACKETS, bus_bytes=16, packets=4, credits=4),
    "FrameStore": lambda: retry_store.FrameStore(slots=2, flits=2, width=8, header=6,
                                     length=lambda header: header[:2]),
    "RetrySender": lambda: retry_sender.RetrySender(_FRAMES, _RETRY),
    "RetryReceiver": lambda: retry_receiver.RetryReceiver(_FRAMES, _RETRY),
    "RetrySession": lambda: retry_session.RetrySession(_FRAMES, _RETRY),
    "Split": lambda: Split(_BLOCKS),
    "Place": lambda: Place(_BLOCKS),
    "Round": lambda: Round(_BLOCKS),
    "Count": lambda: Count(_BLOCKS),
    "Expand": lambda: Expand(_BLOCKS),
    "Generator": lambda: Generator(2),
    "BlockEncoder": lambda: BlockEncoder(_BLOCKS, lanes=2),
    "BlockDecoder": lambda: BlockDecoder(_BLOCKS, lanes=2),
    "Gearbox": lambda: Gearbox(i_width=24, o_width=32, whole=False),
    "Packer": lambda: Packer(_BLOCKS, lanes=4, bus_bits=32),
    "Unpacker": lambda: Unpacker(_BLOCKS, lanes=4, bus_bits=32),
    "Compressor": lambda: Compressor(_BLOCKS, lanes=4, bus_bits=32),
    "Decompressor": lambda: Decompressor(_BLOCKS, lanes=4, bus_bits=32),
    "RecordQueue": lambda: records.RecordQueue(_PACKET, 3),
    **{name: make for each in ENGINES for name, make in each.PARTS.items()},
}
"""The blocks that engines share, and their parts."""

WHOLE: dict[str, Make] = {
    "RetryLink": lambda: retry_link.RetryLink(_FRAMES, _RETRY),
    "BeatRetry": lambda: retry_beats.BeatRetry(1, _RETRY),
    **{name: make for each in ENGINES for name, make in each.WHOLE.items()},
}
"""Components that are made of others."""


def component_classes() -> Iterator[type[wiring.Component]]:
    """Every component class of `hw`."""
    for found in walk_packages(hw.__path__, "hw."):
        module = import_module(found.name)
        for kind in vars(module).values():
            own = isinstance(kind, type) and kind.__module__ == found.name
            if own and issubclass(kind, wiring.Component):
                yield kind
