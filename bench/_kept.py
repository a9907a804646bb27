"""Figures of the parts of a long bench, kept until a run has printed all of them."""

import json
import os
import time
from pathlib import Path
from typing import Any, TypedDict

from gen.cache import default_cache_dir
from gen.folder import replace_text

__all__ = ["Kept"]


class _Part(TypedDict):
    values: dict[str, Any]
    when: str
    load: float


class Kept:
    """What was measured of a bench; a run that was interrupted goes on where it was.

    Parameters
    ----------
    name:
        Of the bench.
    key:
        All that the figures depend on: sources, options. Those of another key are forgotten.
    folder:
        Instead of one in the cache.
    """

    def __init__(self, name: str, key: str, folder: Path | None = None) -> None:
        self._path = (folder or default_cache_dir() / "bench") / f"{name}.json"
        self._key = key
        self._parts: dict[str, _Part] = {}
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            if found["key"] == key:
                self._parts = found["parts"]
        except (OSError, ValueError, KeyError):
            pass  # nothing that can be used

    def get(self, part: str, *, says: bool = True) -> dict[str, Any] | None:
        """Figures of a part, if they are kept; it *says* when they were measured."""
        if part not in self._parts:
            return None
        kept = self._parts[part]
        if says:
            print(f"{part}: measured {kept['when']} at a load of {kept['load']:.1f}", flush=True)
        return kept["values"]

    def put(self, part: str, values: dict[str, Any]) -> None:
        """Keep the figures of a part that has just been measured."""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        self._parts[part] = {"values": values, "when": now, "load": os.getloadavg()[0]}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self._path, json.dumps({"key": self._key, "parts": self._parts}))

    def forget(self) -> None:
        """All of them have been printed."""
        self._parts = {}
        self._path.unlink(missing_ok=True)
