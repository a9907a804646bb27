# SPDX-License-Identifier: Apache-2.0
"""Input of a link: checks packets, looks up where they go, stores or drops them."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.common.select import select
from hw.link.packet import FLIT_BITS, checksum_of
from hw.switch.config import SwitchConfig
from hw.switch.formats import known as has_format
from hw.switch.formats import length_code, length_shape, rest_of
from hw.switch.layouts import LINK_FLIT, LOAD_HEADER, AskedSignature, StoreSignature
from hw.switch.packet import CLASSES, HEADER, LINK_CLASS, Kind, kinds_of, traffic_of
from hw.switch.recount import Refunds, give_credits

__all__ = ["DROPS", "MOST_GAP", "Ingress"]

MOST_GAP = 64
"""Cycles without a flit in the middle of a packet, after which the rest is not waited for."""

DROPS = {
    "damaged": "checksum, kind or format of the header, flits without a header, or more flits than "
    "the header says",
    "disabled": "the link is out of service",
    "truncated": "the next header came before the last flit, or nothing came for a while",
    "region": "there is no such region",
    "epoch": "the link's other end has not come to the epoch of the region",
    "alignment": "the address is not a multiple of the payload",
    "member": "the link, or the link to the home endpoint, does not belong to the region, or no "
    "other link does",
    "route": "there is no route to the endpoint, or it leads back; the link by which a load came "
    "is not the one that leads to its requester",
    "count": "a load that asks for another number of operands than the region has",
    "overflow": "sent without a credit",
}
"""Why packets are dropped, with what each reason says."""


class Ingress(wiring.Component):
    """Receives packets of a link and stores those that are sound, with the outputs they are for.

    A packet is stored as its flits arrive, and committed with the last of them, unless one more
    follows it at once; what is dropped is dropped whole. Flits of a packet come without gaps, so a
    flit that was doubled or inserted on the way shows behind the last. A packet whose rest does not
    come, since its sender was reset, is dropped after `MOST_GAP` cycles: else its region would be
    held for ever. Latency from the last flit to its ``store.commit`` is 3 cycles; throughput is a
    flit per cycle, and nothing ever stalls.

    The outputs are the links (*p*), the reduction units (*ports* + *p*) and this port's own unit
    (2 *ports*). Results are for a set of links, all else for one output. A PUSH is for the unit of
    the port at which its home endpoint is, or for the link that leads there. The home is row
    ``address / payload_flits % homes`` of the region; the switch writes it into the header. A
    PARTIAL is for the link to its destination, a RESPONSE for the unit of that link. A RESULT or
    SUBTOTAL is for all links of its region but the one that it came by. A LOAD or SYNC is for this
    port's own unit, which sends it on; the header of a LOAD becomes a `LOAD_HEADER`. Whatever has
    no output is dropped.

    Packets of kinds that are for this end of the link alone go to its `Recount`, in order with the
    others: what was sent before them has been stored or dropped.

    Parameters
    ----------
    config : SwitchConfig
    port : int
        Number of this port.

    Members
    -------
    rx : ``In(stream.Signature(LINK_FLIT, always_ready=True))``
        Flits from the link.
    credit : ``Out(CLASSES)``
        Gives credits back to the sender.
    freed : ``In(CLASSES)``
        Packets that have left the buffer.
    regions : ``In(config.region_layout).array(regions)``
        Table of regions; it may change while no packet is under way.
    homes : ``In(range(endpoints)).array(regions * homes)``
        Home endpoints of each region, likewise.
    routes : ``In(config.route_layout).array(endpoints)``
        Ways to the endpoints, likewise.
    current : ``In(regions)``
        Regions of which packets are taken from this link, see `EpochTracker`; notices always are.
    disabled : ``In(1)``
        The link is out of service: everything is dropped.
    asked : ``Out(AskedSignature())``
        The receiver's side of a `Recount`.
    store : ``Out(StoreSignature)``
        The buffers, one channel per class. ``targets`` are those of results; of notices the last.
    target : ``Out(range(2 * ports + 1))``
        The output that other packets are for, like ``store.targets``.
    holds : ``Out(regions)``
        Regions of which a packet was being stored in the cycle before; when its buffer shows that
        it holds it, this still does. A register.
    dropped : ``Out(len(DROPS))``
        High for one cycle for each packet dropped, a bit per reason.
    idle : ``Out(1)``
        No packet is under way, and all credits are with the sender.
    """

    rx: stream.Interface
    credit: Signal
    freed: Signal
    regions: Any
    homes: Any
    routes: Any
    current: Signal
    disabled: Signal
    asked: Any
    store: Any
    target: Signal
    holds: Signal
    dropped: Signal
    idle: Signal

    def __init__(self, config: SwitchConfig, *, port: int) -> None:
        c = self._config = config
        self._port = require_int("Ingress port", port, minimum=0, maximum=c.ports - 1)
        super().__init__(
            {
                "rx": In(stream.Signature(LINK_FLIT, always_ready=True)),
                "credit": Out(CLASSES),
                "freed": In(CLASSES),
                "regions": In(c.region_layout).array(c.regions),
                "homes": In(range(c.endpoints)).array(c.regions * c.homes),
                "routes": In(c.route_layout).array(c.endpoints),
                "current": In(c.regions),
                "disabled": In(1),
                "asked": Out(AskedSignature()),
                "store": Out(
                    StoreSignature(channels=CLASSES, outputs=c.ports + 1, rows=c.regions)
                ),
                "target": Out(range(2 * c.ports + 1)),
                "holds": Out(c.regions),
                "dropped": Out(len(DROPS)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        looked, seen = self._look_up_region(m)
        flit, targets, target, bad = self._look_up_route(m, looked, seen)
        follows = looked["valid"] & ~looked["start"]
        refunds = self._store(m, flit, targets, target, bad, follows)
        self._credits(m, refunds)
        return m

    @staticmethod
    def _look_up(m: Module, row: Any, number: Value, table: Any) -> None:
        """The *row* of a table with this number; not valid, if there is none."""
        rows = [Value.cast(table[k]) for k in range(len(table))]
        m.d.comb += Value.cast(row).eq(select(number, rows))
        if 1 << len(number) > len(rows):
            with m.If(number >= len(rows)):
                m.d.comb += row.valid.eq(0)

    def _look_up_region(self, m: Module) -> tuple[dict[str, Signal], Signal]:
        """First and second stage: a flit, and the row of its region if it is a header."""
        c = self._config
        arrived = Signal(LINK_FLIT)
        there = Signal()
        m.d.sync += [there.eq(self.rx.valid), arrived.eq(self.rx.payload)]
        header = Signal(HEADER)
        row = Signal(c.region_layout)
        low = (c.payload_flits - 1).bit_length()
        bits = (c.homes - 1).bit_length()
        home = Signal(range(c.regions * c.homes))
        m.d.comb += [
            Value.cast(header).eq(arrived.data),
            home.eq(header.region * c.homes + header.address[low : low + bits]),
        ]
        self._look_up(m, row, header.region, self.regions)
        kind = Value.cast(header.kind)
        looked: dict[str, Any] = {
            "valid": Signal(), "start": Signal(), "data": Signal(HEADER),
            "region": Signal(c.region_layout), "endpoint": Signal(HEADER["destination"].width),
            "damaged": Signal(), "alignment": Signal(),
            "paid": Signal(), "control": Signal(),
        }
        known = Value.cast(0)
        for each in kinds_of(c.multicast_partials):
            known = known | (kind == each.value)
        whole = header.offload & (header.checksum == checksum_of(header.as_value()))
        sound = whole & known & has_format(header, c.lengths)
        control = (kind == Kind.COUNT.value) | (kind == Kind.COUNTED.value)
        m.d.sync += [
            looked["valid"].eq(there),
            looked["start"].eq(arrived.start),
            Value.cast(looked["data"]).eq(arrived.data),
            looked["region"].eq(row),
            looked["endpoint"].eq(
                Mux(kind == Kind.PUSH.value, Array(self.homes)[home],
                    Mux(kind == Kind.LOAD.value, header.source, header.destination))
            ),
            looked["damaged"].eq(~sound),
            # Of what is whole and not known the class is known all the same.
            looked["paid"].eq(whole & (kind[:2] != LINK_CLASS)),
            looked["control"].eq(whole & control),
            looked["alignment"].eq(
                header.address[:low].any() & (kind != Kind.SYNC.value)
            ),
        ]
        return looked, there

    def _look_up_route(
        self, m: Module, looked: dict[str, Any], there: Signal
    ) -> tuple[dict[str, Any], Signal, Signal, dict[str, Signal]]:
        """Third stage: where the packet goes, and what is wrong with it."""
        c = self._config
        route = Signal(c.route_layout)
        self._look_up(m, route, looked["endpoint"], self.routes)
        head = looked["data"]
        region = looked["region"]
        to_link = Signal(c.ports)
        members = Signal(c.ports)
        m.d.comb += [to_link.eq(1 << route.port), members.eq(region.targets)]
        push, load, response = (
            head.kind == kind for kind in (Kind.PUSH, Kind.LOAD, Kind.RESPONSE)
        )
        store = head.kind == Kind.RESULT
        notice = head.kind == Kind.SYNC
        if c.multicast_partials:
            store = store | (head.kind == Kind.SUBTOTAL)
        others = members & ~Const(1 << self._port, c.ports)
        bad = {name: Signal(name=f"is_{name}") for name in
               ("damaged", "disabled", "region", "epoch", "alignment", "member", "route", "count")}
        flit: dict[str, Any] = {
            "valid": Signal(), "start": Signal(), "data": Signal(FLIT_BITS),
            "channel": Signal(range(CLASSES)),
            "length": Signal(length_shape(c.short)),
            "row": Signal(range(c.regions)), "notice": Signal(),
            "paid": Signal(), "control": Signal(),
            # A header of which only room is not known, a bit for each class.
            "sound": Signal(CLASSES),
        }
        targets, target = Signal(c.ports + 1), Signal(range(2 * c.ports + 1))
        sent = Signal(FLIT_BITS)
        with m.If(looked["start"] & push):
            m.d.comb += [sent.eq(head), data.View(HEADER, sent).destination.eq(looked["endpoint"])]
        with m.Elif(looked["start"] & load):
            m.d.comb += sent.eq(self._load(m, head, region, route))
        with m.Else():
            m.d.comb += sent.eq(head)
        here = to_link[self._port]
        to_unit = response | (push & route.local)
        # A requester's own operand comes back to the port that it left by.
        strays = Mux(load, ~here, here & ~(to_unit & route.local))
        reach = Mux(store | load, others, members & to_link)
        foreign = ~members[self._port] | (~notice & ~reach.any())
        reasons = {
            "damaged": looked["damaged"],
            "disabled": self.disabled,
            "region": ~region.valid,
            "epoch": ~notice & ~self.current.bit_select(head.region, 1),
            "alignment": looked["alignment"],
            "member": foreign,
            "route": ~store & ~notice & (~route.valid | strays),
            "count": load & self._miscounts(head, region, route),
        }
        sound = looked["valid"] & looked["start"] & ~looked["control"]
        sound = sound & ~Cat(reasons.values()).any()
        m.d.sync += [
            flit["valid"].eq(looked["valid"]),
            flit["start"].eq(looked["start"]),
            flit["data"].eq(sent),
            flit["channel"].eq(traffic_of(head.kind)),
            flit["length"].eq(length_code(head, c.lengths)),
            flit["row"].eq(head.region),
            flit["notice"].eq(notice),
            flit["paid"].eq(looked["paid"]),
            flit["control"].eq(looked["control"]),
            *(bad[name].eq(reason) for name, reason in reasons.items()),
            flit["sound"].eq(Mux(sound, 1 << traffic_of(head.kind), 0)),
        ]
        with m.If(looked["valid"] & looked["start"]):
            m.d.sync += [
                targets.eq(Mux(notice, 1 << c.ports, others)),
                target.eq(Mux(load, 2 * c.ports, route.port + Mux(to_unit, c.ports, 0))),
            ]
        self._quiet = ~there & ~looked["valid"] & ~flit["valid"]
        return flit, targets, target, bad

    def _load(self, m: Module, head: Any, region: Any, route: Any) -> Value:
        """The header of a load with the fields that its unit needs."""
        load: Any = Signal(LOAD_HEADER)
        shared = [name for name, _ in LOAD_HEADER if name in dict(HEADER)]
        m.d.comb += [
            *(load[name].eq(head[name]) for name in shared),
            load.expected.eq(Mux(route.local, head.count, region.expected - region.behind)),
            load.first.eq(route.local),
            load.back.eq(route.local & (head.count == region.expected)),
        ]
        return load.as_value()

    @staticmethod
    def _miscounts(head: Any, region: Any, route: Any) -> Value:
        """High if a load asks for other operands than those of all members, or of all but its
        requester; or if the link by which it came leads to no member, or to all."""
        others = region.expected - region.behind
        asks = (head.count == region.expected) | (head.count == others)
        return (
            (region.behind == 0) | (region.behind >= region.expected) | (route.local & ~asks)
        )

    def _store(
        self, m: Module, flit: dict[str, Any], targets: Signal, target: Signal,
        bad: dict[str, Signal], follows: Value,
    ) -> list[Refunds]:
        """Fourth stage: store or drop. *follows*: the next flit comes at once and is no header.
        Returns events that return credits, by class."""
        c = self._config
        store = self.store
        rest = Signal(range(c.packet_flits))  # flits to come of the packet that is being stored
        channel = Signal.like(flit["channel"])
        meant, meant_one = Signal.like(targets), Signal.like(target)
        row, notice = Signal.like(flit["row"]), Signal()
        skipping = Signal()
        reasons = {name: Signal(name=f"drops_{name}") for name in DROPS}
        header = flit["valid"] & flit["start"]
        wrong = Signal()
        begin = Signal()
        goes_on = Signal()
        last = Signal()
        surplus = Signal()
        # Flits of a packet come without gaps; who is reset in the middle of one sends no more.
        gap = Signal(range(MOST_GAP + 1))
        breaks_off = Signal()
        m.d.sync += gap.eq(Mux(flit["valid"] | (rest == 0), 0, gap + 1))
        m.d.comb += [
            breaks_off.eq((gap == MOST_GAP) & ~flit["valid"]),
            reasons["truncated"].eq((header & (rest != 0)) | breaks_off),
            goes_on.eq(flit["valid"] & ~flit["start"] & (rest != 0)),
            last.eq(Mux(begin, flit["length"] == 1, goes_on & (rest == 1))),
            surplus.eq(last & follows),
        ]
        m.d.comb += begin.eq((flit["sound"] & store.room).any())
        with m.If(header):
            # The first thing that is wrong counts.
            with m.If(flit["control"]):
                m.d.comb += wrong.eq(1)
            for name in ("damaged", "disabled", "region", "epoch", "alignment", "route", "member",
                         "count"):
                with m.Elif(bad[name]):
                    m.d.comb += [reasons[name].eq(1), wrong.eq(1)]
            with m.Elif(~Array(store.room)[flit["channel"]]):
                m.d.comb += [reasons["overflow"].eq(1), wrong.eq(1)]
            follow = rest_of(flit["length"], c.packet_flits, c.short)
            m.d.sync += [skipping.eq(wrong), rest.eq(Mux(wrong, 0, follow))]
        with m.Elif(goes_on):
            m.d.sync += rest.eq(rest - 1)
        with m.Elif(flit["valid"] & ~skipping):
            m.d.comb += reasons["damaged"].eq(1)
            m.d.sync += skipping.eq(1)
        with m.If(surplus):
            m.d.comb += reasons["damaged"].eq(1)
            m.d.sync += skipping.eq(1)
        with m.If(breaks_off):
            m.d.sync += [rest.eq(0), skipping.eq(1)]
        with m.If(begin):
            m.d.sync += channel.eq(flit["channel"])
            m.d.sync += [
                meant.eq(targets), meant_one.eq(target), row.eq(flit["row"]),
                notice.eq(flit["notice"]),
            ]
        m.d.comb += [
            store.valid.eq(begin | goes_on),
            store.data.eq(flit["data"]),
            store.first.eq(begin),
            store.commit.eq(last & ~surplus),
            store.channel.eq(Mux(begin, flit["channel"], channel)),
            store.targets.eq(Mux(begin, targets, meant)),
            self.target.eq(Mux(begin, target, meant_one)),
            store.row.eq(Mux(begin, flit["row"], row)),
            store.lasting.eq(Mux(begin, flit["notice"], notice)),
        ]
        m.d.sync += self.holds.eq(
            Mux(store.valid & ~store.lasting, 1 << store.row, 0)
            | Mux((rest != 0) & ~notice, 1 << row, 0)
        )
        control = header & flit["control"]
        asked: Any = data.View(HEADER, flit["data"])
        m.d.comb += [
            self.asked.count.eq(control & (asked.kind == Kind.COUNT)),
            self.asked.counted.eq(control & (asked.kind == Kind.COUNTED)),
            self.asked.nonce.eq(asked.tag),
            self.asked.both.eq(asked.poison),
        ]
        m.d.sync += self.dropped.eq(Cat(reasons[name] for name in DROPS))
        self._quiet = self._quiet & (rest == 0)
        # Nothing was paid for what has no class, or was sent without a credit.
        paid_for = wrong & flit["paid"] & ~reasons["overflow"]
        return [
            Refunds(
                begun=begin & (flit["channel"] == number),
                dropped=paid_for & (flit["channel"] == number),
                cut_off=(reasons["truncated"] & (channel == number))
                + (surplus & (store.channel == number)),
            )
            for number in range(CLASSES)
        ]

    def _credits(self, m: Module, refunds: list[Refunds]) -> None:
        """One credit per class and cycle goes back; more that are due wait."""
        m.d.comb += self.idle.eq(
            self._quiet & ~give_credits(
                m, refunds, freed=self.freed, credit=self.credit, mute=self.asked.mute,
                regrant=self.asked.regrant, most=self._config.buffer_packets,
            ) & ~self.credit.any()
        )
