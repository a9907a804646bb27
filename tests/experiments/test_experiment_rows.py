import math

import pytest

from experiments.figure import Context, Curves, Figure, Lost, Row
from experiments.plot import draw
from experiments.reproduce import counts, reproduce, rows_table
from experiments.targets import AtLeast, Between, Exactly, Holds, Near, WithinFactor


@pytest.mark.parametrize(
    "target, met, missed",
    [
        (Exactly(2.25), [2.25], [2.2500001, 2.2]),
        (Near(100, relative=0.05), [95, 105], [94.9, 105.1]),
        (Near(6, absolute=1), [5, 7], [4.99, 7.01]),
        (WithinFactor(4, 2), [2, 8], [1.99, 8.01]),
        (Between(1.41, 1.2, 1.6), [1.2, 1.6], [1.19, 1.61]),
        (AtLeast(90), [90, 100], [89.9]),
        (Holds(), [1, True], [0, False]),
    ],
)
def test_verdict_follows_from_the_tolerance(target, met, missed):
    assert {Row(setting="x", ours=ours, target=target).verdict for ours in met} == {"within"}
    assert {Row(setting="x", ours=ours, target=target).verdict for ours in missed} == {"outside"}


def test_tolerance_is_either_relative_or_absolute():
    for wrong in ({}, {"relative": 0.1, "absolute": 1}):
        with pytest.raises(ValueError, match="give either relative or absolute"):
            Near(1.0, **wrong)


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
        "fitted": 1,
        "unrecoverable": 1,
    }


def test_ratio_is_of_numbers_only():
    assert Row(setting="a", ours=3.0, target=Near(2.0, relative=1)).ratio == 1.5
    assert Row(setting="a", ours=1.0, target=Holds()).ratio is None
    assert Row(setting="a", ours=1.0, target=Exactly(0)).ratio is None


def test_table_marks_explained_rows_and_writes_statements_in_words():
    rows = [
        Row(setting="a", ours=0, target=Holds(), why="First."),
        Row(setting="b", ours=math.inf, target=Near(4, relative=1)),
        Row(setting="c", ours=1234.5678, unit="us", why="Second.", check="Q1"),
    ]

    table = rows_table(Figure(title="t", rows=rows, note="All of it."))

    assert [row[:4] for row in table.rows] == [
        ("a [1]", "no", "yes", ""),
        ("b", "never", "4", ""),
        ("c [2]", "1235", None, "us"),
    ]
    assert table.note == "All of it.\n[1] First.\n[2] Second."


def _figure(context):
    context.progress(1.0)
    return Figure(
        title="Fig. 1",
        rows=[Row(setting="a, b", ours=1.5, target=Near(1.0, relative=0.1), why="Why.")],
        curves=[Curves(title="c", x="x", y="y", series={"s": [(1.0, 2.0), (2.0, 4.0)]})],
        lost=[Lost(what="Fig. 2", reason="hardware")],
    )


def test_command_prints_figures_and_ends_with_the_result(capsys, tmp_path):
    code = reproduce("a-paper", "A paper", {"fig1": _figure}, ["-o", str(tmp_path)])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0] == "A paper"
    assert lines[-1] == (
        "RESULT reproduce_a_paper rows=1 compared=1 within=0 outside=1 fitted=0 unrecoverable=1 "
        "verdict=short"
    )
    assert (tmp_path / "fig1.csv").read_text().splitlines()[1] == (
        '"a, b",1.5,1.0,,1.5,10 %,outside,,Why.'
    )
    assert (tmp_path / "fig1-0-points.csv").read_text() == "series,x,y\ns,1.0,2.0\ns,2.0,4.0\n"
    assert (tmp_path / "fig1-0.svg").stat().st_size and (tmp_path / "fig1-0.png").stat().st_size


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
        title="t", x="x", y="y", series={"a": [("p", 1.0), ("q", 2.0)], "b": [("p", 3.0)]}
    )
    for folder in ("one", "two"):
        draw(curves, tmp_path / folder / "c")

    for name in ("c.svg", "c.png", "c-points.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_context_needs_no_progress():
    Context().progress(0.5)
