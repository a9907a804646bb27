# SPDX-License-Identifier: Apache-2.0
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
    """Stored measurements of a bench, from which an interrupted run resumes.

    Parameters
    ----------
    name:
        Name of the bench.
    key:
        Everything that the figures depend on: sources, options. Figures of another key are dropped.
    folder:
        Folder of the file; by default in the cache.
    fresh:
        Forget what an interrupted run has left.
    """

    def __init__(
        self, name: str, key: str, folder: Path | None = None, *, fresh: bool = False
    ) -> None:
        self._path = (folder or default_cache_dir() / "bench") / f"{name}.json"
        self._key = key
        self._parts: dict[str, _Part] = {}
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            if found["key"] == key:
                self._parts = found["parts"]
        except (OSError, ValueError, KeyError):
            pass  # no usable file
        if fresh:
            self.forget()

    def get(self, part: str, *, says: bool = True) -> dict[str, Any] | None:
        """Figures of a part, or None; with *says*, print when they were measured."""
        if part not in self._parts:
            return None
        kept = self._parts[part]
        if says:
            print(f"{part}: measured {kept['when']} at a load of {kept['load']:.1f}", flush=True)
        return kept["values"]

    def put(self, part: str, values: dict[str, Any]) -> None:
        """Store the figures of a part that has just been measured."""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        self._parts[part] = {"values": values, "when": now, "load": os.getloadavg()[0]}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self._path, json.dumps({"key": self._key, "parts": self._parts}))

    def forget(self) -> None:
        """Delete all figures, once they have been printed."""
        self._parts = {}
        self._path.unlink(missing_ok=True)
