"""What becomes of a packet that arrives on a link: checked, looked up, stored or dropped."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.link.packet import FLIT_BITS, checksum_of
from hw.switch.config import SwitchConfig
from hw.switch.formats import known as has_format
from hw.switch.formats import length_code, length_shape, rest_of
from hw.switch.layouts import LINK_FLIT, LOAD_HEADER, StoreSignature
from hw.switch.packet import CLASSES, HEADER, Kind, kinds_of, traffic_of

__all__ = ["DROPS", "Ingress"]

DROPS = {
    "damaged": "checksum, kind or format of the header, flits without a header, or more flits than "
    "the header says",
    "truncated": "the next header came before the last flit",
    "region": "there is no such region",
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
    flit that was doubled or inserted on the way shows behind the last. Latency from the last flit
    to its ``store.commit`` is 3 cycles; throughput is a flit per cycle, and nothing ever stalls.

    The outputs are the links (bit *p*), the reduction units (bit *ports* + *p*) and the loads of
    this port's unit (bit 2 *ports*). A PUSH is for the unit of the port at which its home endpoint
    is, or for the link that leads there. The home is row ``address / payload_flits % homes`` of the
    region; the switch writes it into the header. A PARTIAL is for the link to its destination, a
    RESPONSE for the unit of that link. A RESULT, SUBTOTAL or SYNC is for all links of its region
    but the one that it came by. A LOAD is for this port's unit, which sends it on; its header
    becomes a `LOAD_HEADER`.

    Parameters
    ----------
    config : SwitchConfig
    port : int
        Number of this port.

    Members
    -------
    rx : ``In(stream.Signature(LINK_FLIT, always_ready=True))``
    credit : ``Out(CLASSES)``
        Gives credits back to the sender.
    freed : ``In(CLASSES)``
        Packets that have left the buffer.
    regions : ``In(config.region_layout).array(regions)``
    homes : ``In(range(endpoints)).array(regions * homes)``
    routes : ``In(config.route_layout).array(endpoints)``
        The tables; they may change while no packet is under way.
    store : ``Out(StoreSignature)``
        The buffer, one channel per class.
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
    store: Any
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
                "store": Out(StoreSignature(channels=CLASSES, outputs=2 * c.ports + 1)),
                "dropped": Out(len(DROPS)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        looked, seen = self._look_up_region(m)
        flit, targets, bad = self._look_up_route(m, looked, seen)
        follows = looked["valid"] & ~looked["start"]
        refunds = self._store(m, flit, targets, bad, follows)
        self._credits(m, refunds)
        return m

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
        for number in range(c.regions):
            with m.If(header.region == number):
                m.d.comb += row.eq(self.regions[number])
        kind = Value.cast(header.kind)
        looked: dict[str, Any] = {
            "valid": Signal(), "start": Signal(), "data": Signal(HEADER),
            "region": Signal(c.region_layout), "endpoint": Signal(HEADER["destination"].width),
            "damaged": Signal(), "alignment": Signal(),
        }
        known = Value.cast(0)
        for each in kinds_of(c.multicast_partials):
            known = known | (kind == each.value)
        sound = (
            header.offload & known & has_format(header, c.lengths)
            & (header.checksum == checksum_of(header.as_value()))
        )
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
            looked["alignment"].eq(header.address[:low].any()),
        ]
        return looked, there

    def _look_up_route(
        self, m: Module, looked: dict[str, Any], there: Signal
    ) -> tuple[dict[str, Any], Signal, dict[str, Signal]]:
        """Third stage: where the packet goes, and what is wrong with it."""
        c = self._config
        route = Signal(c.route_layout)
        for number in range(c.endpoints):
            with m.If(looked["endpoint"] == number):
                m.d.comb += route.eq(self.routes[number])
        head = looked["data"]
        region = looked["region"]
        to_link = Signal(c.ports)
        members = Signal(c.ports)
        m.d.comb += [to_link.eq(1 << route.port), members.eq(region.targets)]
        push, load, response = (
            head.kind == kind for kind in (Kind.PUSH, Kind.LOAD, Kind.RESPONSE)
        )
        store = (head.kind == Kind.RESULT) | (head.kind == Kind.SYNC)
        if c.multicast_partials:
            store = store | (head.kind == Kind.SUBTOTAL)
        everyone = (1 << c.ports) - 1
        others = members & (everyone ^ (1 << self._port))
        bad = {name: Signal(name=f"is_{name}") for name in
               ("damaged", "region", "alignment", "member", "route", "count")}
        flit: dict[str, Any] = {
            "valid": Signal(), "start": Signal(), "data": Signal(FLIT_BITS),
            "channel": Signal(range(CLASSES)),
            "length": Signal(length_shape(c.short)),
        }
        targets = Signal(2 * c.ports + 1)
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
        foreign = ~members[self._port] | Mux(
            store | load, ~others.any(), ~(members & to_link).any()
        )
        m.d.sync += [
            flit["valid"].eq(looked["valid"]),
            flit["start"].eq(looked["start"]),
            flit["data"].eq(sent),
            flit["channel"].eq(traffic_of(head.kind)),
            flit["length"].eq(length_code(head, c.lengths)),
            bad["damaged"].eq(looked["damaged"]),
            bad["region"].eq(~region.valid),
            bad["alignment"].eq(looked["alignment"]),
            bad["member"].eq(foreign),
            bad["route"].eq(~store & (~route.valid | strays)),
            bad["count"].eq(load & self._miscounts(head, region, route)),
        ]
        with m.If(looked["valid"] & looked["start"]):
            with m.If(store):
                m.d.sync += targets.eq(others)
            with m.Elif(load):
                m.d.sync += targets.eq(1 << 2 * c.ports)
            with m.Else():
                m.d.sync += targets.eq(Mux(to_unit, to_link << c.ports, to_link))
        self._quiet = ~there & ~looked["valid"] & ~flit["valid"]
        return flit, targets, bad

    def _load(self, m: Module, head: Any, region: Any, route: Any) -> Value:
        """The header of a load with what its unit is to know."""
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
        """Whether a load asks for other operands than those of all members, or of all but its
        requester; or the link by which it came leads to no member, or to all."""
        others = region.expected - region.behind
        asks = (head.count == region.expected) | (head.count == others)
        return (
            (region.behind == 0) | (region.behind >= region.expected) | (route.local & ~asks)
        )

    def _store(
        self, m: Module, flit: dict[str, Any], targets: Signal, bad: dict[str, Signal],
        follows: Value,
    ) -> list[list[Value]]:
        """Fourth stage: store or drop. *follows*: the next flit comes at once and is no header.
        Returns per class the credits of what is dropped."""
        c = self._config
        store = self.store
        rest = Signal(range(c.packet_flits))  # flits to come of the packet that is being stored
        channel = Signal.like(flit["channel"])
        meant = Signal.like(targets)
        skipping = Signal()
        reasons = {name: Signal(name=f"drops_{name}") for name in DROPS}
        header = flit["valid"] & flit["start"]
        wrong = Signal()
        begin = Signal()
        goes_on = Signal()
        last = Signal()
        surplus = Signal()
        m.d.comb += [
            reasons["truncated"].eq(header & (rest != 0)),
            goes_on.eq(flit["valid"] & ~flit["start"] & (rest != 0)),
            last.eq(Mux(begin, flit["length"] == 1, goes_on & (rest == 1))),
            surplus.eq(last & follows),
        ]
        with m.If(header):
            # The first thing that is wrong counts.
            with m.If(bad["damaged"]):
                m.d.comb += [reasons["damaged"].eq(1), wrong.eq(1)]
            for name in ("region", "alignment", "route", "member", "count"):
                with m.Elif(bad[name]):
                    m.d.comb += [reasons[name].eq(1), wrong.eq(1)]
            with m.Elif(~Array(store.room)[flit["channel"]]):
                m.d.comb += [reasons["overflow"].eq(1), wrong.eq(1)]
            with m.Else():
                m.d.comb += begin.eq(1)
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
        with m.If(begin):
            m.d.sync += channel.eq(flit["channel"])
            m.d.sync += meant.eq(targets)
        m.d.comb += [
            store.valid.eq(begin | goes_on),
            store.data.eq(flit["data"]),
            store.first.eq(begin),
            store.commit.eq(last & ~surplus),
            store.channel.eq(Mux(begin, flit["channel"], channel)),
            store.targets.eq(Mux(begin, targets, meant)),
        ]
        m.d.sync += self.dropped.eq(Cat(reasons[name] for name in DROPS))
        self._quiet = self._quiet & (rest == 0)
        # Nothing was paid for what has no class, or was sent without a credit.
        paid_for = wrong & ~bad["damaged"] & ~reasons["overflow"]
        return [
            [
                paid_for & (flit["channel"] == number),
                reasons["truncated"] & (channel == number),
                surplus & (store.channel == number),
            ]
            for number in range(CLASSES)
        ]

    def _credits(self, m: Module, refunds: list[list[Value]]) -> None:
        """One credit per class and cycle goes back; more that are due wait."""
        most = self._config.buffer_packets
        waiting = []
        for number, extra in enumerate(refunds):
            owed = Signal(range(most + 1), name=f"owed_{number}")
            gives = owed != 0
            m.d.sync += [
                owed.eq(owed + self.freed[number] + sum(extra) - gives),
                self.credit[number].eq(gives),
            ]
            waiting.append(gives)
        m.d.comb += self.idle.eq(self._quiet & ~Cat(waiting).any() & ~self.credit.any())


