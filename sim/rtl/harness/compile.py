# SPDX-License-Identifier: Apache-2.0
"""Builds the co-simulation harness once and keeps it, by content, beside the compiled engines."""

import hashlib
import subprocess
from pathlib import Path

from gen.cache import kept
from gen.compiler import CompileError, find_compiler

__all__ = ["build_harness"]

_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra")
_HERE = Path(__file__).parent


def build_harness(cache_dir: Path | None = None) -> Path:
    """Path of the harness as a shared object; compiles it unless the cache already has it.

    The cache is ``cache_dir``, or the one that compiled models use.
    """
    compiler, version = find_compiler()
    sources = sorted([*_HERE.glob("*.hpp"), *_HERE.glob("*.cpp")])
    key = hashlib.sha256()
    key.update(f"{version}\0{' '.join(_FLAGS)}\0".encode())
    for path in sources:
        key.update(path.read_bytes() + b"\0")

    def make(target: Path) -> None:
        command = [compiler, *_FLAGS, str(_HERE / "harness.cpp"), "-o", str(target), "-ldl"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise CompileError(
                f"{compiler} ended with status {result.returncode}:\n{result.stderr[-3000:]}"
            )

    name = f"harness-{key.hexdigest()[:24]}.so"
    return kept(name, make, doing="compiling the co-simulation (about 10 s)", folder=cache_dir)
