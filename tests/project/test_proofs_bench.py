# SPDX-License-Identifier: Apache-2.0
"""The table of proofs, from what they note."""

import json
from pathlib import Path

from bench.proofs import page, proof_files, rows

ROOT = Path(__file__).resolve().parents[2]


def noted(test, bound, **covers):
    return json.dumps({"test": f"tests/hw/{test}", "subject": "Harness", "bound": bound,
                       "covers": covers, "seconds": 1.5})


LINES = [
    noted("link/test_a.py::test_it_holds[1]", None, third=7),
    noted("link/test_a.py::test_it_holds[2]", None, third=9),
    noted("link/test_a.py::test_it_holds[3]", 20, third=9),
    noted("switch/test_b.py::test_other", 14, first=3, second=12),
]


def test_cases_of_a_test_and_bound_are_one_row():
    found = rows(LINES)

    assert [(row["bound"], row["cases"], row["covers"]) for row in found] == [
        (20, 1, {"third": (9, 9)}),
        (None, 2, {"third": (7, 9)}),
        (14, 1, {"first": (3, 3), "second": (12, 12)}),
    ]


def test_the_page_has_a_table_for_each_folder():
    text = page(rows(LINES))

    assert "## link\n" in text and "## switch\n" in text
    assert "| [it holds](../../tests/hw/link/test_a.py) | 2 | for ever | third: 7 to 9 |" in text
    assert "| [other](../../tests/hw/switch/test_b.py) | 1 | 14 | first: 3; second: 12 |" in text


def test_all_files_with_proofs_are_found_and_have_a_row_on_the_page():
    files = proof_files(ROOT)

    assert "tests/hw/link/test_link_retry_proofs.py" in files
    assert "tests/hw/bfp/test_bfp_proofs.py" in files
    assert "tests/hw/common/test_prover.py" not in files, "it proves things about itself alone"
    written = (ROOT / "docs" / "results" / "proofs.md").read_text(encoding="utf-8")
    missing = [file for file in files if f"../../{file}" not in written]
    assert not missing
