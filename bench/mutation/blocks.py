"""Blocks of files of hw/: the tests that cover them, and the designs in which changes show."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
        Key of `bench.mutation.designs.DESIGNS`.
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


def _read() -> dict[str, Block]:
    with Path(__file__).with_suffix(".toml").open("rb") as file:
        tables = tomllib.load(file)
    sets = tables.pop("sets")
    return {name: Block(
        group=table["group"],
        files=tuple(table["files"]),
        designs=table["designs"],
        tests=tuple(each for test in table["tests"] for each in sets.get(test, [test])),
    ) for name, table in tables.items()}


BLOCKS: Mapping[str, Block] = _read()
"""All files of hw/ that make hardware, by block."""

ENDPOINTS = ("fp+bfp", "link+common", "ace", "smartnic")
"""Groups of the engines beside NPUs, in the order in which they are run."""
GROUPS = (*ENDPOINTS, "switch", "switch_dma", "retry")


def block_of(path: str) -> Block | None:
    """The block of ``hw/fp/steps.py``; None if the file is in none."""
    name = path.removeprefix("hw/").removesuffix(".py")
    for wanted in (name, f"{name.rpartition('/')[0]}/*"):
        for block in BLOCKS.values():
            if wanted in block.files:
                return block
    return None
