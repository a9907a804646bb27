# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""An engine is elaborated once, and again when anything that it depends on has changed."""

import os
import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen import configured
from gen.cache import set_announcer
from gen.configured import compile_configured


@dataclass(frozen=True)
class Config:
    step: int


class Counter(wiring.Component):
    o: Out(8)
    held: In(1)

    def __init__(self, config):
        self.step = config.step
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        with m.If(~self.held):
            m.d.sync += self.o.eq(self.o + self.step)
        return m


made = []


def counter(config):
    made.append(config)
    return Counter(config)


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    monkeypatch.setattr(configured, "_LOADED_S", float("inf"))  # whatever has been edited just now
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", "-O0")
    made.clear()
    before = set_announcer(lambda text: None)
    yield
    set_announcer(before)


def third(model):
    instance = model.instance()
    instance.cycle(3)
    return instance.get("o")


def test_the_second_time_nothing_is_elaborated(tmp_path):
    first = compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path)
    again = compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path)
    assert made == [Config(5)]
    assert first.path == again.path
    assert third(first) == third(again) == 15


def test_another_configuration_flag_or_generator_is_another_model(tmp_path, monkeypatch):
    compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path)
    other = compile_configured(counter, Config(6), name="counter", cache_dir=tmp_path)
    assert third(other) == 18
    model = compile_configured(
        counter, Config(5), name="counter", cache_dir=tmp_path, generator="cxxrtl"
    )
    assert model.generator == "cxxrtl" and third(model) == 15
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", "-O1")
    compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path)
    assert made == [Config(5), Config(6), Config(5), Config(5)]


def test_changed_sources_are_elaborated_again(tmp_path, monkeypatch):
    source = tmp_path / "part.py"
    source.write_text("first")
    monkeypatch.setattr(configured, "_sources", lambda component: [source, Path(__file__)])
    for text in ("first", "first", "second"):
        source.write_text(text)
        compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path)
    assert len(made) == 2


def test_sources_that_were_changed_after_loading_are_not_trusted(tmp_path, monkeypatch):
    source = tmp_path / "part.py"
    source.write_text("first")
    monkeypatch.setattr(configured, "_sources", lambda component: [source, Path(__file__)])
    monkeypatch.setattr(configured, "_LOADED_S", source.stat().st_mtime + 1)
    for _ in range(2):
        compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path)
    assert len(made) == 1
    os.utime(source, (source.stat().st_atime, source.stat().st_mtime + 2))
    compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path)
    assert len(made) == 2


def test_components_of_files_that_are_not_looked_at_are_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text("def component(make):\n    return make(Config(5))\n", encoding="utf-8")
    component = runpy.run_path(str(elsewhere), {"Config": Config})["component"]
    wanted = r"^Counter is neither in hw nor in the file of component, but in .*configured\.py$"
    with pytest.raises(ValueError, match=wanted):
        compile_configured(component, counter, name="counter", cache_dir=tmp_path)


@pytest.mark.parametrize("harm", ["gone", "damaged"])
def test_a_model_that_is_not_there_any_more_is_made_again(tmp_path, harm):
    path = compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path).path
    whole = path.read_bytes()
    path.unlink()  # it is loaded, so it may not be written to
    if harm == "damaged":
        path.write_bytes(whole[:100])
    again = compile_configured(counter, Config(5), name="counter", cache_dir=tmp_path)
    assert third(again) == 15 and len(made) == 2


def test_engines_of_the_simulator_are_not_elaborated_twice(monkeypatch):
    """Under the hash of the sources, whatever process asks."""
    from sim.rtl import driver

    asked = []
    monkeypatch.setattr(driver, "compile_configured", lambda *args, **kw: asked.append((args, kw)))
    driver._compiled.__wrapped__(counter, Config(5), "ace", 4)
    assert asked == [((counter, Config(5)), {"name": "ace", "lanes": 4})]
