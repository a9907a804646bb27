# SPDX-License-Identifier: Apache-2.0
"""Fields of records in the states of cycle models."""

from typing import Any

import numpy as np

__all__ = ["arrays", "integers"]


def integers(*names: str) -> list[tuple[str, Any]]:
    """Fields that hold a number each."""
    return [(name, np.int64) for name in names]


def arrays(length: int, *names: str) -> list[Any]:
    """Fields that hold *length* numbers each."""
    return [(name, np.int64, (length,)) for name in names]
