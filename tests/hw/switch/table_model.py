"""What a reduction table does to a sequence of operands, in Python."""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from hw.fp.ops import ReduceOp
from tb.switch.endpoint import fold


@dataclass
class Operand:
    """A packet with data; *count* operands are in it."""

    op: ReduceOp
    region: int
    address: int
    words: np.ndarray
    count: int = 1
    epoch: int = 0
    poison: int = 0
    destination: int = 0


@dataclass
class TableModel:
    """Takes operands in order; `results` and `partials` are what leaves, each in order."""

    entries: int
    expected: int
    results: list = field(default_factory=list)
    partials: list = field(default_factory=list)
    excess: int = 0
    mismatch: int = 0

    def __post_init__(self):
        self.table = OrderedDict()  # least recently used first

    def take(self, operand):
        key = (operand.region, operand.address)
        entry = self.table.get(key)
        if entry is not None and (entry.op, entry.epoch) != (operand.op, operand.epoch):
            self.mismatch += 1
            return
        held = 0 if entry is None else entry.count
        if operand.count == 0 or held + operand.count > self.expected:
            self.excess += 1
            return
        if entry is None:
            total = operand
        else:
            total = Operand(
                entry.op, entry.region, entry.address,
                fold(entry.op, entry.words, operand.words),
                held + operand.count, entry.epoch, entry.poison | operand.poison,
                entry.destination,
            )
        if total.count == self.expected:
            self.table.pop(key, None)
            self.results.append(total)
            return
        if entry is None and len(self.table) == self.entries:
            _, oldest = self.table.popitem(last=False)
            self.partials.append(oldest)
        self.table[key] = total
        self.table.move_to_end(key)
