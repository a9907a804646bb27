"""The state of a reduction table, apart from its data."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

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
        self._rank = [Signal(range(max(2, entries)), name=f"rank_{k}", init=k)
                      for k in range(entries)]

    def match(self, key: Any) -> Value:
        """Entries that hold what *key*, any header or ``meta``, names: one at most.

        That is an address, and of answers also the requester and its tag.
        """
        return Cat(
            valid
            & (meta.pull == key.pull) & (meta.region == key.region) & (meta.address == key.address)
            & (~key.pull | ((meta.destination == key.destination) & (meta.tag == key.tag)))
            for valid, meta in zip(self.valid, self._meta)
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
        """What is kept of the packets of the entry that *where* has the bit of."""
        return self._selected(where, self._meta)

    def count(self, where: Value) -> Value:
        """Operands summed in that entry."""
        return self._selected(where, self._count)

    def overdue(self) -> Value:
        """Entries without an operand for one to two periods."""
        return self.valid & self._late

    def of_regions(self, regions: Value) -> Value:
        """Entries of *regions*, a bit for each."""
        return Cat(
            valid & regions.bit_select(meta.region, 1)
            for valid, meta in zip(self.valid, self._meta)
        )

    def regions(self, count: int) -> Value:
        """Of *count* regions those that have entries, a bit for each."""
        return Cat(
            Cat(valid & (meta.region == k) for valid, meta in zip(self.valid, self._meta)).any()
            for k in range(count)
        )

    @staticmethod
    def _selected(where: Value, rows: list[Any]) -> Value:
        return reduce(or_, (Mux(bit, Value.cast(row), 0) for bit, row in zip(where, rows)))

    def keep(self, where: Value, meta: Value, count: Value) -> None:
        """Write an entry: it is the newest now."""
        for k in range(self._entries):
            with self._m.If(where[k]):
                self._m.d.sync += [
                    Value.cast(self._meta[k]).eq(meta),
                    self._count[k].eq(count),
                    self.valid[k].eq(1),
                    self._late[k].eq(0),
                    self._aged[k].eq(0),
                ]
        own = self._selected(where, self._rank)
        for k, rank in enumerate(self._rank):
            with self._m.If(where[k]):
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
