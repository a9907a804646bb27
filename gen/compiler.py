"""The C++ compiler of this machine."""

import os
import shutil
import subprocess

__all__ = ["CompileError", "find_compiler"]


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
            version = subprocess.run(
                [path, "--version"], capture_output=True, text=True, check=True
            ).stdout.splitlines()[0]
            return path, version
    raise CompileError(
        f"no C++ compiler: {'CXX=' + wanted if wanted else 'g++, clang++ or c++'} is not on PATH; "
        "install one (Debian, Ubuntu: apt-get install g++) or set CXX"
    )
