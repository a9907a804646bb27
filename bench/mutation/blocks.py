# SPDX-License-Identifier: Apache-2.0
"""Blocks of files of hw/: the tests that cover them, and the designs in which changes show."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from bench.records.registered import files

__all__ = ["BLOCKS", "ENDPOINTS", "GROUPS", "Block", "block_of"]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Files that are tested together.

    Members
    -------
    group:
        One of `GROUPS`.
    files:
        Paths below ``hw/``, without ``.py``; ``ace/*`` is all of a folder that no other block has.
    designs:
        A name for `bench.mutation.designs.designs`.
    tests:
        Paths below ``tests/hw/``, without ``test_`` and ``.py``, the quickest first.
    """

    group: str
    files: tuple[str, ...]
    designs: str
    tests: tuple[str, ...]

    def test_paths(self) -> list[str]:
        """The files of the tests, from the root of the repository."""
        return [str(_TESTS / Path(test).with_name(f"test_{Path(test).name}.py"))
                for test in self.tests]


_TESTS = Path("tests", "hw")


_FILES = (Path(__file__).with_suffix(".toml"), *files("blocks.toml").values())
_READ = [tomllib.loads(path.read_text(encoding="utf-8")) for path in _FILES]

ENDPOINTS = tuple(group for tables in _READ for group in tables.pop("syntax", ()))
"""Groups of the engines beside NPUs, in the order in which they are run."""
_SETS = {name: tests for tables in _READ for name, tests in tables.pop("sets", {}).items()}

BLOCKS = {
    name: Block(
        group=table["group"],
        files=tuple(table["files"]),
        designs=table["designs"],
        tests=tuple(each for test in table["tests"] for each in _SETS.get(test, [test])),
    )
    for tables in _READ for name, table in tables.items()
}
"""All files of hw/ that make hardware, by block."""
GROUPS = tuple(dict.fromkeys([*ENDPOINTS, *(block.group for block in BLOCKS.values())]))


def block_of(path: str) -> Block | None:
    """The block of ``hw/fp/steps.py``; None if the file is in none."""
    name = path.removeprefix("hw/").removesuffix(".py")
    for wanted in (name, f"{name.rpartition('/')[0]}/*"):
        for block in BLOCKS.values():
            if wanted in block.files:
                return block
    return None
