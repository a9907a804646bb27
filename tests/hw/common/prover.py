# SPDX-License-Identifier: Apache-2.0
"""Unbounded proofs about components: Yosys translates, ABC's reachability engine decides.

A harness is a component with an output `bad` that must stay 0 for ever, whatever its inputs do. All
inputs are free in every cycle, the reset included. Where a property holds only for inputs that
keep a rule, the harness itself remembers that the rule was broken and keeps `bad` low from then on.

A harness whose inputs can do nothing would prove anything. So it also has covers, outputs of one
bit whose names begin with ``cover_``: what must be able to happen, while the rule is kept, for the
proof to mean something (the third packet is delivered, an entry is used again). A proof whose
covers cannot all be reached within its bound fails.
"""

import inspect
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring

from gen.rtlil import MacroPlatform, to_rtlil
from gen.yosys import run_yosys

__all__ = [
    "COVER_CYCLES",
    "RECORD",
    "Proof",
    "assert_moore",
    "current_test",
    "ever",
    "holds",
    "note",
    "nth",
    "with_change",
]

COVER_CYCLES = 40
"""Cycles from reset in which the covers of an unbounded proof must be reached."""

RECORD = "FOLDWIRE_PROOFS"
"""Variable of the environment that names a file: each proof adds a line of JSON to it."""


@dataclass(kw_only=True)
class Proof:
    """What was proved, as the table of proofs has it.

    Members
    -------
    test:
        The test, from the root of the repository.
    subject:
        Class of the harness, or what is claimed.
    bound:
        Cycles from reset, or None where the proof has no bound.
    covers:
        What happens in it -> the cycle, from reset, of the first time.
    seconds:
        That it took, the covers included.
    """

    test: str
    subject: str
    bound: int | None
    covers: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def ever(m: Module, event: Value) -> Value:
    """High from the first time that *event* happens."""
    seen = Signal()
    with m.If(event):
        m.d.sync += seen.eq(1)
    return seen | event


def nth(m: Module, event: Value, number: int) -> Value:
    """High when *event* happens for the *number*-th time."""
    before = Signal(range(number + 1))
    with m.If(event & (before != number)):
        m.d.sync += before.eq(before + 1)
    return event & (before == number - 1)


def note(proof: Proof) -> None:
    """Add *proof* to the file that `RECORD` names, if it names one."""
    path = os.environ.get(RECORD)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(proof)) + "\n")


def current_test() -> str:
    """The test that runs."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def holds(
    harness: wiring.Component,
    folder: Path,
    *,
    macros: bool = False,
    twins: bool = False,
    cycles: int | None = None,
    cover_cycles: int | None = None,
    timeout: int = 300,
) -> bool:
    """Whether `bad` can never be 1; raises if ABC finds out neither way within *timeout* s.

    With *cycles* only that many cycles from reset are looked at, under all inputs. If it can never
    be 1, all covers must be reached within *cover_cycles*, by default *cycles* or, where the proof
    has no bound, `COVER_CYCLES`.

    With *macros*, SRAM is what the behavioural body of its macro says. With *twins*, registers that
    are always equal are merged first (by induction), which decides harnesses that compare two
    copies of a component.

    Raises
    ------
    AssertionError
        The harness has no cover, or there is one that cannot be reached.
    """
    begin = time.monotonic()
    covers = [name for name in harness.signature.members if name.startswith("cover_")]
    assert covers, f"{type(harness).__name__} has no output cover_..."
    _translate(harness, folder, covers, macros=macros)
    read = "read_aiger harness.aig; strash;" + ("scorr;" if twins else "")
    search = f"pdr -T {timeout}" if cycles is None else f"bmc3 -F {cycles} -T {timeout}"
    log, verdict = "", None
    if twins and cycles is None:
        # Merging may leave few registers or none: `dprove` decides such networks at once.
        log = _abc(folder, f"{read} dprove", timeout)
        verdict = _verdict(log, None)
    if verdict is None:
        log = _abc(folder, f"{read} {search}", timeout)
        verdict = _verdict(log, cycles)
    if verdict is None:
        raise RuntimeError(f"neither proved nor refuted:\n{log}")
    if not verdict:
        return False
    bound = cover_cycles or (COVER_CYCLES if cycles is None else cycles)
    reached = _reached(folder, covers, bound, timeout)
    missed = [name for name in covers if name not in reached]
    assert not missed, f"{type(harness).__name__}: {missed} not reached in {bound} cycles"
    note(Proof(
        test=current_test(), subject=type(harness).__name__, bound=cycles,
        covers={_words(name): reached[name] for name in covers},
        seconds=round(time.monotonic() - begin, 1),
    ))
    return True


def _verdict(log: str, cycles: int | None) -> bool | None:
    """Whether *log* says that `bad` is always 0; None if ABC could not tell."""
    # A network without registers is a matter of satisfiability, which has words of its own.
    if re.search(
        r"was asserted in frame|Networks are NOT EQUIVALENT|Output 0 .*asserted|^SATISFIABLE",
        log, re.MULTILINE | re.IGNORECASE,
    ):
        return False
    if re.search(r"Property proved|Networks are equivalent|^UNSATISFIABLE", log, re.MULTILINE) or (
        cycles is not None and re.search(rf"No output asserted in {cycles} frames", log)
    ):
        return True
    return None


def _words(cover: str) -> str:
    return cover.removeprefix("cover_").replace("_", " ")


def _translate(
    harness: wiring.Component, folder: Path, covers: list[str], *, macros: bool
) -> None:
    """Write ``harness.aig`` with the output `bad`, and ``N.aig`` with the cover of that number."""
    platform = MacroPlatform() if macros else None
    (folder / "harness.il").write_text(to_rtlil(harness, name="harness", platform=platform))
    (folder / "macros.v").write_text("".join(platform.sram_macros.values()) if platform else "")
    steps = [
        "read_verilog -nosynthesis macros.v",
        "read_rtlil harness.il",
        "hierarchy -check -top harness",
        "proc",
        "flatten",
        "memory -nomap",
        "memory_map",
        "opt -full",
        "design -save harness",
    ]
    for number, name in enumerate(["bad", *covers]):
        steps += [
            "design -load harness",
            # The wire itself must stay: others may read what it is called now.
            f"delete -output o:* o:{name} %d",
            "setattr -mod -unset keep",
            "opt_clean -purge",
            "techmap",
            "opt -full",
            "dfflegalize -cell $_DFF_P_ 01",
            "aigmap",
            "opt_clean -purge",
            f"write_aiger -zinit {f'cover_{number}' if number else 'harness'}.aig",
        ]
    run_yosys(steps, cwd=folder)


def _reached(folder: Path, covers: list[str], bound: int, timeout: int) -> dict[str, int]:
    """The covers that are reached within *bound* cycles, each with the first cycle, 1 the first."""
    found = {}
    for number, name in enumerate(covers, start=1):
        script = f"read_aiger cover_{number}.aig; strash; bmc3 -F {bound} -T {timeout}"
        asserted = re.search(r"asserted in frame (\d+)", _abc(folder, script, timeout))
        if asserted:
            found[name] = int(asserted.group(1)) + 1
    return found


def _abc(folder: Path, script: str, timeout: int) -> str:
    """What ABC says."""
    abc = Path(str(metadata.distribution("pyosys").locate_file("pyosys"))) / "yosys-abc"
    return subprocess.run(
        [str(abc), "-c", script], cwd=folder, capture_output=True, text=True,
        timeout=timeout + 60, check=True,
    ).stdout


def assert_moore(component: wiring.Component, folder: Path, *, but: str = "") -> None:
    """Fail if an output depends on an input combinationally.

    *but* selects outputs that may, as a Yosys selection such as ``"o:i_ready"``.
    """
    (folder / "design.il").write_text(to_rtlil(component, name="design"))
    run_yosys(
        [
            "read_rtlil design.il",
            "hierarchy -check -top design",
            "proc",
            "flatten",
            "memory",
            "opt -full",
            "techmap",
            "opt -full",
            "dfflegalize -cell $_DFF_P_ 01",
            f"select -set judged o:* {but} %d" if but else "select -set judged o:*",
            "select -assert-min 1 @judged",
            "select -assert-none @judged %cie*:-$_DFF_P_ i:* %i",
        ],
        cwd=folder,
    )


def with_change(module: ModuleType, name: str, old: str, new: str, *, of: str = "") -> Any:
    """The component *name* of a module whose text *old*, which is there once, is *new*; the text of
    the class *of*, too, which *name* uses."""
    classes = [getattr(module, each) for each in (of, name) if each]
    text = "".join(map(inspect.getsource, classes))
    assert text.count(old) == 1, old
    names: dict[str, Any] = {}
    for each in classes:
        names |= vars(sys.modules[each.__module__])
    exec(text.replace(old, new), names)
    return names[name]
