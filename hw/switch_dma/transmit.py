"""Sends packets of several sources over a link, each class with its credits."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import RoundRobinArbiter
from hw.switch.layouts import LINK_FLIT
from hw.switch.output_port import OutputPort, drive_link
from hw.switch.packet import CLASSES, FLIT, Traffic
from hw.switch.send_buffer import SendBuffer
from hw.switch_dma.config import SwitchDmaConfig

__all__ = ["Transmit"]

SEND_PACKETS = 3


class Transmit(wiring.Component):
    """Collects whole packets per class and sends them as credits permit.

    Sources take turns, packet by packet, while their class has room; a packet that was begun is
    never stalled. Classes do not wait for each other. Throughput is a flit per cycle.

    Parameters
    ----------
    config : SwitchDmaConfig
    classes : sequence of Traffic
        Class of each source.

    Members
    -------
    i : ``In(stream.Signature(FLIT)).array(len(classes))``
        Packets, without checksum.
    tx : ``Out(stream.Signature(LINK_FLIT, always_ready=True))``, credit : ``In(CLASSES)``
        The link.
    sent : ``Out(1)``
        A flit is sent.
    starved : ``Out(CLASSES)``
        A packet waits for a credit.
    empty : ``Out(1)``
        Nothing is held or on its way.
    """

    i: Any
    tx: stream.Interface
    credit: Signal
    sent: Signal
    starved: Signal
    empty: Signal

    def __init__(self, config: SwitchDmaConfig, *, classes: Sequence[Traffic]) -> None:
        self._config = config
        self._classes = [each.value for each in classes]
        super().__init__(
            {
                "i": In(stream.Signature(FLIT)).array(len(classes)),
                "tx": Out(stream.Signature(LINK_FLIT, always_ready=True)),
                "credit": In(CLASSES),
                "sent": Out(1),
                "starved": Out(CLASSES),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.buffer = buffer = SendBuffer(
            channels=CLASSES, outputs=1, packets=SEND_PACKETS, flits=c.packet_flits,
            short=c.short,
        )
        m.submodules.output = output = OutputPort(
            senders=1, classes=CLASSES, credits=c.credits, flits=c.packet_flits,
            short=c.short,
        )
        within = self._fill(m, buffer)
        for number in range(CLASSES):
            m.d.comb += buffer.available[number].eq(output.available[number])
        m.d.comb += [
            output.request.eq(buffer.request),
            output.traffic[0].eq(buffer.channel),
            output.length[0].eq(buffer.length),
            buffer.grant.eq(output.grant),
            buffer.hold.eq(0),
            output.flits[0].eq(buffer.flit),
            output.valids.eq(buffer.valid),
            self.empty.eq(buffer.empty & output.empty & ~self.tx.valid & ~within),
        ]
        drive_link(m, output, tx=self.tx, credit=self.credit)
        m.d.sync += self.sent.eq(output.valid)
        waits = [Signal(range(SEND_PACKETS + 1), name=f"waits_{k}") for k in range(CLASSES)]
        for k, held in enumerate(waits):
            stored = buffer.store.valid & buffer.store.commit & (buffer.store.channel == k)
            m.d.sync += [
                held.eq(held + stored - buffer.freed[k]),
                self.starved[k].eq((held != 0) & ~output.available[k] & output.empty),
            ]
        return m

    def _fill(self, m: Module, buffer: SendBuffer) -> Signal:
        """Move packets from the sources to the buffer, whole, as there is room."""
        count = len(self._classes)
        m.submodules.turns = turns = RoundRobinArbiter(count)
        within = Signal()
        owner, chosen = Signal(count), Signal(count)
        store = buffer.store
        room = [store.room[number] for number in self._classes]
        flit: Any = Signal(FLIT)
        m.d.comb += [
            turns.requests.eq(Cat(each.valid & free for each, free in zip(self.i, room))),
            turns.advance.eq(store.valid & ~within),
            chosen.eq(Mux(within, owner, turns.grant)),
        ]
        for k, each in enumerate(self.i):
            m.d.comb += each.ready.eq(chosen[k])
            with m.If(chosen[k]):
                m.d.comb += [
                    store.valid.eq(each.valid),
                    Value.cast(flit).eq(Value.cast(each.payload)),
                    store.channel.eq(self._classes[k]),
                ]
        m.d.comb += [
            store.data.eq(flit.data),
            store.first.eq(flit.first),
            store.commit.eq(flit.last),
            store.targets.eq(1),
        ]
        with m.If(store.valid):
            m.d.sync += [within.eq(~flit.last), owner.eq(chosen)]
        return within
