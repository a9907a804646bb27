# SPDX-License-Identifier: Apache-2.0
"""Refuse what no backend supports in a design, in one line with the path of the module.

A design here is what Amaranth prepares, before it makes a netlist of it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from amaranth.hdl import Value, ValueCastable, _ast, _ir, _mem, _nir
from amaranth.lib import wiring

__all__ = ["DesignError", "checked"]

# The stubs do not describe these modules.
_netlist: Any = _nir
_nodes: Any = _ir
_memory: Any = _mem


class DesignError(ValueError):
    """The design has something unsupported; the message begins with the path of the module."""


@contextlib.contextmanager
def checked(*, undriven: bool = False) -> Iterator[Callable[[Any], None]]:
    """Yield a function that checks a prepared design; Amaranth's later errors become one line.

    With *undriven*, outputs may be undriven: they keep their initial values.

    Raises
    ------
    DesignError
        The design has an inout, an asynchronous reset, a falling or a second clock, an undriven
        output, a signal with several drivers, or a combinational loop.
    """
    designs = []

    def check(design: Any) -> None:
        designs.append(design)
        _check_design(design, undriven=undriven)

    try:
        yield check
    except (_netlist.CombinationalCycle, _nodes.DriverConflict) as error:
        if not designs:
            raise
        raise _in_one_line(error, designs[0]) from None


def _check_design(design: Any, *, undriven: bool) -> None:
    """Refuse inouts, asynchronous resets, falling or second clocks, and undriven outputs.

    Raises
    ------
    DesignError
        The message has the path of the module and the name of the object.
    """
    driven: set[int] = set()
    clocks = {id(signal) for name, signal, _ in design.ports if name == "clk"}
    for fragment, where in _modules(design):
        _check_clocks(fragment, where, clocks)
        driven.update(id(signal) for signal in _driven(fragment, where))
    if undriven:
        return
    for fragment, where in _modules(design):
        for origin in fragment.origins or ():
            if isinstance(origin, wiring.Component):
                _check_outputs(origin, where, driven)


def _modules(design: Any) -> Iterator[tuple[Any, str]]:
    special = (_nodes.Instance, _nodes.IOBufferInstance, _nodes.RequirePosedge)
    for fragment, info in design.fragments.items():
        if not isinstance(fragment, (*special, _memory.MemoryInstance)):
            yield fragment, ".".join(info.name)


def _check_clocks(fragment: Any, where: str, clocks: set[int]) -> None:
    used = {domain: None for domain in fragment.statements if domain != "comb"}
    for inner, _name, _loc in fragment.subfragments:
        if isinstance(inner, _memory.MemoryInstance):
            ports = (*inner._read_ports, *inner._write_ports)
            used |= {port._domain: None for port in ports if port._domain != "comb"}
    for name in used:
        domain = fragment.domains[name]
        if domain.clk_edge != "pos" or domain.async_reset:
            raise DesignError(
                f"{where}: clock domain {name!r} has a falling edge or asynchronous reset"
            )
        if id(domain.clk) not in clocks:
            raise DesignError(
                f"{where}: clock domain {name!r} has a clock of its own; a design has one, 'clk' "
                "of the domain 'sync'"
            )


def _driven(fragment: Any, where: str) -> Iterator[Any]:
    for statements in fragment.statements.values():
        for statement in statements:
            yield from statement._lhs_signals()
    for inner, name, _loc in fragment.subfragments:
        if isinstance(inner, _memory.MemoryInstance):
            for port in inner._read_ports:
                yield from port._data._lhs_signals()
        elif isinstance(inner, _nodes.IOBufferInstance):
            raise DesignError(f"{where}: an input-output buffer, which is not supported")
        elif isinstance(inner, _nodes.Instance):
            for port, (value, kind) in inner.ports.items():
                signals: Any = value
                if kind == "io" or not isinstance(value, Value):
                    path = f"{where}.{name}" if name else where
                    raise DesignError(f"{path}: port {port!r} is an inout, which is not supported")
                if kind == "o":
                    yield from signals._lhs_signals()


def _check_outputs(component: wiring.Component, where: str, driven: set[int]) -> None:
    for path, member, value in component.signature.flatten(component):
        signal = Value.cast(value) if isinstance(value, ValueCastable) else value
        out = member.flow is wiring.Out and isinstance(signal, _ast.Signal)
        if out and len(signal) and id(signal) not in driven:
            raise DesignError(
                f"{where}: output {'.'.join(map(str, path))!r} of {type(component).__name__} is "
                "driven by nothing"
            )


def _in_one_line(error: Exception, design: Any) -> DesignError:
    """Amaranth's error for a combinational cycle or several drivers, without source locations.

    Names are in its text only.
    """
    text = str(error)
    if isinstance(error, _netlist.CombinationalCycle):
        names = list(dict.fromkeys(re.findall(r": signal (\S+) bit", text)))
        through = ", ".join(names) or "parts without a name"
        where = _place_of(names[0] if names else "", design)
        return DesignError(f"{where}: combinational loop through {through}")
    two = r"Signal \(sig (\S+)\) bit.* from module (\S+) at .* module (\S+) at"
    if found := re.match(two, text):
        return DesignError(f"{found[2]}: signal {found[1]!r} is driven here and in {found[3]}")
    (name,) = re.findall(r"\((?:sig|io-port) (\S+)\)", text)
    return DesignError(f"{_place_of(name, design)}: signal {name!r} has several drivers")


def _place_of(name: str, design: Any) -> str:
    """Path of the module that drives a signal; the top if none does."""
    for fragment, where in _modules(design):
        if any(signal.name == name for signal in _driven(fragment, where)):
            return where
    return ".".join(design.hierarchy)
