# SPDX-License-Identifier: Apache-2.0
"""Requests of the inputs of the crossbar for one output."""

from collections.abc import Collection, Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int

__all__ = ["Requests"]


class Requests(wiring.Component):
    """Finds which inputs request an output, of those with a buffer that wants it. Combinational, in
    two levels of logic: what follows is the longest way of the crossbar.

    Parameters
    ----------
    inputs : sequence of sequences of collections of int
        For each input its buffers: the classes that each asks for, of those of the output.
    classes : int
        Classes of the output.
    parts : int
        Bits that say whether a packet of a buffer was taken.

    Members
    -------
    wanted : ``In(1).array(buffers)``
        The buffer wants the output. At most one of an input wants anything.
    asks : ``In(classes).array(buffers)``
        For which class.
    took : ``In(parts).array(buffers)``
        A packet of the buffer was taken in the cycle before, if any bit is set; this was not known
        when what it wants was chosen, nor what the others at its input do.
    credited : ``In(classes)``
        The output has credits of the class.
    busy, hold : ``In(1)``
        It takes nothing.
    request : ``Out(inputs)``
        The input requests it.
    """

    wanted: Any
    asks: Any
    took: Any
    credited: Signal
    busy: Signal
    hold: Signal
    request: Signal

    def __init__(
        self, *, inputs: Sequence[Sequence[Collection[int]]], classes: int, parts: int
    ) -> None:
        self._inputs = [list(each) for each in inputs]
        buffers = sum(map(len, self._inputs))
        classes = require_int("Requests classes", classes)
        parts = require_int("Requests parts", parts)
        super().__init__(
            {
                "wanted": In(1).array(buffers),
                "asks": In(classes).array(buffers),
                "took": In(parts).array(buffers),
                "credited": In(classes),
                "busy": In(1),
                "hold": In(1),
                "request": Out(len(self._inputs)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        first = 0
        for number, buffers in enumerate(self._inputs):
            those = range(first, first + len(buffers))
            taken = Cat(self.took[k] for k in those).any()
            let = Cat(
                self.wanted[k] & Cat(self.asks[k][i] & self.credited[i] for i in classes).any()
                for k, classes in zip(those, buffers)
            ).any()
            m.d.comb += self.request[number].eq(let & ~taken & ~self.busy & ~self.hold)
            first += len(buffers)
        return m
