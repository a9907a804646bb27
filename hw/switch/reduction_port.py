"""A reduction unit with what joins it to the crossbar."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from hw.common.arbiter import RoundRobinArbiter
from hw.common.fifo import StreamFIFO
from hw.switch.config import SwitchConfig
from hw.switch.formats import FLIT_LANES, length_shape
from hw.switch.layouts import LOAD_HEADER, TAKEN
from hw.switch.packet import CLASSES, FLIT, HEADER, PASSING, Traffic, header_of
from hw.switch.packet_queue import PacketQueue
from hw.switch.recode import CompressPackets, ExpandPackets, cut
from hw.switch.reduction_unit import EVENTS, ReductionUnit
from hw.switch.send_buffer import SendBuffer

__all__ = ["ReductionPort"]


class ReductionPort(wiring.Component):
    """A reduction unit between two buffers: an output of the crossbar and an input of it.

    Parameters
    ----------
    config : SwitchConfig
    port : int
        Number of this port: where partials and answers go, and where loads came from.

    Members
    -------
    flit : ``In(FLIT)``, ``valid`` : ``In(1)``
        Operands; their sender has a credit for each packet.
    credit : ``Out(1)``
        Gives a credit back; at first there are ``queue_packets``.
    load_flit : ``In(FLIT)``, ``load_valid`` : ``In(1)``, ``load_credit`` : ``Out(1)``
        The same for loads.
    expected : ``In(...).array(regions)``
        Operands that make a result, by region.
    targets : ``In(ports).array(regions)``
        Links that results and loads go to, by region.
    timeout : ``In(timeout_bits)``
    available, request, channel, length, grant, hold, offers, busy, sent, sends
        The crossbar's side of a `SendBuffer` with a channel per class; *sent* and *sends* are its
        ``flit`` and ``valid``.
    events : ``Out(len(EVENTS))``
        Of the unit.
    taken : ``Out(TAKEN)``
        Of the unit.
    idle : ``Out(1)``
    """

    flit: Any
    valid: Signal
    credit: Signal
    load_flit: Any
    load_valid: Signal
    load_credit: Signal
    expected: Any
    targets: Any
    timeout: Signal
    available: Any
    request: Signal
    channel: Signal
    length: Signal
    grant: Signal
    hold: Signal
    offers: Signal
    busy: Signal
    sent: Any
    sends: Signal
    events: Signal
    taken: Any
    idle: Signal

    def __init__(self, config: SwitchConfig, *, port: int) -> None:
        c = self._config = config
        self._port = port
        super().__init__(
            {
                "flit": In(FLIT),
                "valid": In(1),
                "credit": Out(1),
                "load_flit": In(FLIT),
                "load_valid": In(1),
                "load_credit": Out(1),
                "expected": In(HEADER["count"].width).array(c.regions),
                "targets": In(c.ports).array(c.regions),
                "timeout": In(c.timeout_bits),
                "available": In(c.ports).array(CLASSES),
                "request": Out(c.ports),
                "channel": Out(range(CLASSES)),
                "length": Out(length_shape(c.short)),
                "grant": In(c.ports),
                "hold": In(1),
                "offers": Out(1),
                "busy": Out(1),
                "sent": Out(FLIT),
                "sends": Out(1),
                "events": Out(len(EVENTS)),
                "taken": Out(TAKEN),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.operands = operands = PacketQueue(
            packets=c.queue_packets, flits=c.packet_flits
        )
        m.submodules.unit = unit = ReductionUnit(
            entries=c.entries, payload_flits=c.payload_flits, alu_stages=c.alu_stages,
            queue_packets=c.queue_packets, timeout_bits=c.timeout_bits, formats=bool(c.lengths),
            multicast_partials=c.multicast_partials, lanes=c.lanes,
        )
        m.submodules.buffer = buffer = SendBuffer(
            channels=CLASSES, outputs=c.ports, packets=c.queue_packets, flits=c.packet_flits,
            short=c.short, passing=(PASSING.value,),
        )
        words, result, none = self._recode(m, operands.o, unit.result)
        partial = self._flits(m, unit.partial)
        # Room is reserved when the sender pays a credit; here, when the header arrives.
        m.d.comb += [
            operands.i.valid.eq(self.valid),
            operands.i.payload.eq(self.flit),
            operands.reserve.eq(self.valid & self.flit.first),
            unit.i.valid.eq(words.valid),
            unit.i.p.flit.eq(words.payload),
            unit.i.p.expected.eq(Array(self.expected)[header_of(words.p).region]),
            words.ready.eq(unit.i.ready),
            unit.timeout.eq(self.timeout),
        ]
        left = operands.o.valid & operands.o.ready & operands.o.p.last
        m.d.sync += self.credit.eq(left)
        loads_empty = self._take_loads(m, unit)
        self._fill(m, unit.request, partial, result, buffer)
        for k in range(CLASSES):
            m.d.comb += buffer.available[k].eq(self.available[k])
        m.d.comb += [
            self.request.eq(buffer.request),
            self.channel.eq(buffer.channel),
            self.length.eq(buffer.length),
            buffer.grant.eq(self.grant),
            buffer.hold.eq(self.hold),
            self.offers.eq(buffer.offers),
            self.busy.eq(buffer.busy),
            self.sent.eq(buffer.flit),
            self.sends.eq(buffer.valid),
            self.events.eq(Cat(getattr(unit, name) for name in EVENTS)),
            self.taken.eq(unit.taken),
            self.idle.eq(operands.empty & loads_empty & unit.idle & buffer.empty & none),
        ]
        return m

    def _recode(
        self, m: Module, operands: Any, results: Any
    ) -> tuple[Any, Any, Value]:
        """Operands as words, results in their format; whether none are being recoded."""
        c = self._config
        if not c.lengths:
            return operands, results, Const(1)
        m.submodules.expand = expand = ExpandPackets(
            payload_flits=c.payload_flits, half=c.half, bfp=c.bfp, lanes=c.lanes
        )
        m.submodules.compress = compress = CompressPackets(
            payload_flits=c.payload_flits, half=c.half, bfp=c.bfp, lanes=c.lanes
        )
        connect(m, operands, expand.i)
        connect(m, results, compress.i)
        return expand.o, compress.o, expand.empty & compress.empty

    def _flits(self, m: Module, packets: Any) -> Any:
        """Packets of words, flit by flit."""
        parts = self._config.lanes // FLIT_LANES
        if parts == 1:
            return packets
        flits = stream.Signature(FLIT).create(path=("partial",))
        cut(m, packets, flits, parts, whole=packets.p.first)
        m.d.comb += flits.p.first.eq(packets.p.first)
        return flits

    def _take_loads(self, m: Module, unit: ReductionUnit) -> Value:
        """Keep loads until the unit takes them; whether there are none."""
        m.submodules.loads = loads = StreamFIFO(LOAD_HEADER, self._config.queue_packets)
        m.d.comb += [
            loads.i.valid.eq(self.load_valid),
            loads.i.payload.eq(self.load_flit.data),
            unit.load.valid.eq(loads.o.valid),
            unit.load.payload.eq(loads.o.payload),
            loads.o.ready.eq(unit.load.ready),
        ]
        m.d.sync += self.load_credit.eq(loads.o.valid & loads.o.ready)
        return loads.level == 0

    def _fill(
        self, m: Module, loads: Any, partial: Any, result: Any, buffer: SendBuffer
    ) -> None:
        """Move packets from the unit's queues to the buffer, whole, as there is room."""
        c = self._config
        m.submodules.turns = turns = RoundRobinArbiter(CLASSES)
        # By class.
        queues: Any = (loads, partial, result)
        load = loads.payload
        request: Any = Signal(FLIT)
        cleaned: Any = Signal(LOAD_HEADER)
        m.d.comb += [
            cleaned.eq(load),
            *(cleaned[name].eq(0) for name, _ in LOAD_HEADER if name not in dict(HEADER)),
            request.data.eq(cleaned),
            request.first.eq(1),
            request.last.eq(1),
        ]
        shown = (request, partial.payload, result.payload)
        within = Signal()
        owner, chosen = Signal(CLASSES), Signal(CLASSES)
        begins = Signal()
        store = buffer.store
        m.d.comb += [
            turns.requests.eq(Cat(each.valid & store.room[k] for k, each in enumerate(queues))),
            turns.advance.eq(begins),
            chosen.eq(Mux(within, owner, turns.grant)),
            *(each.ready.eq(chosen[k]) for k, each in enumerate(queues)),
        ]
        flit: Any = Signal(FLIT)
        for k, queue in enumerate(queues):
            with m.If(chosen[k]):
                m.d.comb += [
                    store.valid.eq(queue.valid), flit.eq(shown[k]), store.channel.eq(k),
                ]
        here = Const(1 << self._port, c.ports)
        members = Array(self.targets)[header_of(flit).region]
        back = Mux(load.back, here, 0)
        ways = Mux(chosen[Traffic.REQUEST.value],
                   (members & ~here) | back,
                   Mux(chosen[Traffic.RESULT.value], members, here))
        meant = Signal(c.ports)
        m.d.comb += [
            begins.eq(store.valid & flit.first),
            store.data.eq(flit.data),
            store.first.eq(flit.first),
            store.commit.eq(flit.last),
            store.targets.eq(Mux(flit.first, ways, meant)),
        ]
        with m.If(store.valid):
            m.d.sync += [within.eq(~flit.last), owner.eq(chosen)]
        with m.If(begins):
            m.d.sync += meant.eq(ways)
