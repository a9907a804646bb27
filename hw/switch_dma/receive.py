"""Receives packets of a link, whole, and sorts them by class."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.link.packet import checksum_of
from hw.switch.formats import known as has_format
from hw.switch.formats import length_code, rest_of
from hw.switch.layouts import LINK_FLIT
from hw.switch.packet import CLASSES, FLIT, HEADER, Kind, has_data, traffic_of
from hw.switch.packet_queue import PacketQueue
from hw.switch.send_buffer import SendBuffer
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import NODE, each_region, per_region, row_of

__all__ = ["Receive"]

_QUEUE_PACKETS = 2


class Receive(wiring.Component):
    """Checks packets and hands on those that are sound, a stream for each class.

    A packet is stored as its flits arrive, and handed on when the last of them is there, unless one
    more follows it at once; what is damaged is dropped whole. Nothing ever stalls at the link; the
    sender has a credit for each packet. Latency from the last flit to the first at `o` is 9 cycles.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    rx : ``In(stream.Signature(LINK_FLIT, always_ready=True))``, credit : ``Out(CLASSES)``
        The link.
    node : ``In(NODE)``, for each region
    o : ``Out(stream.Signature(FLIT)).array(CLASSES)``
        Packets of each class.
    dropped : ``Out(4)``
        High for one cycle for each packet dropped: damaged, truncated, region, overflow.
    idle : ``Out(1)``
        No packet is held, and all credits are with the sender.
    """

    rx: stream.Interface
    credit: Signal
    node: Any
    o: Any
    dropped: Signal
    idle: Signal

    def __init__(self, config: SwitchDmaConfig) -> None:
        self._config = config
        super().__init__(
            {
                "rx": In(stream.Signature(LINK_FLIT, always_ready=True)),
                "credit": Out(CLASSES),
                "node": per_region(config, In(NODE)),
                "o": Out(stream.Signature(FLIT)).array(CLASSES),
                "dropped": Out(4),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.buffer = buffer = SendBuffer(
            channels=CLASSES, outputs=CLASSES, packets=c.buffer_packets, flits=c.packet_flits,
            short=c.short,
        )
        refunds, quiet = self._store(m, buffer.store)
        queues = []
        for k in range(CLASSES):
            queue = PacketQueue(packets=_QUEUE_PACKETS, flits=c.packet_flits)
            m.submodules[f"queue_{k}"] = queue
            queues.append(queue)
            connect(m, queue.o, flipped(self.o[k]))
            m.d.comb += buffer.available[k].eq(queue.room << k)
        listens = [Signal(CLASSES, name=f"listens_{k}") for k in range(2)]
        m.d.comb += [buffer.grant.eq(buffer.request), buffer.hold.eq(0)]
        # Flits come two cycles after the grant; a packet of another queue may follow at once.
        with m.If(buffer.request.any()):
            m.d.sync += listens[0].eq(buffer.request)
        m.d.sync += listens[1].eq(listens[0])
        for k, queue in enumerate(queues):
            m.d.comb += [
                queue.reserve.eq(buffer.request[k]),
                queue.i.valid.eq(buffer.valid & listens[1][k]),
                queue.i.payload.eq(buffer.flit),
            ]
        waiting = []
        for k, extra in enumerate(refunds):
            owed = Signal(range(c.buffer_packets + 1), name=f"owed_{k}")
            gives = owed != 0
            m.d.sync += [
                owed.eq(owed + buffer.freed[k] + sum(extra) - gives),
                self.credit[k].eq(gives),
            ]
            waiting.append(gives)
        m.d.comb += self.idle.eq(
            quiet & buffer.empty & ~buffer.valid & ~Cat(waiting).any() & ~self.credit.any()
            & Cat(queue.empty for queue in queues).all()
        )
        return m

    def _store(self, m: Module, store: Any) -> tuple[list[list[Value]], Value]:
        """Store or drop. Returns per class the credits of what is dropped, and that all is
        quiet."""
        c = self._config
        arrived: Any = Signal(LINK_FLIT)
        there = Signal()
        m.d.sync += [there.eq(self.rx.valid), arrived.eq(self.rx.payload)]
        given: Any = Signal(HEADER)
        m.d.comb += Value.cast(given).eq(arrived.data)
        partial = Kind.SUBTOTAL if c.multicast_partials else Kind.PARTIAL
        kinds = (Kind.LOAD, partial, Kind.RESPONSE, Kind.RESULT)
        known = Cat(Value.cast(given.kind) == each.value for each in kinds).any()
        _, ours = row_of(each_region(c, self.node), given.region)
        unaligned = (given.address & (c.payload_flits - 1)).any()
        flit: Any = Signal(LINK_FLIT)
        valid, sound, foreign = Signal(), Signal(), Signal()
        m.d.sync += [
            valid.eq(there),
            flit.eq(arrived),
            sound.eq(
                given.offload & known & has_format(given, c.lengths)
                & (given.checksum == checksum_of(arrived.data))
            ),
            foreign.eq(~ours | unaligned),
        ]
        head: Any = Signal(HEADER)
        m.d.comb += Value.cast(head).eq(flit.data)
        traffic = traffic_of(head.kind)
        rest = Signal(range(c.packet_flits))  # flits to come of the packet that is being stored
        channel = Signal(range(CLASSES))
        skipping = Signal()
        damaged, truncated, region, overflow = (
            Signal(name=name) for name in ("damaged", "truncated", "region", "overflow")
        )
        begin, goes_on, last, surplus = (
            Signal(name=name) for name in ("begin", "goes_on", "last", "surplus")
        )
        follow = rest_of(length_code(head, c.lengths), c.packet_flits, c.short)
        header = valid & flit.start
        m.d.comb += [
            truncated.eq(header & (rest != 0)),
            goes_on.eq(valid & ~flit.start & (rest != 0)),
            last.eq(Mux(begin, ~has_data(head.kind), goes_on & (rest == 1))),
            # Flits of a packet come without gaps: one that was doubled shows behind the last.
            surplus.eq(last & there & ~arrived.start),
        ]
        with m.If(header):
            with m.If(~sound):
                m.d.comb += damaged.eq(1)
            with m.Elif(foreign):
                m.d.comb += region.eq(1)
            with m.Elif(~store.room.bit_select(traffic, 1)):
                m.d.comb += overflow.eq(1)
            with m.Else():
                m.d.comb += begin.eq(1)
                m.d.sync += channel.eq(traffic)
            m.d.sync += [skipping.eq(~begin), rest.eq(Mux(begin, follow, 0))]
        with m.Elif(goes_on):
            m.d.sync += rest.eq(rest - 1)
        with m.Elif(valid & ~skipping):
            m.d.comb += damaged.eq(1)
            m.d.sync += skipping.eq(1)
        with m.If(surplus):
            m.d.comb += damaged.eq(1)
            m.d.sync += skipping.eq(1)
        m.d.comb += [
            store.valid.eq(begin | goes_on),
            store.data.eq(flit.data),
            store.first.eq(begin),
            store.commit.eq(last & ~surplus),
            store.channel.eq(Mux(begin, traffic, channel)),
            store.targets.eq(1 << store.channel),
        ]
        m.d.sync += self.dropped.eq(Cat(damaged, truncated, region, overflow))
        # Nothing was paid for what has no class, or was sent without a credit.
        refunds = [
            [
                region & (traffic == k), truncated & (channel == k),
                surplus & (store.channel == k),
            ]
            for k in range(CLASSES)
        ]
        return refunds, ~there & ~valid & (rest == 0)
