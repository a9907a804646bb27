# SPDX-License-Identifier: Apache-2.0
"""Designs on which a change is looked for: ``python -m bench.mutation.designs NAME FOLDER``.

Writes the RTLIL of every design of a block, to be compared with that of the unchanged files.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from amaranth.hdl import unsigned
from amaranth.lib import data

from bench.mutation.plain import Components, Plain
from bench.records.registered import modules
from gen.rtlil import MacroPlatform, to_rtlil
from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.format import PRESETS, BlockFormat
from hw.bfp.gearbox import Gearbox, Packer, Unpacker
from hw.common import arbiter, axi_read, axi_write, demux, fifo, skid, sram, watchdog
from hw.fp import adder, alu, convert, formats, minmax
from hw.link import packer, packet, receive, retry_beats, retry_frame, transmit

__all__ = ["TOP", "designs", "emit"]

TOP = "design"


def _adder() -> Components:
    yield adder.FPAdder(fmt=formats.BINARY16, stages=1)
    yield adder.FPAdder(fmt=formats.BINARY32, stages=3)
    yield Compressor(PRESETS["bfp16"], lanes=2, bus_bits=64)


def _alu() -> Components:
    yield alu.ReduceALU(2, stages=3)
    yield alu.ReduceALU(1, stages=0)
    yield minmax.FPMinMax(fmt=formats.BINARY16)


def _codec() -> Components:
    formats = [
        (PRESETS["bfp16"], 16, 128), (PRESETS["bfp13"], 8, 64), (PRESETS["mxint8"], 8, 64),
        (PRESETS["bfp16_stochastic"], 8, 64),
        (BlockFormat(elements=2, exponent_bits=6, mantissa_bits=20, rounding="stochastic"), 8, 64),
        (BlockFormat(elements=2, exponent_bits=2, mantissa_bits=2), 8, 24),
        (BlockFormat(elements=1, mantissa_bits=9), 1, 8),
    ]
    for fmt, lanes, bus_bits in formats:
        yield Compressor(fmt, lanes=lanes, bus_bits=bus_bits)
        yield Decompressor(fmt, lanes=lanes, bus_bits=bus_bits)


def _gearbox() -> Components:
    for i_width, o_width in ((1, 2), (2, 3), (2, 5), (3, 2), (4, 3), (5, 2)):
        for whole in (False, True):
            yield Gearbox(i_width=i_width, o_width=o_width, whole=whole)
    yield Packer(PRESETS["bfp16x8"], lanes=16, bus_bits=128)
    yield Unpacker(PRESETS["bfp16x8"], lanes=16, bus_bits=128)


def _link() -> Components:
    for bus_bytes in (16, 64):
        fmt = packet.PacketFormat(payload_bytes=64)
        yield Plain(packer.LinkPacker(bus_bytes // 16))
        yield Plain(receive.ReceiveBuffer(fmt, bus_bytes=bus_bytes, packets=4))
        yield Plain(transmit.TransmitPort(fmt, bus_bytes=bus_bytes, packets=2, credits=4))


# Little memory: it costs proofs time.
_RETRY = retry_frame.RetryConfig(slots=2, timeout_cycles=16, tries=2)


def _retry() -> Components:
    yield Plain(retry_beats.BeatRetry(1, _RETRY))


def _arbiter() -> Components:
    yield arbiter.RoundRobinArbiter(3)
    yield arbiter.AgeArbiter(3)
    yield demux.StreamDemux(4, 3)
    beat = data.StructLayout({"data": 4, "last": unsigned(1)})
    yield arbiter.StreamArbiter(beat, 3)
    yield arbiter.StreamArbiter(beat, 3, last="last")


def _memory_bus() -> Components:
    for outstanding in (1, 4):
        yield axi_read.AXI4Reader(addr_width=16, data_width=32, outstanding=outstanding)
        yield axi_write.AXI4Writer(addr_width=16, data_width=32, outstanding=outstanding)


def _queues() -> Components:
    yield skid.SkidBuffer(4)
    for depth, memory in ((1, False), (2, False), (3, False), (3, True), (4, True)):
        yield fifo.StreamFIFO(4, depth, memory=memory)


def _sram() -> Components:
    for ports in ("1r1w", "1rw"):
        for granularity in (None, 8):
            yield sram.SRAMBank(depth=6, width=16, ports=ports, granularity=granularity)


def _conversion() -> Components:
    for fmt in (formats.BINARY16, convert.BFLOAT16):
        yield convert.FPWiden(fmt)
        yield convert.FPNarrow(fmt)


def _watchdogs() -> Components:
    yield watchdog.Watchdog(3)
    yield watchdog.Watchdog(3, tries_bits=2)


_SHARED: Mapping[str, Callable[[], Components]] = {
    "adder": _adder,
    "alu": _alu,
    "codec": _codec,
    "gearbox": _gearbox,
    "link": _link,
    "retry": _retry,
    "arbiter": _arbiter,
    "memory bus": _memory_bus,
    "queues": _queues,
    "all-reduce": _watchdogs,
    "sram": _sram,
    "conversion": _conversion,
}


def designs(name: str) -> Components:
    """The designs of a name, of engines as well; of one that several have, those of all.

    Raises
    ------
    KeyError
        There are none.
    """
    tables = [_SHARED, *(each.DESIGNS for each in modules("designs").values())]
    found = [each[name] for each in tables if name in each]
    if not found:
        raise KeyError(name)
    for make in found:
        yield from make()


def emit(name: str, folder: Path) -> None:
    """Write RTLIL of the designs *name* to *folder*, with the bodies of their SRAM macros.

    SRAM banks by themselves are also written as the memories that simulation has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, component in enumerate(designs(name)):
        platform = MacroPlatform()
        (folder / f"{number}.il").write_text(to_rtlil(component, name=TOP, platform=platform))
        (folder / f"{number}.v").write_text("".join(platform.sram_macros.values()))
    if name == "sram":
        for number, component in enumerate(designs(name)):
            (folder / f"memory_{number}.il").write_text(to_rtlil(component, name=TOP))
            (folder / f"memory_{number}.v").write_text("")


if __name__ == "__main__":
    emit(sys.argv[1], Path(sys.argv[2]))
