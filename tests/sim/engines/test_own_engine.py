# SPDX-License-Identifier: Apache-2.0
"""An engine of one's own, registered from outside, is at every door; the page about it is true."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import foldwire as fw
from foldwire.catalog import CATALOG
from foldwire.cli import main
from sim.describe.reader import ConfigError
from sim.endpoint.kinds import KINDS
from sim.engines import registry
from sim.engines.engine import engine_named, register_engine

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "examples" / "led_nic.py"
PAGE = (ROOT / "docs" / "guide" / "add-your-engine.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture
def own(monkeypatch):
    """The module of the example; what it registers is gone afterwards."""
    monkeypatch.setattr(registry, "_added", {})
    spec = importlib.util.spec_from_file_location("led_nic", SOURCE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "led_nic", module)
    spec.loader.exec_module(module)
    return module


def test_page_runs_as_it_stands(own, capsys):
    (first, shown), *blocks = BLOCK.findall(PAGE)
    assert first == SOURCE.read_text(encoding="utf-8").split('"""\n\n', 1)[1] and not shown
    names = dict(vars(own))
    for source, expected in blocks:
        exec(compile(source, "add-your-engine.md", "exec"), names)
        assert capsys.readouterr().out == expected


def test_engine_is_at_every_door_once_it_is_registered(own, capsys, tmp_path):
    with pytest.raises(ValueError, match="kind must be one of ace, smartnic, in_switch, switch, "):
        fw.preset("led_nic", "test")
    register_engine(own.LedNicRecord())

    assert fw.presets("led_nic") == ["test", "40g", "100g", "400g"]
    assert "led_nic" in KINDS and "led-nic" in CATALOG
    assert main(["gen", "led-nic", "--preset", "test", "-o", str(tmp_path)]) == 0
    text = (tmp_path / "led_nic_test.sv").read_text()
    assert re.search(r"output .*\bled\b", text)
    capsys.readouterr()


def test_own_keys_and_refusals_are_those_of_the_record(own):
    register_engine(own.LedNicRecord())
    system = {
        "topology": {"kind": "torus", "shape": [2, 2], "bandwidth_bytes_per_s": 5e9},
        "workload": {"collective": "all_reduce", "size_bytes": 65536},
    }

    with pytest.raises(ConfigError, match=r"endpoint.preset: must be one of test, 40g"):
        fw.run({**system, "endpoint": {"kind": "led_nic", "preset": "nope"}})
    with pytest.raises(ConfigError, match=r"must have one dimension, one ring or one switch, no"):
        fw.run({**system, "endpoint": {"kind": "led_nic", "level": "cycles"}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "ace"}, "engine must have a name of its own, not 'ace'"),
        (
            {"events": {"ideal": fw.endpoint("ideal")}},
            "engine must have kinds of endpoints of its own, not 'ideal'",
        ),
        ({"blueprints": engine_named("ace").blueprints}, "engine must have designs of its own, no"),
    ],
)
def test_names_that_exist_are_refused(own, change, message):
    record = type("Other", (own.LedNicRecord,), change)()

    with pytest.raises(ValueError, match=message):
        register_engine(record)
    assert "led_nic" not in registry.names()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "engine must be a record whose name has small letters, digits and _, not 3"),
        ({"name": "a:b"}, "engine must be a record whose name has small letters, digits and _"),
        ({"name": "switch"}, "engine must have a name of its own, not 'switch'"),
        ({"events": {}}, "engine must be a record whose events are a mapping of names, not dict"),
        ({"events": {"x": 3}}, "engine must be a record whose 'x' is an event endpoint, not 3"),
        ({"blueprints": None}, "engine must be a record whose blueprints are a mapping of names"),
        ({"blueprints": {"x": 3}}, "engine must be a record whose 'x' is a Blueprint, not 3"),
    ],
)
def test_records_that_are_none_are_refused_and_change_nothing(own, change, message):
    record = type("Other", (own.LedNicRecord,), change)()

    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
        register_engine(record)
    assert registry.names() == ["ace", "smartnic", "in_switch"]


def test_designs_of_blocks_and_configurations_of_others_are_refused(own):
    led = own.LedNicRecord().blueprints["led-nic"]
    nic = engine_named("smartnic").blueprints["smartnic"]
    for designs, message in (
        ({"adder": led}, "engine must have designs of its own, not 'adder'"),
        ({"led-nic": nic}, "engine must have configurations of its own, not SmartNicConfig"),
    ):
        with pytest.raises(ValueError, match=message):
            register_engine(type("Other", (own.LedNicRecord,), {"blueprints": designs})())


def test_engine_without_rtl_is_refused_at_that_level_by_its_key(own):
    kind = own.LedNicRecord().kind
    models = type("Models", (), {"rules": kind.rules, "model": kind.model, "driver": None})()
    register_engine(type("Other", (own.LedNicRecord,), {"kind": models})())
    system = {
        "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 5e9},
        "workload": {"collective": "all_reduce", "size_bytes": 65536},
        "endpoint": {"kind": "led_nic", "level": "rtl"},
    }

    with pytest.raises(ConfigError, match=r"endpoint.level: must be 'cycles' for 'led_nic', whi"):
        fw.run(system)


def test_blocks_of_the_catalogue_are_no_names_of_engines():
    from foldwire.catalog import _BLOCKS

    assert tuple(_BLOCKS) == registry.BLOCKS


def test_unknown_engine_says_which_there_are():
    with pytest.raises(ValueError, match="engine must be one of ace, smartnic, in_switch, not 'x'"):
        engine_named("x")
    assert registry.of_kind(["ace"]) is None


def test_nothing_in_the_tree_knows_the_engine():
    for folder in ("hw", "gen", "sim", "foldwire", "bench", "experiments"):
        for path in (ROOT / folder).rglob("*.py"):
            assert "led_nic" not in path.read_text(encoding="utf-8"), path
