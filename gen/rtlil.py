# SPDX-License-Identifier: Apache-2.0
"""Convert an Amaranth component to RTLIL text; ports under the names that all of `gen` uses."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Const, Instance, ResetSignal, Signal, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from gen.checks import checked
from gen.netlist import convert
from gen.waves import TracedSignal, traced_signals

__all__ = [
    "CLOCK",
    "RESET",
    "RESET_LOW",
    "DesignPort",
    "MacroPlatform",
    "OncePlatform",
    "component_ports",
    "to_rtlil",
    "top_ports",
    "uncollected",
]

CLOCK = "clk"
RESET = "rst"
RESET_LOW = "rst_n"
"""Port of an active-low reset."""


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Run the block without garbage collection.

    A design is millions of small objects, none of them garbage while it becomes RTLIL: collections
    would take half of the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@dataclass(frozen=True)
class MacroPlatform:
    """Platform to elaborate with when SRAM is to become macros.

    `hw.common.sram.SRAMBank` then emits an instance of a macro module and leaves the behavioural
    body of that module in `sram_macros`, under the name of the module.
    """

    sram_macros: dict[str, str] = field(default_factory=dict)


_CLOCKING = re.compile(rf"^  wire .*input \d+  ?\\({CLOCK}|{RESET})$", re.MULTILINE)


@dataclass(frozen=True)
class OncePlatform(MacroPlatform):
    """Platform that also elaborates equal blocks only once; see `hw.common.once`.

    Elaboration takes most of the time of a wide design. The RTLIL of each block is left in `blocks`
    under the name of its module, whose ports are those of the component.
    """

    blocks: dict[str, str] = field(default_factory=dict)

    def build_once(self, component: wiring.Component, name: str) -> Instance:
        """An instance of the block *name*, connected to the ports of *component*."""
        text = self.blocks.get(name)
        if text is None:
            text = to_rtlil(component, name=name, platform=self)
            self.blocks[name] = text = text.replace("attribute \\top 1\n", "", 1)
        vars(component)["_MustUse__used"] = True  # its ports are used
        clocking = {CLOCK: ClockSignal(), RESET: ResetSignal()}
        wanted = _CLOCKING.findall(text.partition("\nend\n")[0])
        ports = {f"i_{port}": clocking[port] for port in wanted}
        for port, value, is_input in _members(component):
            ports[f"{'i' if is_input else 'o'}_{port}"] = value
        return Instance(name, **ports)


@dataclass(frozen=True, kw_only=True)
class DesignPort:
    """One top-level port as emitted: `name`, `width` in bits, `is_input`."""

    name: str
    width: int
    is_input: bool


def _members(component: wiring.Component) -> Iterable[tuple[str, Value, bool]]:
    if not isinstance(component, wiring.Component):
        raise TypeError(
            f"component must be an amaranth.lib.wiring.Component, not {type(component).__name__}"
        )
    kind = type(component).__name__
    owner: dict[str, tuple[Any, ...]] = {}
    for path, member, value in component.signature.flatten(component):
        signal = Value.cast(value)
        if isinstance(signal, Const):
            continue  # a `ready` that is always high is no wire
        name = "_".join(_named_parts(component.signature, path)).replace("__", "_")
        if name in (CLOCK, RESET, RESET_LOW):
            raise ValueError(f"{kind}: port {name!r} has the name of the clock or of the reset")
        if name in owner:
            both = " and ".join(repr(".".join(map(str, each))) for each in (owner[name], path))
            raise ValueError(f"{kind}: ports {both} would both be emitted as {name!r}")
        owner[name] = path
        yield name, signal, member.flow is wiring.In


def _named_parts(signature: wiring.Signature, path: Iterable[str | int]) -> Iterator[str]:
    """Parts of *path* that make the name of a port: all but names of transparent interfaces."""
    for part in path:
        if isinstance(part, str):
            member = signature.members[part]
            if member.is_signature:
                signature = member.signature
                if getattr(signature, "transparent", False):
                    continue
        yield str(part)


def component_ports(component: wiring.Component) -> list[DesignPort]:
    """The ports of `component` under the names that Verilog and compiled models use.

    Paths are joined with one underscore (`link_0_tx_tdata`). A signature with a true attribute
    `transparent` leaves out the name of its interface: `mem[0].write.awaddr` is `mem_0_awaddr`.
    Clock and reset are not among them, nor members that are constants.
    """
    return [
        DesignPort(name=name, width=len(value), is_input=is_input)
        for name, value, is_input in _members(component)
    ]


def top_ports(component: wiring.Component) -> dict[str, tuple[Value, Any]]:
    """The ports of `component` in the form that Amaranth takes."""
    return {
        port: (value, PortDirection.Input if is_input else PortDirection.Output)
        for port, value, is_input in _members(component)
    }


def _low_reset(fragment: Any) -> dict[str, tuple[Value, Any]]:
    """Give *fragment* a clock domain whose reset comes from `RESET_LOW`; returns its ports."""
    domain: Any = ClockDomain("sync")  # the stubs do not know its signals
    outside = Signal(name=RESET_LOW)
    fragment.add_domains(domain)
    fragment.add_statements("comb", domain.rst.eq(~outside))
    return {
        CLOCK: (domain.clk, PortDirection.Input), RESET_LOW: (outside, PortDirection.Input)
    }


def to_rtlil(
    component: wiring.Component,
    *,
    name: str,
    platform: MacroPlatform | None = None,
    trace: Sequence[str] = (),
    traced: list[TracedSignal] | None = None,
    reset_low: bool = False,
    undriven: bool = True,
    prepared: Callable[[Any], None] | None = None,
) -> str:
    """RTLIL of `component` as top module `name`, without source locations.

    Signals that match a pattern of *trace* become ports and are appended to *traced*. With
    *reset_low* the reset is the active-low port `RESET_LOW`. Without *undriven*, undriven outputs
    are refused. *prepared* is called with the design as Amaranth prepares it.
    """
    ports = top_ports(component)

    def more_ports(fragment: Any) -> dict[str, tuple[Value, Any]]:
        inside = {port: signal for port, (signal, _) in ports.items()}
        found, added = traced_signals(fragment, trace, inside)
        if traced is not None:
            traced.extend(found)
        more = {port: (signal, PortDirection.Output) for port, signal in added.items()}
        return more | (_low_reset(fragment) if reset_low else {})

    with uncollected(), checked(undriven=undriven) as check:

        def see(design: Any) -> None:
            check(design)
            if prepared is not None:
                prepared(design)

        return convert(
            component, name=name, platform=platform, ports=ports,
            more_ports=more_ports if trace or reset_low else None, check=see,
        )
