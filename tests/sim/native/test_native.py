# SPDX-License-Identifier: Apache-2.0
"""Marked functions compute the same compiled, loaded and as plain Python."""

import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

from gen.cache import set_announcer
from sim.native import binding
from sim.native.binding import bind
from sim.native.mark import fingerprint

HERE = Path(__file__).parent


@pytest.fixture
def blocks():
    return load((HERE / "blocks.py").read_text())


def load(text):
    """A module of *text*."""
    spec = importlib.util.spec_from_loader("blocks", loader=None)
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, "blocks.py", "exec"), vars(module))
    return module


def tables(blocks, rows=4):
    records = np.zeros(rows, blocks.RECORD)
    records["weight"] = np.arange(rows)
    grid = np.arange(3 * rows, dtype=np.int32).reshape(rows, 3)
    return blocks.Table(records, grid), blocks.Totals(np.zeros(rows, np.int64))


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import blocks
from test_native import tables
from sim.native.binding import bind

table, totals = tables(blocks)
add_up = bind(blocks.add_up, table, totals, doing="compiling blocks")
print(add_up(1, 3), totals.sums.tolist(), "numba" in sys.modules)
"""
EXPECTED = "42 [0, 15, 27, 0]"


def process(folder):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(HERE)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "FOLDWIRE_CACHE": str(folder)},
    )


def test_one_of_two_processes_compiles_and_later_ones_load(tmp_path):
    processes = [process(tmp_path) for _ in range(2)]
    outcomes = [each.communicate(timeout=300) for each in processes]
    assert sorted(out for out, _ in outcomes) == [f"{EXPECTED} False\n", f"{EXPECTED} True\n"]
    told = sorted(line for _, err in outcomes for line in err.splitlines())
    assert told[0] == "compiling blocks, once ..."
    assert told[1:] in ([], ["waiting for a process that is compiling blocks ..."])
    assert process(tmp_path).communicate(timeout=300) == (f"{EXPECTED} False\n", "")
    (code,) = (each for each in (tmp_path / "native").iterdir() if not each.suffix)
    code.write_bytes(code.read_bytes()[:-100])
    assert process(tmp_path).communicate(timeout=300) == (
        f"{EXPECTED} True\n", "compiling blocks, once ...\n",
    )
    assert process(tmp_path).communicate(timeout=300)[0] == f"{EXPECTED} False\n"


def test_compiled_code_that_cannot_be_kept_is_used(blocks, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    monkeypatch.setattr("sim.native.binding._loaded", {})
    said = []
    before = set_announcer(said.append)
    try:
        table, _ = tables(blocks)
        run = bind(blocks.add_up, table, None, doing="compiling blocks")
    finally:
        set_announcer(before)
    assert run(0, 4) == 3 * (1 + 2 + 3) + sum(range(12))
    assert len(said) == 1 and said[0].startswith("compiled code cannot be kept: ")


def test_without_a_linker_objects_are_kept_and_loaded(blocks, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    table, _ = tables(blocks)
    for _ in range(2):  # compiled, then found
        monkeypatch.setattr("sim.native.binding._loaded", {})
        run = bind(blocks.add_up, table, None, doing="compiling blocks")
        assert run(0, 4) == 3 * (1 + 2 + 3) + sum(range(12))
    (code,) = (each for each in (tmp_path / "native").iterdir() if not each.suffix)
    with pytest.raises(OSError):
        ctypes.CDLL(str(code))


def test_what_is_compiled_in_decides_which_code_is_used(blocks):
    text = (HERE / "blocks.py").read_text()
    whole = fingerprint(blocks.add_up)
    assert fingerprint(load(text).add_up) == whole
    assert fingerprint(load(text + "\n\nOTHER = 4\n").add_up) == whole
    for old, new in (
        ("FACTOR = 3", "FACTOR = 4"),  # a constant of a function that it calls
        ("FACTOR * table", "FACTOR + table"),
        ("total = 0", "total = 1"),
        ("@inlined\ndef weighted", "@compiled\ndef weighted"),
    ):
        assert old in text
        assert fingerprint(load(text.replace(old, new, 1)).add_up) != whole, new


def test_constants_of_modules_decide_too():
    text = "from sim.native.mark import compiled\n@compiled\ndef f(s):\n    return other.A + s\n"
    seen = set()
    for value in (1, 2):
        module, other = load(text), load(f"A = {value}\nB = {value}\n")
        module.other = other
        seen.add(fingerprint(module.f))
    assert len(seen) == 2


def test_types_of_the_states_decide_which_code_is_used(blocks):
    table, _ = tables(blocks)
    wide = table._replace(grid=table.grid.astype(np.int64))
    assert binding._key(blocks.add_up, (table, None)) != binding._key(blocks.add_up, (wide, None))
    longer, _ = tables(blocks, rows=9)
    assert binding._key(blocks.add_up, (table, None)) == binding._key(blocks.add_up, (longer, None))


def test_states_that_cannot_be_passed_are_named(blocks):
    table, totals = tables(blocks)
    spread = table._replace(grid=np.zeros((4, 6), np.int32)[:, ::2])
    with pytest.raises(TypeError, match="grid of the state must be a contiguous array"):
        bind(blocks.add_up, spread, totals, doing="compiling blocks")


@pytest.mark.parametrize(
    "name, error, message",
    [
        ("allocates", RuntimeError, "compiled code may not call NRT_.*lloc"),
        ("raises", TypeError, "raises may not raise: it is compiled"),
    ],
)
def test_functions_that_need_python_are_refused(
    blocks, monkeypatch, tmp_path, name, error, message
):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    table, totals = tables(blocks)
    with pytest.raises(error, match=message):
        bind(getattr(blocks, name), table, totals, doing="compiling blocks")
    assert list((tmp_path / "native").iterdir()) == []


def test_marked_functions_stay_functions(blocks):
    table, totals = tables(blocks)
    bind(blocks.add_up, table, totals, doing="compiling blocks")
    assert isinstance(blocks.row_sum, FunctionType) and blocks.row_sum(table, 1) == 12
