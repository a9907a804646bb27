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
from hw.common.arbiter import RoundRobinArbiter, StreamArbiter
from hw.common.axi import BurstSplitter
from hw.common.axi_read import AXI4Reader
from hw.common.axi_write import AXI4Writer
from hw.common.fifo import StreamFIFO
from hw.common.idle import IdleDetector
from hw.common.records import RecordQueue
from hw.common.skid import SkidBuffer
from hw.common.sram import SRAMBank
from hw.common.watchdog import Watchdog
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU, ReduceLane
from hw.fp.convert import BFLOAT16, FPNarrow, FPWiden
from hw.fp.formats import BINARY16
from hw.fp.minmax import FPMinMax
from hw.link.packer import LinkPacker
from hw.link.packet import PacketFormat
from hw.link.receive import ReceiveBuffer as LinkReceiveBuffer
from hw.link.retry_beats import BeatRetry
from hw.link.retry_frame import RetryConfig, RetryFormat
from hw.link.retry_link import RetryLink
from hw.link.retry_receiver import RetryReceiver
from hw.link.retry_sender import RetrySender
from hw.link.retry_session import RetrySession
from hw.link.retry_store import FrameStore
from hw.link.transmit import TransmitPort

__all__ = ["LIBRARY", "PARTS", "WHOLE", "component_classes"]

_BLOCKS = BlockFormat(elements=4, exponent_bits=5, mantissa_bits=3)
_PACKETS = PacketFormat(payload_bytes=32)
_FRAMES = RetryFormat(width=57, flits=2, content=18, sequence=2, classes=1, credit=1, session=3)
_RETRY = RetryConfig(slots=2, timeout_cycles=16, tries=2, keepalive_cycles=16)
_PACKET = data.StructLayout({"last": 1, "data": 4})
_BUS = {"addr_width": 16, "data_width": 32, "max_burst": 4}

Make = Callable[[], wiring.Component]
ENGINES = modules("parts").values()

LIBRARY: dict[str, Make] = {
    "SkidBuffer": lambda: SkidBuffer(4),
    "SkidBuffer, wide": lambda: SkidBuffer(17),
    "StreamFIFO": lambda: StreamFIFO(5, 3),
    "StreamFIFO, 1 beat": lambda: StreamFIFO(5, 1),
    "StreamFIFO, 2 beats": lambda: StreamFIFO(5, 2),
    "StreamFIFO, block memory": lambda: StreamFIFO(5, 4, memory=True),
    "RoundRobinArbiter": lambda: RoundRobinArbiter(3),
    "RoundRobinArbiter, one": lambda: RoundRobinArbiter(1),
    "StreamArbiter": lambda: StreamArbiter(4, 3),
    "StreamArbiter, packets": lambda: StreamArbiter(_PACKET, 2, last="last"),
    "IdleDetector": lambda: IdleDetector(3),
    "IdleDetector, one cycle": lambda: IdleDetector(1),
    "Watchdog": lambda: Watchdog(5),
    "Watchdog, tries": lambda: Watchdog(5, tries_bits=2),
    "SRAMBank": lambda: SRAMBank(depth=4, width=6),
    "SRAMBank, one port": lambda: SRAMBank(depth=4, width=6, ports="1rw", granularity=3),
}
"""The blocks that everything else is made of; proved in less than a second each."""

PARTS: dict[str, Make] = {
    **LIBRARY,
    "BurstSplitter": lambda: BurstSplitter(**_BUS),
    "AXI4Reader": lambda: AXI4Reader(**_BUS, outstanding=2),
    "AXI4Writer": lambda: AXI4Writer(**_BUS, outstanding=2),
    "FPAdder": lambda: FPAdder(fmt=BINARY16, stages=3),
    "FPAdder, combinational": lambda: FPAdder(fmt=BINARY16, stages=0),
    "FPMinMax": lambda: FPMinMax(fmt=BINARY16),
    "FPNarrow": lambda: FPNarrow(BINARY16),
    "FPNarrow, bfloat16": lambda: FPNarrow(BFLOAT16),
    "FPWiden": lambda: FPWiden(BINARY16),
    "FPWiden, bfloat16": lambda: FPWiden(BFLOAT16),
    "ReduceLane": lambda: ReduceLane(stages=2),
    "ReduceALU": lambda: ReduceALU(2, stages=1),
    "LinkPacker": lambda: LinkPacker(2, flit_bits=8),
    "LinkReceiveBuffer": lambda: LinkReceiveBuffer(_PACKETS, bus_bytes=16, packets=4),
    "TransmitPort": lambda: TransmitPort(_PACKETS, bus_bytes=16, packets=4, credits=4),
    "FrameStore": lambda: FrameStore(slots=2, flits=2, width=8, header=6,
                                     length=lambda header: header[:2]),
    "RetrySender": lambda: RetrySender(_FRAMES, _RETRY),
    "RetryReceiver": lambda: RetryReceiver(_FRAMES, _RETRY),
    "RetrySession": lambda: RetrySession(_FRAMES, _RETRY),
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
    "RecordQueue": lambda: RecordQueue(_PACKET, 3),
    **{name: make for each in ENGINES for name, make in each.PARTS.items()},
}
"""The blocks that engines share, and their parts."""

WHOLE: dict[str, Make] = {
    "RetryLink": lambda: RetryLink(_FRAMES, _RETRY),
    "BeatRetry": lambda: BeatRetry(1, _RETRY),
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
