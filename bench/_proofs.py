# SPDX-License-Identifier: Apache-2.0
"""Proofs of designs and of texts with a planted error, each made once and cached by content."""

import hashlib
import itertools
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import gen.sv.miter
import gen.sv.netlists
import gen.sv.question
import gen.yosys
from bench._verdicts import Verdicts
from bench.parts import PARTS, WHOLE
from bench.text_mutants import STRUCTURES, Mutant, draw, draw_in_structures
from foldwire.catalog import CATALOG, build
from gen.cache import default_cache_dir
from gen.sv.proof import READERS, Checked, ProofDesign, check, design
from gen.sv.question import Proof, Question, prove
from gen.yosys import YosysError, YosysTimeoutError, yosys_version

__all__ = [
    "COMPONENTS", "PRESETS", "Judged", "LateError", "Planted", "Prover", "component", "preset",
]

COMPONENTS = {**PARTS, **WHOLE}
PRESETS = [f"{name}/{preset}" for name, entry in CATALOG.items() for preset in entry.presets]
_TRIES = 12  # mutants of a kind that are tried until one can be read


class LateError(Exception):
    """No time is left for a new proof."""


@dataclass(frozen=True)
class Judged:
    """Verdict on a text, the CPU seconds that it took, and how much of it was known before.

    Attributes
    ----------
    asked, known:
        Questions asked, and how many of them an earlier run or another text had answered.
    """

    checked: Checked
    cpu_s: float
    asked: int
    known: int

    @classmethod
    def known_as(cls, kept: Mapping[str, Any] | None) -> Self | None:
        """Restore one from its `dataclasses.asdict`, all answers known; None if *kept* is None."""
        if kept is None:
            return None
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in kept["checked"].items()
        }
        return cls(Checked(**fields), kept["cpu_s"], kept["asked"], kept["asked"])


@dataclass(frozen=True)
class Planted:
    """Verdicts on the errors planted in one design."""

    found: int = 0
    undecided: tuple[Mutant, ...] = ()
    equivalent: tuple[Mutant, ...] = ()
    judged: tuple[Judged, ...] = field(default=(), repr=False)

    @classmethod
    def known_as(cls, kept: Mapping[str, Any] | None) -> Self | None:
        """Restore one from its `dataclasses.asdict`; None if *kept* is None."""
        if kept is None:
            return None
        undecided, equivalent = (
            tuple(Mutant(**each) for each in kept[name]) for name in ("undecided", "equivalent")
        )
        judged = (Judged.known_as(each) for each in kept["judged"])
        return cls(kept["found"], undecided, equivalent, tuple(filter(None, judged)))

    def without_texts(self) -> Self:
        """A copy whose mutants have no texts."""
        undecided, equivalent = (
            tuple(replace(each, text="") for each in mutants)
            for mutants in (self.undecided, self.equivalent)
        )
        return replace(self, undecided=undecided, equivalent=equivalent)


def component(name: str) -> ProofDesign:
    """One of `COMPONENTS`, elaborated."""
    return design(COMPONENTS[name])


def preset(name: str) -> ProofDesign:
    """One of `PRESETS`, elaborated."""
    kind, _, chosen = name.partition("/")
    top = build(kind, chosen, {}).top
    return design(lambda: build(kind, chosen, {}).component, top)


class Prover:
    """Proves texts; answers of earlier runs to the same question, method and tools are reused.

    Parameters
    ----------
    timeout:
        CPU seconds of each program; a question that exceeds it is asked again next time.
    verdicts:
        Folder of the verdicts; by default in the user's cache.
    anew:
        Ignore answers of earlier runs.
    until:
        Time, on the clock of `time.time`, after which `LateError` replaces a new proof.
    """

    def __init__(
        self, timeout: float, *, verdicts: Path | None = None, anew: bool = False,
        until: float | None = None,
    ) -> None:
        self._timeout = timeout
        self._until = until
        self._verdicts = Verdicts(verdicts or default_cache_dir() / "proofs", anew=anew)
        self._asked = self._known = 0
        self._known_s = 0.0

    def judge(
        self, made: ProofDesign, text: str | None = None, *,
        readers: tuple[str, ...] = tuple(READERS), first: bool = False,
    ) -> Judged:
        """Check *made*, or *text* in its place, against the netlist from Amaranth.

        Raises
        ------
        YosysError
            The text cannot be read.
        LateError
            There is no time left for a proof that is needed.
        """
        self._asked = self._known = 0
        self._known_s = 0.0
        before = _spent()
        try:
            checked = check(made, text, readers=readers, decide=self._decide,
                            timeout=self._timeout, first=first)
        except YosysTimeoutError as error:
            checked = _undecided(error)
        spent = _spent() - before + self._known_s
        return Judged(checked, spent, self._asked, self._known)

    def proved(self, make: Callable[[], ProofDesign]) -> Judged:
        """Prove the text of a design as emitted; undecided if it cannot be read."""
        self._in_time()
        before = _spent()
        try:
            return self.judge(make())
        except YosysError as error:
            return Judged(_undecided(error), _spent() - before, 0, 0)

    def planted(self, make: Callable[[], ProofDesign], count: int, seed: str) -> Planted:
        """Plant *count* errors in a design, one at a time; texts that no tool reads are redrawn."""
        self._in_time()
        made = make()
        mutants = draw(made.text, 8 * count, seed)
        return self._found(made, [iter(mutants)] * count)

    def planted_in_structures(self, make: Callable[[], ProofDesign], seed: str) -> Planted:
        """Plant an error in each of `STRUCTURES` that the text of a design has."""
        self._in_time()
        made = make()
        drawn = draw_in_structures(made.text, seed)
        return self._found(made, [drawn[kind] for kind in STRUCTURES])

    def _found(self, made: ProofDesign, sources: list[Iterator[Mutant]]) -> Planted:
        """Judge the first readable text of each of *sources*."""
        judged: list[Judged] = []
        equivalent, undecided = [], []
        for source in sources:
            for mutant in itertools.islice(source, _TRIES):
                try:
                    verdict = self.judge(made, mutant.text, readers=("yosys",), first=True)
                except YosysError:
                    continue
                judged.append(verdict)
                if verdict.checked.proved:
                    equivalent.append(mutant)
                elif not verdict.checked.wrong:
                    undecided.append(mutant)
                break
        found = len(judged) - len(equivalent) - len(undecided)
        return Planted(found, tuple(undecided), tuple(equivalent), tuple(judged))

    def _in_time(self) -> None:
        if self._until is not None and time.time() > self._until:
            raise LateError

    def _decide(self, question: Question) -> Proof:
        self._asked += 1
        key = hashlib.sha256(repr((question.key(), _method())).encode()).hexdigest()[:24]
        if kept := self._verdicts.get(key):
            self._known += 1
            self._known_s += kept["cpu_s"]
            return Proof(**kept["proof"])
        self._in_time()
        before = _spent()
        try:
            proof = prove(question, timeout=self._timeout)
        except YosysTimeoutError as error:
            why = str(error).partition("\n")[0]
            return Proof(proved=False, undecided=True, why=why, state=0)
        if not proof.undecided:
            self._verdicts.put(key, {"proof": asdict(proof), "cpu_s": _spent() - before})
        return proof


@cache
def _method() -> tuple[str, ...]:
    """Versions that an answer depends on besides the question: tools and own code."""
    files = [Path(module.__file__ or "") for module in (
        gen.sv.miter, gen.sv.netlists, gen.sv.question, gen.yosys
    )]
    files.append(files[-1].with_name("yosys_worker.py"))
    return (yosys_version(), *(hashlib.sha256(each.read_bytes()).hexdigest() for each in files))


def _undecided(error: YosysError) -> Checked:
    said = [line for line in error.log.splitlines() if line.startswith("ERROR:")]
    why = said[-1] if said else str(error).partition("\n")[0]
    return Checked(undecided=(why,), wrong=(), parts=0, questions=0, state=0)


def _spent() -> float:
    """CPU seconds of the children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
