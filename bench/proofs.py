# SPDX-License-Identifier: Apache-2.0
"""Proofs of components: the bound of each, and the depth of its covers; one without any fails."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.result import result
from gen.folder import replace_text

__all__ = ["PAGE", "main", "page", "proof_files", "rows"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results" / "proofs.md"
RECORD = "FOLDWIRE_PROOFS"  # as in tests/hw/common/prover.py, which users need not have
_NOTES = re.compile(
    r"^from tests\.hw\.common\.prover import [^\n]*\b(?:holds|note)\b", re.MULTILINE
)

_HEAD = """# Proofs

What Yosys, ABC and Bitwuzla prove of components, under all inputs. Written by
`python -m bench proofs --write`; nothing here is typed.

A bound is a number of cycles from reset; `for ever` is without one. A cover is what must be able to
happen for a proof to mean something, with the first cycle in which it can; a proof whose covers
cannot all be reached within its bound (40 cycles where it has none) fails. Each proof has planted
bugs beside it, in the same file, that are refuted.
"""


def proof_files(root: Path) -> list[str]:
    """Files of tests with proofs."""
    return sorted(
        path.relative_to(root).as_posix() for path in (root / "tests" / "hw").rglob("test_*.py")
        if path.name != "test_prover.py" and _NOTES.search(path.read_text(encoding="utf-8"))
    )


def rows(lines: Iterable[str]) -> list[dict[str, Any]]:
    """A row of the table for each test and bound, from the lines that proofs wrote.

    Each cover has the shallowest and the deepest cycle of the cases of a parametrised test.
    """
    cases: dict[tuple[str, str, int | None], list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        proof = json.loads(line)
        key = proof["test"].partition("[")[0], proof["subject"], proof["bound"]
        cases[key].append(proof)
    found = []
    for (test, subject, bound), proofs in sorted(cases.items(), key=lambda each: str(each[0])):
        covers: dict[str, list[int]] = defaultdict(list)
        for proof in proofs:
            for name, cycle in proof["covers"].items():
                covers[name].append(cycle)
        found.append({
            "test": test, "subject": subject, "bound": bound, "cases": len(proofs),
            "covers": {name: (min(cycles), max(cycles)) for name, cycles in covers.items()},
            "seconds": sum(proof["seconds"] for proof in proofs),
        })
    return found


def page(found: Sequence[Mapping[str, Any]]) -> str:
    """The page, a table for each folder of tests."""
    text = [_HEAD]
    folder = ""
    for row in found:
        file, _, test = row["test"].partition("::")
        block = Path(file).parent.name
        if block != folder:
            folder = block
            text.append(f"\n## {folder}\n\n| what | cases | bound | covers: cycle |")
            text.append("| --- | ---: | ---: | --- |")
        what = test.removeprefix("test_").replace("_", " ")
        bound = "for ever" if row["bound"] is None else str(row["bound"])
        covers = "; ".join(
            f"{name}: {low}" if low == high else f"{name}: {low} to {high}"
            for name, (low, high) in row["covers"].items()
        )
        text.append(f"| [{what}](../../{file}) | {row['cases']} | {bound} | {covers} |")
    return "\n".join(text) + "\n"


def main(argv: Sequence[str]) -> int:
    """Run all proofs and print their bounds and covers."""
    parser = argparse.ArgumentParser(prog="python -m bench proofs", description=__doc__)
    parser.add_argument("--full", action="store_true", help="also those that take minutes")
    parser.add_argument("--processes", type=int, default=2, help="at a time (default: 2)")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(argv)
    begin = time.monotonic()
    with TemporaryDirectory() as scratch:
        record = Path(scratch, "proofs.jsonl")
        record.touch()
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n",
            str(options.processes), "--dist", "worksteal", *(["-m", ""] if options.full else []),
            *proof_files(ROOT),
        ]
        run = subprocess.run(
            command, cwd=ROOT, env=os.environ | {RECORD: str(record)}, capture_output=True,
            text=True, check=False,
        )
        found = rows(record.read_text(encoding="utf-8").splitlines())
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    for line in failed:
        print(line, flush=True)
    for row in found:
        bound = "for ever" if row["bound"] is None else f"{row['bound']} cycles"
        print(f"{row['test'].partition('::')[2]} ({row['cases']}, {bound})")
        for name, (low, high) in row["covers"].items():
            print(f"    {name}: cycle {low}" + ("" if low == high else f" to {high}"))
    if options.write and not failed:
        replace_text(PAGE, page(found))
    bounds = [row["bound"] for row in found if row["bound"] is not None]
    bare = sum(not row["covers"] for row in found)
    result(
        "proofs",
        proofs=sum(row["cases"] for row in found),
        unbounded=sum(row["cases"] for row in found if row["bound"] is None),
        least_bound=min(bounds, default=0),
        covers=sum(len(row["covers"]) for row in found),
        without_cover=bare,
        failed=len(failed),
        minutes=(time.monotonic() - begin) / 60,
        verdict="ok" if found and run.returncode == 0 and not bare else "short",
    )
    return 0
