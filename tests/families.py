# SPDX-License-Identifier: Apache-2.0
"""Families of tests of which ``make test`` runs a part."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest

__all__ = ["quick"]


def quick(count: int, family: Iterable[Any]) -> list[Any]:
    """Parameters of a *family*, single ones or tuples: the first *count* as they are, the others
    for ``make test-full`` alone."""
    members = iter(family)
    chosen = list(islice(members, count))
    return [*chosen, *(
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.full)
        for each in members
    )]
