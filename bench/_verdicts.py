# SPDX-License-Identifier: Apache-2.0
"""A cache of verdicts that are expensive to find: small files in the user's cache."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gen.folder import replace_text

__all__ = ["Verdicts"]


class Verdicts:
    """Verdicts by key, each a JSON object; several processes may read and write at a time.

    Parameters
    ----------
    folder:
        Folder of the files; created when needed.
    anew:
        Ignore verdicts that were stored before this object was created.
    """

    def __init__(self, folder: Path, *, anew: bool = False) -> None:
        self._folder = folder
        self._anew = anew
        self._own: set[str] = set()

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the verdict under *key*; None if there is none, or its file is damaged."""
        if self._anew and key not in self._own:
            return None
        try:
            kept = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return kept if isinstance(kept, dict) else None

    def put(self, key: str, verdict: Mapping[str, Any]) -> None:
        """Store *verdict* atomically: no reader sees half a file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_text(self._path(key), json.dumps(dict(verdict)))
        self._own.add(key)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"
