# SPDX-License-Identifier: Apache-2.0
"""One line for values that hold arrays and lists: what a prompt shows of results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Brief", "brief"]

MOST_ITEMS, MOST_TEXT = 4, 40
MOST_LINE = 400
_PLAIN = int | float | str


class Brief:
    """Base of a dataclass (with ``repr=False``) whose repr is one line, arrays by their shapes."""

    def __repr__(self) -> str:
        shown = (
            f"{each.name}={brief(getattr(self, each.name))}"
            for each in fields(self)  # type: ignore[arg-type]
            if each.repr
        )
        text = f"{type(self).__name__}({', '.join(shown)})"
        return text if len(text) <= MOST_LINE else f"{text[: MOST_LINE - 4]}...)"


def brief(value: Any) -> str:
    """A plain value as its repr, an array by type and shape, anything else by type and length."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, int | float | np.generic):
        return repr(value)
    if isinstance(value, str | Path):
        text = str(value)
        return repr(text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 3]}...")
    if isinstance(value, Mapping):
        return f"{{{_counted(value) if value else ''}}}"
    if isinstance(value, Sequence):
        few = len(value) <= MOST_ITEMS and all(isinstance(each, _PLAIN) for each in value)
        return f"[{', '.join(map(brief, value)) if few else _counted(value)}]"
    return f"{type(value).__name__}(...)"


def _counted(values: Collection[Any]) -> str:
    """The number of *values*, and their type if all have one."""
    of = {type(each).__name__ for each in values}
    return " ".join([str(len(values)), *(of if len(of) == 1 else ())])
