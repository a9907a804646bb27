# SPDX-License-Identifier: Apache-2.0
"""Receives packets of a link, whole, and sorts them by class."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.count import stepped
from hw.common.fifo import StreamFIFO
from hw.common.params import require_int
from hw.link.packet import checksum_of
from hw.switch.formats import known as has_format
from hw.switch.formats import length_code, rest_of
from hw.switch.layouts import LINK_FLIT, AskedSignature
from hw.switch.packet import (
    CLASSES,
    FLIT,
    HEADER,
    LINK_CLASS,
    Kind,
    Traffic,
    has_data,
    header_of,
    notice_of,
    traffic_of,
)
from hw.switch.packet_queue import PacketQueue
from hw.switch.recount import Refunds, give_credits
from hw.switch.send_buffer import SendBuffer
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import NODE, each_region, heard_layout, per_region, pick, row_of

__all__ = ["Receive"]

_QUEUE_PACKETS = 2


class Receive(wiring.Component):
    """Checks packets and hands on those that are sound, a stream for each class.

    A packet is stored as its flits arrive, and handed on when the last of them is there, unless one
    more follows it at once; what is damaged is dropped whole. Nothing ever stalls at the link; the
    sender has a credit for each packet. Latency from the last flit to the first at `o` is 12
    cycles.

    Notices go by a way of their own, on which they wait for nothing but each other. Of a region
    that is not *open* nothing else is taken; and what is held when it is closed is never handed on,
    whenever it comes to its turn.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    rx : ``In(stream.Signature(LINK_FLIT, always_ready=True))``, credit : ``Out(CLASSES)``
        The link.
    node : ``In(NODE)``, for each region
        The endpoint's number, members and region.
    open : ``In(regions)``
        Regions of which packets are taken from the next cycle on.
    o : ``Out(stream.Signature(FLIT)).array(CLASSES)``
        Packets of each class.
    heard : ``Out(stream.Signature(heard_layout(config)))``
        Notices.
    dropped : ``Out(4)``
        High for one cycle for each packet dropped: damaged, truncated, region, overflow.
    stale : ``Out(1)``
        High for one cycle per packet dropped of a region that is not, or no longer, open.
    asked : ``Out(AskedSignature())``
        The receiver's side of a `Recount`.
    idle : ``Out(1)``
        No packet is held, and all credits are with the sender.
    """

    rx: stream.Interface
    credit: Signal
    node: Any
    open: Signal
    o: Any
    heard: stream.Interface
    dropped: Signal
    stale: Signal
    asked: Any
    idle: Signal

    def __init__(self, config: SwitchDmaConfig, *, link: int) -> None:
        c = self._config = config
        self._link = require_int("Receive link", link, minimum=0, maximum=c.links - 1)
        super().__init__(
            {
                "rx": In(stream.Signature(LINK_FLIT, always_ready=True)),
                "credit": Out(CLASSES),
                "node": per_region(config, In(NODE)),
                "open": In(c.regions),
                "o": Out(stream.Signature(FLIT)).array(CLASSES),
                "heard": Out(stream.Signature(heard_layout(c))),
                "dropped": Out(4),
                "stale": Out(1),
                "asked": Out(AskedSignature()),
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
        self._open = Signal.like(self.open, name="is_open")
        m.d.sync += self._open.eq(self.open)
        m.submodules.notices = notices = StreamFIFO(heard_layout(c), c.buffer_packets)
        connect(m, notices.o, flipped(self.heard))
        refunds, quiet, closed = self._store(m, buffer.store, notices)
        queues, lost = [], [closed]
        for k in range(CLASSES):
            queue = PacketQueue(packets=_QUEUE_PACKETS, flits=c.packet_flits)
            m.submodules[f"queue_{k}"] = queue
            queues.append(queue)
            comes = buffer.store.valid & buffer.store.commit & (buffer.store.channel == k)
            lost.append(self._hand_on(m, queue.o, self.o[k], comes, str(k)))
            m.d.comb += buffer.available[k].eq(queue.room << k)
        m.d.sync += self.stale.eq(Cat(lost).any())
        listens = [Signal(CLASSES, name=f"listens_{k}") for k in range(3)]
        m.d.comb += [buffer.grant.eq(buffer.request), buffer.hold.eq(0)]
        # Flits come three cycles after the grant; a packet of another queue may follow at once.
        with m.If(buffer.request.any()):
            m.d.sync += listens[0].eq(buffer.request)
        m.d.sync += [after.eq(before) for before, after in pairwise(listens)]
        for k, queue in enumerate(queues):
            m.d.comb += [
                queue.reserve.eq(buffer.request[k]),
                queue.i.valid.eq(buffer.valid & listens[-1][k]),
                queue.i.payload.eq(buffer.flit),
            ]
        due = give_credits(
            m, refunds, freed=buffer.freed, credit=self.credit, mute=self.asked.mute,
            regrant=self.asked.regrant, most=c.buffer_packets,
        )
        m.d.comb += self.idle.eq(
            quiet & buffer.empty & ~buffer.valid & ~due & ~self.credit.any()
            & Cat(queue.empty for queue in queues).all() & (notices.level == 0)
        )
        return m

    def _hand_on(
        self, m: Module, packets: stream.Interface, o: stream.Interface, comes: Value, name: str
    ) -> Value:
        """Packets of a class, but for those of regions that were closed since they came. Returns
        whether one of these is dropped."""
        c = self._config
        held = Signal(range(c.buffer_packets + _QUEUE_PACKETS + 2), name=f"held_{name}")
        within, drops, dropping = (
            Signal(name=f"{each}_{name}") for each in ("within", "drops", "dropping")
        )
        moves = packets.valid & packets.ready
        ends = moves & packets.p.last  # comes late
        new = Signal(name=f"new_{name}")  # it cannot leave so early
        m.d.sync += [new.eq(comes), held.eq(stepped(held, up=new, down=ends))]
        # By row, how many of the packets held, from the first on, came before it was closed; and
        # whether it was, or there are any.
        before = [Signal.like(held, name=f"before_{name}_{k}") for k in range(c.regions)]
        shut = [Signal(init=1, name=f"shut_{name}_{k}") for k in range(c.regions)]
        for count, shuts, is_open, opens in zip(before, shut, self._open, self.open):
            stays, falls = (
                Mux(is_open, Mux(down & (count != 0), count - 1, count),
                    stepped(held, up=new, down=down))
                for down in (0, 1)
            )
            some = Mux(ends, Mux(is_open, count > 1, new | (held > 1)),
                       Mux(is_open, count != 0, new | (held != 0)))
            m.d.sync += [count.eq(Mux(ends, falls, stays)), shuts.eq(~opens | some)]
        late: Value = shut[0]  # with a single row, what was stored was of its region
        if c.regions > 1:
            row, ours = row_of(self.node, header_of(packets.p).region)
            late = ~ours | pick(shut, row)
        m.d.comb += [
            drops.eq(Mux(within, dropping, late)),
            o.payload.eq(packets.payload),
            o.valid.eq(packets.valid & ~drops),
            packets.ready.eq(o.ready | drops),
        ]
        with m.If(moves):
            m.d.sync += [within.eq(~packets.p.last), dropping.eq(drops)]
        return moves & ~within & drops

    def _store(
        self, m: Module, store: Any, notices: StreamFIFO
    ) -> tuple[list[Refunds], Value, Value]:
        """Store or drop. Returns what becomes of credits by class, that all is quiet, and whether a
        packet is dropped since its region is not open."""
        c = self._config
        arrived: Any = Signal(LINK_FLIT)
        there = Signal()
        m.d.sync += [there.eq(self.rx.valid), arrived.eq(self.rx.payload)]
        given: Any = Signal(HEADER)
        m.d.comb += Value.cast(given).eq(arrived.data)
        partial = Kind.SUBTOTAL if c.multicast_partials else Kind.PARTIAL
        kinds = (
            Kind.LOAD, partial, Kind.RESPONSE, Kind.RESULT, Kind.SYNC, Kind.COUNT, Kind.COUNTED
        )
        known = Cat(Value.cast(given.kind) == each.value for each in kinds).any()
        notice = Value.cast(given.kind) == Kind.SYNC.value
        found, ours = row_of(each_region(c, self.node), given.region)
        unaligned = (given.address & (c.payload_flits - 1)).any() & ~notice
        told = notices.i
        flit: Any = Signal(LINK_FLIT)
        valid, whole, sound, foreign, tells = (
            Signal(name=name) for name in ("valid", "whole", "sound", "foreign", "tells")
        )
        row = Signal(range(max(2, c.regions)))
        m.d.sync += [
            valid.eq(there),
            flit.eq(arrived),
            whole.eq(given.offload & (given.checksum == checksum_of(arrived.data))),
            sound.eq(known & has_format(given, c.lengths)),
            foreign.eq(~ours | unaligned),
            tells.eq(notice),
            row.eq(found),
        ]
        head: Any = Signal(HEADER)
        m.d.comb += Value.cast(head).eq(flit.data)
        traffic = traffic_of(head.kind)
        rest = Signal(range(c.packet_flits))  # flits to come of the packet that is being stored
        channel = Signal(range(CLASSES))
        skipping = Signal()
        damaged, truncated, region, overflow, closed, unknown = (
            Signal(name=name)
            for name in ("damaged", "truncated", "region", "overflow", "closed", "unknown")
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
            with m.If(~whole):
                m.d.comb += damaged.eq(1)
            with m.Elif(~sound):  # a packet, but none that there is here
                m.d.comb += [damaged.eq(1), unknown.eq(1)]
            with m.Elif(traffic == LINK_CLASS):
                m.d.comb += [
                    self.asked.count.eq(head.kind == Kind.COUNT),
                    self.asked.counted.eq(head.kind == Kind.COUNTED),
                ]
            with m.Elif(foreign):
                m.d.comb += region.eq(1)
            with m.Elif(tells):
                m.d.comb += [told.valid.eq(1), overflow.eq(~told.ready)]
            with m.Elif(~self._open.bit_select(row, 1)):
                m.d.comb += closed.eq(1)
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
            told.p.notice.eq(notice_of(head)),
            told.p.source.eq(head.source),
            told.p.region.eq(head.region),
            told.p.link.eq(self._link),
            self.asked.nonce.eq(head.tag),
            self.asked.both.eq(head.poison),
        ]
        m.d.sync += self.dropped.eq(Cat(damaged, truncated, region, overflow))
        # Nothing was paid for what is damaged, has no class, or was sent without a credit.
        paid = region | closed | unknown
        result = Traffic.RESULT.value
        heard = notices.o.valid & notices.o.ready
        refunds = [
            Refunds(
                begun=(begin & (traffic == k)) | (told.valid & told.ready & (k == result)),
                dropped=paid & (traffic == k),
                cut_off=(truncated & (channel == k)) + (surplus & (store.channel == k))
                + (heard & (k == result)),
            )
            for k in range(CLASSES)
        ]
        return refunds, ~there & ~valid & (rest == 0), closed
