# SPDX-License-Identifier: Apache-2.0
"""Contracts of the streams at a design's ports, as assertions that are bound to its top module."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from gen.rtlil import CLOCK

__all__ = ["contracts"]

_WIDTH = 100
_HEAD = """\
// Contracts of the ports of {name}: what is offered stays as it is until it is taken.
// SPDX-License-Identifier: Apache-2.0
//
// Assertions are bound to the module, for simulation (verilator --assert) and formal tools; they
// are no part of a synthesis. FOLDWIRE_INPUTS says what becomes of the contracts that the
// surroundings have to keep: define it as assume for a proof of the design alone.
`ifndef FOLDWIRE_INPUTS
`define FOLDWIRE_INPUTS assert
`endif
`default_nettype none

"""


def contracts(manifest: Mapping[str, Any]) -> str:
    """SystemVerilog with a property for each channel of the design that *manifest* describes.

    A channel is a port whose name ends in ``valid``, one in ``ready`` that begins alike, and those
    of the same direction as the first that begin alike, its payload: AXI4, AXI4-Lite, AXI4-Stream
    and streams of Amaranth. Empty without a channel or a clock.
    """
    name, ports = manifest["name"], manifest["ports"]
    reset = manifest["reset"]
    found = list(_channels(ports))
    if not found or manifest["clock"] is None or reset is None:
        return ""
    inactive = reset["port"] if reset["active"] == "high" else f"~{reset['port']}"
    used = {each["name"] for valid, ready, payload in found for each in (valid, ready, *payload)}
    lines = [
        *(f"    input wire logic {each}," for each in (CLOCK, reset["port"])),
        *(f"    input wire logic {_size(port)}{port['name']}," for port in ports
          if port["name"] in used),
    ]
    lines[-1] = lines[-1][:-1]
    body: list[str] = []
    for valid, ready, payload in found:
        kind = "`FOLDWIRE_INPUTS" if valid["is_input"] else "assert"
        held = ", ".join(port["name"] for port in payload)
        stable = f" && $stable({{{held}}})" if payload else ""
        label = f"{_stem(valid).rstrip('_')}_holds"
        body += [
            f"  {label}: {kind} property (@(posedge {CLOCK}) disable iff ({inactive})",
            *textwrap.wrap(
                f"{valid['name']} && !{ready['name']} |=> {valid['name']}{stable});", _WIDTH,
                initial_indent=" " * 6, subsequent_indent=" " * 10, break_long_words=False,
            ),
        ]
    module = f"{name}_contracts"
    return "\n".join([
        f"{_HEAD.format(name=name)}module {module} (", *lines, ");", *body, "endmodule", "",
        f"bind {name} {module} contracts (.*);", "`default_nettype wire", "",
    ])


_Port = Mapping[str, Any]


def _channels(ports: Sequence[_Port]) -> list[tuple[_Port, _Port, list[_Port]]]:
    """Ports ``valid`` and ``ready`` of each channel, and its payload."""
    by_name = {port["name"]: port for port in ports}
    found = []
    for port in ports:
        stem = _stem(port)
        ready = by_name.get(f"{stem}ready")
        if port["name"] != f"{stem}valid" or ready is None or ready["is_input"] == port["is_input"]:
            continue
        payload = [
            other for other in ports
            if other["name"].startswith(stem) and other["is_input"] == port["is_input"]
            and other is not port
        ]
        found.append((port, ready, payload))
    return found


def _stem(port: _Port) -> str:
    return str(port["name"]).removesuffix("valid")


def _size(port: _Port) -> str:
    return f"[{port['width'] - 1}:0] " if port["width"] > 1 else ""
