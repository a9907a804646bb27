# SPDX-License-Identifier: Apache-2.0
"""A hash of sources: which state of the code a stored figure belongs to."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from bench.rooms import PRODUCT

__all__ = ["digest"]

ENDINGS = {".py", ".hpp", ".cpp", ".cc", ".h", ".json", ".toml", ".txt", ".csv", ".j2"}


def digest(root: Path, places: Sequence[str] = PRODUCT) -> str:
    """Twelve hexadecimal digits of the names and contents of all source files in *places*, folders
    or files."""
    found = hashlib.sha256()
    for place in sorted(places):
        inside = (root / place).rglob("*") if (root / place).is_dir() else [root / place]
        for path in sorted(inside):
            if path.suffix in ENDINGS and "__pycache__" not in path.parts:
                found.update(path.relative_to(root).as_posix().encode() + b"\0")
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]
