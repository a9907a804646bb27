# SPDX-License-Identifier: Apache-2.0
"""The house: imports against the order of rooms, engines' names, copies, long functions, words.

Upward imports: against the order in `bench/rooms.py`; one inside a function counts. Duplicate runs:
8 or more lines of code (imports, comments, docstrings and blank lines apart) that occur before, in
the same file or another, with names, numbers and strings folded; a window with fewer than 4
different lines is a list and no copy. The other counts are those of `bench/structure.py`.

Each count has a target, and a limit that it has been brought down to: the command fails above a
limit, so nothing that was gained is lost on the way to the target. Calls of `connect` in the
endpoint of switches are counted the other way: it fails below as many as there have been.
``--fix`` writes the licence's identifier into source files that have none.

With ``--base``, code removed from and added to a commit. Statements: those of the syntax tree
without docstrings, bodies of compound statements apart; an import is told by the names that it
binds, so that a moved module changes no importer. Removed are statements that all product code of
the base together has and the present one has not, added are the reverse, so moved code is neither.
What the tests and examples have instead, and the base had once, was moved there and is not removed.
"""

import argparse
import ast
import io
import keyword
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench import _headers, structure
from bench.result import result
from bench.rooms import PRODUCT, upward
from foldwire.console import print_table, say
from gen.table import Column, Table

__all__ = ["Tree", "duplicates", "main", "statements"]

ELSEWHERE = ("tests", "examples")
LONG = 100
COUNTS: dict[str, tuple[str, int, int]] = {  # title, limit, target
    "upward": ("upward imports", 0, 0),
    "circles": ("groups of modules that import one another", 0, 0),
    "engine_branches": ("comparisons with an engine's name", 0, 0),
    "registries": ("registries of engines", 1, 1),
    "shared_files": ("shared files that know an engine", 2, 4),
    "program_files": ("files that know how ACE's programs are made", 5, 5),
    "clashes": ("names of several classes", 16, 20),
    "long_signatures": (f"more than {structure.LONGEST_SIGNATURE} parameters", 0, 0),
    "columns": ("columns by number in compiled code", 0, 0),
    "riddles": ("docstrings that begin with What, Whether, How, Of", 10, 250),
    "duplicate_runs": ("duplicate runs", 104, 105),
    "functions_over_100": (f"functions over {LONG} lines", 7, 7),
    "headers": ("source files without the licence's identifier", 0, 0),
}
CONNECTS = 60, 60
"""Calls of `connect` in the endpoint of switches, whose parts are joined by signatures: as many as
there have been, and the target."""
RUN, DIFFERENT = 8, 4
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Tree:
    """Python files of one state of the repository: path -> text."""

    product: Mapping[str, str]
    elsewhere: Mapping[str, str]

    @classmethod
    def read(cls, root: Path) -> "Tree":
        """The files as they are."""
        return cls(*({
            path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for folder in folders
            for path in sorted((root / folder).rglob("*.py"))
        } for folders in (PRODUCT, ELSEWHERE)))

    @classmethod
    def of_commit(cls, root: Path, commit: str) -> "Tree | None":
        """The files of a commit; None where the clone does not have it."""
        folders = [*PRODUCT, *ELSEWHERE]
        listing = _git(root, "ls-tree", "-r", "-z", commit, "--", *folders)
        if listing is None:
            return None
        blobs = {}
        for entry in listing.decode().split("\0"):
            about, _, path = entry.partition("\t")
            if path.endswith(".py"):
                blobs[path] = about.split()[2]
        batch = _git(root, "cat-file", "--batch", send="\n".join(blobs.values()))
        if batch is None:
            return None
        stream, texts = io.BytesIO(batch), {}
        for path in blobs:
            size = int(stream.readline().split()[2])
            texts[path] = stream.read(size + 1)[:size].decode()
        parts = [
            {path: text for path, text in texts.items() if path.partition("/")[0] in folders}
            for folders in (PRODUCT, ELSEWHERE)
        ]
        return cls(*parts)

    @cached_property
    def statements(self) -> "Counter[str]":
        return statements(self.product)

    @cached_property
    def functions(self) -> list[tuple[int, str]]:
        """Lines, and where; the longest first. Decorators do not count, docstrings do."""
        found = [
            (node.end_lineno - node.lineno + 1, f"{path}:{node.lineno} {node.name}")
            for path, text in self.product.items()
            for node in ast.walk(structure.parsed(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
        ]
        return sorted(found, reverse=True)

    @property
    def long_functions(self) -> list[str]:
        return [f"{where}, {lines} lines" for lines, where in self.functions if lines > LONG]

    def of_package(self, name: str) -> "Counter[str]":
        """The statements below one folder."""
        return statements({k: v for k, v in self.product.items() if k.startswith(f"{name}/")})

    @cached_property
    def duplicates(self) -> list[str]:
        return duplicates(self.product)

    @cached_property
    def docstrings(self) -> dict[str, float]:
        """Percent of the lines of each package that are docstrings, and of all as ``all``."""
        lines: Counter[str] = Counter()
        docs: Counter[str] = Counter()
        for path, text in self.product.items():
            for package in ("all", _package(path)):
                lines[package] += text.count("\n")
                docs[package] += sum(last - first + 1 for first, last in _docstrings(text))
        return {package: 100 * docs[package] / lines[package] for package in sorted(lines)}


def statements(files: Mapping[str, str]) -> "Counter[str]":
    """How often each statement occurs in *files*."""
    return Counter(
        _statement(node)
        for text in files.values()
        for node in _without_docstrings(structure.parsed(text))
        if isinstance(node, ast.stmt)
    )


def _without_docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    dropped = {id(node) for node in _docstring_nodes(tree)}
    return (node for node in ast.walk(tree) if id(node) not in dropped)


def _docstring_nodes(tree: ast.AST) -> Iterator[ast.Expr]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            # Texts below attributes are docstrings as well.
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each


def _statement(node: ast.stmt) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return f"import {sorted(alias.asname or alias.name for alias in node.names)}"
    parts = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name == "handlers":
            parts += [f"except {ast.dump(each.type) if each.type else ''}" for each in value]
        elif name == "cases":
            parts += [f"case {ast.dump(each.pattern)}" for each in value]
        elif name not in _BODIES:
            values = value if isinstance(value, list) else [value]
            parts += [ast.dump(v) if isinstance(v, ast.AST) else repr(v) for v in values]
    return " ".join(parts)


def _docstrings(text: str) -> list[tuple[int, int]]:
    """First and last line of each docstring."""
    nodes = _docstring_nodes(structure.parsed(text))
    return [(node.lineno, node.end_lineno or node.lineno) for node in nodes]


def duplicates(files: Mapping[str, str]) -> list[str]:
    """Runs of lines that occur before: where, how long, and where before."""
    seen: dict[tuple[str, ...], tuple[str, int, int]] = {}  # file, index and number of the line
    found = []
    for path, text in sorted(files.items()):
        lines = _folded_lines(text)
        run: tuple[int, int, str] | None = None  # index of its start, of its end, where before
        for index in range(len(lines) - RUN + 1):
            window = tuple(code for _, code in lines[index : index + RUN])
            if len(set(window)) < DIFFERENT:
                continue
            file, first, number = seen.setdefault(window, (path, index, lines[index][0]))
            if file == path and index - first < RUN:
                continue
            if run is not None and index <= run[1]:
                run = run[0], index + RUN, run[2]
            else:
                if run is not None:
                    found.append(_run(path, lines, run))
                run = index, index + RUN, f"{file}:{number}"
        if run is not None:
            found.append(_run(path, lines, run))
    return found


def _run(path: str, lines: Sequence[tuple[int, str]], run: tuple[int, int, str]) -> str:
    start, end, before = run
    return f"{path}:{lines[start][0]}, {end - start} lines as at {before}"


def _folded_lines(text: str) -> list[tuple[int, str]]:
    """Number and folded tokens of each line of code."""
    tree = structure.parsed(text)
    skipped: set[int] = set()
    for first, last in _docstrings(text):
        skipped.update(range(first, last + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: dict[int, list[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        word = token.string
        if token.type == tokenize.NAME:
            word = word if keyword.iskeyword(word) else "n"
        elif token.type == tokenize.NUMBER:
            word = "0"
        elif token.type == tokenize.STRING:
            word = "s"
        elif token.type != tokenize.OP:
            continue
        if token.start[0] not in skipped:
            lines.setdefault(token.start[0], []).append(word)
    return [(number, " ".join(words)) for number, words in sorted(lines.items())]


def _package(path: str) -> str:
    top, _, rest = path.partition("/")
    inner = rest.partition("/")
    return f"{top}.{inner[0]}" if top in ("hw", "sim") and inner[1] else top


def _git(root: Path, *arguments: str, send: str = "") -> bytes | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, input=send.encode(), capture_output=True, check=False
        )
    except OSError:
        return None
    return None if done.returncode else done.stdout


def _changed(base: Tree, now: Tree) -> tuple[int, int, int]:
    """Statements removed, added, and moved to tests and examples."""
    gone, new = base.statements - now.statements, now.statements - base.statements
    arrived = statements(now.elsewhere) - statements(base.elsewhere)
    moved = sum(1 for each in gone & arrived if base.statements[each] == 1)
    return gone.total() - moved, new.total(), moved


def _counts(tree: Tree) -> dict[str, Sequence[str]]:
    """Every place that counts, by key."""
    files = tree.product
    return {
        "upward": upward(files),
        "circles": structure.circles(files),
        "engine_branches": structure.engine_branches(files),
        "registries": structure.registries(files),
        "shared_files": structure.shared_files(files),
        "program_files": structure.program_files(files),
        "clashes": structure.class_clashes(files),
        "long_signatures": structure.long_signatures(files),
        "columns": structure.column_numbers(files),
        "riddles": structure.riddles(files),
        "duplicate_runs": tree.duplicates,
        "functions_over_100": tree.long_functions,
    }


def main(argv: Sequence[str]) -> int:
    """Fails (status 1) if a count is above its limit, or interfaces were taken apart."""
    parser = argparse.ArgumentParser(prog="python -m bench house", description=__doc__)
    parser.add_argument("--base", help="commit to compare with")
    parser.add_argument("--list", choices=[*COUNTS, "all"], help="show every place of a count")
    parser.add_argument(
        "--fix", action="store_true", help="write the licence's identifier where there is none"
    )
    options = parser.parse_args(list(argv))
    root = Path(__file__).resolve().parent.parent
    for path in _headers.add(root) if options.fix else ():
        say(f"{path}: identifier added")
    now = Tree.read(root)
    places = _counts(now) | {"headers": _headers.lacking(root)}
    table = Table(
        "The house", (Column("number"), Column("now"), Column("limit"), Column("target"))
    )
    for key, (title, limit, target) in COUNTS.items():
        table.add(title, len(places[key]), limit, target)
    least, wanted = CONNECTS
    connects = structure.connects(now.product, "hw/switch_dma/")
    table.add("interfaces joined in the endpoint of switches (at least)", connects, least, wanted)
    print_table(table)
    values: dict[str, object] = {key: len(found) for key, found in places.items()}
    values["connects"] = connects
    if options.base is not None:
        base = Tree.of_commit(root, options.base)
        if base is None:
            say(f"{options.base} is not in this clone (a shallow one?): nothing to compare with")
        else:
            values |= _print_change(base, now)
    for key, found in places.items():
        if options.list in (key, "all"):
            say(f"\n{COUNTS[key][0]}:")
            for line in found:
                say(f"  {line}")
    above = [key for key, (_, limit, _) in COUNTS.items() if len(places[key]) > limit]
    for key in above:
        title, limit, _ = COUNTS[key]
        say(f"{title}: {len(places[key])}, and at most {limit} may be; --list {key} shows them")
    if connects < least:
        say(f"calls of connect in hw/switch_dma: {connects}, and at least {least} must be")
    met = all(len(places[key]) <= target for key, (_, _, target) in COUNTS.items())
    result("house", **values, verdict="ok" if met and connects >= wanted else "short")
    return 1 if above or connects < least else 0


def _print_change(base: Tree, now: Tree) -> dict[str, object]:
    """Compare with a commit; returns keys of the result line."""
    removed, added, moved = _changed(base, now)
    table = Table("Against the base", (Column("number"), Column("base"), Column("now")))
    table.add("statements", base.statements.total(), now.statements.total())
    table.add("statements of tb", *(tree.of_package("tb").total() for tree in (base, now)))
    table.add("statements removed", None, removed)
    table.add("statements added", None, added)
    table.add("statements moved to tests and examples", None, moved)
    table.add("duplicate runs in tests", *(len(duplicates(t.elsewhere)) for t in (base, now)))
    for package, share in now.docstrings.items():
        table.add(
            f"docstrings of {package} (% of lines)",
            *(None if each is None else round(each, 1) for each in (
                base.docstrings.get(package), share
            )),
        )
    print_table(table)
    return {
        "net_statements": now.statements.total() - base.statements.total(),
        "tb_statements": now.of_package("tb").total(),
    }
