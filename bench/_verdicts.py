"""What has been found out once and is not found out again: small files in the user's cache."""

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
        Where they are; it is made when it is needed.
    anew:
        Know nothing of what was kept before this object was made.
    """

    def __init__(self, folder: Path, *, anew: bool = False) -> None:
        self._folder = folder
        self._anew = anew
        self._own: set[str] = set()

    def get(self, key: str) -> dict[str, Any] | None:
        """What is kept under *key*; None if it is nothing, or damaged."""
        if self._anew and key not in self._own:
            return None
        try:
            kept = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return kept if isinstance(kept, dict) else None

    def put(self, key: str, verdict: Mapping[str, Any]) -> None:
        """Keep *verdict*; half a file is never seen."""
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_text(self._path(key), json.dumps(dict(verdict)))
        self._own.add(key)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"
