# SPDX-License-Identifier: Apache-2.0
"""Signals are called as the source calls them, in every instance of every preset."""

import re
from enum import Enum

import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bench._names import checked, seen_names
from bench.verilog import numbered
from foldwire.catalog import CATALOG, build
from gen.sv import sites
from gen.sv.writer import write_design

SMALL = ("alu/4-lanes", "adder/binary32-comb")
PRESETS = [f"{name}/{preset}" for name, entry in CATALOG.items() for preset in entry.presets]


class Colour(Enum):
    RED = 0
    BLUE = 1


class Pair:
    """A record whose signals have the names of its fields."""

    def __init__(self):
        self.valid = Signal()
        self.code = Signal(3)


class Unpacking(wiring.Component):
    """Signals made in every way that Amaranth has no name for, or only one for the last."""

    i: In(8)
    o: Out(8)

    def __init__(self, *, gain):
        self._gain = gain
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        one, other = Signal(8), Signal(8)
        first, second, third = Signal(8), Signal(8), Signal(8)
        north, east, south, west = Signal(8), Signal(8), Signal(8), Signal(8)
        inner, (left, right) = Signal(8), (Signal(8), Signal(8))
        plain, self.kept = Signal(8), Signal(8)
        early, late = (Signal(width) for width in (8, 8))
        begin, end = [Signal(8) for _ in range(2)]
        looked = {"valid": Signal(8), "data": Signal(8)}
        by_colour = {colour: Signal(8) for colour in Colour}
        tried = dict(again=Signal(8), never=Signal(8))  # noqa: C408
        steps = [Signal(8), Signal(9)]
        queue = []
        queue.append(Signal(8))
        lowest, highest = self._two()
        pair = Pair()
        signals = [
            one, other, first, second, third, north, east, south, west, inner, left, right, plain,
            self.kept, early, late, begin, end, *looked.values(), *by_colour.values(),
            *tried.values(), *steps, *queue, lowest, highest, pair.valid, pair.code,
        ]
        before = self.i
        for number, signal in enumerate(signals):
            m.d.sync += signal.eq(before * self._gain + number)
            before = signal
        for name in ("up", "down"):
            a, b = Signal(8), Signal(8)
            m.d.sync += [a.eq(before + len(name)), b.eq(a ^ before)]
            before = b
        m.d.comb += self.o.eq(before)
        return m

    def _two(self):
        return Signal(8), Signal(8)


NAMES = (
    "one other first second third north east south west inner left right plain kept early late "
    "begin end looked_valid looked_data by_colour_red by_colour_blue tried_again tried_never steps "
    "queue lowest highest valid code a b"
).split()


class Twice(wiring.Component):
    """Two instances that are one module, and one that is not."""

    i: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.former = former = Unpacking(gain=3)
        m.submodules.latter = latter = Unpacking(gain=3)
        m.submodules.apart = apart = Unpacking(gain=5)
        m.d.comb += [
            former.i.eq(self.i), latter.i.eq(former.o), apart.i.eq(latter.o), self.o.eq(apart.o)
        ]
        return m


def _tests(path):
    return path == __file__


def test_signals_that_amaranth_cannot_name_have_their_names_in_every_instance():
    with seen_names(_tests) as seen:
        text = write_design(Twice(), name="twice")
    result = checked(seen, text.names)
    assert result.wrong == []
    assert result.unheld == 0
    assert text.instances["twice_unpacking"] == 3  # one module: the gain is a parameter
    for part in ("former", "latter", "apart"):
        stems = {
            re.sub(r"_+$", "", re.sub(r"(\[\d+\]|_\d+)$", "", name))
            for path, name, _ in text.names if path == f"twice.{part}"
        }
        assert stems == set(NAMES)


def test_a_wrong_name_is_found(monkeypatch):
    """Names of the second instance on rotate, as they once did."""
    plain, count = sites._Finder.site, iter(range(10_000))
    rotated = ("owner", "chosen")

    def wrong(self, frame, given, named):
        site = plain(self, frame, given, named)
        if site is not None and site.name in rotated and next(count) > 2:
            name = rotated[1 - rotated.index(site.name)]
            return sites.Site(name, site.longer, site.calls)
        return site

    monkeypatch.setattr(sites._Finder, "site", wrong)
    with seen_names() as seen:
        text = write_design(build("switch-dma", "test", {}).component, name="t")
    wrong_ones = checked(seen, text.names).wrong
    assert wrong_ones and all(re.search(r"\.(owner|chosen)\S*: ", each) for each in wrong_ones)


class Fields(wiring.Component):
    """A name that is taken: what the source says beside comes before a number."""

    i: In(unsigned(8))
    o: Out(data.StructLayout({"a": 8, "b": 8}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.o.a.eq(self._delayed(m, self.i)), self.o.b.eq(self._held(m, self.i))]
        return m

    def _delayed(self, m, value):
        seen = Signal(8)
        m.d.sync += seen.eq(value)
        return seen

    def _held(self, m, value):
        seen = Signal(8)
        m.d.sync += seen.eq(seen + value)
        return seen


def test_a_name_that_is_taken_is_told_apart_by_the_function():
    names = {name for _, name, _ in write_design(Fields(), name="fields").names}
    assert names == {"seen", "held_seen"}


@pytest.mark.parametrize(
    "preset", [pytest.param(p, marks=[] if p in SMALL else [pytest.mark.full]) for p in PRESETS]
)
def test_every_signal_of_a_preset_is_called_as_in_the_source(preset):
    with seen_names() as seen:
        made = build(*preset.split("/"), {})
        text = write_design(made.component, name=made.top)
    result = checked(seen, text.names)
    assert result.wrong == []
    assert result.compared > 0.9 * len(text.names)
    few, all_of_them = numbered(text.text)
    assert few <= 0.02 * all_of_them
