# SPDX-License-Identifier: Apache-2.0
"""Marks of generated text that a reviewer of RTL objects to, counted in texts of all presets."""

import re

from foldwire.catalog import CATALOG, build
from gen.verilog import emit

__all__ = ["PATTERNS", "found", "patterns"]

PATTERNS = {
    "no licence": r"\A(?!.*\n// SPDX-License-Identifier: )",
    "no default_nettype":
        r"\A(?![\s\S]*?^`default_nettype none$[\s\S]*^`default_nettype wire$)",
    "operand that changes nothing":
        r"% 1'[bd]1|[\^|] 1'b0|& 1'b1|1'b0 [\^|]|1'b1 &|[+-] \d+'d0\b|\* \d+'d1\b|~1'b[01]|~~",
    "condition that is known": r"\bif \(1'b[01]\)|\b1'b[01] (?:[=!]= 1'b[01]|\?)",
    "choice of nothing": r"\(?~\([^()]*\)\)? \? [^?:]* : 1'b0",
    "parity of a mask outside of a function": r"^(?!  \w+\[\d+\] = ).*\^\([^()]* & \d+'h\w{8,}\)",
    "state or code without a type": r"^ +localparam logic|^ +logic [^;]*\bfsm_state\b",
    "type named by a number or a direction": r"^} \w+_(?:\d+|[io]|cmd)_t;",
    "empty branch": r"\bbegin(?: *//.*)?\n(?: *//.*\n)*\s*end\b",
}
"""Name of a pattern -> expression that finds it."""

_EXPRESSIONS = {name: re.compile(expression, re.MULTILINE) for name, expression in PATTERNS.items()}


def found(text: str) -> dict[str, int]:
    """Occurrences of each pattern in *text*, bodies of SRAM macros apart."""
    return {name: sum(1 for _ in each.finditer(text)) for name, each in _EXPRESSIONS.items()}


def patterns() -> dict[str, int]:
    """Occurrences of each pattern in the texts of all presets of all designs."""
    total = dict.fromkeys(PATTERNS, 0)
    for name, entry in CATALOG.items():
        for preset in entry.presets:
            made = build(name, preset, {})
            text = emit(made.component, name=made.top, header=made.parameters).text
            for pattern, count in found(text).items():
                total[pattern] += count
    return total
