# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Recordings are what an engine saw and said; the bench of models finds what differs from them."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bench._recordings import RECORDINGS
from bench._replay import Compiled, record_stepped
from bench.codegen import PRESETS, Totals, main
from gen.compile import compile_model


class Sum(wiring.Component):
    """The sum of what came in, of three widths, and whether it is odd."""

    i: In(70)
    en: In(1)
    total: Out(70)
    odd: Out(1)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.en):
            m.d.sync += self.total.eq(self.total + self.i)
        m.d.comb += self.odd.eq(self.total[0] ^ self.i[0])
        return m


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return compile_model(Sum(), name="sum", cache_dir=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def trace(model):
    """Of the first of two instances: idle, two additions in a step, an input that is not taken."""

    def run():
        with model.instance() as first, model.instance() as second:
            first.cycle()
            first.set("i", (1 << 69) + 3)
            first.set("en", 1)
            second.cycle(5)
            first.cycle(2)
            assert first.get("total") == 6
            first.set("en", 0)
            first.set("i", 1)
            first.cycle()

    return record_stepped(model, run)


def test_what_is_recorded_is_what_the_first_instance_saw_and_said(trace):
    high = 1 << 5  # bit 69
    assert [port.name for port in trace.inputs] == ["i", "en", "rst"]
    assert trace.stimulus.tolist() == [
        [0, 0, 0, 0, 0], [3, 0, high, 1, 0], [3, 0, high, 1, 0], [1, 0, 0, 0, 0],
    ]
    assert [port.name for port in trace.outputs] == ["total", "odd"]
    assert trace.response.tolist() == [[0, 0, 0, 0], [3, 0, high, 0], [6, 0, 0, 1], [6, 0, 0, 1]]


@pytest.mark.parametrize("row, column, name", [(1, 2, "total"), (3, 0, "total"), (2, 3, "odd")])
def test_a_recording_that_says_something_else_differs(model, trace, row, column, name, capsys):
    totals = Totals()
    totals.compare("sum", model, model, trace)
    wrong = trace.response.copy()
    wrong[row, column] ^= 1
    other = replace(trace, response=wrong)

    assert Compiled(model, trace).differing() == []
    assert Compiled(model, other).differing() == [name]
    with pytest.raises(RuntimeError, match=f"differs from the recording at {name}"):
        Compiled(model, other).check()
    totals.compare("sum", model, model, other)
    assert (totals.designs, totals.recorded, totals.differing, totals.fallbacks) == (2, 2, 1, 0)
    first, second = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=1)[1] == "equal   (1000 random cycles, 4 recorded ones)"
    assert f"differs at {name}, {name}" in second


@pytest.mark.full
@pytest.mark.parametrize("name", ["switch test", "switch endpoint test"])
def test_engines_at_a_switch_are_recorded_at_work(name, tmp_path):
    engine = RECORDINGS[name]
    trace = engine.trace(tmp_path)

    assert len(trace.stimulus) == len(trace.response) > 1000
    carried = np.count_nonzero((trace.response[1:] != trace.response[:-1]).any(axis=1))
    assert carried > len(trace.response) / 10


@pytest.mark.parametrize("option, known", [("--engines", list(RECORDINGS)), ("--presets", PRESETS)])
def test_an_unknown_design_is_refused_with_those_that_are_there(option, known, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main([option, "x"])
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"argument {option}: invalid choice: 'x'" in said and all(each in said for each in known)
