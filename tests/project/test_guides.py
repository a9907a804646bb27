# SPDX-License-Identifier: Apache-2.0
"""The code of the guides runs, from top to bottom, and prints what the pages show."""

import re
from pathlib import Path

import pytest

from foldwire.cli import cli

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guide"
# These print and assert more; their tests are in tests/sim/collectives and tests/sim/engines.
APART = ("add-your-collective", "add-your-engine")
PAGES = sorted(path for path in GUIDES.glob("*.md") if path.stem not in APART)
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def test_there_is_a_guide_for_everyone():
    readers = {"architect", "rtl-engineer", "systems-researcher", "ml-researcher", "student"}
    assert readers <= {path.stem for path in PAGES}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_shows_what_its_code_prints(path, capsys):
    names = {"__name__": "__main__"}
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    assert blocks
    for source, shown in blocks:
        exec(compile(source, path.name, "exec"), names)
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_of_the_page_exist(path):
    for command in re.findall(r"^\.venv/bin/foldwire (\S+)", path.read_text(), re.MULTILINE):
        assert command in cli.commands
