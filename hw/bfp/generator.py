# SPDX-License-Identifier: Apache-2.0
"""Hardware of the random numbers of stochastic rounding."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.bfp.dither import DITHER_BITS, STATE_BITS, ZERO_SEED, rotations
from hw.common.params import require_int

__all__ = ["Generator", "dither"]


def dither(state: Value, element: int) -> Value:
    """Random number of an element of the block that has this state."""
    first, second, third = (state.rotate_right(amount) for amount in rotations(element))
    return (first ^ second ^ third)[:DITHER_BITS]


def _step(m: Module, state: Value) -> Value:
    for shifted in (lambda x: x << 13), (lambda x: x >> 7), (lambda x: x << 17):
        stepped = Signal(STATE_BITS, name="stepped")
        m.d.comb += stepped.eq(state ^ shifted(state))
        state = stepped
    return state


class Generator(wiring.Component):
    """States of the generator of `hw.bfp.dither`, for the blocks of one beat at a time.

    Parameters
    ----------
    groups : int
        Blocks per beat.

    Members
    -------
    seed : ``In(64)``
        State of the first block of a vector.
    first : ``In(1)``
        The beat begins a vector: its state is `seed`.
    taken : ``In(1)``
        A beat is taken in this cycle.
    final : ``In(1)``
        It is the last one of its blocks: the state moves on to the next ones.
    states : ``Out(64 * groups)``
        State of each block of this beat.
    """

    seed: Signal
    first: Signal
    taken: Signal
    final: Signal
    states: Signal

    def __init__(self, groups: int) -> None:
        self._groups = require_int("Generator groups", groups)
        super().__init__(
            {
                "seed": In(STATE_BITS),
                "first": In(1),
                "taken": In(1),
                "final": In(1),
                "states": Out(STATE_BITS * groups),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        kept, now = Signal(STATE_BITS), Signal(STATE_BITS)
        seed = Mux(self.seed == 0, ZERO_SEED, self.seed)
        m.d.comb += now.eq(Mux(self.first, seed, kept))
        states: list[Value] = [now]
        for _ in range(self._groups):
            states.append(_step(m, states[-1]))
        m.d.comb += self.states.eq(Cat(*states[:-1]))
        with m.If(self.taken):
            m.d.sync += kept.eq(Mux(self.final, states[-1], now))
        return m
