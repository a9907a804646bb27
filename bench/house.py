"""The house: imports against the order of rooms, long functions, code removed and added, copies.

Upward imports: against the order in `bench/rooms.py`; one inside a function counts.
Statements: those of the syntax tree without docstrings, bodies of compound statements apart; an
import is told by the names that it binds, so that a moved module changes no importer. Removed are
statements that all product code of the base together has and the present one has not, added are
the reverse, so moved code is neither. What the tests and examples have instead, and the base had
once, was moved there and is not removed.
Duplicate runs: 8 or more lines of code (imports, comments, docstrings and blank lines apart) that
occur before, in the same file or another, with names, numbers and strings folded. A window with
fewer than 4 different lines is a list and no copy.
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

from bench.result import result
from bench.rooms import PRODUCT, upward
from foldwire.console import print_table, say
from gen.table import Column, Table

__all__ = ["Tree", "duplicates", "main", "statements"]

FIRST_RELEASE = "b5d191be29249e93206c4e8109339b64a435f6f8"
ELSEWHERE = ("tests", "examples")
LONGEST, LONG, REMOVED = 150, 100, 2500
RUN, DIFFERENT = 8, 4
SHOWN = 12
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
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
        ]
        return sorted(found, reverse=True)

    @property
    def long_functions(self) -> int:
        return sum(lines > LONG for lines, _ in self.functions)

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
        for node in _without_docstrings(ast.parse(text))
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
    nodes = _docstring_nodes(ast.parse(text))
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
    tree = ast.parse(text)
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


def main(argv: Sequence[str]) -> int:
    """``--base REV`` is what the present state is compared with (the first release)."""
    parser = argparse.ArgumentParser(prog="python -m bench house", description=__doc__)
    parser.add_argument("--base", default=FIRST_RELEASE, help="commit to compare with")
    parser.add_argument("--all", action="store_true", help="list every copy and upward import")
    options = parser.parse_args(list(argv))
    commit, shown = options.base, None if options.all else SHOWN
    root = Path(__file__).resolve().parent.parent
    now, base = Tree.read(root), Tree.of_commit(root, commit)
    wrong = upward(now.product)
    changed = _changed(base, now) if base else None
    _print_numbers(now, base, wrong, changed)
    if base is None:
        say(f"{commit} is not in this clone (a shallow one?): nothing to compare with")
    for title, lines in (("upward imports", wrong), ("duplicate runs", now.duplicates)):
        if lines:
            say(f"\n{title}:")
            for line in lines[:shown]:
                say(f"  {line}")
            if shown is not None and len(lines) > shown:
                say(f"  ... and {len(lines) - shown} more (--all lists them)")
    removed, added = changed[:2] if changed else ("unknown", "unknown")
    result(
        "house",
        upward=len(wrong),
        longest_function=now.functions[0][0],
        functions_over_100=now.long_functions,
        statements_removed=removed,
        statements_added=added,
        duplicate_runs=len(now.duplicates),
        verdict="ok" if base and changed and not wrong and _better(base, now, changed) else "short",
    )
    return 0


def _better(base: Tree, now: Tree, changed: tuple[int, int, int]) -> bool:
    return (
        now.functions[0][0] <= LONGEST
        and changed[0] >= REMOVED
        and now.long_functions < base.long_functions
        and len(now.duplicates) < len(base.duplicates)
        and now.docstrings["all"] >= base.docstrings["all"]
    )


def _print_numbers(
    now: Tree, base: Tree | None, wrong: Sequence[str], changed: tuple[int, int, int] | None
) -> None:
    table = Table(
        "The house",
        (Column("number"), Column("base", digits=1), Column("now", digits=1), Column("target")),
        note="The base had other rooms, so its upward imports are not counted.",
    )
    trees = (base, now)
    table.add("upward imports", None, len(wrong), "0")
    table.add(
        "longest function (lines)",
        *(t.functions[0][0] if t else None for t in trees),
        f"<= {LONGEST}",
    )
    table.add(
        f"functions over {LONG} lines",
        *(t.long_functions if t else None for t in trees),
        "below base",
    )
    table.add("statements", *(t.statements.total() if t else None for t in trees), None)
    removed, added, moved = changed or (None, None, None)
    table.add("statements removed", None, removed, f">= {REMOVED}")
    table.add("statements added", None, added, None)
    table.add("statements moved to tests and examples", None, moved, None)
    table.add("duplicate runs", *(len(t.duplicates) if t else None for t in trees), "below base")
    table.add("  in tests", *(len(duplicates(t.elsewhere)) if t else None for t in trees), None)
    known = base.docstrings if base else {}
    for package, share in now.docstrings.items():
        target = "not below base" if package == "all" else None
        table.add(f"docstrings of {package} (% of lines)", known.get(package), share, target)
    print_table(table)
    say(f"\nlongest functions: {'; '.join(f'{n} {where}' for n, where in now.functions[:5])}")
