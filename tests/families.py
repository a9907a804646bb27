# SPDX-License-Identifier: Apache-2.0
"""Families of tests of which ``make test`` runs a part and ``make test-full`` all."""

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["full", "quick"]


def full(family: Iterable[Any]) -> list[Any]:
    """Parameters of a *family*, single ones or tuples, for ``make test-full`` alone."""
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.full)
        for each in family
    ]


def quick(count: int, family: Iterable[Any]) -> list[Any]:
    """Parameters of a *family*: the first *count* for ``make test`` as well."""
    members = list(family)
    return [*members[:count], *full(members[count:])]
