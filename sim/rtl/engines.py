"""The kinds of engines that can be run, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.cycles.ace.model import EngineModel
from sim.cycles.ring import CycleModel
from sim.cycles.smartnic.model import NicModel
from sim.cycles.switch.hosts import SwitchHosts
from sim.rtl.ace_exchange import AceExchange
from sim.rtl.ace_ring import AceRing
from sim.rtl.exchange import Exchange
from sim.rtl.nic_exchange import NicExchange
from sim.rtl.nic_ring import NicRing
from sim.rtl.ring import RingDriver
from sim.rtl.rules import EngineRules
from sim.rtl.switch_exchange import SwitchExchange
from sim.rtl.switch_fabric import SwitchFabric
from sim.rtl.switches import SwitchRules

__all__ = ["ENGINES", "EngineKind", "engine_kind"]


@dataclass(frozen=True, kw_only=True)
class EngineKind:
    """Classes that run one kind of engine.

    Parameters
    ----------
    rules : type of EngineRules
        Rings and commands that it supports.
    model : callable
        Makes its :class:`sim.cycles.ring.CycleModel`.
    driver : type of RingDriver or None
        Runs it in RTL; None: it is run at level ``cycles`` only.
    exchange : callable or None
        Makes the :class:`sim.rtl.exchange.Exchange` in which some nodes are RTL and others models.
    """

    rules: type[EngineRules]
    model: Callable[..., CycleModel]
    driver: type[RingDriver] | None = None
    exchange: Callable[..., Exchange] | None = None


ENGINES = {
    "ace": EngineKind(rules=AceRing, model=EngineModel, driver=AceRing, exchange=AceExchange),
    "smartnic": EngineKind(rules=NicRing, model=NicModel, driver=NicRing, exchange=NicExchange),
    "in_switch": EngineKind(
        rules=SwitchRules, model=SwitchHosts, driver=SwitchFabric, exchange=SwitchExchange
    ),
}


def engine_kind(name: str) -> EngineKind:
    """The kind of engine called *name*; a ``ValueError`` says which there are."""
    if name not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {name!r}")
    return ENGINES[name]
