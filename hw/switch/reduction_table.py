# SPDX-License-Identifier: Apache-2.0
"""The state of a reduction table, apart from its data."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from hw.common.select import index_of, select

__all__ = ["ReductionTable"]


class ReductionTable:
    """State of the entries of a reduction table, as a part of its unit's module.

    An entry is a sum that endpoints push, or the answer to a load (``pull``).

    Rows of all members are entries. ``rank`` orders the entries by their last use, 0 is the newest.
    *layout*: what is kept of the packets of an entry, see `entry_layout`.
    """

    def __init__(self, m: Module, entries: int, layout: data.StructLayout, count_bits: int) -> None:
        self._m = m
        self.layout = layout
        self._entries = entries
        self.valid = Signal(entries)
        self._aged = Signal(entries)  # not used since the period before this one began
        self._late = Signal(entries)
        self._meta = [Signal(layout, name=f"meta_{k}") for k in range(entries)]
        self._count = [Signal(count_bits, name=f"count_{k}") for k in range(entries)]
        self._writes = Signal()
        self._where = Signal(entries)  # the entry that is written, if one is
        self._new: Any = Signal(layout)
        self._new_count = Signal(count_bits)
        self._rank = [Signal(range(max(2, entries)), name=f"rank_{k}", init=k)
                      for k in range(entries)]

    def match(self, key: Any) -> Value:
        """Entries that hold what *key*, any header or ``meta``, names: one at most.

        That is an address, and of answers also the requester and its tag.
        """
        return self.valid & self.alike(key)

    def alike(self, key: Any) -> Value:
        """Entries that do so if they are valid."""
        return Cat(
            (meta.pull == key.pull) & (meta.region == key.region) & (meta.address == key.address)
            & (~key.pull | ((meta.destination == key.destination) & (meta.tag == key.tag)))
            for meta in self._meta
        )

    def free(self) -> Value:
        """A free entry, if there is one."""
        free = ~self.valid
        return free & -free

    def oldest(self) -> Value:
        """The least recently used entry."""
        return Cat(rank == self._entries - 1 for rank in self._rank)

    def oldest_sum(self) -> Value:
        """The same, if it is a sum that endpoints push."""
        return self.oldest() & Cat(~meta.pull for meta in self._meta)

    def place(self) -> Value:
        """The entry that an address without one gets: a free one, else the least recently used."""
        return Mux(self.valid.all(), self.oldest(), self.free())

    def meta(self, where: Value) -> Value:
        """The fields kept for an entry; *where* is one-hot."""
        return self._selected(where, self._meta)

    def count(self, where: Value) -> Value:
        """Operands summed in that entry."""
        return self._selected(where, self._count)

    def overdue(self) -> Value:
        """Entries without an operand for one to two periods."""
        return self.valid & self._late

    def of_regions(self, regions: Value) -> Value:
        """Entries of *regions*, a bit for each."""
        return self.valid & self._of_regions(regions)

    def is_of(self, where: Value, regions: Value) -> Value:
        """High if the entry at *where*, one-hot, is of one of *regions*."""
        return (where & self._of_regions(regions)).any()

    def _of_regions(self, regions: Value) -> Value:
        return Cat(regions.bit_select(meta.region, 1) for meta in self._meta)

    def regions(self, count: int) -> Value:
        """Regions that have entries, a bit for each of *count*."""
        return Cat(
            Cat(valid & (meta.region == k) for valid, meta in zip(self.valid, self._meta)).any()
            for k in range(count)
        )

    @staticmethod
    def _selected(where: Value, rows: list[Any]) -> Value:
        return select(index_of(where), [Value.cast(row) for row in rows])

    def keep(self, where: Value, meta: Value, count: Value) -> None:
        """Write an entry: it is the newest now. At most one is written in a cycle."""
        self._m.d.comb += [
            self._writes.eq(1), self._where.eq(where),
            Value.cast(self._new).eq(meta), self._new_count.eq(count),
        ]

    def update(self) -> None:
        """Carry out what `keep` says; to be stated after `age`, and before `forget`."""
        for k in range(self._entries):
            with self._m.If(self._writes & self._where[k]):
                self._m.d.sync += [
                    self._meta[k].eq(self._new),
                    self._count[k].eq(self._new_count),
                    self.valid[k].eq(1),
                    self._late[k].eq(0),
                    self._aged[k].eq(0),
                ]
        own = self._selected(self._where, self._rank)
        for k, rank in enumerate(self._rank):
            with self._m.If(self._writes):
                with self._m.If(self._where[k]):
                    self._m.d.sync += rank.eq(0)
                with self._m.Elif(rank < own):
                    self._m.d.sync += rank.eq(rank + 1)

    def forget(self, where: Value) -> None:
        """Free an entry."""
        self._m.d.sync += self.valid.eq(self.valid & ~where)

    def age(self, timeout: Value) -> None:
        """Let periods of *timeout* cycles pass, 0 for never; uses in this cycle, stated later,
        count."""
        since = Signal.like(timeout)
        over = Signal()
        self._m.d.comb += over.eq((timeout != 0) & (since + 1 >= timeout))
        self._m.d.sync += since.eq(Mux(over | (timeout == 0), 0, since + 1))
        with self._m.If(over):
            self._m.d.sync += [self._late.eq(self._aged & self.valid), self._aged.eq(self.valid)]
