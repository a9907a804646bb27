# SPDX-License-Identifier: Apache-2.0
"""One file per module, made of the text that has them all."""

from __future__ import annotations

import re

__all__ = ["split"]


def split(text: str, name: str) -> dict[str, str]:
    """Files of a SystemVerilog *text* with top *name*, by file name, in order of compilation.

    Each begins with the header of the text. What stands outside of modules is `name`_types.svh,
    which every file includes: it does not matter which of them are compiled together.
    """
    header = re.match(r"(?://.*\n)*", text)
    assert header is not None
    above = header[0]
    brief = above.partition("//\n")[0]  # the configuration stands in the top's file only
    parts = re.split(r"^((?://.*\n)*module (\w+)[\s\S]*?^endmodule\n)", text[len(above):],
                     flags=re.MULTILINE)
    around, bodies, names = parts[::3], parts[1::3], parts[2::3]
    types = around[0].replace("`default_nettype none\n", "").strip("\n")
    files: dict[str, str] = {}
    include = ""
    if types:
        guard = f"{name}_types".upper()
        files[f"{name}_types.svh"] = (
            f"{brief}`ifndef {guard}\n`define {guard}\n\n{types}\n\n`endif\n"
        )
        include = f'`include "{name}_types.svh"\n'
    condition = ""
    for module, between, body in zip(names, around, bodies, strict=False):
        found = re.search(r"^`ifndef .*\n", between, re.MULTILINE)
        condition = found[0] if found else condition  # holds for all behind it, to the end
        comment = "".join(re.findall(r"^//.*\n", between, re.MULTILINE)) if found else ""
        files[f"{module}.sv"] = "".join([
            above if module == name else brief, "`default_nettype none\n",
            "" if condition else include, "\n",
            comment, condition, body, "`endif\n" if condition else "", "`default_nettype wire\n",
        ])
    return files
