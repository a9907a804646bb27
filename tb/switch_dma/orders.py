# SPDX-License-Identifier: Apache-2.0
"""Operands of many blocks through a table and its home store, in random orders: RTL, natively."""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import exact_log2
from numpy.typing import NDArray

from gen.compile import CompiledModel, Instance, compile_model
from gen.configured import compile_configured
from hw.common.fifo import StreamFIFO
from hw.fp.ops import ReduceOp
from hw.switch.layouts import OPERAND_FLIT
from hw.switch.packet import Kind, header_of
from hw.switch.reduction_unit import ReductionUnit
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.fixed_point import FixedToFloat, FloatToFixed
from hw.switch_dma.home import HomeStore
from hw.switch_dma.layouts import number_of
from tb.switch_dma.fixed_point import headroom

__all__ = ["Adds", "Orders", "converted"]

FLITS, LANES = 2, 4
TOGETHER = 8
"""Blocks under way at a time."""

_DMA = SwitchDmaConfig(payload_flits=FLITS, alu_stages=1, waves=8, wave_blocks=8)
_WAITING = 512
_STAGES = {FloatToFixed: 3, FixedToFloat: 4}


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Parameters of the path of operands: entries of its table, and members."""

    entries: int
    members: int


class Summed(TypedDict):
    """Sums of every block, and how many were evicted, expired, and completed at home."""

    sums: NDArray[np.int32]
    evicted: int
    expired: int
    at_home: int


class Adds(wiring.Component):
    """A reduction unit whose partials go to a home store; what either completes is shown.

    Flits come one per cycle, and wait in a FIFO in front; `lost` if there is no room.
    """

    valid: Signal
    first: Signal
    last: Signal
    number: Signal
    data: Signal
    timeout: Signal
    lost: Signal
    evicted: Signal
    expired: Signal

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        done = {"valid": 1, "first": 1, "number": _DMA.number_bits}
        super().__init__({
            "valid": In(1), "first": In(1), "last": In(1), "number": In(_DMA.number_bits),
            "data": In(128), "timeout": In(8), "lost": Out(1), "evicted": Out(1), "expired": Out(1),
            **{f"{where}_{name}": Out(width) for where in ("table", "home")
               for name, width in done.items()},
            "table_data": Out(128), "home_data": Out(128),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.unit = unit = ReductionUnit(
            entries=self.orders.entries, payload_flits=FLITS, alu_stages=_DMA.alu_stages,
            queue_packets=3, timeout_bits=8,
        )
        m.submodules.home = home = HomeStore(_DMA)
        m.submodules.waiting = waiting = StreamFIFO(OPERAND_FLIT, _WAITING)
        connect(m, waiting.o, unit.i)
        connect(m, unit.partial, home.i)
        beat = waiting.i.p
        header = header_of(beat.flit)
        m.d.comb += [
            beat.flit.data.eq(self.data),
            beat.flit.first.eq(self.first),
            beat.flit.last.eq(self.last),
            beat.expected.eq(self.orders.members),
            waiting.i.valid.eq(self.valid),
            self.lost.eq(self.valid & ~waiting.i.ready),
            unit.timeout.eq(self.timeout),
            unit.request.ready.eq(1),
            home.member.node.members.eq(self.orders.members),
            home.part.ahead.eq(1),  # no sum is done before it is made
            home.part.near.eq(1),
            self.evicted.eq(unit.evicted),
            self.expired.eq(unit.expired),
        ]
        with m.If(self.first):
            m.d.comb += [
                header.as_value().eq(0),
                header.kind.eq(Kind.PUSH),
                header.op.eq(ReduceOp.SUM_I32.value),
                header.count.eq(1),
                header.address.eq(self.number << exact_log2(FLITS)),
            ]
        for name, stream in (("table", unit.result), ("home", home.o)):
            m.d.comb += [
                stream.ready.eq(1),
                getattr(self, f"{name}_valid").eq(stream.valid),
                getattr(self, f"{name}_first").eq(stream.p.first),
                getattr(self, f"{name}_number").eq(number_of(_DMA, header_of(stream.p).address)),
                getattr(self, f"{name}_data").eq(stream.p.data),
            ]
        return m

    @staticmethod
    def model(orders: Orders) -> CompiledModel:
        """Its compiled model."""
        return compile_configured(Adds, orders, name="adds")

    @staticmethod
    def run(
        instance: Instance, operands: NDArray[np.int32], blocks: int, *, rng: np.random.Generator,
        timeout: int,
    ) -> Summed:
        """Sums of *blocks* blocks, each of the same *operands* in an order of its own.

        Parameters
        ----------
        instance : Instance
        operands : int32 array (members, FLITS * LANES)
        blocks : int
        rng : numpy.random.Generator
        timeout : int
            Cycles, 0 for never: then a few more blocks make the last ones leave the table.

        Returns
        -------
        Summed
        """
        members = len(operands)
        extra = 64
        every = blocks + extra
        ends = -(-every // TOGETHER)
        drawn = np.concatenate([
            k * TOGETHER * members + rng.permutation(TOGETHER * members) for k in range(ends)
        ])
        block, source = drawn // members, drawn % members
        gap = rng.choice([1, 2, 4, 7, 20], len(drawn)) * 2
        starts = np.concatenate([[0], np.cumsum(gap + FLITS + 1)])[:-1]
        length = int(starts[-1]) + 1000
        words = operands.reshape(members, FLITS, LANES).view(np.uint32)
        rows = {name: np.zeros(length, np.uint32) for name in ("valid", "first", "last", "number")}
        data = np.zeros((length, LANES), np.uint32)
        rows["first"][starts] = 1
        rows["last"][starts + FLITS] = 1
        for place in range(FLITS + 1):
            rows["valid"][starts + place] = 1
            rows["number"][starts + place] = block
            if place:
                data[starts + place] = words[source, place - 1]
        instance.set("rst", 1)
        instance.cycle(2)
        instance.set("rst", 0)
        instance.set("timeout", timeout)
        names = [f"{where}_{name}" for where in ("table", "home")
                 for name in ("valid", "first", "number", "data")]
        shown = instance.run({**rows, "data": data}, [*names, "lost", "evicted", "expired"])
        assert not shown["lost"].any(), "more came than there was room for"
        sums = np.full((every + TOGETHER, FLITS * LANES), -1, np.int32)
        times = np.zeros(every + TOGETHER, int)
        at_home = 0
        for where in ("table", "home"):
            moved = shown[f"{where}_valid"] == 1
            first = shown[f"{where}_first"][moved] == 1
            heads = np.flatnonzero(first)
            heads = heads[heads + FLITS < len(first)]
            numbers = shown[f"{where}_number"][moved][heads].astype(int)
            flits = shown[f"{where}_data"][moved]
            body = np.stack([flits[heads + 1 + k] for k in range(FLITS)], axis=1)
            sums[numbers] = body.reshape(len(heads), FLITS * LANES).astype(np.uint32).view(np.int32)
            np.add.at(times, numbers, 1)
            at_home += len(heads) * (where == "home")
        assert (times[:blocks] == 1).all(), "a block has no sum, or two"
        return Summed(sums=sums[:blocks], evicted=int(shown["evicted"].sum()),
                      expired=int(shown["expired"].sum()), at_home=at_home)


def converted(
    component: type[FloatToFixed] | type[FixedToFloat], words: NDArray[Any], *, unit: int,
    members: int,
) -> NDArray[np.uint32]:
    """Convert an array of 32-bit words with a converter in RTL."""
    stages = _STAGES[component]
    model = compile_model(component(1), name=component.__name__.lower())
    flat = np.ascontiguousarray(words).view(np.uint32).ravel()
    wide = np.uint64 if component is FloatToFixed else np.uint32
    rows = {"i_payload": np.concatenate([flat, np.zeros(stages - 1, np.uint32)]).astype(wide)}
    rows["i_valid"] = np.ones(len(flat) + stages - 1, np.uint32)
    with model.instance() as instance:
        for name, value in (("fixed", 1), ("unit", unit), ("o_ready", 1)):
            instance.set(name, value)
        if component is FloatToFixed:
            instance.set("reach", (1 << headroom(members)) - 1)
        out: NDArray[Any] = instance.run(rows, ["o_payload"])["o_payload"][stages - 1 :]
    assert component is FixedToFloat or not (out >> 33).any(), "an operand is outside"
    low: NDArray[np.uint32] = (out & 0xFFFF_FFFF).astype(np.uint32)
    return low.reshape(np.shape(words))
