# SPDX-License-Identifier: Apache-2.0
"""The part of a saved run's folder that runs it again.

``system.toml`` is the description with all changes in it, and ``inputs/`` has the files that were
read for it, at the same places relative to one another.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w

from gen.extras import version_of
from gen.folder import replace_text
from sim.collectives import plan
from sim.results.origin import Origin, plain

__all__ = ["FORMAT", "INPUTS", "REPEAT", "versions", "write_origin"]

FORMAT = 3
"""Of ``run.json`` and ``system.toml``."""
REPEAT, INPUTS = "system.toml", "inputs"
MOST_COPIED_BYTES = 64 << 20
"""Larger inputs stay where they are, and are named by their whole path."""
WITH_FILES = ("astra", "load", "topology", "workload")
"""Tables and lists whose texts may name files."""
TOOLS = ("foldwire", "amaranth", "llvmlite", "numba", "numpy")
"""Distributions whose versions are kept with a run."""


def versions() -> dict[str, str]:
    """Versions of everything that results may depend on."""
    return {name: version_of(name) for name in TOOLS}


def write_origin(origin: Origin, folder: Path, *, command: str = "") -> dict[str, Any]:
    """Write ``system.toml`` and ``inputs`` into *folder*; return what ``run.json`` holds of it.

    A value that TOML cannot say (None, from Python) keeps ``system.toml`` from being written; the
    description in ``run.json`` has it.
    """
    document = plain(origin.document)
    copied = _copies(origin)
    document = {
        name: _moved(table, origin.folder, copied) if name in WITH_FILES else table
        for name, table in document.items()
    }
    _copy(copied, folder)
    changes = plain(origin.changes)
    about = {
        "source": origin.source,
        "command": command,
        "endpoint": origin.endpoint,
        "changes": changes,
        "description": document,
        "files": {name: origin.files[path] for path, name in copied.items()},
        "versions": versions(),
    }
    if "astra" in document and changes:
        # A stated change may replace what the files of [astra] say; nothing else may.
        document["changes"] = {**document.get("changes", {}), **changes}
    (folder / REPEAT).unlink(missing_ok=True)
    if not (gaps := list(_gaps(document))):
        replace_text(folder / REPEAT, _text(document, command or origin.source))
    return about | ({"without_toml": gaps} if gaps else {})


def _copy(copied: Mapping[Path, str], folder: Path) -> None:
    """Copy files to their places below `INPUTS`, some of which may be there already."""
    inputs = folder / INPUTS
    with TemporaryDirectory(dir=folder, prefix=".inputs-") as made:
        for path, name in copied.items():
            if not Path(name).is_absolute():
                target = Path(made) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        shutil.rmtree(inputs, ignore_errors=True)
        if (whole := Path(made) / INPUTS).exists():
            whole.rename(inputs)


def _text(document: Mapping[str, Any], made_by: str) -> str:
    made_by = " ".join(made_by.split())
    again, more = "foldwire sim THIS_FILE", []
    if document.get("load"):
        more = ["# That runs the Python files of `load` first."]
    elif names := _own_algorithms(document):
        again += " --load FILE"
        more = [f"# FILE is Python that registers {', '.join(names)}, as no file of this run did."]
    lines = [
        f"# Description of a run, format {FORMAT}" + (f", of: {made_by}" if made_by else ""),
        f"# All changes are in it. The same run again: {again}",
        *more, "", tomli_w.dumps(dict(document)),
    ]
    return "\n".join(lines)


def _own_algorithms(document: Mapping[str, Any]) -> list[str]:
    """Names of algorithms of users that a description has."""
    table = document.get("algorithm")
    stated = table.values() if isinstance(table, Mapping) else ()
    named = [name for each in stated for name in (each if isinstance(each, list) else [each])]
    return [name for name in dict.fromkeys(named) if name in {*plan.ALGORITHMS} - {*plan.BUILT_IN}]


def _gaps(value: Any, above: str = "") -> Iterator[str]:
    """Dotted keys of values that TOML cannot say."""
    if value is None:
        yield above
    elif isinstance(value, Mapping | list):
        of = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, each in of:
            yield from _gaps(each, f"{above}.{key}" if above else str(key))


def _copies(origin: Origin) -> dict[Path, str]:
    """Files that were read -> their names for ``system.toml``: in ``inputs`` unless too large."""
    paths = [path for path, content in origin.files.items() if content and path.is_file()]
    if not paths:
        return {}
    if sum(path.stat().st_size for path in paths) > MOST_COPIED_BYTES:
        return {path: str(path) for path in paths}
    resolved = {path: path.resolve() for path in paths}
    above = os.path.commonpath([each.parent for each in resolved.values()])
    return {
        path: f"{INPUTS}/{each.relative_to(above).as_posix()}" for path, each in resolved.items()
    }


def _moved(value: Any, folder: Path, copied: Mapping[Path, str]) -> Any:
    """*value* with the new names of the files that its texts name."""
    if isinstance(value, dict):
        return {key: _moved(each, folder, copied) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, folder, copied) for each in value]
    if not isinstance(value, str):
        return value
    for path, name in copied.items():
        for end in _ends(path):
            if (folder / (value + end)).resolve() == path.resolve():
                return name.removesuffix(end) if end else name
    return value


def _ends(path: Path) -> Sequence[str]:
    """Ends of a file's name that a description may leave out: ``.txt``, and ``.0.et`` of traces of
    single NPUs."""
    first, last = path.stem.rpartition(".")[2], path.suffix
    return ["", ".txt", *([f".{first}.et"] if last == ".et" and first.isdecimal() else [])]
