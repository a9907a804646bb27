# SPDX-License-Identifier: Apache-2.0
"""Collectives as hosts command them."""

from dataclasses import dataclass

from hw.fp.ops import ReduceOp
from sim.fields import FieldError, check_integer
from sim.workload.graph import CollectiveKind

__all__ = ["Command"]

_ADDRESS_END = 2**64
_WORD_END = 2**32


@dataclass(frozen=True, kw_only=True)
class Command:
    """A collective of a ring, the same on every node.

    Parameters
    ----------
    collective : CollectiveKind
    elements : int
        4-byte elements of the whole vector.
    op : ReduceOp
    compress : bool
        Compress data on links (NIC).
    block : int or None
        Elements of a block (ACE); None: chosen, see ``Partition.plan``.
    source, destination : int
        Addresses of the local vector or shard, and of the result.

    Raises
    ------
    ValueError
        For a field that no engine takes.
    """

    collective: CollectiveKind = CollectiveKind.ALL_REDUCE
    elements: int
    op: ReduceOp = ReduceOp.SUM_F32
    compress: bool = False
    block: int | None = None
    source: int = 0
    destination: int = 0

    def __post_init__(self) -> None:
        for name, kind in ("collective", CollectiveKind), ("op", ReduceOp):
            if not isinstance(getattr(self, name), kind):
                names = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
                raise FieldError(name, f"must be one of {names}, not {getattr(self, name)!r}")
        check_integer("elements", self.elements, 1, _WORD_END)
        for name in "source", "destination":
            check_integer(name, getattr(self, name), 0, _ADDRESS_END)

    @property
    def end(self) -> int:
        """Byte behind the last one that the command reads or writes, on any rank."""
        return max(self.source, self.destination) + 4 * self.elements
