# SPDX-License-Identifier: Apache-2.0
"""The bench that tries rows with the values of wrong experiments."""

from functools import partial
from types import SimpleNamespace

import pytest

from bench import rows as bench
from bench._kept import Kept
from experiments.figure import Figure, Row, statement
from experiments.targets import Exactly, Gain, Near, WithinFactor

CAUGHT = [
    Row(setting="gain", ours=1.2, target=Gain(1.2)),
    Row(setting="number", ours=5, target=Near(5, relative=0.1), unit="GB/s"),
    statement("order", below=[(1, 2)]),
]
NOT_WITHIN = [
    Row(setting="self-test", ours=2.0, target=Exactly(2.0), identity=True),
    Row(setting="fitted", ours=5, target=Near(5, relative=0.1), fitted=True, unit="GB/s"),
    Row(setting="shown", ours=5),
    Row(setting="outside", ours=1.05, target=Gain(1.2)),
]
WIDE = Row(setting="wide", ours=3, target=WithinFactor(4, 2), unit="MB")
EQUAL = statement("equal", at_most=[(2, 2)])
NO_EFFECT = Row(setting="nothing", ours=1.18, target=Near(1.17, relative=0.15))


@pytest.fixture
def ran(monkeypatch, tmp_path, capsys):
    """Run the bench on rows; its result line, and how often figures were made."""
    made = []

    def run(rows, *options):
        def figure(context):
            made.append(1)
            return Figure(title="t", rows=rows)

        paper = SimpleNamespace(PAPER=SimpleNamespace(figures={"fig": figure}))
        monkeypatch.setattr(bench, "import_module", lambda name: paper)
        monkeypatch.setattr(bench, "Kept", partial(Kept, folder=tmp_path))
        assert bench.main(["--papers", "klenk", *options]) == 0
        out = capsys.readouterr().out.splitlines()
        return out, len(made)

    return run


def test_rows_that_a_wrong_experiment_leaves_are_counted(ran):
    out, _ = ran([*CAUGHT, *NOT_WITHIN])
    assert out[-1] == (
        "RESULT rows rows=3 caught=3 no_effect=0 by_effect=1 identities=1 verdict=ok"
    )


@pytest.mark.parametrize(
    ("row", "counts", "what"),
    [
        (WIDE, "rows=4 caught=3 no_effect=0", "wide: a wrong value is within the tolerance, too"),
        (EQUAL, "rows=4 caught=3 no_effect=0", "equal: a wrong value is within"),
        (NO_EFFECT, "rows=4 caught=4 no_effect=1", "nothing: no effect is within the tolerance"),
    ],
)
def test_a_row_that_nothing_can_turn_is_named(ran, row, counts, what):
    out, _ = ran([*CAUGHT, row])
    assert f"RESULT rows {counts}" in out[-1] and out[-1].endswith("verdict=short")
    assert any(what in line for line in out)


def test_figures_are_kept_until_sources_change(ran, monkeypatch):
    assert ran(CAUGHT)[1] == 1
    assert ran(CAUGHT)[1] == 1
    assert ran(CAUGHT, "--again")[1] == 2
    monkeypatch.setattr(bench, "digest", lambda *of: "other")
    assert ran(CAUGHT)[1] == 3
