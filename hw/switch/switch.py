"""The switch: links, crossbar, reduction units, registers."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.common.arbiter import RoundRobinArbiter
from hw.common.engine_registers import CSR_SIGNATURE, EngineRegisters
from hw.common.idle import IdleDetector
from hw.common.params import require_type
from hw.link.packet import checksum_of
from hw.switch.config import SwitchConfig
from hw.switch.ingress import DROPS, Ingress
from hw.switch.layouts import LinkSignature
from hw.switch.output_port import OutputPort
from hw.switch.packet import CLASSES, FLIT, HEADER, Traffic, header_of
from hw.switch.reduction_unit import TAKEN, PacketQueue, ReductionUnit
from hw.switch.registers import SWITCH_ID, register_map
from hw.switch.send_buffer import SendBuffer

__all__ = ["Switch"]

IDLE_CYCLES = 8
_EVENTS = ("completed", "evicted", "expired", "excess", "mismatch")


class ReductionPort(wiring.Component):
    """A reduction unit between two buffers: an output of the crossbar and an input of it.

    Parameters
    ----------
    config : SwitchConfig
    port : int
        Number of this port: where partials go, and results too.

    Members
    -------
    flit : ``In(FLIT)``, ``valid`` : ``In(1)``
        Operands; their sender has a credit for each packet.
    credit : ``Out(1)``
        Gives a credit back; at first there are ``queue_packets``.
    expected : ``In(...).array(regions)``
        Operands that make a result, by region.
    targets : ``In(ports).array(regions)``
        Links that a result goes to, by region.
    timeout : ``In(timeout_bits)``
    available, request, channel, grant, sent, sends
        The crossbar's side of a `SendBuffer`, of which channel 0 has partials and 1 results; *sent*
        and *sends* are its ``flit`` and ``valid``.
    events : ``Out(5)``
        Of the unit: completed, evicted, expired, excess, mismatch.
    taken : ``Out(TAKEN)``
        Of the unit.
    idle : ``Out(1)``
    """

    flit: Any
    valid: Signal
    credit: Signal
    expected: Any
    targets: Any
    timeout: Signal
    available: Any
    request: Signal
    channel: Signal
    grant: Signal
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
                "expected": In(HEADER["count"].width).array(c.regions),
                "targets": In(c.ports).array(c.regions),
                "timeout": In(c.timeout_bits),
                "available": In(c.ports).array(2),
                "request": Out(c.ports),
                "channel": Out(1),
                "grant": In(c.ports),
                "sent": Out(FLIT),
                "sends": Out(1),
                "events": Out(len(_EVENTS)),
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
            queue_packets=c.queue_packets, timeout_bits=c.timeout_bits,
        )
        m.submodules.buffer = buffer = SendBuffer(
            channels=2, outputs=c.ports, packets=c.queue_packets, flits=c.packet_flits
        )
        # Room is reserved when the sender pays a credit; here, when the header arrives.
        m.d.comb += [
            operands.i.valid.eq(self.valid),
            operands.i.payload.eq(self.flit),
            operands.reserve.eq(self.valid & self.flit.first),
            unit.i.valid.eq(operands.o.valid),
            unit.i.p.flit.eq(operands.o.payload),
            unit.i.p.expected.eq(Array(self.expected)[header_of(operands.o.p).region]),
            operands.o.ready.eq(unit.i.ready),
            unit.timeout.eq(self.timeout),
        ]
        left = operands.o.valid & operands.o.ready & operands.o.p.last
        m.d.sync += self.credit.eq(left)
        self._fill(m, unit, buffer)
        for k in range(2):
            m.d.comb += buffer.available[k].eq(self.available[k])
        m.d.comb += [
            self.request.eq(buffer.request),
            self.channel.eq(buffer.channel),
            buffer.grant.eq(self.grant),
            self.sent.eq(buffer.flit),
            self.sends.eq(buffer.valid),
            self.events.eq(Cat(getattr(unit, name) for name in _EVENTS)),
            self.taken.eq(unit.taken),
            self.idle.eq(operands.empty & unit.idle & buffer.empty),
        ]
        return m

    def _fill(self, m: Module, unit: ReductionUnit, buffer: SendBuffer) -> None:
        """Move packets from the unit's two queues to the buffer, whole, as there is room."""
        m.submodules.turns = turns = RoundRobinArbiter(2)
        queues = (unit.partial, unit.result)
        within = Signal()
        owner, chosen = Signal(2), Signal(2)
        meant = Signal(self._config.ports)
        begins = Signal()
        store = buffer.store
        m.d.comb += [
            turns.requests.eq(Cat(each.valid & store.room[k] for k, each in enumerate(queues))),
            turns.advance.eq(begins),
            chosen.eq(Mux(within, owner, turns.grant)),
            *(each.ready.eq(chosen[k]) for k, each in enumerate(queues)),
        ]
        flit = Signal(FLIT)
        with m.If(chosen[0]):
            m.d.comb += [store.valid.eq(unit.partial.valid), flit.eq(unit.partial.payload)]
        with m.If(chosen[1]):
            m.d.comb += [store.valid.eq(unit.result.valid), flit.eq(unit.result.payload)]
        m.d.comb += [
            begins.eq(store.valid & flit.first),
            store.data.eq(flit.data),
            store.first.eq(flit.first),
            store.commit.eq(flit.last),
            store.channel.eq(chosen[1]),
            store.targets.eq(meant),
        ]
        with m.If(store.valid):
            m.d.sync += [within.eq(~flit.last), owner.eq(chosen)]
        with m.If(begins):
            members = Array(self.targets)[header_of(flit).region]
            m.d.sync += meant.eq(Mux(chosen[1], members, 1 << self._port))


class Switch(wiring.Component):
    """Switch that reduces: packets of `hw.switch.packet` in, sums to all members out.

    Every link has a buffer per class at its input, an output, and a reduction unit of its own,
    which has an input and an output of the crossbar apart from those of the link. So a link can
    bring an operand and take a result at full rate at the same time (internal speed-up 2).

    Latency of a packet that finds everything free, from the last flit at ``rx`` to the first at
    ``tx``: `latency` cycles; a packet is received as a whole before it goes on. Every output
    depends on registers only.

    Parameters
    ----------
    config : SwitchConfig

    Members
    -------
    link : ``Out(LinkSignature()).array(ports)``
    csr : ``In(AXI4LiteSignature)``
        Registers, see ``hw.switch.registers``.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    idle : ``Out(1)``
        Nothing is held or on its way, but for what neighbours hold.
    taken : ``Out(TAKEN).array(ports)``, only with ``config.trace``
        Operands as each port's unit reduces them.
    """

    link: Any
    csr: Any
    irq: Signal
    idle: Signal
    taken: Any

    latency = 9
    """Cycles from the last flit of a packet at ``rx`` to its first at ``tx``."""

    def __init__(self, config: SwitchConfig) -> None:
        c = self._config = require_type("Switch config", config, SwitchConfig)
        super().__init__(
            {
                "link": Out(LinkSignature()).array(c.ports),
                "csr": In(CSR_SIGNATURE),
                "irq": Out(1),
                "idle": Out(1),
                **({"taken": Out(TAKEN).array(c.ports)} if c.trace else {}),
            }
        )

    @property
    def config(self) -> SwitchConfig:
        """What was built."""
        return self._config

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        ports = range(c.ports)
        registers = EngineRegisters(m, register_map(c), engine=SWITCH_ID, csr=self.csr)
        ingress, buffers, units, links, ways = [], [], [], [], []
        for p in ports:
            ingress.append(Ingress(c, port=p))
            buffers.append(SendBuffer(channels=CLASSES, outputs=2 * c.ports,
                                      packets=c.buffer_packets, flits=c.packet_flits))
            units.append(ReductionPort(c, port=p))
            links.append(OutputPort(senders=2 * c.ports, classes=CLASSES, credits=c.credits,
                                    flits=c.packet_flits))
            ways.append(OutputPort(senders=c.ports, classes=1, credits=c.queue_packets,
                                   flits=c.packet_flits))
            m.submodules[f"ingress_{p}"] = ingress[p]
            m.submodules[f"buffer_{p}"] = buffers[p]
            m.submodules[f"reduction_{p}"] = units[p]
            m.submodules[f"link_{p}"] = links[p]
            m.submodules[f"way_{p}"] = ways[p]
            self._receive(m, registers, self.link[p], ingress[p], buffers[p])
            self._reduce(m, registers, units[p], ways[p])
            self._transmit(m, self.link[p], links[p])
            if c.trace:
                m.d.comb += self.taken[p].eq(units[p].taken)
        self._cross(m, buffers, units, links, ways)
        self._report(m, registers, ingress, buffers, units, links, ways)
        return m

    def _receive(
        self, m: Module, registers: EngineRegisters, link: Any, ingress: Ingress,
        buffer: SendBuffer,
    ) -> None:
        c = self._config
        connect(m, ingress.store, buffer.store)
        m.d.comb += [
            ingress.rx.valid.eq(link.rx.valid),
            ingress.rx.payload.eq(link.rx.payload),
            link.rx_credit.eq(ingress.credit),
            ingress.freed.eq(buffer.freed),
        ]
        for k in range(c.regions):
            row, mask = registers.region[k].value, registers.targets[k].value
            m.d.comb += [
                ingress.regions[k].valid.eq(row.valid),
                ingress.regions[k].expected.eq(row.expected),
                ingress.regions[k].targets.eq(mask.ports),
            ]
        for k in range(c.regions * c.homes):
            m.d.comb += ingress.homes[k].eq(registers.home[k].value.endpoint)
        for k in range(c.endpoints):
            m.d.comb += Value.cast(ingress.routes[k]).eq(Value.cast(registers.route[k].value))

    def _reduce(
        self, m: Module, registers: EngineRegisters, unit: ReductionPort, way: OutputPort
    ) -> None:
        m.d.comb += [
            unit.flit.eq(way.flit),
            unit.valid.eq(way.valid),
            way.credit.eq(unit.credit),
            unit.timeout.eq(registers.timeout.value.cycles),
        ]
        for k in range(self._config.regions):
            m.d.comb += [
                unit.expected[k].eq(registers.region[k].value.expected),
                unit.targets[k].eq(registers.targets[k].value.ports),
            ]

    @staticmethod
    def _transmit(m: Module, link: Any, output: OutputPort) -> None:
        """Headers get the checksum of what they have become."""
        header = Signal(HEADER)
        m.d.comb += [
            header.eq(header_of(output.flit)),
            header.checksum.eq(checksum_of(output.flit.data)),
        ]
        m.d.sync += [
            link.tx.valid.eq(output.valid),
            link.tx.p.start.eq(output.flit.first),
            link.tx.p.data.eq(Mux(output.flit.first, header.as_value(), output.flit.data)),
            output.credit.eq(link.tx_credit),
        ]

    def _cross(
        self, m: Module, buffers: list[SendBuffer], units: list[ReductionPort],
        links: list[OutputPort], ways: list[OutputPort],
    ) -> None:
        """The crossbar: inputs are the buffers of links, then those of units."""
        n = self._config.ports
        for p, output in enumerate(links):
            m.d.comb += output.request.eq(
                Cat(*(each.request[p] for each in buffers), *(each.request[p] for each in units))
            )
            for k, buffer in enumerate(buffers):
                m.d.comb += [
                    output.traffic[k].eq(buffer.channel),
                    output.flits[k].eq(buffer.flit),
                    buffer.grant[p].eq(output.grant[k]),
                ]
            for k, unit in enumerate(units):
                m.d.comb += [
                    output.traffic[n + k].eq(unit.channel + Traffic.PARTIAL.value),
                    output.flits[n + k].eq(unit.sent),
                    unit.grant[p].eq(output.grant[n + k]),
                ]
            m.d.comb += output.valids.eq(
                Cat(*(each.valid for each in buffers), *(each.sends for each in units))
            )
        for p, way in enumerate(ways):
            m.d.comb += [
                way.request.eq(Cat(each.request[n + p] for each in buffers)),
                way.valids.eq(Cat(each.valid for each in buffers)),
            ]
            for k, buffer in enumerate(buffers):
                m.d.comb += [
                    way.traffic[k].eq(Traffic.REQUEST),
                    way.flits[k].eq(buffer.flit),
                    buffer.grant[n + p].eq(way.grant[k]),
                ]
        for number in range(CLASSES):
            free = Cat(each.available[number] for each in links)
            to_units = Cat(each.available[0] for each in ways)
            for buffer in buffers:
                reach = Cat(free, to_units) if number == Traffic.REQUEST.value else free
                m.d.comb += buffer.available[number].eq(reach)
            if number != Traffic.REQUEST.value:
                for unit in units:
                    m.d.comb += unit.available[number - Traffic.PARTIAL.value].eq(free)

    def _report(
        self, m: Module, registers: EngineRegisters, ingress: list[Ingress],
        buffers: list[SendBuffer], units: list[ReductionPort], links: list[OutputPort],
        ways: list[OutputPort],
    ) -> None:
        c = self._config
        names = ("completed", "evicted", "expired", "dropped_excess", "dropped_mismatch")
        for k, name in enumerate(names):
            registers.count(getattr(registers, name), sum(each.events[k] for each in units))
        for k, name in enumerate(DROPS):
            registers.count(
                getattr(registers, f"dropped_{name}"), sum(each.dropped[k] for each in ingress)
            )
        dropped = Signal()
        m.d.sync += dropped.eq(
            Cat(*(each.dropped for each in ingress), *(each.events[3:] for each in units)).any()
        )
        m.submodules.rest = rest = IdleDetector(IDLE_CYCLES)
        m.d.comb += [
            rest.quiet.eq(
                Cat(
                    *(each.idle for each in (*ingress, *units)),
                    *(each.empty for each in (*buffers, *links, *ways)),
                    ~Cat(each.tx.valid for each in self.link).any(),
                ).all()
            ),
            self.idle.eq(rest.idle),
        ]
        registers.show(
            "shape", ports=c.ports, entries=c.entries, payload_flits=c.payload_flits,
            buffer_packets=c.buffer_packets,
        )
        registers.show("status", idle=self.idle)
        m.d.comb += self.irq.eq(registers.interrupt_by(dropped=dropped))
