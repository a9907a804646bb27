# SPDX-License-Identifier: Apache-2.0
"""Smart NICs side by side: the design under test of this bench."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.engine_registers import CSR_SIGNATURE
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.nic import NetSignature, SmartNic

__all__ = ["NicGroup"]


class NicGroup(wiring.Component):
    """NICs that share nothing but the clock.

    Parameters
    ----------
    config : SmartNicConfig
        Configuration of every NIC, with one engine.
    nodes : int
        At least 2.

    Members
    -------
    csr, mem, net
        As of :class:`hw.smartnic.nic.SmartNic`, one per node.
    irq, idle : ``Out(nodes)``
        One bit per node.
    """

    csr: Any
    mem: Any
    net: Any
    irq: Signal
    idle: Signal

    def __init__(self, config: SmartNicConfig, *, nodes: int) -> None:
        if config.engines != 1:
            raise ValueError(f"config engines must be 1 for this bench, not {config.engines!r}")
        if nodes < 2:
            raise ValueError(f"nodes must be at least 2, not {nodes!r}")
        self._config = config
        self._nodes = nodes
        super().__init__(
            {
                "csr": In(CSR_SIGNATURE).array(nodes),
                "mem": Out(config.memory_bus).array(nodes),
                "net": Out(NetSignature(bus_bytes=config.bus_bytes)).array(nodes),
                "irq": Out(nodes),
                "idle": Out(nodes),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for n in range(self._nodes):
            m.submodules[f"nic_{n}"] = nic = SmartNic(self._config)
            connect(m, flipped(self.csr[n]), nic.csr)
            connect(m, nic.mem[0], flipped(self.mem[n]))
            connect(m, nic.net[0], flipped(self.net[n]))
            m.d.comb += [self.irq[n].eq(nic.irq), self.idle[n].eq(nic.idle)]
        return m
