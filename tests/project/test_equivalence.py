# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The bench of equivalence asks each question once, and lets nothing through undecided."""

import json
import time
from dataclasses import asdict, replace
from functools import partial

import pytest

from bench import _proofs, equivalence
from bench._proofs import COMPONENTS, PRESETS, Judged, LateError, Planted, Prover, component, preset
from bench._recordings import OF_PRESETS
from bench._replay import Compiled, Trace, clocked
from bench.equivalence import LONG, Totals, main, shares
from bench.sources import digest
from bench.text_mutants import STRUCTURES, Mutant, draw_in_structures
from foldwire.catalog import CATALOG, build
from gen.compile import compile_model
from gen.sv.proof import Checked
from gen.sv.question import Proof
from gen.verilog import emit
from gen.yosys import YosysError, YosysTimeoutError

NAME = "SkidBuffer"
GOOD = Checked(undecided=(), wrong=(), parts=1, questions=1, state=4)


@pytest.fixture(scope="module")
def made():
    return component(NAME)


@pytest.fixture
def prover(tmp_path):
    return Prover(60, verdicts=tmp_path)


def test_equal_questions_are_asked_once(prover, made, tmp_path):
    first = prover.judge(made)
    again = Prover(60, verdicts=tmp_path).judge(made)

    # The two readers take so small a text alike or not: each asks one question.
    assert first.checked.proved and first.asked == 2 and first.cpu_s > 0
    assert again.checked == first.checked and again.known == again.asked == 2
    assert not Prover(60, verdicts=tmp_path, anew=True).judge(made).known


def test_whatever_an_answer_hangs_on_makes_it_another_question(prover, made, monkeypatch):
    ask = partial(prover.judge, readers=("yosys",))
    assert ask(made).checked.proved
    wrong = made.text.replace(" & ", " | ", 1)
    assert wrong != made.text

    judged = ask(made, wrong)
    assert not judged.known and judged.checked.wrong and not judged.checked.undecided
    netlist = made.netlist.replace("$and", "$or", 1)
    judged = ask(replace(made, netlist=netlist))
    assert not judged.known and judged.checked.wrong
    fewer = replace(made.record, registers=made.record.registers[:-1])
    assert not ask(replace(made, record=fewer)).known
    monkeypatch.setattr(_proofs, "_method", lambda: ("another Yosys",))
    assert not ask(made).known


def test_comments_and_names_of_modules_are_no_other_question(prover, made):
    assert prover.judge(made).checked.proved
    text = "// more\n" + made.text.replace("// ", "// so ")
    assert prover.judge(made, text).known == 2


def test_what_is_undecided_is_asked_again(prover, made, monkeypatch):
    undecided = Proof(proved=False, undecided=True, why="late", state=4)
    with monkeypatch.context() as patched:
        patched.setattr(_proofs, "prove", lambda *_, **__: undecided)
        checked = prover.judge(made).checked
        assert not checked.proved and not checked.wrong and len(checked.undecided) == 2
        assert f"as top: {undecided.why}" in checked.why

    assert prover.judge(made).checked.proved


def test_a_text_that_is_not_read_in_time_is_undecided_and_no_text_is_drawn_again(
    prover, monkeypatch
):
    errors = [YosysError("syntax", ""), YosysTimeoutError("late", ""), YosysError("syntax", "")]

    def check(*_, **__):
        if errors:
            raise errors.pop(0)
        return GOOD

    log = "-- step\nERROR: no such wire\n-- end"
    assert _proofs._undecided(YosysError("it ended", log)).undecided == ("ERROR: no such wire",)
    assert _proofs._undecided(YosysError("it ended", "")).undecided[0].startswith("it ended")
    monkeypatch.setattr(_proofs, "check", check)
    planted = prover.planted(partial(component, NAME), 2, seed="1")

    assert (len(planted.judged), planted.found) == (2, 0)
    assert len(planted.undecided) == len(planted.equivalent) == 1


def test_errors_are_found_in_a_component(prover):
    planted = prover.planted(partial(component, NAME), 3, seed="1")

    assert planted.found + len(planted.equivalent) == 3 and planted.found
    again = prover.planted(partial(component, NAME), 3, seed="1")
    assert all(judged.known == judged.asked for judged in again.judged)
    assert replace(again, judged=()) == replace(planted, judged=())


def test_errors_are_found_in_a_preset_in_whatever_structures_it_has(prover):
    made = preset("alu/4-lanes")
    there = [kind for kind, drawn in draw_in_structures(made.text, "1").items() if any(drawn)]
    planted = prover.planted_in_structures(lambda: made, "1")

    assert set(there) <= set(STRUCTURES) and len(planted.judged) == len(there) > 0
    assert planted.found + len(planted.equivalent) == len(there) and planted.found


def test_nothing_is_begun_when_the_time_is_over(tmp_path, made):
    late = Prover(60, verdicts=tmp_path, until=time.time() - 1)
    with pytest.raises(LateError):
        late.proved(lambda: made)
    with pytest.raises(LateError):
        late.judge(made)


def test_what_is_kept_of_a_text_comes_back():
    judged = Judged(replace(GOOD, wrong=("top: a",)), 2.5, 3, 1)
    mutant = Mutant("much", 7, "a & b", "a | b")
    planted = Planted(1, (), (mutant,), (judged,))
    kept = [json.loads(json.dumps(asdict(each))) for each in (judged, planted.without_texts())]

    assert Judged.known_as(kept[0]) == replace(judged, known=3)
    found = Planted.known_as(kept[1])
    assert found.equivalent == (replace(mutant, text=""),) and found.found == 1
    assert found.judged == (replace(judged, known=3),) and found.judged[0].cpu_s == 2.5
    assert Judged.known_as(None) is None is Planted.known_as(None)


@pytest.fixture
def texts(monkeypatch, tmp_path):
    """Run the bench's work on a text; gives its answer and how often the text was made."""
    monkeypatch.setattr(equivalence, "default_cache_dir", lambda: tmp_path)
    monkeypatch.setattr(_proofs, "default_cache_dir", lambda: tmp_path)
    made = []

    def component_once(name):
        made.append(name)
        return component(name)

    monkeypatch.setattr(equivalence, "component", component_once)

    def run(errors=1, minutes=5.0, **changes):
        before = len(made)
        options = equivalence._options([NAME, "--minutes", str(minutes), "--timeout", "60"])
        vars(options).update(changes)
        return *equivalence._text(options, NAME, errors), len(made) - before

    return run


def test_a_text_is_elaborated_once_and_not_again_for_the_same_sources(texts, monkeypatch):
    judged, planted, times = texts()
    assert judged.checked.proved and planted.found == 1 and times == 1
    assert texts()[2] == 0 and texts()[0].checked == judged.checked
    assert texts(errors=2)[2] == 1  # other errors, the same proof
    assert texts(anew=True)[2] == 1
    monkeypatch.setattr(equivalence, "_sources", lambda: ("others",))
    assert texts()[2] == 1


def test_a_text_that_is_wrong_or_undecided_stays_so(texts, monkeypatch):
    wrong = Proof(proved=False, undecided=False, why="not equal: a", state=4)
    monkeypatch.setattr(_proofs, "prove", lambda *_, **__: replace(wrong, undecided=True))
    assert texts(errors=0)[0].checked.undecided
    monkeypatch.setattr(_proofs, "prove", lambda *_, **__: wrong)
    assert texts(errors=0)[0].checked.wrong and texts(errors=0)[2] == 0


def test_what_there_is_no_time_for_is_left(texts):
    assert texts(minutes=0.0) == (None, None, 0)
    assert texts(errors=0)[0].checked.proved
    judged, planted, _ = texts(minutes=0.0)
    assert judged.checked.proved and planted is None


def test_sources_are_folders_and_files(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("a/b.py", "c.py", "d.py"):
        (tmp_path / name).write_text("1")
    before = digest(tmp_path, ("a", "c.py"))
    (tmp_path / "d.py").write_text("2")
    assert digest(tmp_path, ("a", "c.py")) == before
    (tmp_path / "c.py").write_text("2")
    assert digest(tmp_path, ("a", "c.py")) != before


def test_errors_are_spread_over_all_components_by_seed():
    assert shares(len(COMPONENTS), 1) == dict.fromkeys(COMPONENTS, 1)
    assert sorted(shares(2 * len(COMPONENTS) + 1, 1).values())[-2:] == [2, 3]
    few = shares(48, 1)
    assert len(few) == 48 and set(few) < set(COMPONENTS)
    assert few == shares(48, 1) != shares(48, 2)


def test_every_preset_is_proved_and_recorded():
    names = {f"{name}/{preset}" for name, entry in CATALOG.items() for preset in entry.presets}
    assert set(PRESETS) == set(OF_PRESETS) == names
    assert set(LONG) < names and not names & set(COMPONENTS)


@pytest.mark.parametrize("name", ["adder/binary16", "adder/binary32-comb"])
def test_arithmetic_is_recorded_at_work(name, tmp_path):
    trace: Trace = OF_PRESETS[name].trace(tmp_path)
    model = compile_model(OF_PRESETS[name].component(), name="adder")

    assert len(trace.stimulus) == 2000 and len(set(map(bytes, trace.response))) > 500
    assert Compiled(model, trace).differing() == []


def _totals(**changes):
    values = {
        "presets": len(PRESETS), "proved_presets": set(PRESETS), "replayed_presets": set(PRESETS),
        "components": 90, "proved": 90, "mutants": 41, "found": 40, "planted": 81, "refuted": 80,
        "equivalent": 2,
    }
    return Totals(**values | changes)


@pytest.mark.parametrize("short", [
    {"proved": 89}, {"undecided": 1}, {"components": 29, "proved": 29}, {"mismatches": 1},
    {"replayed_presets": set(PRESETS[1:])}, {"proved_presets": set(PRESETS[1:])}, {"left": 1},
    {"presets": 2}, {"found": 39}, {"mutants": 39, "found": 38}, {"equivalent": 0},
    {"refuted": 79}, {"planted": 10, "refuted": 9},
])
def test_whatever_is_missing_makes_it_short(short):
    assert _totals().good() and _totals().checked_presets == len(PRESETS)
    assert not _totals(**short).good()


def test_what_was_known_is_counted(capsys):
    totals = Totals()
    totals.add_proof("one", Judged(GOOD, 2.0, 2, 2))
    wrong = replace(GOOD, wrong=("yosys: top as top: not equal: a",))
    totals.add_proof("two", Judged(wrong, 3.0, 2, 1))
    totals.add_proof(PRESETS[0], Judged(replace(GOOD, undecided=("top: late",)), 3.0, 2, 0))
    mutant = Mutant("", 7, "a & b", "a | b")
    totals.add_planted("one", Planted(1, (), (mutant,), (Judged(GOOD, 5.0, 1, 1),) * 2))
    totals.add_planted(PRESETS[0], Planted(2, (mutant,), (), (Judged(GOOD, 5.0, 1, 0),) * 3))
    totals.add_replay(PRESETS[0], (1200, 0))
    totals.add_replay(PRESETS[1], (1200, 3))
    totals.add_text("three", (None, None))
    assert totals.left == 1
    totals.add_text("four", (Judged(GOOD, 2.0, 2, 0), None))
    totals.add_text("five", (Judged(GOOD, 2.0, 2, 0), Planted()))

    assert (totals.known, totals.components, totals.proved, totals.undecided) == (5, 4, 3, 2)
    assert (totals.mutants, totals.found, totals.planted, totals.refuted) == (2, 1, 3, 2)
    assert (totals.presets, totals.checked_presets, totals.mismatches, totals.left) == (1, 0, 3, 2)
    out = capsys.readouterr().out
    assert "undecided: top: late" in out and "not equal: a" in out
    assert "    line 7, equivalent: a & b -> a | b\n" in out
    assert "    line 7, undecided: a & b -> a | b\n" in out


def test_an_unknown_component_is_one_line():
    with pytest.raises(SystemExit, match=r"^bench equivalence: no part 'Skid'; there are: ace/"):
        main(["Skid"])


@pytest.mark.parametrize("preset, has_clock", [
    ("adder/binary16", True), ("adder/binary32-comb", False), ("alu/4-lanes", True),
])
def test_texts_are_replayed_with_the_clock_that_they_have(preset, has_clock):
    """Without edges of it, outputs would never change."""
    design, _, chosen = preset.partition("/")
    for style in ("sv", "plain"):
        text = emit(build(design, chosen, {}).component, name="ace", style=style).text
        assert clocked(text) == has_clock
