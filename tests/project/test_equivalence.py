# amaranth: UnusedElaboratable=no
"""The bench of equivalence proves equal texts once, and lets nothing through undecided."""

from dataclasses import replace

import pytest

from bench import _proofs
from bench._proofs import COMPONENTS, Component, Judged, Planted, Prover
from bench.equivalence import LONG, Totals, main, shares
from bench.text_mutants import Mutant
from gen.sv.proof import Proof
from gen.yosys import YosysError, YosysTimeoutError

NAME = "SkidBuffer"


@pytest.fixture(scope="module")
def component():
    return Component.named(NAME)


@pytest.fixture
def prover(tmp_path):
    return Prover(60, verdicts=tmp_path)


def test_equal_texts_are_proved_once(prover, component, tmp_path):
    first = prover.prove(component)
    again = Prover(60, verdicts=tmp_path).prove(component)

    assert first.proof.proved and not first.known and first.cpu_s > 0
    assert again == replace(first, known=True)
    assert not Prover(60, verdicts=tmp_path, anew=True).prove(component).known


def test_whatever_a_proof_hangs_on_makes_it_another_one(prover, component, monkeypatch):
    assert prover.prove(component).proof.proved
    wrong = component.gate.text.replace(" & ", " | ", 1)
    assert wrong != component.gate.text

    judged = prover.prove(component, wrong)
    assert not judged.known and not judged.proof.proved and not judged.proof.undecided
    gold = replace(component.gold, text=component.gold.text.replace("$and", "$or", 1))
    judged = prover.prove(replace(component, gold=gold))
    assert not judged.known and not judged.proof.proved
    fewer = replace(component.text, registers=component.text.registers[:-1])
    assert not prover.prove(replace(component, text=fewer)).known
    monkeypatch.setattr(_proofs, "_method", lambda: ("another Yosys",))
    assert not prover.prove(component).known


def test_what_is_undecided_is_asked_again(prover, component, monkeypatch):
    undecided = Proof(proved=False, undecided=True, why="late", state=4, seconds=1.0)
    with monkeypatch.context() as patched:
        patched.setattr(_proofs, "prove", lambda *_, **__: undecided)
        assert prover.prove(component) == Judged(undecided, 0.0, False)

    assert prover.prove(component).proof.proved


def test_a_text_that_is_not_read_in_time_is_undecided_and_no_text_is_drawn_again(
    prover, monkeypatch
):
    errors = [YosysError("syntax", ""), YosysTimeoutError("late", ""), YosysError("syntax", "")]

    def prove(*_, **__):
        if errors:
            raise errors.pop(0)
        return Proof(proved=True, undecided=False, why="", state=4, seconds=1.0)

    monkeypatch.setattr(_proofs, "prove", prove)
    planted = prover.planted(NAME, 2, seed=1)

    assert (len(planted.judged), planted.found) == (2, 0)
    assert len(planted.undecided) == len(planted.equivalent) == 1


def test_errors_are_found_in_a_component(prover):
    planted = prover.planted(NAME, 3, seed=1)

    assert planted.found + len(planted.equivalent) == 3 and planted.found
    assert prover.planted(NAME, 3, seed=1) == replace(
        planted, judged=tuple(replace(each, known=True) for each in planted.judged)
    )


def test_errors_are_spread_over_all_components_by_seed():
    assert shares(len(COMPONENTS), 1) == dict.fromkeys(COMPONENTS, 1)
    assert sorted(shares(2 * len(COMPONENTS) + 1, 1).values())[-2:] == [2, 3]
    few = shares(48, 1)
    assert len(few) == 48 and set(few) < set(COMPONENTS)
    assert few == shares(48, 1) != shares(48, 2)
    assert set(LONG) < set(COMPONENTS)


def _totals(**changes):
    values = {"components": 90, "proved": 90, "replayed": 3, "mutants": 41, "found": 40,
              "equivalent": 1}
    return Totals(**values | changes)


@pytest.mark.parametrize("short", [
    {"proved": 89}, {"undecided": 1}, {"components": 29, "proved": 29}, {"replayed": 2},
    {"mismatches": 1}, {"found": 39}, {"mutants": 39, "found": 38}, {"equivalent": 0},
])
def test_whatever_is_missing_makes_it_short(short):
    assert _totals().good(40.0) and not _totals().good(40.1)
    assert not _totals(**short).good(1.0)


def test_what_was_known_is_counted_with_its_time(capsys):
    totals = Totals()
    proof = Proof(proved=True, undecided=False, why="", state=4, seconds=1.0)
    totals.add_proof("one", Judged(proof, 2.0, True))
    totals.add_proof("two", Judged(replace(proof, proved=False, why="not equal: a"), 3.0, False))
    mutant = Mutant("", 7, "a & b", "a | b")
    totals.add_planted("one", Planted(1, (), (mutant,), (Judged(proof, 5.0, True),) * 2))

    assert (totals.known, totals.known_s) == (3, 12.0)
    assert (totals.components, totals.proved, totals.mutants, totals.equivalent) == (2, 1, 2, 1)
    assert capsys.readouterr().out.splitlines() == [
        "  one                             4 registers     2.0 s of CPU, known  proved",
        "  two                             4 registers     3.0 s of CPU  not equal: a",
        f"  {'one':28}1 of 2 errors     10.0 s of CPU, known  found, 1 proved equivalent",
        "    line 7, equivalent: a & b -> a | b",
    ]


def test_an_unknown_component_is_one_line():
    with pytest.raises(SystemExit, match=r"^bench equivalence: no part 'Skid'; there are: Skid"):
        main(["Skid"])
