# SPDX-License-Identifier: Apache-2.0
import json
import math

import pytest

from experiments.figure import Assumption, Bars, Context, Curves, Figure, Lost, Row, statement
from experiments.plot import draw
from experiments.reproduce import assumptions_table, counts, grounds, reproduce, rows_table
from experiments.targets import (
    AtLeast,
    Between,
    Bound,
    Exactly,
    Gain,
    Holds,
    Near,
    Order,
    WithinFactor,
)


@pytest.mark.parametrize(
    "target, met, missed",
    [
        (Exactly(2.25), [2.25], [2.2500001, 2.2]),
        (Near(100, relative=0.05), [95, 105], [94.9, 105.1]),
        (Near(6, absolute=1), [5, 7], [4.99, 7.01]),
        (WithinFactor(4, 2), [2, 8], [1.99, 8.01]),
        (Between(1.41, 1.2, 1.6), [1.2, 1.6], [1.19, 1.61]),
        (AtLeast(90), [90, 100], [89.9]),
        (Gain(1.4), [1.28, 1.52], [1.0, 1.2, 1.27, 1.53]),
        (Gain(0.9), [0.93, 0.87], [1.0, 0.95, 0.86]),
    ],
)
def test_verdict_follows_from_the_tolerance(target, met, missed):
    assert {Row(setting="x", ours=ours, target=target).verdict for ours in met} == {"within"}
    assert {Row(setting="x", ours=ours, target=target).verdict for ours in missed} == {"outside"}


def test_tolerance_is_either_relative_or_absolute():
    for wrong in ({}, {"relative": 0.1, "absolute": 1}):
        with pytest.raises(ValueError, match="give either relative or absolute"):
            Near(1.0, **wrong)


@pytest.mark.parametrize("published", [1.01, 1.2, 2.71, 18, 0.9])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.333])
def test_no_tolerance_of_a_gain_admits_half_of_it(published, share):
    target = Gain(published, share)
    for ours in (published + side * share * (published - 1) for side in (-1, 0, 1)):
        row = Row(setting="a", ours=ours, target=target)
        assert (row.verdict, row.by_effect, row.admits_no_effect) == ("within", True, False)
        assert [each.verdict for each in row.mutants] == ["outside", "outside"]
        assert row.mutants[0].ours == 1


def test_a_gain_has_an_effect_and_a_tolerance_below_a_third_of_it():
    with pytest.raises(ValueError, match="published must have an effect"):
        Gain(1)
    for wrong in (1 / 3, 0, -0.1, 2):
        with pytest.raises(ValueError, match="share must be above 0 and below a third, not"):
            Gain(1.4, wrong)


def test_other_numbers_are_halved_and_doubled():
    row = Row(setting="a", ours=95, target=Near(100, relative=0.05))
    assert [(each.ours, each.verdict) for each in row.mutants] == [
        (47.5, "outside"), (190, "outside"),
    ]
    wide = Row(setting="a", ours=3, target=WithinFactor(4, 2))
    assert [each.verdict for each in wide.mutants] == ["outside", "within"]


@pytest.mark.parametrize(
    "target, unit, admits",
    [
        (Near(1.2, relative=0.2), "", True),
        (Near(1.2, relative=0.1), "", False),
        (Near(1.2, relative=0.2), "x", True),
        (Near(1.0, relative=0.05), "", False),  # that nothing differs is what was published
        (Near(8, absolute=10), "%", True),
        (Near(1.2, relative=0.2), "ms", False),
        (AtLeast(0.5), "", True),
    ],
)
def test_tolerances_that_admit_no_effect_are_seen(target, unit, admits):
    assert Row(setting="a", ours=1.2, target=target, unit=unit).admits_no_effect is admits


def test_a_statement_turns_when_its_values_are_mixed_up():
    row = statement("a before b", below=[(1, 2), (3, 4)], at_most=[(5, 5)])
    tie = statement("a before b", below=[(2, 2)])
    equal = statement("a no later than b", at_most=[(2, 2)])
    assert (row.verdict, tie.verdict, equal.verdict) == ("within", "outside", "within")
    assert [each.verdict for each in row.mutants] == ["outside"]
    assert [each.verdict for each in equal.mutants] == ["within"]  # the bench counts it as missed
    assert row.order.swapped.swapped == Order(below=[(1, 2), (3, 4)], at_most=[(5, 5)])
    assert statement("of nothing").verdict == "outside"


def test_a_statement_without_values_is_an_identity_or_refused():
    with pytest.raises(ValueError, match="'x' must have an order, or be an identity"):
        Row(setting="x", ours=1.0, target=Holds())
    assert Row(setting="x", ours=1.0, target=Holds(), identity=True).verdict == "identity"


def test_values_compared_are_counted_by_effect_and_by_what_they_rest_on():
    rows = [
        Row(setting="a", ours=1.4, target=Gain(1.4)),
        Row(setting="b", ours=1.1, target=Gain(1.4), grounding="stated"),
        Row(setting="c", ours=5, target=Near(5, relative=0.1)),
        Row(setting="d", ours=5, target=Near(5, relative=0.1), identity=True),
        Row(setting="e", ours=5),
    ]
    figure = Figure(title="t", rows=rows, assumptions=(Assumption("a", "chosen"),))
    assert grounds([figure]) == {
        "effects": 2, "effects_within": 1,
        "on_stated": 1, "on_data": 0, "on_chosen": 2, "on_fitted": 0,
    }


def test_rows_without_a_target_and_fitted_rows_are_not_compared():
    rows = [
        Row(setting="a", ours=1.0),
        Row(setting="b", ours=1.0, target=Exactly(1.0), fitted=True),
        Row(setting="c", ours=1.0, target=Exactly(1.0)),
        Row(setting="d", ours=2.0, target=Exactly(1.0), why="Because."),
    ]
    figure = Figure(title="t", rows=rows, lost=[Lost(what="e", reason="gone")])

    assert [row.verdict for row in rows] == ["shown", "fitted", "within", "outside"]
    assert counts([figure, Figure(title="u")]) == {
        "rows": 4,
        "compared": 2,
        "within": 1,
        "outside": 1,
        "identity": 0,
        "contradicted": 0,
        "fitted": 1,
        "unrecoverable": 1,
    }


def test_a_row_that_cannot_fail_is_not_counted_as_within():
    right = Row(setting="a", ours=2.0, target=Exactly(2.0), identity=True)
    wrong = Row(setting="a", ours=2.1, target=Exactly(2.0), identity=True)
    totals = counts([Figure(title="t", rows=[right, wrong])])

    assert (right.verdict, wrong.verdict) == ("identity", "outside")
    assert (totals["identity"], totals["within"], totals["compared"]) == (1, 0, 1)


@pytest.mark.parametrize(
    "bound, target, excluded",
    [
        (Bound(1.05), Near(2.71, relative=0.2), True),
        (Bound(2.5), Near(2.71, relative=0.2), False),  # within the tolerance
        (Bound(3.0), Near(2.71, relative=0.2), False),
        (Bound(17.1, least=True), Near(9, relative=0.2), True),
        (Bound(10, least=True), Near(9, relative=0.2), False),
        (Bound(8, least=True), Near(9, relative=0.2), False),
        (Bound(1.07), Between(1.41, 1.2, 1.6), True),
        (Bound(1.05), Gain(2.71), True),
        (Bound(2.3), Gain(2.71), False),
    ],
)
def test_only_a_bound_beyond_the_tolerance_contradicts(bound, target, excluded):
    """Whatever ours is: the bound alone decides."""
    verdicts = {Row(setting="a", ours=x, target=target, bound=bound).verdict for x in (0.0, 50.0)}

    assert (verdicts == {"contradicted"}) is excluded
    assert ("contradicted" in verdicts) is excluded


def test_what_a_contradicted_row_says_stands_beside_its_bound():
    row = Row(setting="a", ours=1.0, target=Near(9, relative=0.1), bound=Bound(17.123, least=True))
    table = rows_table(Figure(title="t", rows=[row]))

    assert table["bound"] == ["at least 17.12"]
    assert counts([Figure(title="t", rows=[row])])["contradicted"] == 1
    assert counts([Figure(title="t", rows=[row])])["compared"] == 0


def test_a_row_bears_the_least_firm_ground_of_its_figure():
    stated, chosen = Assumption("links", "stated"), Assumption("sizes", "chosen", "lost")
    rows = [Row(setting="a", ours=1.0), Row(setting="b", ours=1.0, grounding="data")]
    figures = {
        "fig1": Figure(title="t", rows=rows, assumptions=(stated, chosen)),
        "fig2": Figure(title="u", rows=rows[:1], assumptions=(stated,)),
    }

    assert rows_table(figures["fig1"])["grounding"] == ["chosen", "data"]
    assert rows_table(figures["fig2"])["grounding"] == ["stated"]
    assert assumptions_table(figures).rows == [
        ("links", "stated", "", "fig1, fig2"),
        ("sizes", "chosen", "lost", "fig1"),
    ]


def test_unknown_words_for_ground_and_origin_are_refused():
    with pytest.raises(ValueError, match="grounding must be one of stated, data, chosen, fitted"):
        Assumption("a", "guessed")
    with pytest.raises(ValueError, match="origin must be one of printed, abstract, derived, note"):
        Row(setting="a", ours=1.0, origin="paper")
    with pytest.raises(ValueError, match="grounding must be one of"):
        Row(setting="a", ours=1.0, grounding="guessed")


def test_ratio_is_of_numbers_only():
    assert Row(setting="a", ours=3.0, target=Near(2.0, relative=1)).ratio == 1.5
    assert statement("a", below=[(1, 2)]).ratio is None
    assert not Bound(0.5).excludes(Holds())
    assert Row(setting="a", ours=1.0, target=Exactly(0)).ratio is None


def test_table_marks_explained_rows_and_writes_statements_in_words():
    rows = [
        statement("a", below=[(2, 1)], why="First."),
        Row(setting="b", ours=math.inf, target=Near(4, relative=1)),
        Row(setting="c", ours=1234.5678, unit="us", why="Second.", check="Q1"),
    ]

    table = rows_table(Figure(title="t", rows=rows, note="All of it."))

    assert [row[:5] for row in table.rows] == [
        ("a [1]", "no", "yes", "printed", ""),
        ("b", "never", "4", "printed", ""),
        ("c [2]", "1235", None, None, "us"),
    ]
    assert table.note == "All of it.\n[1] First.\n[2] Second."


def _figure(context):
    context.progress(1.0)
    return Figure(
        title="Fig. 1",
        rows=[Row(setting="a, b", ours=1.5, target=Near(1.0, relative=0.1), why="Why.")],
        curves=[Curves(title="c", x="x", y="y", series={"s": [(1.0, 2.0), (2.0, 4.0)]})],
        lost=[Lost(what="Fig. 2", reason="hardware")],
        assumptions=(Assumption("a size", "chosen"),),
    )


def test_command_prints_figures_and_ends_with_the_result(capsys, tmp_path):
    code = reproduce("a-paper", "A paper", {"fig1": _figure}, ["-o", str(tmp_path)])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0] == "A paper"
    assert lines[-1] == (
        "RESULT reproduce_a_paper rows=1 compared=1 within=0 outside=1 identity=0 contradicted=0 "
        "fitted=0 unrecoverable=1 verdict=short"
    )
    assert (tmp_path / "fig1.csv").read_text().splitlines()[1] == (
        '"a, b",1.5,1.0,printed,,1.5,10 %,,outside,chosen,,Why.'
    )
    assert (tmp_path / "fig1-0-points.csv").read_text() == "series,x,y\ns,1.0,2.0\ns,2.0,4.0\n"
    assert (tmp_path / "fig1-0.svg").stat().st_size and (tmp_path / "fig1-0.png").stat().st_size


def test_json_has_the_rows_and_counts_and_quiet_nothing(capsys, tmp_path):
    assert reproduce("p", "P", {"fig1": _figure}, ["-o", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (row,) = told["figures"]["fig1"]["rows"]
    assert (row["setting"], row["ours"], row["verdict"]) == ("a, b [1]", "1.5", "outside")
    assert (told["rows"], told["outside"], told["folder"]) == (1, 1, str(tmp_path))
    assert told["assumptions"][0]["assumption"] == "a size"

    assert reproduce("p", "P", {"fig1": _figure}, ["-o", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    with pytest.raises(SystemExit):
        reproduce("p", "P", {"fig1": _figure}, ["--quiet", "--json"])
    capsys.readouterr()
    reproduce("p", "P", {"fig1": _figure}, ["-o", str(tmp_path)])  # the next one is not quiet
    assert "Fig. 1" in capsys.readouterr().out


def test_verdict_is_ok_when_everything_compared_is_within(capsys, tmp_path):
    def good(context):
        return Figure(title="t", rows=[Row(setting="a", ours=1.0, target=Exactly(1.0))])

    reproduce("p", "P", {"good": good, "bad": _figure}, ["good", "-o", str(tmp_path)])

    assert capsys.readouterr().out.endswith("fitted=0 unrecoverable=0 verdict=ok\n")


def test_figures_are_listed_and_unknown_ones_refused(capsys):
    assert reproduce("p", "P", {"fig1": _figure}, ["--list"]) == 0
    assert capsys.readouterr().out == "fig1\n"
    assert reproduce("p", "P", {"fig1": _figure}, ["fig9"]) == 2
    assert capsys.readouterr().err == "reproduce: unknown figure 'fig9'; there are: fig1\n"


def test_the_same_curves_give_the_same_files(tmp_path):
    curves = Curves(
        title="t", x="x", y="y", series={"a": [(1.0, 1.0), (2.0, 2.0)], "b": [(1.0, 3.0)]},
        dashed=["a"], marks=["b"],
    )
    for folder in ("one", "two"):
        draw(curves, tmp_path / folder / "c")

    for name in ("c.svg", "c.png", "c-points.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_bars_are_stacked_in_groups(tmp_path):
    from experiments.plot import _bars

    class Axes:
        drawn: list = []
        ticks: list = []

        def bar(self, at, heights, width, *, bottom, color, label):
            self.drawn.append((label, list(at), list(heights), list(bottom)))

        def set_xticks(self, at, labels, **style):
            self.ticks.append((list(at), list(labels)))

        def secondary_xaxis(self, location):
            below = Axes()
            below.tick_params = lambda **style: None
            below.spines = {"top": type("Spine", (), {"set_visible": lambda self, on: None})()}
            return below

    parts = {"p": 1.0, "q": 2.0}
    plot = Bars(
        title="t", x="", y="y", groups={"g": {"a": parts, "b": parts}, "h": {"a": parts, "b": {}}}
    )

    assert _bars(Axes(), plot) == 2
    assert Axes.drawn == [
        ("p", [0, 1, 3, 4], [1.0, 1.0, 1.0, 0.0], [0.0] * 4),
        ("q", [0, 1, 3, 4], [2.0, 2.0, 2.0, 0.0], [1.0, 1.0, 1.0, 0.0]),
    ]
    assert Axes.ticks == [([0, 1, 3, 4], ["a", "b", "a", "b"]), ([0.5, 3.5], ["g", "h"])]
    draw(plot, tmp_path / "bars")
    assert (tmp_path / "bars-points.csv").read_text().splitlines()[:3] == [
        "group,bar,part,y",
        "g,a,p,1.0",
        "g,a,q,2.0",
    ]
    assert (tmp_path / "bars.png").stat().st_size


def test_context_needs_no_progress():
    Context().progress(0.5)
