"""The switch: links, crossbar, reduction units, registers."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.common.engine_registers import CSR_SIGNATURE, EngineRegisters
from hw.common.idle import IdleDetector
from hw.common.params import require_type
from hw.switch.config import SwitchConfig
from hw.switch.ingress import DROPS, Ingress
from hw.switch.layouts import LinkSignature
from hw.switch.output_port import OutputPort, drive_link
from hw.switch.packet import CLASSES, Traffic
from hw.switch.reduction_port import ReductionPort
from hw.switch.reduction_unit import EVENTS, TAKEN
from hw.switch.registers import register_map
from hw.switch.send_buffer import SendBuffer

__all__ = ["Switch"]

IDLE_CYCLES = 8
_DROPPING = ("excess", "mismatch", "duplicate")


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
        registers = EngineRegisters(m, register_map(c), csr=self.csr)
        ingress, buffers, units, links, ways, loads = [], [], [], [], [], []
        for p in ports:
            ingress.append(Ingress(c, port=p))
            buffers.append(SendBuffer(channels=CLASSES, outputs=2 * c.ports + 1,
                                      packets=c.buffer_packets, flits=c.packet_flits))
            units.append(ReductionPort(c, port=p))
            links.append(OutputPort(senders=2 * c.ports, classes=CLASSES, credits=c.credits,
                                    flits=c.packet_flits))
            ways.append(OutputPort(senders=c.ports, classes=1, credits=c.queue_packets,
                                   flits=c.packet_flits))
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
                    output.traffic[n + k].eq(unit.channel),
                    output.flits[n + k].eq(unit.sent),
                    unit.grant[p].eq(output.grant[n + k]),
                ]
            m.d.comb += [
                output.valids.eq(
                    Cat(*(each.valid for each in buffers), *(each.sends for each in units))
                ),
                output.alone.eq(Cat(each.alone for each in (*buffers, *units))),
            ]
        for p, way in enumerate(ways):
            m.d.comb += [
                way.request.eq(Cat(each.request[n + p] for each in buffers)),
                way.alone.eq(0),
                way.valids.eq(Cat(each.valid for each in buffers)),
            ]
            for k, buffer in enumerate(buffers):
                m.d.comb += [
                    way.traffic[k].eq(0),
                    way.flits[k].eq(buffer.flit),
                    buffer.grant[n + p].eq(way.grant[k]),
                ]
        for buffer, load in zip(buffers, loads):
            m.d.comb += [
                load.request.eq(buffer.request[2 * n]),
                load.traffic[0].eq(0),
                load.alone.eq(1),
                load.valids.eq(buffer.valid),
                load.flits[0].eq(buffer.flit),
                buffer.grant[2 * n].eq(load.grant),
            ]
        to_units = Cat(each.available[0] for each in ways)
        for number in range(CLASSES):
            free = Cat(each.available[number] for each in links)
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
