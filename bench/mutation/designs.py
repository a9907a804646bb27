"""Designs on which a change is looked for: ``python -m bench.mutation.designs NAME FOLDER``.

Writes the RTLIL of every design of a block, to be compared with that of the unchanged files.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from amaranth.hdl import Const, Module, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from gen.rtlil import MacroPlatform, to_rtlil
from hw.ace.config import preset as ace_preset
from hw.ace.engine import AceEngine
from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.format import PRESETS, BlockFormat
from hw.bfp.gearbox import Gearbox, Packer, Unpacker
from hw.common.arbiter import RoundRobinArbiter, StreamArbiter
from hw.common.axi_read import AXI4Reader
from hw.common.axi_write import AXI4Writer
from hw.common.fifo import StreamFIFO
from hw.common.skid import SkidBuffer
from hw.common.sram import SRAMBank
from hw.common.watchdog import Watchdog
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU
from hw.fp.convert import BFLOAT16, FPNarrow, FPWiden
from hw.fp.formats import BINARY16, BINARY32
from hw.fp.minmax import FPMinMax
from hw.link.packer import LinkPacker
from hw.link.packet import PacketFormat
from hw.link.receive import ReceiveBuffer
from hw.link.retry_beats import BeatRetry
from hw.link.retry_frame import RetryConfig
from hw.link.transmit import TransmitPort
from hw.smartnic.config import preset as nic_preset
from hw.smartnic.nic import SmartNic
from hw.switch.config import preset as switch_preset
from hw.switch.reduction_unit import ReductionUnit
from hw.switch.retry import PacketRetry, RetrySwitch, RetrySwitchConfig
from hw.switch.switch import Switch
from hw.switch_dma.config import preset as switch_dma_preset
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.fixed_point import FixedToFloat, FloatToFixed
from hw.switch_dma.retry import RetrySwitchDma, RetrySwitchDmaConfig

__all__ = ["DESIGNS", "TOP", "emit"]

TOP = "design"
Components = Iterator[wiring.Component]


def _adder() -> Components:
    yield FPAdder(fmt=BINARY16, stages=1)
    yield FPAdder(fmt=BINARY32, stages=3)
    yield Compressor(PRESETS["bfp16"], lanes=2, bus_bits=64)


def _alu() -> Components:
    yield ReduceALU(2, stages=3)
    yield ReduceALU(1, stages=0)
    yield FPMinMax(fmt=BINARY16)


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


class _Plain(wiring.Component):
    """Wraps a component without those of its ports that are constants."""

    def __init__(self, inner: wiring.Component) -> None:
        self._inner = inner
        self._inside = {
            "_".join(map(str, path)): (member.flow, Value.cast(value))
            for path, member, value in inner.signature.flatten(inner)
            if not isinstance(value, Const)
        }
        super().__init__(
            {name: flow(len(value)) for name, (flow, value) in self._inside.items()}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.inner = self._inner
        for name, (flow, value) in self._inside.items():
            port = getattr(self, name)
            m.d.comb += value.eq(port) if flow is In else port.eq(value)
        return m


def _link() -> Components:
    for bus_bytes in (16, 64):
        fmt = PacketFormat(payload_bytes=64)
        yield _Plain(LinkPacker(bus_bytes // 16))
        yield _Plain(ReceiveBuffer(fmt, bus_bytes=bus_bytes, packets=4))
        yield _Plain(TransmitPort(fmt, bus_bytes=bus_bytes, packets=2, credits=4))


# Little memory: it costs proofs time.
_RETRY = RetryConfig(slots=2, timeout_cycles=16, tries=2)


def _retry() -> Components:
    yield _Plain(PacketRetry(payload_flits=2, credits=1, config=_RETRY))
    yield _Plain(BeatRetry(1, _RETRY))


def _arbiter() -> Components:
    yield RoundRobinArbiter(3)
    beat = data.StructLayout({"data": 4, "last": unsigned(1)})
    yield StreamArbiter(beat, 3)
    yield StreamArbiter(beat, 3, last="last")


def _memory_bus() -> Components:
    for outstanding in (1, 4):
        yield AXI4Reader(addr_width=16, data_width=32, outstanding=outstanding)
        yield AXI4Writer(addr_width=16, data_width=32, outstanding=outstanding)


def _queues() -> Components:
    yield SkidBuffer(4)
    for depth, memory in ((1, False), (2, False), (3, False), (3, True), (4, True)):
        yield StreamFIFO(4, depth, memory=memory)


def _sram() -> Components:
    for ports in ("1r1w", "1rw"):
        for granularity in (None, 8):
            yield SRAMBank(depth=6, width=16, ports=ports, granularity=granularity)


def _ace() -> Components:
    # Two of everything with the least memory, which costs proofs time.
    yield AceEngine(replace(ace_preset("duo"), contexts=2, sram_bytes=1 << 10, rx_packets=2))


def _smartnic() -> Components:
    yield SmartNic(nic_preset("test"))


def _reduction_unit() -> Components:
    yield ReductionUnit(entries=2, payload_flits=2, alu_stages=1, queue_packets=2, timeout_bits=4)
    yield ReductionUnit(entries=3, payload_flits=4, alu_stages=0, queue_packets=1, timeout_bits=4)


# Little memory and few ports: both cost proofs time.
_SWITCH = replace(
    switch_preset("test"), entries=1, payload_flits=2, alu_stages=0, buffer_packets=1, credits=1,
    homes=1, endpoints=4, timeout_bits=4,
)


def _switch() -> Components:
    yield Switch(_SWITCH)
    yield Switch(replace(_SWITCH, half=True, bfp=True, payload_flits=8))


def _switch_dma() -> Components:
    yield SwitchDma(switch_dma_preset("test"))


def _switch_dma_options() -> Components:
    yield from _switch_dma()
    yield SwitchDma(
        replace(switch_dma_preset("test"), fixed_point=True, parts=True, half=True, bfp=True)
    )
    yield SwitchDma(replace(switch_dma_preset("test"), regions=2))


def _conversion() -> Components:
    for fmt in (BINARY16, BFLOAT16):
        yield FPWiden(fmt)
        yield FPNarrow(fmt)


def _fixed_point() -> Components:
    yield _Plain(FloatToFixed(1))
    yield _Plain(FixedToFloat(1))
    yield SwitchDma(replace(switch_dma_preset("test"), fixed_point=True))


def _retry_packets() -> Components:
    yield _Plain(PacketRetry(payload_flits=2, credits=1, config=_RETRY))
    yield RetrySwitch(RetrySwitchConfig(switch=_SWITCH, retry=_RETRY))
    yield RetrySwitchDma(RetrySwitchDmaConfig(dma=switch_dma_preset("test"), retry=_RETRY))


def _all_reduce() -> Components:
    yield Watchdog(3)
    yield Watchdog(3, tries_bits=2)
    yield from _smartnic()
    yield from _switch_dma()


DESIGNS: Mapping[str, Callable[[], Components]] = {
    "adder": _adder,
    "alu": _alu,
    "codec": _codec,
    "gearbox": _gearbox,
    "link": _link,
    "retry": _retry,
    "arbiter": _arbiter,
    "memory bus": _memory_bus,
    "queues": _queues,
    "registers": _smartnic,
    "all-reduce": _all_reduce,
    "sram": _sram,
    "ace": _ace,
    "smartnic": _smartnic,
    "reduction unit": _reduction_unit,
    "switch": _switch,
    "switch dma": _switch_dma_options,
    "conversion": _conversion,
    "fixed point": _fixed_point,
    "retry of packets": _retry_packets,
}


def emit(name: str, folder: Path) -> None:
    """Write RTLIL of the designs *name* to *folder*, with the bodies of their SRAM macros.

    SRAM banks by themselves are also written as the memories that simulation has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, component in enumerate(DESIGNS[name]()):
        platform = MacroPlatform()
        (folder / f"{number}.il").write_text(to_rtlil(component, name=TOP, platform=platform))
        (folder / f"{number}.v").write_text("".join(platform.sram_macros.values()))
    if name == "sram":
        for number, component in enumerate(DESIGNS[name]()):
            (folder / f"memory_{number}.il").write_text(to_rtlil(component, name=TOP))
            (folder / f"memory_{number}.v").write_text("")


if __name__ == "__main__":
    emit(sys.argv[1], Path(sys.argv[2]))
