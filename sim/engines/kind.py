# SPDX-License-Identifier: Apache-2.0
"""How an engine is run: as cycle models, as RTL, or mixed."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.cycles.model import CycleModel
from sim.engines import registry
from sim.hosts.rules import EngineRules
from sim.rtl.driver import EngineDriver
from sim.rtl.exchange import MixedExchange

__all__ = ["EngineKind", "engine_kind"]


@dataclass(frozen=True, kw_only=True)
class EngineKind:
    """Classes that run one kind of engine.

    Parameters
    ----------
    rules : type of EngineRules
        Rings and commands that it supports.
    model : callable
        Makes its :class:`sim.cycles.model.CycleModel`.
    driver : type of EngineDriver or None
        Runs it in RTL; None: it is run at level ``cycles`` only.
    exchange : callable or None
        Makes the :class:`sim.rtl.exchange.MixedExchange` of a system with RTL and models.
    """

    rules: type[EngineRules]
    model: Callable[..., CycleModel]
    driver: type[EngineDriver] | None = None
    exchange: Callable[..., MixedExchange] | None = None


def engine_kind(name: str) -> EngineKind:
    """How the engine *name* runs; a ``ValueError`` says which engines there are."""
    found: EngineKind = registry.record(name).kind
    return found
