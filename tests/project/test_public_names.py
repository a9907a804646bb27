# SPDX-License-Identifier: Apache-2.0
"""The public door: names, where they come from, and that opening it loads nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import foldwire


def test_every_name_is_there():
    for name in foldwire.__all__:
        assert getattr(foldwire, name) is not None
    assert dir(foldwire) == sorted(foldwire.__all__)


def test_the_stub_re_exports_every_name_under_itself_or_a_clear_one():
    tree = ast.parse(Path(foldwire.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    listed = [each for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names]

    assert len(listed) > 40 and all(each.asname for each in listed)
    assert sorted(each.asname for each in listed) == foldwire.__all__


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'foldwire' has no attribute 'simulat'"):
        _ = foldwire.simulat


def test_opening_the_door_loads_none_of_it():
    script = (
        "import sys, foldwire\n"
        "loaded = [name for name in sys.modules if name.split('.')[0] in ('hw', 'gen', 'sim')]\n"
        "assert not loaded, loaded\nassert 'amaranth' not in sys.modules"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
