# SPDX-License-Identifier: Apache-2.0
"""The points of a sweep, their keys, and the folder that keeps their results."""

import errno
import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from gen.folder import writing
from sim.opened import content_of
from sim.sweep.spec import Changes, SweepSpec

__all__ = ["Metrics", "Point", "Result", "ResultFolder", "make_points"]

Metrics: TypeAlias = dict[str, float | int | str]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of a sweep. ``key`` names it by everything that its result depends on; ``load``:
    Python files that are run before it."""

    key: str
    changes: Changes
    config: dict[str, Any]
    source: str
    load: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a point: metrics, or the text of its error.

    ``files``: those read for it, path relative to the folder of the sweep's base, and a hash of
    the contents (empty where the file could not be read).
    """

    metrics: Metrics | None = None
    error: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


def make_points(
    spec: SweepSpec, *, runner: str, version: str, load: Sequence[Path] = ()
) -> list[Point]:
    """All points of *spec* in order.

    The key is a hash of the full configuration, of the contents of the files that it names, of
    its runner, of the version of the package, and of the files to *load*. Files that are named
    otherwise (by a file, or without their suffix) are found when the point runs: see
    `Result.files`.
    """
    folder = Path(spec.source).parent
    loaded = tuple(str(each.absolute()) for each in load)
    needed = {each.name: content_of(each) for each in load}
    contents: dict[str, str] = {}
    points = []
    for changes in spec.points():
        config = spec.config(changes)
        for name in _texts(config):
            if name not in contents:
                contents[name] = _digest(folder / name)
        files = {name: contents[name] for name in sorted(set(_texts(config))) if contents[name]}
        meant = [config, files, runner, version, *([needed] if needed else [])]
        text = json.dumps(meant, sort_keys=True, default=str, ensure_ascii=False)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        points.append(Point(
            key=key, changes=changes, config=config, source=spec.source, load=loaded
        ))
    return points


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _digest(path: Path) -> str:
    """Hash of the contents of a file, or of the execution traces with this prefix; else empty."""
    digest = hashlib.sha256()
    try:
        if path.is_file():
            files = [path]
        elif path.with_name(f"{path.name}.0.et").is_file():
            files = sorted(path.parent.glob(f"{glob.escape(path.name)}.*.et"))
        else:
            return ""
        for file in files:
            digest.update(file.name.encode() + file.read_bytes())
    except (OSError, ValueError):
        return ""  # a text that is no path
    return digest.hexdigest()


def _checksum(key: str, result: Result) -> str:
    kept = [key, result.metrics, result.error, dict(result.files)]
    text = json.dumps(kept, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _place(point: Point) -> int:
    """The byte that stands for a point."""
    return int(point.key[:15], 16)


class ResultFolder:
    """One JSON file per finished point. A file is there completely or not at all.

    So several processes may fill one folder, and one that is killed leaves the points it finished.
    Each claims the points that it runs; the claims of a process end with it. A file is valid as
    long as it is unchanged (it carries a checksum), and so are the files that the point read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._contents: dict[Path, str] = {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._claims = (folder / ".claims").open("wb")

    def claim(self, point: Point) -> bool:
        """Claim *point* for this process; return False if another one has claimed it.

        A claim is a lock on a byte of a file. Where files cannot be locked, every claim succeeds.
        """
        try:
            import fcntl

            fcntl.lockf(self._claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(point))
        except (ImportError, OSError) as error:
            return getattr(error, "errno", None) not in (errno.EACCES, errno.EAGAIN)
        return True

    def release(self, point: Point) -> None:
        """Take back a claim."""
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.lockf(self._claims, fcntl.LOCK_UN, 1, _place(point))

    def close(self) -> None:
        """Take back all claims."""
        self._claims.close()

    def put(self, point: Point, result: Result) -> None:
        """Keep *result*; the rename makes it visible only once it is on disk."""
        row = {
            "changes": point.changes,
            "metrics": result.metrics,
            "error": result.error,
            "files": dict(result.files),
            "config": point.config,
            "checksum": _checksum(point.key, result),
        }
        path = self._path(point)
        partial = path.with_name(f".{point.key}.{os.getpid()}")
        with writing(path):
            with partial.open("w", encoding="utf-8") as file:
                json.dump(row, file, ensure_ascii=False, default=str)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)

    def get(self, point: Point) -> Result | None:
        """The kept result of *point*; None if there is none, or if it or a file that it was made
        from has changed since."""
        try:
            row = json.loads(self._path(point).read_text(encoding="utf-8"))
            result = Result(metrics=row["metrics"], error=row["error"], files=row["files"])
            if row["checksum"] != _checksum(point.key, result):
                return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        folder = Path(point.source).parent
        for name, content in result.files.items():
            if self._content(folder / name) != content:
                return None
        return result

    def _content(self, path: Path) -> str:
        """Hash of a file's present contents; each file is read once for all points."""
        if path not in self._contents:
            self._contents[path] = content_of(path)
        return self._contents[path]

    def _path(self, point: Point) -> Path:
        return self.folder / f"{point.key}.json"
