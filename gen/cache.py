"""Where results that are expensive to make are kept, by the hash of what they depend on."""

import os
from pathlib import Path

__all__ = ["default_cache_dir"]


def default_cache_dir() -> Path:
    """`$FOLDWIRE_CACHE`, or `build/cache` under the current directory."""
    return Path(os.environ.get("FOLDWIRE_CACHE") or Path("build") / "cache")
