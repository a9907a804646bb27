# SPDX-License-Identifier: Apache-2.0
"""A component without those of its ports that are constants, for designs of mutants."""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

__all__ = ["Components", "Plain"]

Components = Iterator[wiring.Component]


class Plain(wiring.Component):
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
