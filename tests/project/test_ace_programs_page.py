# SPDX-License-Identifier: Apache-2.0
"""The page on ACE's programs: its words are the hardware's, its listing is what its code prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from hw.ace.isa import (
    INSTRUCTION_FIELDS,
    PHASE_FIELDS,
    PLACEMENT_FIELDS,
    PROGRAM_ENTRY_FIELDS,
    Opcode,
    instruction_layout,
    phase_layout,
    placement_layout,
    program_entry_layout,
)

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "ace-programs.md").read_text()
WORDS = {
    "instruction": (INSTRUCTION_FIELDS, instruction_layout),
    "`PHASE`": (PHASE_FIELDS, phase_layout),
    "entry of the table": (PROGRAM_ENTRY_FIELDS, program_entry_layout),
    "word behind the table": (PLACEMENT_FIELDS, placement_layout),
}


def table(title):
    """A word as the page has it."""
    fields, layout = WORDS[title]
    rows = [f"| {title} | bits | meaning |", "|---|---|---|"]
    for name, (_, text) in fields.items():
        field = layout[name]
        last = field.offset + field.width - 1
        rows.append(f"| `{name}` | {last}:{field.offset} | {text.replace('``', '`')} |")
    return "\n".join(rows)


@pytest.mark.parametrize("title", WORDS)
def test_words_are_those_of_the_hardware(title):
    assert table(title) in PAGE


def test_every_instruction_is_on_the_page():
    assert all(f"`{each.name}`" in PAGE for each in Opcode)


def test_the_listing_is_what_the_code_prints():
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.S)
    assert len(pairs) == PAGE.count("```python") == 2
    for code, listing in pairs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "ace-programs.md", "exec"), {})
        assert printed.getvalue() == listing
