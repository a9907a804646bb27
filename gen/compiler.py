# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler of this machine."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["CompileError", "compiler_version", "find_compiler", "vector_flags"]


class CompileError(RuntimeError):
    """The C++ compiler is missing or refused the generated code."""


def find_compiler() -> tuple[str, str]:
    """Path and version of ``$CXX``, or else of g++, clang++ or c++, whichever comes first.

    The version is the first line that ``--version`` prints.

    Raises
    ------
    CompileError
        There is none; the text says what to install.
    """
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["g++", "clang++", "c++"]:
        path = shutil.which(name)
        if path is not None:
            return path, compiler_version(path)
    raise CompileError(
        f"no C++ compiler: {'CXX=' + wanted if wanted else 'g++, clang++ or c++'} is not on PATH; "
        "install one (Debian, Ubuntu: apt-get install g++) or set CXX"
    )


@functools.cache
def compiler_version(compiler: str) -> str:
    """First line that a C++ compiler prints for ``--version``.

    Raises
    ------
    CompileError
        It does not run.
    """
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        raise CompileError(f"{compiler}: no C++ compiler ({error})") from error


_VECTORS = {"avx2": "-mavx2", "avx512f": "-mavx512f", "avx512vl": "-mavx512vl",
            "avx512dq": "-mavx512dq", "avx512bw": "-mavx512bw"}


@functools.cache
def vector_flags() -> tuple[str, ...]:
    """Compiler flags for the vector units in /proc/cpuinfo; none where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    has = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    return tuple(flag for name, flag in _VECTORS.items() if name in has)
