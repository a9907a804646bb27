# SPDX-License-Identifier: Apache-2.0
"""What a reduction table does to a sequence of operands, in Python."""

from collections import OrderedDict
from dataclasses import dataclass, field, replace

import numpy as np

from hw.fp.ops import ReduceOp
from sim.rtl.switch.orders import fold


@dataclass
class Operand:
    """A packet with data; *count* operands are in it. With *pull*, they answer a load of
    *destination* with *tag*."""

    op: ReduceOp
    region: int
    address: int
    words: np.ndarray
    count: int = 1
    epoch: int = 0
    poison: int = 0
    destination: int = 0
    pull: bool = False
    tag: int = 0
    source: int = 0

    @property
    def key(self):
        """What an entry is found by."""
        asked = (self.destination, self.tag) if self.pull else ()
        return (self.region, self.address, *asked)


@dataclass
class TableModel:
    """Takes operands and loads in order; `results` and `partials` are what leaves, in order.

    *expected* operands make a result; an answer, as many as its load says.
    """

    entries: int
    expected: int
    results: list = field(default_factory=list)
    partials: list = field(default_factory=list)
    excess: int = 0
    mismatch: int = 0
    bypassed: int = 0
    passed: int = 0
    duplicate: int = 0
    completed: int = 0
    evicted: int = 0

    def __post_init__(self):
        self.table = OrderedDict()  # least recently used first

    def load(self, load, expected):
        """A load that does not wait; *load* is an answer of no operands."""
        if load.key in self.table:
            self.duplicate += 1
        elif len(self.table) == self.entries:
            self.bypassed += 1
        else:
            self.table[load.key] = load, expected

    def take(self, operand):
        entry, expected = self.table.get(operand.key, (None, self.expected))
        if entry is not None and (entry.op, entry.epoch) != (operand.op, operand.epoch):
            self.mismatch += 1
            return
        held = 0 if entry is None else entry.count
        if operand.count == 0 or held + operand.count > expected:
            self.excess += 1
            return
        if operand.pull and entry is None:
            self.passed += 1
            self.partials.append(operand)
            return
        total = operand
        if held:
            total = replace(
                entry, words=fold(entry.op, entry.words, operand.words),
                count=held + operand.count, poison=entry.poison | operand.poison,
            )
        if total.count == expected:
            self.completed += 1
            self.table.pop(operand.key, None)
            (self.partials if operand.pull else self.results).append(total)
            return
        if entry is None and len(self.table) == self.entries:
            _, (oldest, _) = self.table.popitem(last=False)
            self.evicted += 1
            if oldest.count:
                self.partials.append(oldest)
        self.table[operand.key] = total, expected
        self.table.move_to_end(operand.key)
