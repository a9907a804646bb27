# SPDX-License-Identifier: Apache-2.0
"""Output folders, checked for write access before hours of work."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["check_writable", "replace_text", "writing"]

_ATTEMPTS = 100


def check_writable(folder: Path) -> None:
    """Create *folder* and a file in it as a test, and remove what was not there before.

    Raises
    ------
    ValueError
        It cannot be written; the text names it and says why.
    """
    import tempfile

    with writing(folder):
        for attempt in range(_ATTEMPTS):
            missing = [each for each in (folder, *folder.parents) if not each.exists()]
            try:
                folder.mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=folder).close()
                return
            except FileNotFoundError:
                # Another command that checks the same folder has just removed what it had made.
                if attempt == _ATTEMPTS - 1:
                    raise
            finally:
                for each in missing:
                    with contextlib.suppress(OSError):
                        each.rmdir()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the system, such as a full disk, into a ValueError that names *path*.

    Raises
    ------
    ValueError
        As in :func:`check_writable`.
    """
    try:
        yield
    except FileExistsError as error:  # by mkdir: nothing else minds existing files
        raise ValueError(f"{path}: cannot be written: it is no folder") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror or error}") from error


def replace_text(path: Path, text: str) -> None:
    """Write a file atomically: concurrent readers and writers see all of it or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
