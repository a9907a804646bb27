"""Buffer of whole packets at an input of the crossbar, from which they are replicated."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import RoundRobinArbiter
from hw.common.fifo import StreamFIFO
from hw.common.params import require_int
from hw.common.sram import SRAMBank
from hw.link.packet import FLIT_BITS
from hw.switch.layouts import StoreSignature
from hw.switch.packet import FLIT

__all__ = ["SendBuffer"]


class SendBuffer(wiring.Component):
    """Holds packets of several channels and sends each to all outputs that it is for.

    The oldest packet of a channel asks for all of its outputs that are free and have room for a
    packet; those that are granted get it at the same time, the others later (partial progress). It
    leaves the buffer when all were served. Channels take turns, so none waits for another's
    outputs.

    Latency from ``commit`` to a request is 2 cycles, from a grant to the first flit 2; then flits
    come in successive cycles, one packet after the other without a gap. ``freed`` follows the last
    flit's read by a cycle.

    Parameters
    ----------
    channels : int
        Channels, each with room of its own.
    outputs : int
        Outputs of the crossbar.
    packets : int
        Packets of each channel.
    flits : int
        Flits of a packet with data, at least 2; other packets are one flit.

    Members
    -------
    store : ``In(StoreSignature(channels, outputs))``
        Packets to hold. ``targets`` is looked at with ``commit`` and must not be empty.
    available : ``In(outputs).array(channels)``
        Which outputs could take a packet of the channel now.
    request : ``Out(outputs)``
        Available outputs that are asked for, all for one channel.
    channel : ``Out(range(channels))``
        This channel.
    alone : ``Out(1)``
        What is asked for is a header without data.
    grant : ``In(outputs)``
        Those of them that take the packet.
    flit : ``Out(FLIT)``, ``valid`` : ``Out(1)``
        What is sent.
    freed : ``Out(channels)``
        Room for a packet has become free.
    empty : ``Out(1)``
        No packet is held.
    """

    store: Any
    available: Any
    request: Signal
    channel: Signal
    alone: Signal
    grant: Signal
    flit: Any
    valid: Signal
    freed: Signal
    empty: Signal

    def __init__(self, *, channels: int, outputs: int, packets: int, flits: int) -> None:
        self._channels = require_int("SendBuffer channels", channels)
        self._outputs = require_int("SendBuffer outputs", outputs)
        self._packets = require_int("SendBuffer packets", packets)
        self._flits = require_int("SendBuffer flits", flits, minimum=2)
        super().__init__(
            {
                "store": In(StoreSignature(channels=channels, outputs=outputs)),
                "available": In(outputs).array(channels),
                "request": Out(outputs),
                "channel": Out(range(max(2, channels))),
                "alone": Out(1),
                "grant": In(outputs),
                "flit": Out(FLIT),
                "valid": Out(1),
                "freed": Out(channels),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        slots = self._channels * self._packets
        m.submodules.rows = rows = SRAMBank(depth=slots * self._flits, width=FLIT_BITS)
        self._write(m, rows)
        pending, alone, finishing, oldest = self._oldest(m)
        self._send(m, rows, finishing, oldest)
        wanted = [pending[k] & self.available[k] for k in range(self._channels)]
        m.submodules.turns = turns = RoundRobinArbiter(self._channels)
        m.d.comb += [
            turns.requests.eq(Cat(each.any() for each in wanted)),
            turns.advance.eq(self.grant.any()),
            self.channel.eq(
                reduce(or_, (Mux(turns.grant[k], k, 0) for k in range(self._channels)))
            ),
            self.alone.eq((turns.grant & Cat(alone)).any()),
        ]
        chosen = reduce(or_, (Mux(turns.grant[k], wanted[k], 0) for k in range(self._channels)))
        m.d.comb += self.request.eq(Mux(self._busy, 0, chosen))
        for k in range(self._channels):
            m.d.comb += finishing[k].eq(
                turns.grant[k] & self.grant.any() & ~(pending[k] & ~self.grant).any()
            )
            with m.If(turns.grant[k] & self.grant.any() & ~finishing[k]):
                m.d.sync += pending[k].eq(pending[k] & ~self.grant)
        return m

    def _slot(self, channel: int, number: Value) -> Value:
        """First row of a slot."""
        return (channel * self._packets + number) * self._flits

    def _next(self, number: Signal) -> Value:
        return Mux(number == self._packets - 1, 0, number + 1)

    def _write(self, m: Module, rows: SRAMBank) -> None:
        store = self.store
        index = Signal(range(self._flits))
        tails = [Signal(range(max(2, self._packets)), name=f"tail_{k}")
                 for k in range(self._channels)]
        place = Signal.like(index)
        m.d.comb += [
            place.eq(Mux(store.first, 0, index)),
            rows.w_en.eq(store.valid),
            rows.w_data.eq(store.data),
            rows.w_addr.eq(
                Array(self._slot(k, tail) for k, tail in enumerate(tails))[store.channel] + place
            ),
        ]
        with m.If(store.valid):
            m.d.sync += index.eq(place + 1)
        used = []
        for k, tail in enumerate(tails):
            committed = store.valid & store.commit & (store.channel == k)
            count = Signal(range(self._packets + 1), name=f"used_{k}")
            m.d.sync += count.eq(count + committed - self.freed[k])
            with m.If(committed):
                m.d.sync += tail.eq(self._next(tail))
            m.d.comb += store.room[k].eq(count != self._packets)
            used.append(count)
        m.d.comb += self.empty.eq(~Cat(used).any())

    def _oldest(
        self, m: Module
    ) -> tuple[list[Signal], list[Signal], list[Signal], list[Signal]]:
        """Per channel: outputs that the oldest packet still has to reach, whether it has no data,
        whether it reaches the last output now, and its slot."""
        pending, alone, finishing, oldest = [], [], [], []
        for k in range(self._channels):
            targets = StreamFIFO(self._outputs + 1, self._packets, memory=False)
            m.submodules[f"targets_{k}"] = targets
            rest = Signal(self._outputs, name=f"pending_{k}")
            short = Signal(name=f"alone_{k}")
            done = Signal(name=f"finishing_{k}")
            head = Signal(range(max(2, self._packets)), name=f"head_{k}")
            m.d.comb += [
                targets.i.valid.eq(
                    self.store.valid & self.store.commit & (self.store.channel == k)
                ),
                targets.i.payload.eq(Cat(self.store.targets, self.store.first)),
                targets.o.ready.eq(~rest.any() | done),
            ]
            with m.If(targets.o.ready):
                m.d.sync += Cat(rest, short).eq(Mux(targets.o.valid, targets.o.payload, 0))
            with m.If(done):
                m.d.sync += head.eq(self._next(head))
            pending.append(rest)
            alone.append(short)
            finishing.append(done)
            oldest.append(head)
        return pending, alone, finishing, oldest

    def _send(
        self, m: Module, rows: SRAMBank, finishing: list[Signal], oldest: list[Signal]
    ) -> None:
        left = Signal(range(self._flits))
        reading = Signal()
        row = Signal(range(rows.depth))
        first = Signal()
        ends = Signal(self._channels)  # the channel whose packet leaves the buffer with this one
        self._busy = left != 0
        with m.If(self.grant.any()):
            slots = Array(self._slot(k, head) for k, head in enumerate(oldest))
            m.d.sync += [
                reading.eq(1), left.eq(Mux(self.alone, 0, self._flits - 1)), first.eq(1),
                row.eq(slots[self.channel]), ends.eq(Cat(finishing)),
            ]
        with m.Elif(left == 0):
            m.d.sync += reading.eq(0)
        with m.Else():
            m.d.sync += [left.eq(left - 1), row.eq(row + 1), first.eq(0)]
        last = reading & (left == 0)
        m.d.comb += [
            rows.r_en.eq(reading),
            rows.r_addr.eq(row),
            self.flit.data.eq(rows.r_data),
        ]
        m.d.sync += [
            self.valid.eq(reading),
            self.flit.first.eq(first),
            self.flit.last.eq(last),
            self.freed.eq(Mux(last, ends, 0)),
        ]
