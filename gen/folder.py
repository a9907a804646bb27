"""Folders that results go to, tried before hours of work."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["check_writable", "writing"]


def check_writable(folder: Path) -> None:
    """Make *folder* and a file in it, and take away again what was not there before.

    Raises
    ------
    ValueError
        It cannot be written; the text names it and says why.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    with writing(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        finally:
            for each in missing:
                with contextlib.suppress(OSError):
                    each.rmdir()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the system, such as a full disk, name *path*.

    Raises
    ------
    ValueError
        As of :func:`check_writable`.
    """
    try:
        yield
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror or error}") from error
