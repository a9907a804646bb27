"""The C++ compiler of this machine."""

import functools
import os
import shutil
import subprocess

__all__ = ["CompileError", "compiler_version", "find_compiler"]


class CompileError(RuntimeError):
    """The C++ compiler is missing or refused the generated code."""


def find_compiler() -> tuple[str, str]:
    """Path and version of ``$CXX``, or else of g++, clang++ or c++, whichever comes first.

    The version is all that the compiler says of itself in one line.

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
    """What a C++ compiler says of itself in one line.

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
