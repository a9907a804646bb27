"""How the cycle model is compiled.

Numba keeps what it has compiled, and compiles a function again when its own file has changed; it
does not see that a file has changed from which it calls. So when any file of this package is newer
than what was kept, all of that is dropped.
"""

from collections.abc import Iterator
from pathlib import Path

from numba import config, njit

__all__ = ["compiled"]

compiled = njit(cache=True, error_model="numpy")
"""Decorator for the functions of the model: kept, and dividing without a look at zero."""


def _kept(package: Path) -> Iterator[Path]:
    """Index files of what Numba keeps of this package."""
    yield from (package / "__pycache__").glob("*.nbi")
    elsewhere = getattr(config, "CACHE_DIR", "")
    if elsewhere:
        for folder in Path(elsewhere).glob(f"{package.name}_*"):
            yield from folder.glob("*.nbi")


def drop_outdated(package: Path = Path(__file__).parent) -> int:
    """Drop what was kept before the last change of a file; returns how many functions."""
    changed = max(source.stat().st_mtime for source in package.glob("*.py"))
    dropped = 0
    for index in list(_kept(package)):
        try:
            if index.stat().st_mtime < changed:
                index.unlink()
                dropped += 1
        except FileNotFoundError:  # another process was faster
            continue
    return dropped


drop_outdated()
