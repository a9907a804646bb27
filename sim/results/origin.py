# SPDX-License-Identifier: Apache-2.0
"""Origin of a run: the description that it ran, with all changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Origin", "plain"]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A description, and how it came to be.

    Parameters
    ----------
    document : mapping
        Contents of the file, with the changes below in it.
    folder : Path
        That which paths in it are relative to.
    source : str
        The file, or a name in its stead.
    endpoint : str
        ``KIND`` or ``KIND:LEVEL`` that took the place of the file's; empty for none.
    changes : mapping
        Dotted key -> value that took the place of the file's.
    files : mapping
        Path -> hash of the contents of each file that was read for it.
    """

    document: Mapping[str, Any]
    folder: Path = field(default_factory=Path)
    source: str = ""
    endpoint: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)


def plain(value: Any) -> Any:
    """*value* with nothing in it but what JSON has."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Enum):
        return plain(value.value)
    return value if isinstance(value, str | int | float | None) else str(value)
