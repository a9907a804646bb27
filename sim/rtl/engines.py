"""The kinds of engines that can be run, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.cycles.ace.model import EngineModel
from sim.cycles.ring import CycleModel
from sim.cycles.smartnic.model import NicModel
from sim.rtl.ace_exchange import AceExchange
from sim.rtl.ace_ring import AceRing
from sim.rtl.exchange import Exchange
from sim.rtl.nic_exchange import NicExchange
from sim.rtl.nic_ring import NicRing
from sim.rtl.ring import RingDriver

__all__ = ["ENGINES", "EngineKind", "engine_kind"]


@dataclass(frozen=True, kw_only=True)
class EngineKind:
    """How one kind of engine is run.

    Parameters
    ----------
    driver : type of RingDriver
        In RTL.
    model : callable
        Makes its :class:`sim.cycles.ring.CycleModel`.
    exchange : callable
        Makes the :class:`sim.rtl.exchange.Exchange` in which some nodes are RTL and others models.
    """

    driver: type[RingDriver]
    model: Callable[..., CycleModel]
    exchange: Callable[..., Exchange]


ENGINES = {
    "ace": EngineKind(driver=AceRing, model=EngineModel, exchange=AceExchange),
    "smartnic": EngineKind(driver=NicRing, model=NicModel, exchange=NicExchange),
}


def engine_kind(name: str) -> EngineKind:
    """The kind of engine called *name*; a ``ValueError`` says which there are."""
    if name not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {name!r}")
    return ENGINES[name]
