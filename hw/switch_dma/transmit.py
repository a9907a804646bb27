# SPDX-License-Identifier: Apache-2.0
"""Sends packets of several sources over a link, each class with its credits."""

from collections.abc import Collection, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.count import stepped, stepped_to
from hw.common.select import marked
from hw.link.packet import FLIT_BITS
from hw.switch.layouts import LINK_FLIT, AskedSignature
from hw.switch.output_port import OutputPort, count_anew, to_wire
from hw.switch.packet import CLASSES, FLIT, Traffic
from hw.switch.recount import Recount
from hw.switch.send_buffer import SendBuffer
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.interfaces import CreditsSignature
from hw.switch_dma.packet_merge import PacketMerge

__all__ = ["Transmit"]

SEND_PACKETS = 3


class Transmit(wiring.Component):
    """Collects whole packets per class and sends them as credits permit.

    Sources take turns, packet by packet, while their class has room; a packet that was begun is
    never stalled. Classes do not wait for each other. Throughput is a flit per cycle. A packet of
    another source than the last one is taken a cycle after it is shown.

    Packets that are held are forgotten when their region is to be killed, and while `discard`, what
    sources show; but for notices, which last.

    Parameters
    ----------
    config : SwitchDmaConfig
    classes : sequence of Traffic
        Class of each source.
    lasting : int
        The source whose packets are never killed.
    dropped : collection of int
        Those that may show packets while `discard`.

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
    row : ``In(range(regions))``
        Region of all sources but that of notices.
    discard : ``In(1)``
        Forget what they show from the next cycle on.
    kill : ``In(regions)``
        Forget what is held of these regions. Hold until `holds` is low.
    holds : ``Out(regions)``
        A packet that is no notice is held, until its last flit has been read.
    credits : ``In(CreditsSignature())``
        Those of the link, counted anew.
    asked : ``In(AskedSignature())``
        The receiver's side of that, see `Recount`.
    empty : ``Out(1)``
        Nothing is held or on its way.
    """

    i: Any
    tx: stream.Interface
    credit: Signal
    sent: Signal
    starved: Signal
    row: Signal
    discard: Signal
    kill: Signal
    holds: Signal
    credits: Any
    asked: Any
    empty: Signal

    def __init__(
        self, config: SwitchDmaConfig, *, classes: Sequence[Traffic], lasting: int,
        dropped: Collection[int],
    ) -> None:
        self._dropped = frozenset(dropped)
        self._config = config
        self._lasting = lasting
        self._classes = [each.value for each in classes]
        super().__init__(
            {
                "i": In(stream.Signature(FLIT)).array(len(classes)),
                "tx": Out(stream.Signature(LINK_FLIT, always_ready=True)),
                "credit": In(CLASSES),
                **dict.fromkeys(("sent", "empty"), Out(1)),
                "starved": Out(CLASSES),
                "row": In(range(max(2, config.regions))),
                "discard": In(1),
                "kill": In(config.regions),
                "holds": Out(config.regions),
                "credits": In(CreditsSignature()),
                "asked": In(AskedSignature()),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.buffer = buffer = SendBuffer(
            channels=CLASSES, outputs=1, packets=SEND_PACKETS, flits=c.packet_flits,
            short=c.short, rows=c.regions, kills=True,
        )
        m.submodules.output = output = OutputPort(
            senders=1, classes=CLASSES, credits=c.credits, flits=c.packet_flits,
            short=c.short, recounts=True,
        )
        m.submodules.recount = recount = Recount()
        connect(m, flipped(self.asked), recount.asked)
        within = self._fill(m, buffer)
        for number in range(CLASSES):
            m.d.comb += buffer.available[number].eq(output.available[number])
        m.d.comb += [
            output.request.eq(Mux(output.admits(buffer.channel), buffer.request, 0)),
            output.traffic[0].eq(buffer.channel),
            output.length[0].eq(buffer.length),
            buffer.grant.eq(output.grant),
            buffer.hold.eq(0),
            self.empty.eq(
                buffer.empty & output.empty & ~self.tx.valid & ~within & ~self._moves
            ),
            recount.start.eq(self.credits.resync),
            self.credits.counting.eq(recount.counting),
            self.credits.home.eq(output.home),
        ]
        bits = Signal(FLIT_BITS)
        m.d.sync += bits.eq(Mux(output.listens, buffer.flit.data, 0))
        to_wire(m, bits, valid=output.valid, first=output.first, recounts=recount.valid,
                header=recount.header, tx=self.tx)
        count_anew(m, output, recount)
        m.d.sync += [self.sent.eq(output.valid), output.credit.eq(self.credit)]
        waits = [Signal(range(SEND_PACKETS + 1), name=f"waits_{k}") for k in range(CLASSES)]
        for k, held in enumerate(waits):
            stored = buffer.store.valid & buffer.store.commit & (buffer.store.channel == k)
            m.d.sync += [
                held.eq(held + stored - buffer.freed[k]),
                self.starved[k].eq((held != 0) & ~output.available[k] & output.empty),
            ]
        m.d.comb += self.holds.eq(buffer.holds | (within << self.row))
        return m

    def _fill(self, m: Module, buffer: SendBuffer) -> Signal:
        """Move packets from the sources to the buffer, whole, as there is room. Returns whether one
        is held that the buffer does not show yet, and is no notice."""
        count = len(self._classes)
        self._discards = Signal(name="discards")
        m.d.sync += self._discards.eq(self.discard)
        m.submodules.merge = merge = PacketMerge(count)
        within, owner, flit = merge.within, merge.owner, merge.o.p
        store = buffer.store
        # What is chosen is stored a cycle later.
        stored, lasts = Signal(), Signal()
        moved: Any = Signal(FLIT)
        channel = Signal.like(store.channel)
        for k, (each, way) in enumerate(zip(self.i, merge.i)):
            drops, rest = self._discarded(m, k, within & owner[k])
            m.d.comb += [
                way.valid.eq(each.valid & ~drops),
                way.payload.eq(each.payload),
                each.ready.eq(way.ready | rest),
            ]
        shown = Cat(way.valid for way in merge.i) & owner
        room = [self._room(m, buffer, number, shown, within) for number in range(CLASSES)]
        m.d.comb += [
            merge.may.eq(Cat(room[number] for number in self._classes)),
            merge.o.ready.eq(1),
        ]
        m.d.sync += [
            stored.eq(merge.o.valid), moved.eq(flit), lasts.eq(owner[self._lasting]),
            channel.eq(marked(owner, [Const(number, 2) for number in self._classes])),
        ]
        m.d.comb += [
            store.valid.eq(stored),
            store.channel.eq(channel),
            store.data.eq(moved.data),
            store.first.eq(moved.first),
            store.commit.eq(moved.last),
            store.targets.eq(1),
            store.row.eq(self.row),
            store.lasting.eq(lasts),
            buffer.closed.eq(0),
        ]
        m.d.sync += buffer.kill.eq(self.kill)  # a cycle later, which nobody waits for
        held = Signal()
        m.d.comb += held.eq(within | (stored & ~lasts))
        self._moves = stored
        return held

    def _room(
        self, m: Module, buffer: SendBuffer, number: int, shown: Value, within: Signal
    ) -> Signal:
        """High if there is room for a packet of a class; a register. *shown*: the source whose flit
        is moved."""
        count = Signal(range(SEND_PACKETS + 1), init=SEND_PACKETS, name=f"free_{number}")
        room = Signal(init=1, name=f"room_{number}")
        of_class = Cat(shown[k] for k, each in enumerate(self._classes) if each == number)
        moves = {"up": buffer.freed[number], "down": of_class.any() & room & ~within}
        m.d.sync += [
            count.eq(stepped(count, **moves)), room.eq(~stepped_to(count, 0, **moves)),
        ]
        return room

    def _discarded(self, m: Module, number: int, stored: Value) -> tuple[Value, Value]:
        """High while the packet that a source shows is dropped, never within a packet that is being
        *stored*; and the same a cycle later, when its header may be taken."""
        if number not in self._dropped:
            return Const(0), Const(0)
        source = self.i[number]
        rest = Signal(name=f"rest_{number}")
        drops = rest | (self._discards & source.p.first & ~stored)
        with m.If(source.valid & drops):
            m.d.sync += rest.eq(~(source.ready & source.p.last))
        return drops, rest
