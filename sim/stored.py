# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers that a command measures, in data files beside the modules of their classes."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
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
        return cls(**_read(cls.__module__.rpartition(".")[0]))

    def store(self) -> None:
        """Write it to the data file."""
        module = sys.modules[type(self).__module__]
        text = json.dumps(asdict(self), indent=2)
        Path(str(module.__file__)).with_name(_FILE).write_text(text + "\n", encoding="utf-8")


@cache
def _read(package: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = json.loads(files(package).joinpath(_FILE).read_text("utf-8"))
    return fields
