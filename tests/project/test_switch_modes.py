# SPDX-License-Identifier: Apache-2.0
"""What ``python -m bench switch_modes`` asks for, and how it is judged."""

from fractions import Fraction

import numpy as np
import pytest

from bench import switch_modes
from bench.switch_matrix import Outcome

CELL = next(switch_modes._cells())[1]


@pytest.fixture
def planted(monkeypatch):
    """Cells by kind, evictions of each, orders: nothing is run."""
    found = {"cells": [kind for kind in switch_modes.KINDS for _ in range(4)], "wrong": 0,
             "orders": (10**6, 10**6), "without": (), "within": True}

    def run(kind, cell, seed):
        number, found["number"] = found.get("number", 0), found.get("number", 0) + 1
        return Outcome(cycles=9, correct=number >= found["wrong"], timeouts=0, bypasses=0,
                       evictions=int(kind not in found["without"] and number % 4 == 3))

    monkeypatch.setattr(switch_modes, "_run", run)
    monkeypatch.setattr(switch_modes, "_cells", lambda: [(kind, CELL) for kind in found["cells"]])
    monkeypatch.setattr(switch_modes, "_orders", lambda seed: found["orders"])
    monkeypatch.setattr(switch_modes, "_error", lambda seed: found["within"])
    monkeypatch.setattr(switch_modes, "_area", lambda: 20.0)
    monkeypatch.setattr(switch_modes, "_bandwidth", lambda seed: 0.5)
    monkeypatch.setattr(switch_modes, "_formats", lambda seed: {})
    return found


@pytest.mark.parametrize("change, verdict", [
    ({}, "ok"),
    ({"cells": [kind for kind in switch_modes.KINDS if kind != "BF16" for _ in range(4)]}, "short"),
    ({"without": ("broadcast",)}, "short"),
    ({"wrong": 1}, "short"),
    ({"orders": (10**6, 10**6 - 1)}, "short"),
    ({"orders": (10**5, 10**5)}, "short"),
    ({"within": False}, "short"),
])
def test_the_verdict_wants_every_kind_with_evictions_and_everything_right(
    planted, change, verdict, capsys
):
    planted |= change

    switch_modes.main([])

    assert capsys.readouterr().out.splitlines()[-1].endswith(f"verdict={verdict}")


def test_a_kind_that_is_missing_is_named(planted, capsys):
    planted["cells"] = ["block FP"] * 24

    switch_modes.main([])

    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("missing")]
    others = [kind for kind in switch_modes.KINDS if kind != "block FP"]
    assert [line[:14].rstrip() for line in lines] == others


def test_orders_on_the_model_are_counted_where_their_bits_are_the_same(monkeypatch, capsys):
    monkeypatch.setattr(switch_modes, "RTL_ORDERS", 0)
    monkeypatch.setattr(switch_modes, "ORDERS", 2 * switch_modes.BATCH)
    assert switch_modes._orders(3) == (5000, 5000)
    count = int(capsys.readouterr().out.split("FP32 has ")[1].split()[0])
    assert count > 100, "without the mode, hardly any order would matter"

    def rounds(rng, operands, integers):
        sums, plain = right(rng, operands, integers)
        return sums | (plain[:, :1] > plain[0, 0]) << 20, plain

    right = switch_modes._in_orders
    monkeypatch.setattr(switch_modes, "_in_orders", rounds)
    assert 0 < switch_modes._orders(3)[1] < 5000


def test_errors_beyond_their_bound_are_seen(monkeypatch):
    assert switch_modes._error(1)

    right = switch_modes.total
    monkeypatch.setattr(switch_modes, "total", lambda operands, unit: np.nextafter(
        np.nextafter(right(operands, unit), np.float32(np.inf)), np.float32(np.inf)))
    assert not switch_modes._error(1)


@pytest.mark.parametrize("more, bits", [
    (Fraction(0), 0x3F800000), (Fraction(1, 1 << 24), 0x3F800000),
    (Fraction(3, 1 << 24), 0x3F800002), (Fraction(1, 1 << 24) + Fraction(1, 1 << 70), 0x3F800001),
])
def test_the_exact_sum_is_rounded_once(more, bits):
    assert switch_modes._rounded(1 + more).view(np.uint32) == bits
