# amaranth: UnusedElaboratable=no
"""What the prover itself promises: a proof of nothing fails, covers see the whole design."""

import json

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.hw.common.prover import RECORD, ever, holds, nth


class Counter(wiring.Component):
    """Counts up to 3 with `go`; `bad` if it is above *limit*. With *mute* it can never count."""

    def __init__(self, *, limit=3, mute=False, covered=True):
        self.limit, self.mute = limit, mute
        cover = {"cover_it_is_three": Out(1)} if covered else {}
        super().__init__({"go": In(1), "bad": Out(1), **cover})

    def elaborate(self, platform):
        m = Module()
        count = Signal(3)
        with m.If(self.go & (count < 3) & (not self.mute)):
            m.d.sync += count.eq(count + 1)
        m.d.comb += self.bad.eq(count > self.limit)
        if "cover_it_is_three" in self.signature.members:
            m.d.comb += self.cover_it_is_three.eq(count == 3)
        return m


class Shared(wiring.Component):
    """A bit that is read inside under the name of an output."""

    def __init__(self):
        covers = {"cover_on": Out(1), "cover_off_again": Out(1)}
        super().__init__({"go": In(1), "bad": Out(1), **covers})

    def elaborate(self, platform):
        m = Module()
        on = Signal()
        m.d.sync += on.eq(self.go ^ on)
        m.d.comb += [self.cover_on.eq(on), self.cover_off_again.eq(ever(m, self.cover_on) & ~on)]
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
        holds(Counter(mute=cycles is None), tmp_path, cycles=cycles)


def test_a_proof_without_a_cover_fails(tmp_path):
    with pytest.raises(AssertionError, match="Counter has no output cover_"):
        holds(Counter(covered=False), tmp_path)


def test_an_output_that_is_read_inside_stays_when_others_are_looked_for(tmp_path):
    assert holds(Shared(), tmp_path)


def test_the_third_time_is_the_third_time(tmp_path):
    assert holds(Third(), tmp_path, cycles=2)
    assert not holds(Third(), tmp_path, cycles=3)
