"""A component whose parts are black boxes: what is left to prove of it is how it joins them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal, Value
from amaranth.lib import wiring

from gen.rtlil import MacroPlatform
from gen.sv.names import identifier

__all__ = ["Boxed"]


class Boxed(wiring.Component):
    """*inner* with an instance of an unknown module in the place of each part.

    The ports of such a module are the members of the part, clock and reset; so a proof shows that
    both sides join equal parts in the same way. A part to which something was added (a reset, say)
    is no component and stays what it is.

    Attributes
    ----------
    inner : wiring.Component
    """

    def __init__(self, inner: wiring.Component) -> None:
        super().__init__(inner.signature)
        self.inner: Any = inner
        for name in inner.signature.members:
            setattr(self, name, getattr(inner, name))

    def elaborate(self, platform: MacroPlatform) -> Module:
        """*inner* as *platform* sees it, which gets the ports of the boxes as macros."""
        m: Any = self.inner.elaborate(platform)
        for name, (part, where) in m._named_submodules.items():
            if isinstance(part, wiring.Component):
                m._named_submodules[name] = _box(f"box_{name}", part, platform), where
        made: Module = m
        return made


def _box(kind: str, part: wiring.Component, platform: MacroPlatform) -> Instance:
    ports: dict[str, Any] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
    lines = ["input wire clk", "input wire rst"]
    for path, member, value in part.signature.flatten(part):
        signal = Value.cast(value)
        if isinstance(signal, Const) or not len(signal):
            continue
        name = identifier("_".join(map(str, path)))
        out = member.flow is wiring.Out
        ports[f"{'o' if out else 'i'}_{name}"] = signal
        lines.append(f"{'output' if out else 'input'} wire [{len(signal) - 1}:0] {name}")
    platform.sram_macros[kind] = f"module {kind} (\n  " + ",\n  ".join(lines) + "\n);\nendmodule\n"
    return Instance(kind, **ports)
