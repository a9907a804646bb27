"""A hash of sources: which state of the code a stored figure belongs to."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from bench.rooms import PRODUCT

__all__ = ["digest"]

ENDINGS = {".py", ".hpp", ".cpp", ".cc", ".h", ".json", ".toml", ".txt", ".csv", ".j2"}


def digest(root: Path, folders: Sequence[str] = PRODUCT) -> str:
    """Twelve hexadecimal digits of the names and contents of all source files in *folders*."""
    found = hashlib.sha256()
    for folder in sorted(folders):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in ENDINGS and "__pycache__" not in path.parts:
                found.update(path.relative_to(root).as_posix().encode() + b"\0")
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]
