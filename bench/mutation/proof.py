# SPDX-License-Identifier: Apache-2.0
"""Proves that a changed design is equivalent to the original: Yosys makes a miter, ABC decides.

The modules that a change touched are tried by themselves first: modules that are equal for all
inputs are equal in every design, and are proved in seconds where a whole engine takes minutes.
"""

import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.mutation.designs import TOP
from gen.yosys import YosysError, run_yosys

__all__ = ["BOUND", "equivalent"]

BOUND = 30
"""Cycles from reset that a bounded proof covers."""

_WHOLE_BYTES = 1 << 20  # RTLIL; proofs of larger designs as a whole did not finish


def equivalent(pairs: Iterable[tuple[Path, Path]], *, timeout: int = 60) -> str | None:
    """Prove each pair of RTLIL files equal; None unless all proofs succeed.

    Each pair is proved in the modules that differ, or as a whole if that fails and it is no engine.
    All inputs are free in every cycle, the reset included. SRAM has the bodies of its macros from
    the file beside each one with the ending ``.v``. The answer is ``"for ever"`` or, if one proof
    is only a bounded one, ``"for 30 cycles"``.
    """
    bounded = False
    for before, after in pairs:
        if before.read_bytes() == after.read_bytes():
            continue
        changed = changed_modules(before.read_text(), after.read_text())
        answers = [_equal(before, after, top, timeout) for top in changed]
        small = before.stat().st_size <= _WHOLE_BYTES
        if None in answers and changed != [TOP] and small:
            answers = [_equal(before, after, TOP, timeout)]
        if None in answers:
            return None
        bounded |= True in answers
    return f"for {BOUND} cycles" if bounded else "for ever"


def changed_modules(before: str, after: str) -> list[str]:
    """Names of the outermost modules that differ; a parent in place of one whose ports differ.

    Modules are named as Amaranth names them: the path of the instance, ``design.port.fifo``.
    """
    one, other = _modules(before), _modules(after)
    found = {name for name in {*one, *other} if one.get(name) != other.get(name)}
    for name in sorted(found, key=len, reverse=True):
        while name != TOP and (name not in one or name not in other or (
            _PORT.findall(one[name]) != _PORT.findall(other[name])
        )):
            name = name.rpartition(".")[0]
        found.add(name)
    return sorted(
        name for name in found
        if not any(name != holder and name.startswith(f"{holder}.") for holder in found)
    )


_MODULE = re.compile(r"^module \\(\S+)$(.*?)^end$", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"^  wire .*?((?:width \d+ )?(?:input|output|inout) \d+.*)$", re.MULTILINE)
_SOURCE = re.compile(r'^ *attribute \\src ".*"\n', re.MULTILINE)


def _modules(text: str) -> dict[str, str]:
    """Name of a module -> its body without source locations."""
    return {name: _SOURCE.sub("", body) for name, body in _MODULE.findall(text)}


def _equal(before: Path, after: Path, top: str, timeout: int) -> bool | None:
    """Prove module *top* the same: True if the proof is bounded, False if not, None if none."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        steps: list[str] = []
        for name, path in (("gold", before), ("gate", after)):
            (folder / f"{name}.il").write_bytes(path.read_bytes())
            (folder / f"{name}.v").write_bytes(path.with_suffix(".v").read_bytes())
            steps += [
                f"read_verilog -nosynthesis {name}.v",
                f"read_rtlil {name}.il",
                f"hierarchy -check -top {top}",
                "proc",
                "flatten",
                f"rename {top} {name}",
                f"design -stash {name}",
            ]
        try:
            run_yosys(
                [
                    *steps,
                    "design -copy-from gold gold",
                    "design -copy-from gate gate",
                    "miter -equiv -flatten gold gate miter",
                    "hierarchy -top miter",
                    "memory -nomap",
                    "memory_map",
                    "setattr -mod -unset keep",
                    "opt -full",
                    "opt_clean -purge",
                    "techmap",
                    "opt -full",
                    "dfflegalize -cell $_DFF_P_ 01",
                    "aigmap",
                    "opt_clean -purge",
                    "write_aiger -zinit miter.aig",
                ],
                cwd=folder,
                timeout=4 * timeout,
            )
        except YosysError:
            return None
        for commands in ("scorr; dprove", f"pdr -T {timeout}"):
            equal = _abc(folder, commands, timeout)
            if equal is not None:
                return False if equal else None
        return True if _abc(folder, f"bmc3 -F {BOUND} -T {timeout}", timeout) else None


def _abc(folder: Path, commands: str, timeout: int) -> bool | None:
    """Run ABC on the miter: True if equal, False if different, None if undecided."""
    abc = Path(str(metadata.distribution("pyosys").locate_file("pyosys"))) / "yosys-abc"
    try:
        log = subprocess.run(
            [str(abc), "-c", f"read_aiger miter.aig; strash; {commands}"],
            cwd=folder, capture_output=True, text=True, timeout=3 * timeout, check=True,
        ).stdout
    except subprocess.SubprocessError:
        return None
    if re.search(r"asserted in frame|are not equivalent|^SATISFIABLE", log, re.MULTILINE):
        return False
    proved = rf"^UNSATISFIABLE|Property proved|are equivalent|No output failed in {BOUND} frames"
    return True if re.search(proved, log, re.MULTILINE) else None
