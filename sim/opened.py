# SPDX-License-Identifier: Apache-2.0
"""Record of the files that a description was made of: every reader notes what it opens, so that a
kept result can be checked against the present contents of these files.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

__all__ = ["ABSENT", "content_of", "opening", "recorded"]

ABSENT = ""
"""Stands for the contents of a file that cannot be read."""

_found: ContextVar[dict[Path, str] | None] = ContextVar("opened", default=None)


def content_of(path: Path) -> str:
    """A hash of the contents of a file; `ABSENT` if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]
    except (OSError, ValueError):
        return ABSENT


def opening(path: str | Path) -> Path:
    """Note *path* as a file that is about to be read, and return it for the reader to open."""
    path = Path(path)
    found = _found.get()
    if found is not None:
        found.setdefault(path.absolute(), content_of(path))
    return path


@contextmanager
def recorded() -> Iterator[dict[Path, str]]:
    """Files opened inside the context, with hashes of their contents, in the order of opening.

    An outer context has them as well.
    """
    found: dict[Path, str] = {}
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
        if (outer := _found.get()) is not None:
            for path, content in found.items():
                outer.setdefault(path, content)
