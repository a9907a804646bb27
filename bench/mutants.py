# SPDX-License-Identifier: Apache-2.0
"""Mutants of hw/ by syntax and by meaning, drawn by a seed: how many their block's tests kill."""

import argparse
import ast
import hashlib
import resource
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Lock

from bench.mutation.blocks import ENDPOINTS, GROUPS, Block, block_of
from bench.mutation.draw import KINDS, Mutant, draw, mutants
from bench.mutation.semantic import SEMANTIC_KINDS
from bench.mutation.trial import Lane, Outcome, Store, digest_of_tests, killed_by, lane, try_mutant
from bench.options import duration, whole
from bench.result import result

__all__ = ["Campaign", "Judge", "main", "summary"]

ROOT = Path(__file__).resolve().parent.parent
ARGUMENTS = Path(__file__).with_name("mutation") / "arguments.toml"
CHANGES = ("syntax", "semantic")
PER_GROUP = {"syntax": 25, "semantic": 22}
LEAST_MUTANTS = {"syntax": 100, "semantic": 150}
TARGET_PCT = {"syntax": 95.0, "semantic": 97.0}
GROUPS_OF = {"syntax": ENDPOINTS, "semantic": GROUPS}
"""Default groups, by kind of change."""
TIMEOUT_S = 300
MOST_ARGUED_PCT = 5.0
COUNTED = ("killed", "equivalent", "survived", "timeout")

_PARSING = Lock()
"""CPython 3.11 counts the depth of a syntax tree for all threads together."""


def pool(root: Path, group: str, *, semantic: bool = False) -> Iterator[Mutant]:
    """All mutants of the files of *group*, by syntax or the *semantic* ones."""
    for file in sorted((root / "hw").rglob("*.py")):
        path = file.relative_to(root).as_posix()
        block = block_of(path)
        if block is not None and block.group == group:
            text = file.read_text(encoding="utf-8")
            yield from mutants(path, text, semantic=semantic)


class Judge:
    """Judges mutants; reuses outcomes of earlier runs on the same sources.

    Parameters
    ----------
    root:
        The tree.
    lanes:
        Copies of the tree, one for each mutant that is judged at a time.
    store:
        Store of the outcomes.
    folder:
        Folder for the designs of the unchanged tree.
    timeout:
        Seconds of CPU time that the tests of a mutant may take.
    arguments:
        Identity of a mutant -> why it is equivalent.
    """

    def __init__(
        self, root: Path, lanes: Sequence[Lane], store: Store, folder: Path, *,
        timeout: float, arguments: Mapping[str, str],
    ) -> None:
        self._root, self._store, self._folder = root, store, folder
        self._timeout, self._arguments = timeout, arguments
        own = sorted((root / "bench" / "records").glob("*/designs.py"))
        self._designs = _digest(root / "bench" / "mutation" / "designs.py", *own)
        self._lanes: SimpleQueue[Lane] = SimpleQueue()
        for each in lanes:
            self._lanes.put(each)
        self._pool = ThreadPoolExecutor(len(lanes))

    def close(self) -> None:
        """Cancel work that has not begun, and wait for the rest."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def prepare(self, block: Block) -> None:
        """Write the designs of *block* as they are in the unchanged tree."""
        folder = self._folder / block.designs
        if folder.exists():
            return
        free = self._lanes.get()
        try:
            trouble = free.emit(block.designs, folder)
        finally:
            self._lanes.put(free)
        if trouble is not None:
            raise RuntimeError(f"the designs of {block.designs} cannot be built: {trouble}")

    def confirm(self, killers: Iterable[str]) -> None:
        """Make sure that the tests that killed mutants pass on the tree as it is.

        Raises
        ------
        RuntimeError
            One of them fails, so it proves nothing about mutants.
        """
        state = self._state()
        waiting = [
            killer for killer in sorted(set(killers))
            if not self._store.passed(_digest(state, killer, self._root / killer.split("::")[0]))
        ]
        if not waiting:
            return
        free = self._lanes.get()
        try:
            failed = free.first_failure(waiting, timeout=20 * self._timeout, shared=True)
        finally:
            self._lanes.put(free)
        if failed != "":
            raise RuntimeError(f"without any mutant, {failed or waiting} fails")
        for killer in waiting:
            path = self._root / killer.split("::")[0]
            self._store.note_passed(_digest(state, killer, path))

    def judge_all(self, chosen: Sequence[tuple[Mutant, Block]]) -> Iterator[tuple[Outcome, bool]]:
        """Outcomes in the order of *chosen*, and whether each was known."""
        yield from self._pool.map(lambda each: self.judge(*each), chosen)

    def judge(self, mutant: Mutant, block: Block) -> tuple[Outcome, bool]:
        """The outcome of one mutant, and whether it was known."""
        source = _digest(_code(self._root / mutant.path))
        known = self._store.get(mutant)
        same = (
            known is not None
            and known.source == source
            and known.tests == self._hangs_on(known, block)
        )
        if known is not None and same:
            outcome = known
        else:
            free = self._lanes.get()
            try:
                outcome = try_mutant(
                    free, mutant, block, self._folder / block.designs, known,
                    timeout=self._timeout, source=source,
                )
            finally:
                self._lanes.put(free)
            outcome = replace(outcome, tests=self._hangs_on(outcome, block))
            self._store.put(mutant, outcome)
        if outcome.verdict in ("survived", "timeout") and mutant.identity in self._arguments:
            why = self._arguments[mutant.identity]
            outcome = replace(outcome, verdict="equivalent", how=f"argued: {why}")
        return outcome, same

    def _hangs_on(self, outcome: Outcome, block: Block) -> str:
        """Digest of everything that can change the verdict of *outcome*.

        A mutant stays killed while the file of the test that killed it is unchanged and belongs to
        its block; verdicts that are not counted depend on the designs, others on all its tests.
        """
        if outcome.verdict not in COUNTED:
            return self._designs
        tests = block.test_paths()
        if outcome.verdict == "killed":
            tests = [test for test in tests if test == killed_by(outcome)]
        return digest_of_tests(self._root, tests) if tests else "no test of the block"

    def _state(self) -> str:
        """Digest of everything that tests depend on besides themselves."""
        folders = [self._root / name for name in ("hw", "gen", "sim")]
        files = [path for folder in folders for path in sorted(folder.rglob("*.[ch]*"))]
        files += [path for folder in folders for path in sorted(folder.rglob("*.py"))]
        shared = sorted((self._root / "tests" / "hw").rglob("*.py"))
        return _digest(*files, *(path for path in shared if not path.name.startswith("test_")))


def _code(path: Path) -> str:
    """Syntax tree of a Python file as text, without comments and docstrings."""
    with _PARSING:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (
                ast.get_docstring(node) is not None
            ):
                node.body = node.body[1:]
        return ast.dump(tree)


def _digest(*parts: Path | str) -> str:
    """Twelve hexadecimal digits of texts and the contents of files."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part.read_bytes())
    return found.hexdigest()[:12]


def run_group(
    judge: Judge, changes: str, group: str, *, seed: int, count: int, until: float
) -> Iterator[tuple[Mutant, Outcome]]:
    """Yield *count* mutants of *group* that change the hardware, with their outcomes.

    No new ones begin after *until* (monotonic clock).
    """
    order = iter(draw(pool(ROOT, group, semantic=changes == "semantic"), seed))
    counted = 0
    while counted < count and time.monotonic() < until:
        chosen = []
        for mutant in islice(order, min(count - counted, 4)):
            block = block_of(mutant.path)
            assert block is not None
            judge.prepare(block)
            chosen.append((mutant, block))
        if not chosen:
            return
        for (mutant, _), (outcome, known) in zip(chosen, judge.judge_all(chosen)):
            spent = "known" if known else f"{outcome.seconds:.0f} s"
            print(f"  {outcome.verdict:10} {spent:>6}  {mutant.identity} {mutant}", flush=True)
            if outcome.how:
                print(f"{'':34}{outcome.how}", flush=True)
            if outcome.verdict in COUNTED:
                counted += 1
                yield mutant, outcome


def summary(outcomes: Iterable[Outcome]) -> dict[str, float | int]:
    """Number of outcomes by verdict, and the percentage killed."""
    found = list(outcomes)
    verdicts = Counter(each.verdict for each in found)
    total, killed = sum(verdicts.values()), verdicts["killed"]
    judged = total - verdicts["equivalent"]
    return {
        "mutants": total,
        "killed": killed,
        "equivalent": verdicts["equivalent"],
        "survivors": verdicts["survived"] + verdicts["timeout"],
        "argued": sum(each.how.startswith("argued") for each in found),
        "killed_pct": 100 * killed / judged if judged else 0.0,
    }


class Campaign:
    """Outcomes of the mutants by syntax, or of the semantic ones.

    Parameters
    ----------
    changes:
        One of `CHANGES`.
    groups:
        Groups to draw from.
    """

    def __init__(self, changes: str, groups: Iterable[str]) -> None:
        self.changes = changes
        self.found: dict[str, list[tuple[Mutant, Outcome]]] = {group: [] for group in groups}

    @property
    def all(self) -> list[tuple[Mutant, Outcome]]:
        """Mutants of all groups with their outcomes."""
        return [pair for pairs in self.found.values() for pair in pairs]

    @property
    def met(self) -> bool:
        """True if enough were judged, enough of them killed, and few excused by argument."""
        values = summary(outcome for _, outcome in self.all)
        return (
            values["killed_pct"] >= TARGET_PCT[self.changes]
            and values["argued"] <= MOST_ARGUED_PCT / 100 * values["mutants"]
            and values["mutants"] >= LEAST_MUTANTS[self.changes]
            and min(map(len, self.found.values())) >= PER_GROUP[self.changes]
        )

    def table(self) -> list[str]:
        """A line for each group, for each kind, and for each survivor."""
        rows: dict[str, list[Outcome]] = {
            group: [outcome for _, outcome in pairs] for group, pairs in self.found.items()
        }
        for mutant, outcome in self.all:
            rows.setdefault(mutant.kind, []).append(outcome)
        lines = [f"{self.changes}:"]
        for name, outcomes in rows.items():
            values = summary(outcomes)
            lines.append(
                f"  {name:12} {values['mutants']:4} mutants, {values['killed']:4} killed, "
                f"{values['equivalent']:3} equivalent, {values['survivors']:3} survivors"
            )
        for mutant, outcome in self.all:
            if outcome.verdict in ("survived", "timeout"):
                lines.append(f"  {outcome.verdict}: {mutant.identity} {mutant}")
        return lines

    def survivors(self) -> str:
        """Places and kinds of the survivors, joined into one word."""
        places = [
            f"{mutant.path}:{mutant.line}:{mutant.kind}" for mutant, outcome in self.all
            if outcome.verdict in ("survived", "timeout")
        ]
        return ",".join(sorted(places)) or "none"

    def killed_by_kind(self) -> dict[str, float]:
        """Percent killed of each kind, under a name for the result line."""
        kinds: dict[str, list[Outcome]] = {}
        for mutant, outcome in self.all:
            kinds.setdefault(mutant.kind, []).append(outcome)
        return {
            f"{kind.replace('-', '_')}_pct": float(summary(outcomes)["killed_pct"])
            for kind, outcomes in sorted(kinds.items())
        }


def main(argv: Sequence[str]) -> int:
    """Draw, judge, and count; what was judged before with the same sources is not judged again."""
    parser = argparse.ArgumentParser(prog="python -m bench mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=list(CHANGES))
    parser.add_argument("--per-group", type=int, help="mutants of each group")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, help="default: by the changes")
    parser.add_argument("--processes", type=whole(), default=2, help="at a time (default: 2)")
    parser.add_argument("--timeout", type=duration, default=TIMEOUT_S, help="of CPU for its tests")
    parser.add_argument("--anew", action="store_true", help="judge again what is known")
    parser.add_argument("--minutes", type=duration, default=1e9,
                        help="begin no new ones after these")
    options = parser.parse_args(argv)
    begin = time.monotonic()
    until = begin + 60 * options.minutes
    arguments = tomllib.loads(ARGUMENTS.read_text(encoding="utf-8"))
    campaigns = [
        Campaign(changes, options.groups or GROUPS_OF[changes]) for changes in options.changes
    ]

    print(f"by syntax, kinds drawn in turn: {', '.join(KINDS)}")
    print(f"by meaning: {', '.join(SEMANTIC_KINDS)}")
    print("idle ones change no design of their block, stillborn ones cannot be built: not counted")
    with ExitStack() as stack:
        lanes = [stack.enter_context(lane(ROOT)) for _ in range(options.processes)]
        folder = Path(stack.enter_context(TemporaryDirectory()))
        judge = Judge(
            ROOT, lanes, Store(anew=options.anew), folder, timeout=options.timeout,
            arguments=arguments,
        )
        stack.callback(judge.close)
        for each in lanes:
            stack.callback(each.stop)
        for campaign in campaigns:
            for group, pairs in campaign.found.items():
                print(f"{campaign.changes}, {group}:", flush=True)
                pairs += run_group(
                    judge, campaign.changes, group, seed=options.seed, until=until,
                    count=options.per_group or PER_GROUP[campaign.changes],
                )
                judge.confirm(each.how for _, each in pairs if each.verdict == "killed")
    for campaign in campaigns:
        print("\n".join(campaign.table()))
    values: dict[str, object] = {}
    for campaign in campaigns:
        prefix = "" if campaign.changes == "syntax" else "semantic_"
        counted = summary(outcome for _, outcome in campaign.all)
        values |= {f"{prefix}{name}": value for name, value in counted.items()}
        values[f"{prefix}target_pct"] = TARGET_PCT[campaign.changes]
        values[f"{prefix}survived"] = campaign.survivors()
        if campaign.changes == "semantic":
            values |= campaign.killed_by_kind()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result(
        "mutants",
        **values,
        seed=options.seed,
        minutes=(time.monotonic() - begin) / 60,
        cpu_minutes=(used.ru_utime + used.ru_stime) / 60,
        verdict="ok" if all(campaign.met for campaign in campaigns) else "short",
    )
    return 0
