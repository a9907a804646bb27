# SPDX-License-Identifier: Apache-2.0
"""Common base of all engines: buses to the host, and the settings that determine them."""

from typing import Any

from amaranth.hdl import Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.axi import AXI4Signature
from hw.common.engine_registers import CSR_SIGNATURE

__all__ = ["ELEMENT_BYTES", "Engine", "EngineConfig"]

ELEMENT_BYTES = 4


class EngineConfig:
    """Base of the configurations; they declare the two fields."""

    address_bits: int
    bus_bytes: int

    @property
    def lanes(self) -> int:
        """Elements per beat."""
        return self.bus_bytes // ELEMENT_BYTES

    @property
    def memory_bus(self) -> AXI4Signature:
        """An AXI4 master of the engine."""
        return AXI4Signature(addr_width=self.address_bits, data_width=8 * self.bus_bytes)


class Engine(wiring.Component):
    """Base of the engines.

    Parameters
    ----------
    config : EngineConfig
    masters : int
        Masters of memory.
    **wires
        Members for the links to other engines, by name.

    Attributes
    ----------
    config : EngineConfig
        As given.

    Members
    -------
    csr : ``In(CSR_SIGNATURE)``
        Registers.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    idle : ``Out(1)``
        Nothing is queued, running or in flight; without inputs, no register changes.
    mem : ``Out(AXI4Signature).array(masters)``
        Memory.
    """

    config: Any
    csr: Any
    irq: Signal
    idle: Signal
    mem: Any

    def __init__(self, config: EngineConfig, *, masters: int, **wires: Any) -> None:
        self.config = config
        super().__init__(
            {
                "csr": In(CSR_SIGNATURE),
                "irq": Out(1),
                "idle": Out(1),
                "mem": Out(config.memory_bus).array(masters),
                **wires,
            }
        )
