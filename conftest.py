# SPDX-License-Identifier: Apache-2.0
"""Prints at the end of every test run which optional tools it lacked, and how often."""

import os
import re
from collections.abc import Iterable

__all__ = ["missing_tools", "pytest_terminal_summary"]

# GNU readline, which pytest imports, states the width of its terminal for the workers of xdist.
os.environ.pop("COLUMNS", None)


def missing_tools(reasons: Iterable[str]) -> dict[str, int]:
    """Number of tests skipped for want of each tool, from reasons such as "needs Verilator"."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for reason in reasons:
        found = re.search(r"\bneeds ([\w.+-]+)|could not import '([\w.]+)'", reason)
        if found:
            tool = found[1] or found[2]
            name = names.setdefault(tool.casefold(), tool)
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda each: each[0].casefold()))


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.stats.get("skipped", ())
    # A skipped test is reported with file, line and reason.
    reasons = [each.longrepr[2] for each in reports if isinstance(each.longrepr, (tuple, list))]
    missing = missing_tools(reasons)
    if missing:
        tools = ", ".join(f"{tool} ({count})" for tool, count in missing.items())
        terminalreporter.write_line(
            f"{sum(missing.values())} tests skipped for want of optional tools: {tools}"
        )
    else:
        terminalreporter.write_line("no test skipped for want of an optional tool")
