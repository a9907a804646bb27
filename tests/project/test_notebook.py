# SPDX-License-Identifier: Apache-2.0
"""The notebook runs from top to bottom and prints what is stored in it."""

import json
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_run.ipynb"


def test_notebook_prints_what_it_shows(capsys):
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 4

    names = {}
    for cell in code:
        exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
        shown = "".join(text for output in cell["outputs"] for text in output["text"])
        assert capsys.readouterr().out == shown

    assert names["packed"].exact and names["plain"].exact
