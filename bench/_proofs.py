"""Proofs of components and of texts with an error in them, each made once and kept by content."""

import hashlib
import resource
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

import gen.sv.proof
import gen.yosys
from bench._verdicts import Verdicts
from bench.parts import MULTIPLIERS, PARTS, WHOLE
from bench.text_mutants import Mutant, draw
from gen.cache import default_cache_dir
from gen.sv.proof import Proof, Side, prove, reference, written
from gen.sv.writer import Text
from gen.yosys import YosysError, YosysTimeoutError, yosys_version

__all__ = ["COMPONENTS", "Component", "Judged", "Planted", "Prover"]

COMPONENTS = {**PARTS, **WHOLE}


@dataclass(frozen=True)
class Judged:
    """A proof, the CPU seconds that it took, and whether it was made in an earlier run."""

    proof: Proof
    cpu_s: float
    known: bool


@dataclass(frozen=True)
class Planted:
    """What became of the errors in one component."""

    found: int = 0
    undecided: tuple[Mutant, ...] = ()
    equivalent: tuple[Mutant, ...] = ()
    judged: tuple[Judged, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Component:
    """Both sides of a component of `COMPONENTS`: Amaranth's netlist and our text."""

    gold: Side
    gate: Side
    text: Text
    narrow: bool

    @classmethod
    def named(cls, name: str) -> "Component":
        """Elaborate it."""
        make = COMPONENTS[name]
        gate, text = written(make)
        return cls(reference(make), gate, text, name in MULTIPLIERS)


class Prover:
    """Proves, or knows it from an earlier run: of equal texts, by the same method and tools.

    Parameters
    ----------
    timeout:
        CPU seconds of a run of Yosys; who runs into it is asked again next time.
    verdicts:
        Where verdicts are kept; in the user's cache unless given.
    anew:
        Trust no earlier run.
    """

    def __init__(
        self, timeout: float, *, verdicts: Path | None = None, anew: bool = False
    ) -> None:
        self._timeout = timeout
        self._verdicts = Verdicts(verdicts or default_cache_dir() / "proofs", anew=anew)

    def prove(self, component: Component, text: str | None = None) -> Judged:
        """Whether *component*, or *text* in its place, is what Amaranth says.

        Raises
        ------
        YosysError
            It cannot be read.
        """
        gate = component.gate if text is None else replace(component.gate, text=text)
        key = self._key(component, gate)
        if kept := self._verdicts.get(key):
            return Judged(Proof(**kept["proof"]), kept["cpu_s"], True)
        before = _spent()
        try:
            proof = prove(component.gold, gate, component.text, timeout=self._timeout,
                          narrow=component.narrow)
        except YosysTimeoutError as error:
            proof = _undecided(error)
        judged = Judged(proof, _spent() - before, False)
        if not proof.undecided:
            self._verdicts.put(key, {"proof": asdict(proof), "cpu_s": judged.cpu_s})
        return judged

    def proved(self, name: str) -> Judged:
        """The proof of a component as it is; undecided if it cannot be read."""
        before = _spent()
        try:
            return self.prove(Component.named(name))
        except YosysError as error:
            return Judged(_undecided(error), _spent() - before, False)

    def planted(self, name: str, count: int, seed: int) -> Planted:
        """*count* errors in a component, one at a time; what no tool reads is drawn again."""
        component = Component.named(name)
        judged: list[Judged] = []
        equivalent, undecided = [], []
        for mutant in draw(component.gate.text, 8 * count, f"{seed} {name}"):
            if len(judged) == count:
                break
            try:
                verdict = self.prove(component, mutant.text)
            except YosysError:
                continue
            judged.append(verdict)
            if verdict.proof.undecided:
                undecided.append(mutant)
            elif verdict.proof.proved:
                equivalent.append(mutant)
        found = len(judged) - len(equivalent) - len(undecided)
        return Planted(found, tuple(undecided), tuple(equivalent), tuple(judged))

    def _key(self, component: Component, gate: Side) -> str:
        parts = (component.gold, gate, component.text.registers, component.text.boxes,
                 component.narrow, _method())
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


@cache
def _method() -> tuple[str, ...]:
    """What a proof hangs on beside the two texts."""
    files = [Path(gen.sv.proof.__file__), Path(gen.yosys.__file__)]
    files.append(files[1].with_name("yosys_worker.py"))
    return (yosys_version(), *(hashlib.sha256(each.read_bytes()).hexdigest() for each in files))


def _undecided(error: YosysError) -> Proof:
    why = str(error).partition("\n")[0]
    return Proof(proved=False, undecided=True, why=why, state=0, seconds=0.0)


def _spent() -> float:
    """CPU seconds of the children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
