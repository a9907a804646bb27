"""The switch: links, crossbar, reduction units, registers."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.common.engine_registers import CSR_SIGNATURE, EngineRegisters
from hw.common.idle import IdleDetector
from hw.common.params import require_type
from hw.switch.config import SwitchConfig
from hw.switch.ingress import DROPS, Ingress
from hw.switch.layouts import LinkSignature
from hw.switch.output_port import OutputPort, drive_link
from hw.switch.packet import CLASSES, FLIT, PASSING, Traffic
from hw.switch.reduction_port import ReductionPort
from hw.switch.reduction_unit import EVENTS, TAKEN
from hw.switch.registers import register_map
from hw.switch.send_buffer import SendBuffer
from hw.switch.sharing import Sharing

__all__ = ["Switch"]

IDLE_CYCLES = 8
_DROPPING = ("excess", "mismatch", "duplicate")


class Switch(wiring.Component):
    """Switch that reduces: packets of `hw.switch.packet` in, sums to all members out.

    Every link has a buffer per class at its input, an output, and a reduction unit of its own. With
    internal speed-up 2 the unit has an input and an output of the crossbar apart from those of the
    link, so a link can bring an operand and take a result at full rate at the same time. With 1 it
    shares them with the link, packet by packet.

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
        registers = EngineRegisters(m, register_map(c), csr=self.csr)
        ingress, buffers, units, links, ways, loads = [], [], [], [], [], []
        for p in ports:
            ingress.append(Ingress(c, port=p))
            buffers.append(SendBuffer(channels=CLASSES, outputs=2 * c.ports + 1,
                                      packets=c.buffer_packets, flits=c.packet_flits,
                                      short=c.short, passing=(PASSING.value,)))
            units.append(ReductionPort(c, port=p))
            links.append(OutputPort(senders=c.speedup * c.ports, classes=CLASSES, credits=c.credits,
                                    flits=c.packet_flits, short=c.short))
            ways.append(OutputPort(senders=c.ports, classes=1, credits=c.queue_packets,
                                   flits=c.packet_flits, short=c.short))
            loads.append(OutputPort(senders=1, classes=1, credits=c.queue_packets,
                                    flits=c.packet_flits))
            m.submodules[f"ingress_{p}"] = ingress[p]
            m.submodules[f"buffer_{p}"] = buffers[p]
            m.submodules[f"reduction_{p}"] = units[p]
            m.submodules[f"link_{p}"] = links[p]
            m.submodules[f"way_{p}"] = ways[p]
            m.submodules[f"load_{p}"] = loads[p]
            self._receive(m, registers, p, self.link[p], ingress[p], buffers[p])
            self._reduce(m, registers, units[p], ways[p], loads[p])
            drive_link(m, links[p], tx=self.link[p].tx, credit=self.link[p].tx_credit)
            if c.trace:
                m.d.comb += self.taken[p].eq(units[p].taken)
        self._cross(m, buffers, units, links, ways, loads)
        self._report(m, registers, ingress, buffers, units, [*links, *ways, *loads])
        return m

    def _receive(
        self, m: Module, registers: EngineRegisters, port: int, link: Any, ingress: Ingress,
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
                ingress.regions[k].behind.eq(registers.behind[k * c.ports + port].value.members),
            ]
        for k in range(c.regions * c.homes):
            m.d.comb += ingress.homes[k].eq(registers.home[k].value.endpoint)
        for k in range(c.endpoints):
            m.d.comb += Value.cast(ingress.routes[k]).eq(Value.cast(registers.route[k].value))

    def _reduce(
        self, m: Module, registers: EngineRegisters, unit: ReductionPort, way: OutputPort,
        load: OutputPort,
    ) -> None:
        m.d.comb += [
            unit.flit.eq(way.flit),
            unit.valid.eq(way.valid),
            way.credit.eq(unit.credit),
            unit.load_flit.eq(load.flit),
            unit.load_valid.eq(load.valid),
            load.credit.eq(unit.load_credit),
            unit.timeout.eq(registers.timeout.value.cycles),
        ]
        for k in range(self._config.regions):
            m.d.comb += [
                unit.expected[k].eq(registers.region[k].value.expected),
                unit.targets[k].eq(registers.targets[k].value.ports),
            ]

    def _cross(
        self, m: Module, buffers: list[SendBuffer], units: list[ReductionPort],
        links: list[OutputPort], ways: list[OutputPort], loads: list[OutputPort],
    ) -> None:
        """The crossbar: inputs are the buffers of links, then those of units."""
        n = self._config.ports
        if self._config.speedup == 1:
            senders = [self._share_input(m, p, *each) for p, each in enumerate(zip(buffers, units))]
        else:
            senders = [_Sender([each], each.flit, each.valid) for each in buffers]
            senders += [_Sender([each], each.sent, each.sends) for each in units]
            m.d.comb += [each.hold.eq(0) for each in (*buffers, *units)]
        granted: dict[Any, list[Value]] = {each: [] for each in (*buffers, *units)}
        for p, (link, way) in enumerate(zip(links, ways)):
            asks = [each.request(p) for each in senders]
            to_unit = [buffer.request[n + p] for buffer in buffers]
            if self._config.speedup == 1:
                hold = self._share_output(m, p, link, way, Cat(asks).any(), Cat(to_unit).any())
                asks = [each & ~hold[0] for each in asks]
                to_unit = [each & ~hold[1] for each in to_unit]
            m.d.comb += [
                link.request.eq(Cat(asks)),
                link.valids.eq(Cat(each.valid for each in senders)),
                way.request.eq(Cat(to_unit)),
                way.valids.eq(Cat(each.valid for each in senders[:n])),
            ]
            for k, sender in enumerate(senders):
                m.d.comb += [
                    link.traffic[k].eq(sender.channel),
                    link.length[k].eq(sender.length),
                    Value.cast(link.flits[k]).eq(sender.flit),
                ]
                for part in sender.parts:
                    granted[part].append(link.grant[k] & part.request[p])
            for k in range(n):
                m.d.comb += [
                    way.traffic[k].eq(0),
                    way.length[k].eq(senders[k].length),
                    Value.cast(way.flits[k]).eq(senders[k].flit),
                ]
        for k, (buffer, load) in enumerate(zip(buffers, loads)):
            m.d.comb += [
                load.request.eq(buffer.request[2 * n]),
                load.traffic[0].eq(0),
                load.length[0].eq(1),
                load.valids.eq(buffer.valid),
                load.flits[0].eq(buffer.flit),
            ]
            granted[buffer] += [*(way.grant[k] for way in ways), load.grant]
        for part, grants in granted.items():
            m.d.comb += part.grant.eq(Cat(grants))
        self._offer(m, buffers, units, links, ways, loads)

    def _share_input(
        self, m: Module, port: int, buffer: SendBuffer, unit: ReductionPort
    ) -> "_Sender":
        m.submodules[f"input_{port}"] = sharing = Sharing()
        m.d.comb += [
            sharing.offers.eq(Cat(buffer.offers, unit.offers)),
            sharing.busy.eq(Cat(buffer.busy, unit.busy)),
            sharing.begins.eq(Cat(buffer.grant.any(), unit.grant.any())),
            buffer.hold.eq(sharing.hold[0]),
            unit.hold.eq(sharing.hold[1]),
        ]
        flit: Any = Signal(FLIT)
        m.d.comb += Value.cast(flit).eq(
            Mux(unit.sends, Value.cast(unit.sent), Value.cast(buffer.flit))
        )
        return _Sender([buffer, unit], flit, buffer.valid | unit.sends)

    def _share_output(
        self, m: Module, port: int, link: OutputPort, way: OutputPort, asks: Value, to_unit: Value
    ) -> Signal:
        m.submodules[f"output_{port}"] = sharing = Sharing()
        m.d.comb += [
            sharing.offers.eq(Cat(asks, to_unit)),
            sharing.busy.eq(Cat(link.busy, way.busy)),
            sharing.begins.eq(Cat(link.grant.any(), way.grant.any())),
        ]
        return sharing.hold

    def _offer(
        self, m: Module, buffers: list[SendBuffer], units: list[ReductionPort],
        links: list[OutputPort], ways: list[OutputPort], loads: list[OutputPort],
    ) -> None:
        """Which outputs a class can be sent to."""
        pairs = list(zip(links, ways))

        def free_of(output: OutputPort, number: int, other: OutputPort) -> Value:
            free = output.available[number]
            return free & ~other.busy if self._config.speedup == 1 else free

        to_units = Cat(free_of(way, 0, link) for link, way in pairs)
        for number in range(CLASSES):
            free = Cat(free_of(link, number, way) for link, way in pairs)
            for unit in units:
                m.d.comb += unit.available[number].eq(free)
            for buffer, load in zip(buffers, loads):
                reach: dict[int, Value] = {
                    Traffic.REQUEST.value: Cat(free, to_units, load.available[0]),
                    Traffic.PARTIAL.value: Cat(free, to_units),
                    Traffic.RESULT.value: free,
                }
                m.d.comb += buffer.available[number].eq(reach[number])

    def _report(
        self, m: Module, registers: EngineRegisters, ingress: list[Ingress],
        buffers: list[SendBuffer], units: list[ReductionPort], outputs: list[OutputPort],
    ) -> None:
        lost: list[Value] = []
        for k, name in enumerate(EVENTS):
            register = f"dropped_{name}" if name in _DROPPING else name
            events = [each.events[k] for each in units]
            registers.count(getattr(registers, register), sum(events))
            lost += events if name in _DROPPING else []
        for k, name in enumerate(DROPS):
            registers.count(
                getattr(registers, f"dropped_{name}"), sum(each.dropped[k] for each in ingress)
            )
        dropped = Signal()
        m.d.sync += dropped.eq(
            Cat(*(each.dropped for each in ingress), *lost).any()
        )
        m.submodules.rest = rest = IdleDetector(IDLE_CYCLES)
        m.d.comb += [
            rest.quiet.eq(
                Cat(
                    *(each.idle for each in (*ingress, *units)),
                    *(each.empty for each in (*buffers, *outputs)),
                    ~Cat(each.tx.valid for each in self.link).any(),
                ).all()
            ),
            self.idle.eq(rest.idle),
        ]
        registers.show("status", idle=self.idle)
        m.d.comb += self.irq.eq(registers.interrupt_by(dropped=dropped))


class _Sender:
    """An input of the crossbar: of one buffer, or of two of which one asks and sends at a time."""

    def __init__(self, parts: list[Any], flit: Any, valid: Value) -> None:
        self.parts, self.flit, self.valid = parts, Value.cast(flit), valid

    def request(self, link: int) -> Value:
        return Cat(each.request[link] for each in self.parts).any()

    @property
    def channel(self) -> Value:
        return self._asking(lambda each: each.channel)

    @property
    def length(self) -> Value:
        return self._asking(lambda each: each.length)

    def _asking(self, of: Callable[[Any], Value]) -> Value:
        first, *second = self.parts
        return Mux(second[0].request.any(), of(second[0]), of(first)) if second else of(first)
