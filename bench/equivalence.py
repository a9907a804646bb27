# SPDX-License-Identifier: Apache-2.0
"""The text of every preset and component proved equal to Amaranth's netlist; presets replayed.

Every preset of the catalog and every component of `bench/parts.py` is proved as it is emitted,
module by module with parameters, loops and instances, through two readers. Errors are single
changes of a text, drawn by seed: one in each component; in each preset one in the value of a
parameter, one in the bound of a loop, one in a loop index, one in a connection of an instance.
An error that no proof finds is proved to change nothing. Recordings of presets at work as compiled
models are replayed on their texts under Verilator, and every output is compared in every cycle.
Answers are cached: a run that was stopped, or ran out of time, resumes.
"""

import argparse
import hashlib
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from random import Random
from typing import Any

from amaranth.hdl import UnusedElaboratable

from bench._proofs import COMPONENTS, PRESETS, Judged, LateError, Planted, Prover, component, preset
from bench._recordings import OF_PRESETS
from bench._replay import Verilator
from bench._verdicts import Verdicts
from bench.options import duration, whole
from bench.result import result
from bench.sources import digest
from foldwire.console import say
from gen.cache import default_cache_dir
from gen.verilator import has_verilator
from gen.verilog import emit
from gen.yosys import yosys_version

__all__ = ["Totals", "main", "shares"]

ROOT = Path(__file__).resolve().parent.parent
CYCLES = 1000
COMPONENTS_WANTED, MUTANTS_WANTED = 30, 40
MOST_MINUTES, CORES = 20, 2
LONG = (
    "ace/isca21", "ace/torus", "switch/16-port", "smartnic/400g", "switch-dma/6-link",
    "switch/8-port", "ace/wide", "ace/ring", "smartnic/100g",
)
"""Presets that take longest; they are started first."""


def shares(count: int, seed: int) -> dict[str, int]:
    """Distribute *count* errors over the components as evenly as possible, the rest by *seed*."""
    names = list(COMPONENTS)
    Random(seed).shuffle(names)
    drawn = Counter(names[number % len(names)] for number in range(count))
    return {name: drawn[name] for name in COMPONENTS if drawn[name]}


def _replay(name: str) -> tuple[int, int]:
    """Number of cycles recorded of a preset, and of those in which its text differs."""
    recording = OF_PRESETS[name]
    kept = Verdicts(default_cache_dir() / "replays")
    own = ("bench/records", "bench/_recording.py", "bench/_recordings.py", "bench/_replay.py")
    sources = digest(ROOT, ("hw", "gen", "sim", "tb", *own))
    key = hashlib.sha256(repr((name, sources, Verilator.version())).encode()).hexdigest()[:24]
    if known := kept.get(key):
        return known["cycles"], known["wrong"]
    text = emit(recording.component(), name="ace").text
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        trace = recording.trace(Path(folder))
        wrong = Verilator(text, trace, Path(folder), "-O1").mismatches()
    kept.put(key, {"cycles": len(trace.stimulus), "wrong": wrong})
    return len(trace.stimulus), wrong


@cache
def _prover(options: argparse.Namespace) -> Prover:
    return Prover(options.timeout, anew=options.anew, until=options.until)


class _Options(argparse.Namespace):
    """Options that can be hashed, so that each process caches one prover for them."""

    def __hash__(self) -> int:  # type: ignore[override]  # a Namespace has none
        return hash(self.until)


def _text(options: _Options, name: str, errors: int) -> tuple[Judged | None, Planted | None]:
    """Prove a text and judge errors planted in it; None for either if no time is left for it.

    Verdicts on the same sources by the same tools are reused without elaborating the design.
    """
    prover, seed = _prover(options), f"{options.seed} {name}"
    verdicts = Verdicts(default_cache_dir() / "texts", anew=options.anew)
    make = cache(partial(preset if name in PRESETS else component, name))
    judged, planted = None, None if errors else Planted()
    try:
        key = _key(name)
        judged = Judged.known_as(verdicts.get(key))
        if judged is None:
            judged = prover.proved(make)
            if not judged.checked.undecided:
                verdicts.put(key, asdict(judged))
        if errors:
            key = _key(name, seed, errors)
            planted = Planted.known_as(verdicts.get(key))
        if planted is None:
            planted = (
                prover.planted_in_structures(make, seed) if name in PRESETS
                else prover.planted(make, errors, seed)
            )
            if not planted.undecided:
                verdicts.put(key, asdict(planted.without_texts()))
    except LateError:
        pass
    return judged, planted


def _key(*what: object) -> str:
    return hashlib.sha256(repr((what, _sources())).encode()).hexdigest()[:24]


@cache
def _sources() -> tuple[str, ...]:
    """Versions of everything that a text and its proof depend on."""
    files = ("parts.py", "records", "_proofs.py", "text_mutants.py")
    own = digest(ROOT, ("hw", "gen", "foldwire", *(f"bench/{file}" for file in files)))
    return own, yosys_version(), metadata.version("amaranth")


def _in_time(until: float, work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of *work*; None if no time is left for it."""
    if time.time() > until:
        return None
    try:
        return work(*arguments)
    except LateError:
        return None


@dataclass
class Totals:
    """Totals over all tasks.

    Attributes
    ----------
    presets, proved_presets, replayed_presets:
        Presets that were checked, proved, and replayed without a difference.
    planted, refuted:
        Errors planted in presets, and found; `mutants` and `found` are those of components.
    left:
        Tasks for which no time was left.
    known:
        Answers taken from earlier runs.
    """

    presets: int = 0
    proved_presets: set[str] = field(default_factory=set)
    replayed_presets: set[str] = field(default_factory=set)
    components: int = 0
    proved: int = 0
    undecided: int = 0
    mismatches: int = 0
    mutants: int = 0
    found: int = 0
    planted: int = 0
    refuted: int = 0
    equivalent: int = 0
    left: int = 0
    known: int = 0

    @property
    def checked_presets(self) -> int:
        """Presets that both readers prove, module by module, and that were replayed."""
        return len(self.proved_presets & self.replayed_presets)

    def add_text(self, name: str, made: tuple[Judged | None, Planted | None]) -> None:
        """Count and print the verdicts on a text and on the errors in it."""
        judged, planted = made
        if judged is not None:
            self.add_proof(name, judged)
        if planted is None:
            self.add_late(f"{name}, errors" if judged is not None else name)
        elif planted.judged:
            self.add_planted(name, planted)

    def add_proof(self, name: str, judged: Judged) -> None:
        """Count and print a proof."""
        checked = judged.checked
        verdict = "proved" if checked.proved else checked.why
        say(f"  {name:28}{checked.parts:5} parts {checked.questions:4} questions "
            f"{checked.state:6} registers  {self._took([judged])}  {verdict}")
        if name in PRESETS:
            self.presets += 1
            self.proved_presets |= {name} if checked.proved else set()
        else:
            self.components += 1
            self.proved += checked.proved
        self.undecided += len(checked.undecided)

    def add_planted(self, name: str, planted: Planted) -> None:
        """Count and print the verdicts on errors."""
        tried, equal = len(planted.judged), len(planted.equivalent)
        undecided = len(planted.undecided)
        say(f"  {name:28}{planted.found} of {tried} errors  {self._took(planted.judged)}  found"
            + f", {equal} proved equivalent" * (equal > 0)
            + f", {undecided} undecided" * (undecided > 0))
        for what, mutants in (("equivalent", planted.equivalent), ("undecided", planted.undecided)):
            for mutant in mutants:
                say(f"    line {mutant.line}, {what}: {mutant.before} -> {mutant.after}")
        if name in PRESETS:
            self.planted += tried
            self.refuted += planted.found
        else:
            self.mutants += tried
            self.found += planted.found
        self.equivalent += equal
        self.undecided += undecided

    def add_replay(self, name: str, replay: tuple[int, int]) -> None:
        """Count and print a replay."""
        cycles, wrong = replay
        say(f"  {name}: {cycles} cycles replayed, {wrong} differ")
        if cycles >= CYCLES and not wrong:
            self.replayed_presets.add(name)
        self.mismatches += wrong

    def add_late(self, what: str) -> None:
        """Count and print a task for which no time was left."""
        say(f"  {what}: left for the next run")
        self.left += 1

    def _took(self, all_judged: Sequence[Judged]) -> str:
        known = sum(judged.known for judged in all_judged)
        asked = sum(judged.asked for judged in all_judged)
        self.known += known
        spent = sum(judged.cpu_s for judged in all_judged)
        return f"{spent:7.1f} s of CPU" + ", known" * (0 < known == asked)

    def good(self) -> bool:
        """True if everything was proved, refuted or replayed as wanted."""
        proofs = self.proved == self.components >= COMPONENTS_WANTED
        presets = self.checked_presets == self.presets == len(PRESETS)
        errors = (self.found + self.refuted + self.equivalent == self.mutants + self.planted
                  and self.mutants >= MUTANTS_WANTED and self.refuted >= self.presets)
        nothing_open = not (self.undecided or self.mismatches or self.left)
        return proofs and presets and errors and nothing_open


_Task = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[[str, Any], None]]


def _tasks(options: _Options, totals: Totals) -> Iterator[_Task]:
    """Yield name, work, its arguments and the receiver of its result; presets come first, those
    that take longest ahead of the others."""
    wanted = options.parts or [*PRESETS, *COMPONENTS]
    names = [*(name for name in LONG if name in wanted),
             *(name for name in wanted if name not in LONG)]
    presets = [name for name in names if name in PRESETS]
    for name in presets:
        yield name, _text, (options, name, int(options.mutants > 0)), totals.add_text
    if not has_verilator():
        say("Verilator is not installed: nothing is replayed")
    for name in presets if has_verilator() else ():  # a simulator is built for each
        yield f"{name}, replay", _replay, (name,), totals.add_replay
    planted = shares(options.mutants, options.seed)
    for name in names:
        if name not in PRESETS:
            yield name, _text, (options, name, planted.get(name, 0)), totals.add_text


def _start_worker() -> None:
    warnings.filterwarnings("ignore", category=UnusedElaboratable)  # parts that are only inspected


def _options(argv: Sequence[str]) -> _Options:
    parser = argparse.ArgumentParser(prog="python -m bench equivalence", description=__doc__)
    parser.add_argument("parts", nargs="*",
                        help="presets and components to prove; all if none is named")
    parser.add_argument("--mutants", type=whole(0), default=len(COMPONENTS),
                        help=f"how many errors to plant in components ({len(COMPONENTS)}, one in "
                             "each); none in presets if 0")
    parser.add_argument("--seed", type=int, default=1, help="of the draws (1)")
    parser.add_argument("--timeout", type=duration, default=300,
                        help="CPU seconds of a run of Yosys or ABC (300)")
    parser.add_argument("--minutes", type=duration, default=MOST_MINUTES - 1,
                        help=f"begin nothing new after so many ({MOST_MINUTES - 1})")
    parser.add_argument("--jobs", type=whole(), default=CORES,
                        help=f"processes at a time ({CORES})")
    parser.add_argument("--anew", action="store_true", help="prove again what was proved before")
    options = parser.parse_args(argv, _Options())
    for name in options.parts:
        if name not in COMPONENTS and name not in PRESETS:
            there = ", ".join([*PRESETS, *COMPONENTS])
            raise SystemExit(f"bench equivalence: no part {name!r}; there are: {there}")
    options.until = time.time() + 60 * options.minutes
    return options


def main(argv: Sequence[str]) -> int:
    """Print what was proved, found and replayed; nothing is proved twice."""
    options = _options(argv)
    start = time.perf_counter()
    totals = Totals()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context, initializer=_start_worker) as pool:
        running = {
            pool.submit(_in_time, options.until, work, *arguments): (name, taken)
            for name, work, arguments, taken in _tasks(options, totals)
        }
        try:
            for future in as_completed(running):
                name, taken = running[future]
                made = future.result()
                if made is None:
                    totals.add_late(name)
                else:
                    taken(name.partition(", ")[0], made)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # the pool is closed: all have ended
    minutes = (time.perf_counter() - start) / 60
    if totals.left:
        say(f"{totals.left} tasks are left; the same command goes on with them")
    counts = {name: len(value) if isinstance(value, set) else value
              for name, value in vars(totals).items()}
    result("equivalence", checked_presets=totals.checked_presets, **counts, minutes=minutes,
           cpu_minutes=(used.ru_utime + used.ru_stime) / 60,
           verdict="ok" if totals.good() else "short")
    return 0
