"""The points of a sweep, their keys, and the folder that keeps what they gave."""

import glob
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gen.folder import writing
from sim.sweep.spec import Changes, SweepSpec

__all__ = ["Metrics", "Point", "Result", "ResultFolder", "make_points"]

Metrics: TypeAlias = dict[str, float | int | str]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of a sweep. ``key`` names it by everything that its result depends on."""

    key: str
    changes: Changes
    config: dict[str, Any]
    source: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a point gave: metrics, or the text of its error."""

    metrics: Metrics | None = None
    error: str | None = None


def make_points(spec: SweepSpec, *, runner: str, version: str) -> list[Point]:
    """All points of *spec* in order.

    The key is a hash of the full configuration, of the contents of the files that it names, of
    what runs it and of the version of the package.
    """
    folder = Path(spec.source).parent
    contents: dict[str, str] = {}
    points = []
    for changes in spec.points():
        config = spec.config(changes)
        for name in _texts(config):
            if name not in contents:
                contents[name] = _digest(folder / name)
        files = {name: contents[name] for name in sorted(set(_texts(config))) if contents[name]}
        meant = [config, files, runner, version]
        text = json.dumps(meant, sort_keys=True, default=str, ensure_ascii=False)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        points.append(Point(key=key, changes=changes, config=config, source=spec.source))
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
    """Of the contents of a file, or of the execution traces with this prefix; else empty."""
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


def _checksum(key: str, metrics: object, error: object) -> str:
    text = json.dumps([key, metrics, error], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class ResultFolder:
    """One JSON file per finished point. A file is there completely or not at all.

    So several processes may fill one folder, and one that is killed leaves what it finished.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def __contains__(self, point: Point) -> bool:
        return self._path(point).exists()

    def put(self, point: Point, result: Result) -> None:
        """Keep *result*; the rename makes it visible only once it is on disk."""
        row = {
            "changes": point.changes,
            "metrics": result.metrics,
            "error": result.error,
            "config": point.config,
            "checksum": _checksum(point.key, result.metrics, result.error),
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
        """What is kept for *point*; None if nothing, or a file that is not as it was written."""
        try:
            row = json.loads(self._path(point).read_text(encoding="utf-8"))
            metrics, error = row["metrics"], row["error"]
            if row["checksum"] != _checksum(point.key, metrics, error):
                return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return Result(metrics=metrics, error=error)

    def _path(self, point: Point) -> Path:
        return self.folder / f"{point.key}.json"
