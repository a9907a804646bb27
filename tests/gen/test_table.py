# SPDX-License-Identifier: Apache-2.0
"""One table: plain units inside, people's units outside, and nothing lost on a narrow screen."""

import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from foldwire import console
from gen.table import Column, Table


def table():
    columns = [Column("layer"), Column("time_s", "time", "µs", 3), Column("exact")]
    table = Table("Layers", columns, note="no <b>")
    table.add("conv<1>", 0.0376325, True)
    table.add("fc", None, False)
    return table


def test_texts_are_scaled_for_people_and_files_hold_plain_units():
    assert table().texts() == [["conv<1>", "37 632.500", "yes"], ["fc", "-", "no"]]
    assert table().to_csv() == "layer,time_s,exact\nconv<1>,0.0376325,True\nfc,,False\n"
    assert [each.heading for each in table().columns] == ["layer", "time (µs)", "exact"]


@pytest.mark.parametrize(
    ("shown", "plain", "value", "text"),
    [
        ("µs", "s", 1.5e-6, "1.50"),
        ("GB/s", "B/s", 25e9, "25.00"),
        ("Gbit/s", "B/s", 5e9, "40.00"),
        ("MiB", "B", 3 << 20, "3.00"),
        ("B", "B", 37632, "37 632"),
        ("%", "%", 12.345, "12.35"),
        ("", "", 1234567, "1 234 567"),
    ],
)
def test_unit_that_is_shown_follows_from_the_unit_of_the_values(shown, plain, value, text):
    column = Column("x", "", shown)

    assert (column.value_unit, column.text(value)) == (plain, text)


@pytest.mark.parametrize(
    ("name", "values", "heading", "texts"),
    [
        ("iteration_s", [4.27649e-3, 0.1], "iteration (ms)", ["4.276", "100.000"]),
        ("link.bandwidth_bytes_per_s", [2.5e9], "link.bandwidth (GB/s)", ["2.500"]),
        ("sent_bytes", [4096], "sent (B)", ["4 096"]),
        ("exposed_percent", [2.5, None], "exposed (%)", ["2.500", "-"]),
        ("ratio", [1e-4], "ratio", ["0.0001000"]),
        ("endpoint.kind", ["ace"], "endpoint.kind", ["ace"]),
        ("time_s", [0.0, float("inf")], "time (s)", ["0.00", "inf"]),
    ],
)
def test_column_is_fitted_to_name_and_size_of_its_values(name, values, heading, texts):
    column = Column.fitting(name, values)

    assert (column.name, column.heading) == (name, heading)
    assert [column.text(value) for value in values] == texts


def test_only_columns_of_numbers_are_aligned_right():
    assert [table().is_number(column) for column in range(3)] == [False, True, False]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("x", 1), "a row of 'Layers' has 3 cells"),
        ((1, 1, True), "column 'layer' of 'Layers' holds texts, not 1"),
        (("x", True, True), "column 'time_s' of 'Layers' holds numbers, not True"),
        (("x", [], True), "a cell of a table is a text, a number or a bool, not \\[\\]"),
    ],
)
def test_row_that_does_not_fit_is_refused(row, message):
    with pytest.raises(ValueError, match=message):
        table().add(*row)


def test_columns_are_found_by_name():
    assert table()["time_s"] == [0.0376325, None]
    assert table().value("fc", "exact") is False
    assert table().select(["exact", "layer"]).rows == [(True, "conv<1>"), (False, "fc")]
    assert table().records()[1] == {"layer": "fc", "time_s": None, "exact": False}
    with pytest.raises(ValueError, match="'Layers' has no column 'time'; there are: layer, time_s"):
        table()["time"]


def test_table_survives_json_and_refuses_unknown_endings(tmp_path):
    assert Table.from_json(table().to_json()) == table()
    with pytest.raises(ValueError, match=r"a.xlsx: a table is written as .csv, .json or .parquet"):
        table().write(tmp_path / "a.xlsx")


def test_parquet_keeps_units_types_and_gaps(tmp_path):
    from pyarrow import parquet

    mixed = Table("T", [Column("a_s", "a", "µs"), Column("b"), Column("c")], note="n")
    mixed.add(1.5, None, 7)
    mixed.add(2, "x", None)
    mixed.write(tmp_path / "t.parquet")

    read = parquet.read_table(tmp_path / "t.parquet")

    assert read.to_pylist() == [{"a_s": 1.5, "b": None, "c": 7}, {"a_s": 2.0, "b": "x", "c": None}]
    assert read.schema.field("a_s").metadata == {b"unit": b"s", b"title": b"a"}
    assert read.schema.metadata == {b"title": b"T", b"note": b"n"}


def test_markdown_and_html_escape_what_would_break_them():
    assert table().to_markdown().splitlines()[:3] == [
        "| layer | time (µs) | exact |",
        "| --- | ---: | --- |",
        "| conv<1> | 37 632.500 | yes |",
    ]
    shown = table()._repr_html_()
    assert "conv&lt;1&gt;" in shown and "no &lt;b&gt;" in shown
    assert '<td class="right">37 632.500</td>' in shown


def test_data_frame_has_plain_units_and_says_so():
    pytest.importorskip("pandas")

    frame = table().to_pandas()

    assert list(frame.columns) == ["layer", "time_s", "exact"]
    assert frame.time_s.isna().tolist() == [False, True]
    assert frame.attrs["units"]["time_s"] == "s"


def test_data_frame_without_pandas_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(ImportError, match=r"^to_pandas needs pandas; please run: pip install '"):
        table().to_pandas()


def test_command_line_imports_neither_pandas_nor_arrow_to_print():
    code = (
        "import sys; from foldwire.cli import main; main(['gen']);"
        "assert not {'pandas', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def wide(rows):
    columns = [Column("layer"), Column("phase"), *(Column(f"a_{n}_s", unit="µs") for n in range(9))]
    return Table("Wide", columns, [[f"l{r}", "forward", *[1234.5678 + r] * 9] for r in range(rows)])


def printed(table, monkeypatch, capsys, width, **options):
    monkeypatch.setattr(console, "_out", Console(highlight=False, width=width, file=sys.stdout))
    console.print_table(table, **options)
    return capsys.readouterr().out


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_digit_is_lost_at_any_width(rows, width, monkeypatch, capsys):
    out = printed(wide(rows), monkeypatch, capsys, width)

    assert max(map(len, out.splitlines())) <= width
    for row in range(rows):
        assert out.count(f"1 23{4 + row} 567 800.00") == 9
        assert "…" not in out


def test_parts_of_a_wide_table_repeat_its_names(monkeypatch, capsys):
    lines = printed(wide(2), monkeypatch, capsys, 80).splitlines()

    assert len([line for line in lines if line.startswith("l1     forward")]) == 3


def test_rows_that_are_left_out_are_counted(monkeypatch, capsys):
    out = printed(wide(20), monkeypatch, capsys, 200, most=5, where="wide.csv")

    assert "15 more rows are in wide.csv" in out and "l5" not in out
    assert "more rows" not in printed(wide(6), monkeypatch, capsys, 200, most=5)


def test_notes_are_wrapped_between_words(monkeypatch, capsys):
    note = "Communication: from issue to end, summed over collectives, sends and receives, whether"
    table = replace(wide(1), note=note)

    lines = printed(table, monkeypatch, capsys, 44).splitlines()

    words = {word for line in lines for word in line.split()}
    assert set(note.split()) <= words
