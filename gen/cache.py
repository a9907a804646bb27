# SPDX-License-Identifier: Apache-2.0
"""The user's cache: files that are expensive to make, by the hash of what they depend on.

A file is made once, by one process, while others that need it wait. A partial file is never seen,
a damaged one is made again, and if the folder of the cache is not writable, a temporary one is
used. What makes files is imported then: most processes find all there.
"""

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = [
    "Announcer",
    "announce",
    "default_cache_dir",
    "intact",
    "kept",
    "set_announcer",
    "store",
]

_ABANDONED_S = 86400.0
"""Age from which on a scratch folder counts as left behind by a killed process."""

Announcer = Callable[[str], None]


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


_announcer: Announcer = _to_stderr
_told: set[str] = set()


def set_announcer(announcer: Announcer | None) -> Announcer:
    """Send notices of long work to *announcer* (None: stderr); returns the previous one.

    It gets lines such as ``compiling the simulator, once (about 20 s) ...``.
    """
    global _announcer
    before, _announcer = _announcer, announcer or _to_stderr
    return before


def announce(text: str) -> None:
    """Notify the user of long work in one line."""
    _announcer(text)


def default_cache_dir() -> Path:
    """``$FOLDWIRE_CACHE``, ``$XDG_CACHE_HOME/foldwire`` or ``~/.cache/foldwire``."""
    chosen = os.environ.get("FOLDWIRE_CACHE")
    if chosen:
        return Path(chosen)
    of_desktop = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(of_desktop):  # its specification says to ignore others
        return Path(of_desktop) / "foldwire"
    try:
        return Path("~/.cache/foldwire").expanduser()
    except RuntimeError:  # a user without a home
        return Path(os.devnull) / "foldwire"  # cannot be written: `kept` finds another place


def kept(
    name: str, make: Callable[[Path], None], *, doing: str, folder: Path | None = None
) -> Path:
    """Return the path of the file *name* of the cache, made now unless there is an intact one.

    Parameters
    ----------
    name : str
        Must have the hash of all that the contents depend on. Folders in it are made.
    make : callable
        Writes the contents to the path it is given; the folder of that is scratch space.
    doing : str
        Announced while it is made, as "compiling the simulator (about 20 s)"; empty for nothing.
    folder : Path or None
        Folder of the cache; `default_cache_dir()` if None.

    Raises
    ------
    OSError
        If neither the folder nor a temporary one can be written.
    """
    wanted = (default_cache_dir() if folder is None else folder).absolute()
    if intact(wanted / name):
        return wanted / name
    import shutil
    import tempfile

    trouble = None
    for place in _places(wanted):
        target = place / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        except OSError as error:
            trouble = trouble or error
            continue
        if trouble is not None:
            _tell_once(
                f"{wanted} cannot be written ({trouble}): using {place} "
                "(FOLDWIRE_CACHE chooses another folder)"
            )
        try:
            with _alone(target, doing):
                if not intact(target):
                    _make(target, scratch, make, doing)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return target
    assert trouble is not None
    raise trouble


def store(name: str, contents: bytes) -> None:
    """Keep *contents* as the file *name* of the cache, unless there is an intact one.

    For what a job of several files has finished, in place of a function that makes one of them.
    """
    kept(name, lambda target: _write(target, contents), doing="")


def _write(target: Path, contents: bytes) -> None:
    target.write_bytes(contents)


def _tell_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        announce(text)


def _places(wanted: Path) -> Iterator[Path]:
    """Folders to try, first the wanted one, then one that all processes of this user share."""
    yield wanted
    import tempfile

    user = os.getuid() if hasattr(os, "getuid") else 0
    shared = Path(tempfile.gettempdir()) / f"foldwire-{user}"
    with contextlib.suppress(OSError):
        shared.mkdir(mode=0o700, exist_ok=True)
        # Files there are executed: the folder must not be somebody else's.
        status = shared.lstat()
        if shared.is_dir() and not shared.is_symlink() and status.st_uid == user:
            if status.st_mode & 0o022 == 0:
                yield shared


def _digest_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.sha256")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def intact(target: Path) -> bool:
    """Return True if the file exists and is unchanged since it was made."""
    try:
        return _digest_of(target).read_text(encoding="ascii", errors="replace") == _sha256(target)
    except OSError:
        return False


def _make(target: Path, scratch: Path, make: Callable[[Path], None], doing: str) -> None:
    import shutil

    for other in target.parent.glob(f"{target.name}.*"):
        with contextlib.suppress(OSError):
            if other.is_dir() and time.time() - other.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(other)
    if doing:
        announce(f"{doing}, once ...")
    draft = scratch / target.name
    make(draft)
    digest = scratch / "sha256"
    digest.write_text(_sha256(draft), encoding="ascii")
    # The digest first: until the file follows, the two do not agree and the file is not used.
    digest.replace(_digest_of(target))
    draft.replace(target)


@contextlib.contextmanager
def _alone(target: Path, doing: str) -> Iterator[None]:
    """Run the block in one process at a time; the lock ends with the process that holds it.

    Where there are no locks (some network file systems), two may do the same; the last one wins.
    """
    lock = target.with_name(f"{target.name}.lock")
    with lock.open("a") as handle:
        try:
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                announce(f"waiting for a process that is {doing} ...")
                fcntl.flock(handle, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                lock.unlink(missing_ok=True)
