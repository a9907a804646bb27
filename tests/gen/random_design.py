# SPDX-License-Identifier: Apache-2.0
"""Designs drawn by seed: operators, widths, signs, slices, choices, nests and memories."""

import random

from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class Colour(enum.Enum, shape=2):
    RED = 0
    GREEN = 1
    BLUE = 3


PAIR = data.StructLayout({"low": 3, "inner": data.StructLayout({"flag": 1, "colour": Colour}),
                          "high": 5})


class RandomDesign(wiring.Component):
    """Every seed gives another design; each result goes to a port of its own."""

    OUTPUTS = 10

    def __init__(self, seed):
        self._seed = seed
        rng = random.Random(seed)
        self._shapes = [Shape(rng.randint(1, 9), rng.random() < 0.4) for _ in range(4)]
        members = {f"i_{n}": In(shape) for n, shape in enumerate(self._shapes)}
        members |= {"pair": In(PAIR), "pair_out": Out(PAIR)}
        members |= {f"o_{n}": Out(rng.randint(1, 14)) for n in range(self.OUTPUTS)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        self._rng = random.Random(self._seed + 1)
        rng = self._rng
        state = Signal(3)
        signed_state = Signal(Shape(5, True), init=-3)
        held = Signal(PAIR, init={"low": 5, "inner": {"colour": Colour.BLUE}})
        kept = Signal(4, reset_less=True, init=9)
        table = [Signal(4, name=f"table_{n}", init=n) for n in range(3)]
        m.submodules.rows = rows = Memory(shape=6, depth=4, init=[1, 2])
        m.submodules.parts = parts = Memory(shape=8, depth=4, init=[3])
        halves = parts.write_port(granularity=4)
        passed = parts.read_port(transparent_for=rng.choice([(), (halves,)]))
        write = rows.write_port()
        read = rows.read_port(domain=rng.choice(["comb", "sync"]))
        self._values = [
            *(getattr(self, f"i_{n}") for n in range(len(self._shapes))),
            Value.cast(self.pair), self.pair.low, self.pair.inner.colour.as_value(), self.pair.high,
            state, signed_state, held.high, Value.cast(held), kept,
            Const(rng.randint(-9, 9), Shape(6, True)), Const(rng.randint(0, 9), 4),
        ]
        named = []
        for n in range(3):
            value = self._expression(2)
            step = Signal(value.shape(), name=f"step_{n}")
            m.d.comb += step.eq(value)
            named.append(step)
        m.d.comb += [
            write.addr.eq(Cat(state[0], self.i_0[0])), write.data.eq(self._expression(2)),
            write.en.eq(self.i_1[0]), read.addr.eq(state[1:]),
            halves.addr.eq(state[1:]), halves.data.eq(self._expression(2)),
            halves.en.eq(Cat(state[0], self.i_1[0])),
            passed.addr.eq(Cat(self.i_0[0], state[2])), passed.en.eq(rng.choice([1, state[1]])),
            self.pair_out.low.eq(self._expression(1)),
            self.pair_out.inner.flag.eq(self.pair_out.low[0] ^ self.pair.low[1]),
            self.pair_out.high.eq(held.high),
        ]
        self._values += [*named, read.data, passed.data]
        with m.FSM(init="IDLE") as machine:
            for name, other in (("IDLE", "RUN"), ("RUN", "STOP"), ("STOP", "IDLE")):
                with m.State(name), m.If(self._expression(1).any()):
                    m.d.sync += state.eq(self._expression(2))
                    m.next = other
        running = machine.ongoing("RUN")
        m.d.comb += self.pair_out.inner.colour.eq(Mux(running, Colour.BLUE, Colour.RED))
        targets = [
            [getattr(self, f"o_{n}") for n in range(self.OUTPUTS - 3)],
            [signed_state, held.low, held.inner.flag, kept, *table, self.o_8],
        ]
        for domain, signals in zip((m.d.comb, m.d.sync), targets):
            for signal in signals:
                domain += signal.eq(self._expression(2))
            for _ in range(4):
                self._nest(m, domain, signals, 2)
        index = self._expression(1)[:2]
        m.d.sync += [
            Array(table)[index].eq(self._expression(2)),
            held.inner.colour.eq(self.pair.inner.colour),
        ]
        wide = getattr(self, f"o_{self.OUTPUTS - 3}")
        m.d.comb += [
            wide.bit_select(self._expression(1)[:2], min(3, len(wide))).eq(self._expression(1)),
            self.o_9.eq(Array(table)[index] + state),
        ]
        return m

    def _nest(self, m, domain, signals, depth):
        rng = self._rng
        kind = rng.randrange(3)
        if depth == 0:
            signal = Value.cast(rng.choice(signals))
            if len(signal) > 2 and rng.random() < 0.5:
                signal = signal[1 : rng.randint(2, len(signal))]
            domain += signal.eq(self._expression(2))
        elif kind < 2:
            with m.If(self._expression(2).bool()):
                self._nest(m, domain, signals, depth - 1)
            with m.Elif(self._expression(1).bool()):
                self._nest(m, domain, signals, depth - 1)
            if kind:
                with m.Else():
                    self._nest(m, domain, signals, depth - 1)
        else:
            test = self._expression(1)
            with m.Switch(test[: min(len(test), 3)]):
                width = min(len(test), 3)
                with m.Case(0):
                    self._nest(m, domain, signals, depth - 1)
                with m.Case("1" + "-" * (width - 1)):
                    self._nest(m, domain, signals, depth - 1)
                if rng.random() < 0.5:
                    with m.Default():
                        self._nest(m, domain, signals, depth - 1)

    def _expression(self, depth):
        rng = self._rng
        if depth == 0:
            return rng.choice(self._values)
        a = self._expression(depth - 1)
        b = self._expression(depth - 1)
        short = Value.cast(b)[: min(3, len(b))]
        choices = [
            lambda: a + b, lambda: a - b, lambda: a[:3] * b[:3], lambda: a & b, lambda: a | b,
            lambda: a ^ b, lambda: ~a, lambda: -a, lambda: a == b, lambda: a != b, lambda: a < b,
            lambda: a <= b, lambda: a > b, lambda: a >= b, lambda: (a << short)[:10],
            lambda: a >> short, lambda: a >> 2, lambda: Cat(a, b), lambda: Mux(a, b, 3),
            lambda: Mux(b, a, a + 1), lambda: a.any(), lambda: a.all(), lambda: a.xor(),
            lambda: a[len(a) // 2 :], lambda: a.as_signed() if len(a) else a,
            lambda: a.as_unsigned(), lambda: a.as_unsigned().bit_select(short, 2),
            lambda: a.as_unsigned().word_select(short, 2), lambda: a.replicate(2),
            lambda: (a + b)[1:4], lambda: Array([a, b, a ^ b])[short],
            lambda: abs(a), lambda: a.rotate_left(1),
            lambda: a.as_unsigned()[:4] // short, lambda: a.as_unsigned()[:4] % short,
        ]
        value = Value.cast(rng.choice(choices)())
        value = value if len(value) else Const(1, 1)
        return value[:10] if len(value) > 10 else value
