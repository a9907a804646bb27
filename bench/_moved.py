# SPDX-License-Identifier: Apache-2.0
"""Bytes that the endpoints of a node send and get for collectives, by source and receipt."""

from collections.abc import Mapping
from dataclasses import dataclass

from sim.collectives.program import Receipt, Source

__all__ = ["Moved"]

ADDED = (Receipt.REDUCE, Receipt.PASS, Receipt.RESULT, Receipt.SPLIT, Receipt.OPERAND)
"""A message that is handled so is a contribution to sums."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Bytes that a node sends, by source, and gets, by receipt; means over nodes."""

    sent: Mapping[Source, float]
    got: Mapping[Receipt, float]

    @property
    def added(self) -> float:
        """Contributions to sums."""
        return sum(self.got[each] for each in ADDED)

    def __add__(self, other: "Moved") -> "Moved":
        return Moved(
            sent={each: self.sent[each] + other.sent[each] for each in Source},
            got={each: self.got[each] + other.got[each] for each in Receipt},
        )
