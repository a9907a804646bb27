# SPDX-License-Identifier: Apache-2.0
"""Synthesis tables of papers: parts of an engine add up, and areas are conversions."""

import pytest

from experiments.figure import Context
from experiments.figures import synthesis_tables
from experiments.figures.synthesis_tables import GATE_UM2, Part, divide
from gen.mapping.memory import SRAM_UM2_PER_BIT
from gen.table import Column, Table

TOP = "ace_isca21"
BLOCKS = {  # instances, kGE, bits of SRAM
    "": (1, 1000.0, 5000),
    "_alu": (4, 40.0, 0),
    "_alus": (1, 170.0, 0),
    "_sram": (1, 60.0, 4000),
    "_fsm_0": (2, 50.0, 100),
    "_fsm_1": (3, 40.0, 100),
    "_fsm_lookups": (5, 9.0, 20),
    "_dispatcher": (1, 30.0, 0),
    "_control": (1, 20.0, 0),
    "_data_path": (1, 700.0, 4400),
    "_data_path_link_port_0": (2, 100.0, 100),
    "_data_path_link_port_1": (2, 80.0, 100),
    "_memory_port": (2, 15.0, 0),
}


def report():
    return Table(
        "Cells per block",
        [Column("block"), Column("instances"), Column("kge"), Column("sram_bits")],
        [(f"{TOP}{name}", *values) for name, values in BLOCKS.items()],
        note="a synthesis",
    )


def test_parts_of_an_engine_add_up_to_it():
    parts = divide(report(), TOP)
    whole = sum(parts.values(), Part())
    assert (whole.kge, whole.bits) == (pytest.approx(1000), 5000)
    assert parts["ALUs"] == Part(kge=160)
    assert parts["FSMs"] == Part(kge=220, bits=500)
    assert parts["ports of links"] == Part(kge=360, bits=400)
    assert parts["SRAM banks, and their crossbar"] == Part(kge=60, bits=4000)
    assert parts["copy unit"] == Part()
    assert parts["arbiters between them"].kge == pytest.approx(120)


def test_rows_of_ace_are_conversions_of_its_parts(monkeypatch):
    monkeypatch.setattr(synthesis_tables, "_synthesised", lambda *names: (report(), TOP))
    figure = synthesis_tables.ace_published(Context())
    rows = {row.setting: row for row in figure.rows}
    assert rows["one ALU"].ours == pytest.approx(40e3 * GATE_UM2)
    assert rows["SRAM banks"].ours == pytest.approx(4000 * SRAM_UM2_PER_BIT)
    assert rows["total of our engine"].ours == pytest.approx(
        1000e3 * GATE_UM2 + 5000 * SRAM_UM2_PER_BIT
    )
    assert rows["one ALU"].verdict == "within" and rows["SRAM banks"].verdict == "outside"
    identities = [row for row in figure.rows if row.identity]
    assert len(identities) == 3 and all(row.verdict == "identity" for row in identities)
    assert not any("copy unit" in name for name in rows)
    assert all(row.ratio is None or row.ratio > 0 for row in figure.rows)


def test_a_reduction_is_larger_than_its_share_of_the_die(monkeypatch):
    def switch(kge):
        return Table(
            "Cells per block",
            [Column("block"), Column("instances"), Column("kge"), Column("sram_bits")],
            [("switch", 1, 20 * kge, 1 << 18), ("switch_reduction_0", 16, kge, 1 << 13)],
        )

    verdicts = {}
    for kge in (100.0, 100_000.0):
        monkeypatch.setattr(
            synthesis_tables, "_synthesised", lambda *names, kge=kge: (switch(kge), "switch")
        )
        rows = synthesis_tables.in_switch(Context()).rows
        verdicts[kge] = next(row.verdict for row in rows if "1 % of the die" in row.setting)
    assert verdicts == {100.0: "within", 100_000.0: "outside"}
