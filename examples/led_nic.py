# SPDX-License-Identifier: Apache-2.0
"""An engine of one's own: the smart NIC, with an output that is high while it works."""

from dataclasses import asdict, dataclass
from functools import cached_property

from amaranth.lib.wiring import Out

from hw.common.engine import Engine
from hw.smartnic.config import PRESETS, SmartNicConfig
from hw.smartnic.nic import NetSignature, SmartNic
from hw.smartnic.registers import register_map
from sim.cycles.smartnic.model import NicModel
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.engines.engine import Blueprint
from sim.engines.kind import EngineKind
from sim.engines.smartnic import SmartNicRecord
from sim.rtl.smartnic.exchange import NicExchange
from sim.rtl.smartnic.port import SwitchPort
from sim.rtl.smartnic.ring import NicRing


@dataclass(frozen=True, kw_only=True)
class LedNicConfig(SmartNicConfig):
    """Parameters are those of the smart NIC."""


class LedNic(SmartNic):
    """The smart NIC, with an LED.

    Members
    -------
    led : ``Out(1)``
        High while something is queued, running or in flight.
    """

    def __init__(self, config):
        net = Out(NetSignature(bus_bytes=config.bus_bytes)).array(config.engines)
        Engine.__init__(self, config, masters=config.engines, net=net, led=Out(1))

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.led.eq(~self.idle)
        return m


class LedPort(SwitchPort):
    """An LED NIC behind the boundary of the co-simulation."""

    nic = LedNic


def component(config):
    return LedPort(config)


class LedRing(NicRing):
    """A ring of them in RTL."""

    name = "led_nic"
    component = staticmethod(component)


class LedExchange(NicExchange):
    """A ring of which some nodes are RTL and others cycle models."""

    driver = LedRing


class LedNicRecord(SmartNicRecord):
    """All that Foldwire asks of this engine and that is not as with the smart NIC."""

    name = "led_nic"
    events = {"led_nic": SmartNicEndpoint()}
    preset = "test"

    @cached_property
    def blueprints(self):
        configs = {name: LedNicConfig(**asdict(each)) for name, each in PRESETS.items()}
        return {
            "led-nic": Blueprint(
                summary="smart NIC with an LED", config=LedNicConfig, presets=configs,
                component=LedNic, registers=register_map, handoff="foldwire.handoff.smartnic",
            )
        }

    @cached_property
    def kind(self):
        return EngineKind(rules=LedRing, model=NicModel, driver=LedRing, exchange=LedExchange)
