# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""What the prover itself promises: a proof of nothing fails, covers see the whole design."""

import json

import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.hw.common.prover import RECORD, holds, nth


class Counter(wiring.Component):
    """Counts up to *most* with `go`; `bad` if it is above *limit*."""

    def __init__(self, *, most=3, limit=3, covered=True):
        self.most, self.limit = most, limit
        cover = {"cover_it_is_three": Out(1)} if covered else {}
        super().__init__({"go": In(1), "bad": Out(1), **cover})

    def elaborate(self, platform):
        m = Module()
        count = Signal(3)
        with m.If(self.go & (count < self.most)):
            m.d.sync += count.eq(count + 1)
        m.d.comb += self.bad.eq(count > self.limit)
        if "cover_it_is_three" in self.signature.members:
            m.d.comb += self.cover_it_is_three.eq(count == 3)
        return m


class Shared(wiring.Component):
    """Counts up to 3; what is `bad` is read inside, too."""

    def __init__(self):
        super().__init__({"go": In(1), "bad": Out(1), "cover_two": Out(1)})

    def elaborate(self, platform):
        m = Module()
        count = Signal(3)
        m.d.comb += [self.bad.eq(count > 3), self.cover_two.eq(count == 2)]
        m.d.sync += count.eq(Mux(self.bad, 0, Mux(count == 3, count, count + self.go)))
        return m


class Third(wiring.Component):
    """`bad` when `go` comes for the third time."""

    def __init__(self):
        super().__init__({"go": In(1), "bad": Out(1), "cover_go": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.bad.eq(nth(m, self.go, 3)), self.cover_go.eq(nth(m, self.go, 2))]
        return m


@pytest.mark.parametrize("cycles", [None, 6])
def test_a_proof_notes_its_bound_and_how_deep_it_reaches(cycles, tmp_path, monkeypatch):
    monkeypatch.setenv(RECORD, str(tmp_path / "proofs"))

    assert holds(Counter(), tmp_path, cycles=cycles)
    assert not holds(Counter(limit=2), tmp_path, cycles=cycles)

    (line,) = (tmp_path / "proofs").read_text().splitlines()
    proof = json.loads(line)
    assert (proof["subject"], proof["bound"]) == ("Counter", cycles)
    assert proof["covers"] == {"it is three": 4}
    assert proof["test"].startswith("tests/hw/common/test_prover.py::test_a_proof_notes")


@pytest.mark.parametrize("cycles", [None, 3])
def test_a_proof_whose_cover_cannot_be_reached_fails(cycles, tmp_path):
    with pytest.raises(AssertionError, match=r"\['cover_it_is_three'\] not reached"):
        holds(Counter(most=2 if cycles is None else 3), tmp_path, cycles=cycles)


def test_a_proof_without_a_cover_fails(tmp_path):
    with pytest.raises(AssertionError, match="Counter has no output cover_"):
        holds(Counter(covered=False), tmp_path)


def test_an_output_that_is_read_inside_stays_when_others_are_looked_for(tmp_path):
    assert holds(Shared(), tmp_path)


def test_the_third_time_is_the_third_time(tmp_path):
    assert holds(Third(), tmp_path, cycles=2)
    assert not holds(Third(), tmp_path, cycles=3)
