# SPDX-License-Identifier: Apache-2.0
"""An engine behind links with retry: all of the wrapper but the links of its kind."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped

from hw.link.retry_link import RETRY_COUNTS

__all__ = ["WithRetry"]



class WithRetry(wiring.Component):
    """Base of engines whose links have retry.

    Parameters
    ----------
    name : str
        Name of the engine within it.
    engine : component
        With ``link``, ``irq``, ``idle``; further members are those of the engine that it becomes.
    config
        Attribute of that name: the engine's configuration.
    trace : bool
        Has `RETRY_COUNTS`.

    Members
    -------
    link : as of the engine
        Wires; their credits are not used.
    failed, up : ``Out(links)``
        Links that were given up; that work.
    resent, damaged, repeated : ``Out(32)``
        Frames of all links that were sent again; that came damaged; that came again. With *trace*.
    idle : ``Out(1)``
        Nothing is held, and all that was sent was acknowledged.
    others
        As of the engine, with the registers of the links; but its ``status``, which `join` is to
        connect if there is one.
    """

    csr: Any
    irq: Signal
    mem: Any
    link: Any
    failed: Signal
    up: Signal
    resent: Signal
    damaged: Signal
    repeated: Signal
    idle: Signal

    def __init__(self, name: str, engine: Any, config: Any, *, trace: bool) -> None:
        self.config, self._name, self._engine, self._trace = config, name, engine, trace
        members = dict(engine.signature.members.items())
        members.pop("status", None)
        links = len(engine.link)
        super().__init__({
            **members, "failed": Out(links), "up": Out(links), **(RETRY_COUNTS if trace else {}),
        })

    @abstractmethod
    def join(self, m: Module, engine: Any) -> Sequence[Any]:
        """Put retry between the links of *engine* and ``link``; return the ends, link by link."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        engine = m.submodules[self._name] = self._engine
        connect(m, flipped(self.csr), engine.csr)
        for inner, outer in zip(getattr(engine, "mem", ()), getattr(self, "mem", ()), strict=True):
            connect(m, inner, flipped(outer))
        retries = self.join(m, engine)
        m.d.comb += [
            self.irq.eq(engine.irq),
            self.failed.eq(Cat(each.failed for each in retries)),
            self.up.eq(Cat(each.up for each in retries)),
            self.idle.eq(engine.idle & Cat(each.idle for each in retries).all()),
        ]
        for name in ("taken", "took"):
            for outer, inner in zip(getattr(self, name, ()), getattr(engine, name, ())):
                m.d.comb += outer.eq(inner)
        for name in RETRY_COUNTS if self._trace else ():
            count = getattr(self, name)
            m.d.sync += count.eq(count + sum(getattr(each, name) for each in retries))
        return m
