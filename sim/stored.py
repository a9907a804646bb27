# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers that a command measures, in data files beside the modules of their classes."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

__all__ = ["StoredTable"]

_FILE = "latencies.json"


@dataclass(frozen=True, kw_only=True)
class StoredTable:
    """A table of which a data file beside the module of its class has the fields."""

    @classmethod
    def stored(cls) -> Self:
        """The table in the data file."""
        return cls(**_read(_path(cls)))

    def store(self) -> None:
        """Write it to the data file."""
        text = json.dumps(asdict(self), indent=2)
        _path(type(self)).write_text(text + "\n", encoding="utf-8")


def _path(kind: type) -> Path:
    return Path(str(sys.modules[kind.__module__].__file__)).with_name(_FILE)


@cache
def _read(path: Path) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return fields
