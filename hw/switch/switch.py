# SPDX-License-Identifier: Apache-2.0
"""The switch: links, crossbar, reduction units, registers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.common.engine_registers import CSR_SIGNATURE, EngineRegisters
from hw.common.idle import IdleDetector
from hw.common.params import require_type
from hw.common.select import index_of
from hw.link.packet import FLIT_BITS
from hw.link.retry_registers import LINK_STATUS, show_links
from hw.switch.config import SwitchConfig
from hw.switch.epochs import EpochTracker
from hw.switch.ingress import DROPS, Ingress
from hw.switch.layouts import TAKEN, LinkSignature
from hw.switch.oldest_first import OldestFirst
from hw.switch.output_port import OutputPort, count_anew
from hw.switch.packet import CLASSES, Traffic
from hw.switch.port_columns import PortColumns
from hw.switch.recount import Recount
from hw.switch.reduction_port import ReductionPort
from hw.switch.reduction_unit import EVENTS
from hw.switch.registers import register_map
from hw.switch.requests import Requests
from hw.switch.send_buffer import SendBuffer
from hw.switch.sharing import Sharing
from hw.switch.stop_detector import StopDetector
from hw.switch.tally import Tally

__all__ = ["Switch"]

IDLE_CYCLES = 8
_RESULT = Traffic.RESULT.value  # the last class
_DROPPING = ("excess", "mismatch", "duplicate")
_PURGING = ("purged", "load_purged")


class Switch(wiring.Component):
    """Switch that reduces: packets of `hw.switch.packet` in, sums to all members out.

    Every link has a buffer per class at its input, an output, and a reduction unit of its own. What
    links bring crosses to a link or to its unit through one column of the crossbar, packet by
    packet. With internal speed-up 2 results have inputs and columns of their own, those that links
    bring and all that comes from units, so a link can bring an operand and take a result at full
    rate at the same time. Results that the link brings are replicated by the unit's input: they are
    read again and again, as their outputs become free, and answers would wait for that. With
    speed-up 1 the unit shares the link's input and column.

    Latency of a packet that finds everything free, from the last flit at ``rx`` to the first at
    ``tx``: `latency` cycles; a packet is received as a whole before it goes on. Every output
    depends on registers only.

    Parameters
    ----------
    config : SwitchConfig

    Members
    -------
    link : ``Out(LinkSignature()).array(ports)``
        The links.
    csr : ``In(AXI4LiteSignature)``
        Registers, see ``hw.switch.registers``.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    idle : ``Out(1)``
        Nothing is held or on its way, but for what neighbours hold.
    status : ``In(LINK_STATUS).array(ports)``, only with ``config.retry``
        How the links do.
    taken : ``Out(TAKEN).array(ports)``, only with ``config.trace``
        Operands as each port's unit reduces them.
    """

    link: Any
    csr: Any
    irq: Signal
    idle: Signal
    status: Any
    taken: Any

    latency = 11
    """Cycles from the last flit of a packet at ``rx`` to its first at ``tx``."""

    def __init__(self, config: SwitchConfig) -> None:
        c = self._config = require_type("Switch config", config, SwitchConfig)
        super().__init__(
            {
                "link": Out(LinkSignature()).array(c.ports),
                "csr": In(CSR_SIGNATURE),
                "irq": Out(1),
                "idle": Out(1),
                **({"status": In(LINK_STATUS).array(c.ports)} if c.retry else {}),
                **({"taken": Out(TAKEN).array(c.ports)} if c.trace else {}),
            }
        )

    @property
    def config(self) -> SwitchConfig:
        """The configuration, as given."""
        return self._config

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        ports = range(c.ports)
        registers = EngineRegisters(m, register_map(c), csr=self.csr)
        m.submodules.tracker = tracker = EpochTracker(c)
        ingress, buffers, results, units, links, ways, recounts = [], [], [], [], [], [], []
        loads: list[OutputPort] = []
        notices: list[OutputPort] = []
        for p in ports:
            ingress.append(Ingress(c, port=p))
            buffers.append(SendBuffer(channels=_RESULT, outputs=2 * c.ports + 1,
                                      packets=c.buffer_packets, flits=c.packet_flits,
                                      short=c.short, passing=(Traffic.PARTIAL.value,),
                                      ages=c.age_bits, rows=c.regions, kills=True, unicast=True))
            results.append(SendBuffer(channels=1, outputs=c.ports + 1, packets=c.buffer_packets,
                                      flits=c.packet_flits, short=c.short, passing=(0,),
                                      rows=c.regions, kills=True))
            units.append(ReductionPort(c, port=p))
            links.append(OutputPort(senders=c.speedup * c.ports, classes=CLASSES, credits=c.credits,
                                    flits=c.packet_flits, short=c.short, recounts=True,
                                    held=c.ports))
            ways.append(OutputPort(senders=c.ports, classes=1, credits=c.queue_packets,
                                   flits=c.packet_flits, short=c.short, held=c.ports))
            for each in (loads, notices):
                each.append(OutputPort(senders=1, classes=1, credits=c.queue_packets,
                                       flits=c.packet_flits))
            recounts.append(Recount())
            m.submodules[f"ingress_{p}"] = ingress[p]
            m.submodules[f"buffer_{p}"] = buffers[p]
            m.submodules[f"results_{p}"] = results[p]
            m.submodules[f"reduction_{p}"] = units[p]
            m.submodules[f"link_{p}"] = links[p]
            m.submodules[f"way_{p}"] = ways[p]
            m.submodules[f"load_{p}"] = loads[p]
            m.submodules[f"notice_{p}"] = notices[p]
            m.submodules[f"recount_{p}"] = recounts[p]
            self._receive(m, registers, p, self.link[p], ingress[p])
            self._keep(m, ingress[p], buffers[p], results[p])
            self._reduce(m, registers, units[p], ways[p], loads[p])
            self._track(m, p, registers, tracker, units[p], notices[p])
            self._serve(m, registers, p, ingress[p], recounts[p], links[p])
            if c.trace:
                m.d.comb += self.taken[p].eq(units[p].taken)
        self._purge(m, registers, tracker, ingress, buffers, results, units)
        self._cross(m, buffers, results, units, links, ways, loads, notices, recounts)
        self._report(
            m, registers, tracker, ingress, units, [*buffers, *results],
            [*links, *ways, *loads, *notices], recounts,
        )
        return m

    def _receive(
        self, m: Module, registers: EngineRegisters, port: int, link: Any, ingress: Ingress
    ) -> None:
        c = self._config
        m.d.comb += [
            ingress.rx.valid.eq(link.rx.valid),
            ingress.rx.payload.eq(link.rx.payload),
            link.rx_credit.eq(ingress.credit),
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

    @staticmethod
    def _keep(m: Module, ingress: Ingress, buffer: SendBuffer, results: SendBuffer) -> None:
        """Results are stored apart from the other classes."""
        store = ingress.store
        result = store.channel == _RESULT
        for each, meant, targets in (
            (buffer, ~result, ingress.target), (results, result, store.targets)
        ):
            m.d.comb += [
                each.store.valid.eq(store.valid & meant),
                each.store.channel.eq(Mux(result, 0, store.channel)),
                each.store.targets.eq(targets),
                *(
                    getattr(each.store, name).eq(getattr(store, name))
                    for name in ("data", "first", "commit", "row", "lasting")
                ),
            ]
        m.d.comb += [
            store.room.eq(Cat(buffer.store.room, results.store.room)),
            ingress.freed.eq(Cat(buffer.freed, results.freed)),
        ]

    def _reduce(
        self, m: Module, registers: EngineRegisters, unit: ReductionPort, way: OutputPort,
        load: OutputPort,
    ) -> None:
        m.d.comb += [
            way.credit.eq(unit.credit),
            load.credit.eq(unit.load_credit),
            unit.timeout.eq(registers.timeout.value.cycles),
        ]
        for k in range(self._config.regions):
            m.d.comb += [
                unit.expected[k].eq(registers.region[k].value.expected),
                unit.targets[k].eq(registers.targets[k].value.ports),
            ]

    def _track(
        self, m: Module, port: int, registers: EngineRegisters, tracker: EpochTracker,
        unit: ReductionPort, notice: OutputPort,
    ) -> None:
        """Notices of a port ask the tracker."""
        m.d.comb += [
            notice.credit.eq(unit.notice_credit),
            tracker.asks[port].eq(unit.asks),
            tracker.question[port].eq(unit.question),
            unit.passed.eq(tracker.passed[port]),
            unit.postponed.eq(tracker.postponed[port]),
            unit.answered.eq(tracker.answered[port]),
            unit.answer.eq(tracker.answer),
        ]
        for k in range(self._config.endpoints):
            row = registers.route[k].value
            m.d.comb += unit.local[k].eq(row.valid & row.local & (row.port == port))

    def _serve(
        self, m: Module, registers: EngineRegisters, port: int, ingress: Ingress,
        recount: Recount, link: OutputPort,
    ) -> None:
        """Join a port to its control register, and count its credits anew when that says so, or
        when the other end was reset and has forgotten what it held."""
        control, status = registers.port_control[port], registers.port_status[port].value
        starts = control.strobe & control.value.resync
        if self._config.retry:
            starts |= self.status[port].restarted
        connect(m, ingress.asked, recount.asked)
        m.d.comb += [
            ingress.disabled.eq(control.value.disable),
            recount.start.eq(starts),
            recount.cancel.eq(control.value.disable & ~control.strobe),
            status.counting.eq(recount.counting),
            status.credits_home.eq(link.home),
        ]

    def _purge(
        self, m: Module, registers: EngineRegisters, tracker: EpochTracker,
        ingress: list[Ingress], buffers: list[SendBuffer], results: list[SendBuffer],
        units: list[ReductionPort],
    ) -> None:
        """Regions of which everything is discarded, links for which it is, and what is held."""
        c = self._config
        closed = Signal(c.ports)
        asked = registers.purge
        holds = [Signal(c.regions, name=f"holds_{p}") for p in range(c.ports)]
        m.d.comb += [
            closed.eq(Cat(each.value.disable for each in registers.port_control)),
            tracker.purge.eq(Mux(asked.strobe, asked.value.regions, 0)),
            *(holds[p].eq(reduce(or_, (each[p].holds for each in (ingress, buffers, results,
                                                                  units))))
              for p in range(c.ports)),
            tracker.holds.eq(reduce(or_, holds)),
        ]
        registers.show("held", regions=tracker.held)
        for p in range(c.ports):
            m.d.comb += [
                ingress[p].current.eq(Cat(tracker.current[k][p] for k in range(c.regions))),
                buffers[p].closed.eq(closed),
                results[p].closed.eq(closed),
                units[p].closed.eq(closed),
                units[p].purging.eq(tracker.purging),
                *(each[p].kill.eq(tracker.purging) for each in (buffers, results)),
            ]
        for name, rows in (("region", 1), ("targets", 1), ("behind", c.ports), ("home", c.homes)):
            for k, each in enumerate(getattr(registers, name)):
                m.d.comb += each.refuse.eq(tracker.held[k // rows])
        m.d.comb += [each.refuse.eq(tracker.held.any()) for each in registers.route]

    def _cross(
        self, m: Module, buffers: list[SendBuffer], results: list[SendBuffer],
        units: list[ReductionPort], links: list[OutputPort], ways: list[OutputPort],
        loads: list[OutputPort], notices: list[OutputPort], recounts: list[Recount],
    ) -> None:
        """The crossbar: inputs are links' operands and answers, then links' results with what comes
        from units; with speed-up 1, all of these of a port."""
        n = self._config.ports
        firsts = [_Part(each, range(_RESULT), each.flit.data, each.valid) for each in buffers]
        seconds = [
            [_Part(kept, [_RESULT], kept.flit.data, kept.valid),
             _Part(unit, range(CLASSES), unit.sent, unit.sends)]
            for kept, unit in zip(results, units)
        ]
        if self._config.speedup == 1:
            groups = [[first, *second] for first, second in zip(firsts, seconds)]
        else:
            groups = [*([first] for first in firsts), *seconds]
        senders = [self._share_input(m, k, parts) for k, parts in enumerate(groups)]
        granted: dict[Any, list[Value]] = {each: [] for each in (*buffers, *results, *units)}
        older = self._compare(m, buffers) if self._config.age_bits else []
        shared: list[Value] = []  # columns that are not free for units
        for p, (link, way) in enumerate(zip(links, ways)):
            asks: Value = self._request(m, f"link_{p}", [each.parts for each in senders], p, link)
            inputs = [each.parts for each in senders[:n]]
            to_unit = self._request(m, f"way_{p}", inputs, n + p, way, of=buffers)
            if older:
                asks = self._oldest_first(m, p, buffers, older, asks, link)
            m.d.comb += [
                link.request.eq(asks),
                way.request.eq(to_unit),
            ]
            reads, comes = self._from_column(m, p, link)
            shared.append(link.occupied & reads)
            hold = self._share_column(
                m, p, link, way, link.request[:n], way.request, link.busy & reads
            )
            m.d.comb += Cat(link.hold_back, way.hold_back).eq(hold)
            for k, sender in enumerate(senders):
                m.d.comb += [
                    link.traffic[k].eq(index_of(sender.asks)),
                    link.length[k].eq(sender.length),
                ]
                for part in sender.parts:  # of which one has asked
                    granted[part.source].append(link.grant[k])
            for k in range(n):
                m.d.comb += [
                    way.traffic[k].eq(0),
                    way.length[k].eq(senders[k].length),
                ]
            self._join(m, p, senders, units[p], link, way, recounts[p], comes)
        for p, (buffer, load) in enumerate(zip(buffers, loads)):
            m.d.comb += load.request.eq(senders[p].wants(buffer, 2 * n) & load.open[0])
            granted[buffer] += [*(way.grant[p] for way in ways), load.grant]
            self._lead(m, load, buffer, units[p].load, units[p].load_valid)
        for p, (kept, notice) in enumerate(zip(results, notices)):
            m.d.comb += notice.request.eq(senders[p - n].wants(kept, n) & notice.open[0])
            granted[kept].append(notice.grant)
            self._lead(m, notice, kept, units[p].notice, units[p].notice_valid)
        for part, grants in granted.items():
            m.d.comb += [part.grant[k].eq(each) for k, each in enumerate(grants)]
        self._offer(m, buffers, results, units, links, ways, loads, notices, shared)

    @staticmethod
    def _request(
        m: Module, name: str, inputs: "list[list[_Part]]", number: int, output: OutputPort,
        of: Sequence[SendBuffer] = (),
    ) -> Signal:
        """Inputs that request an output, the one with this *number* at their buffers; only buffers
        *of* a list have it, if there is one."""
        several = len(output.credited) > 1  # classes
        m.submodules[f"requests_{name}"] = requests = Requests(
            inputs=[[each.classes if several else [0] for each in parts] for parts in inputs],
            classes=len(output.credited), parts=len(inputs[0][0].source.took),
        )
        m.d.comb += [
            requests.credited.eq(output.credited),
            requests.busy.eq(output.busy),
            *([requests.hold.eq(output.hold)] if several else []),
        ]
        for k, each in enumerate(part for parts in inputs for part in parts):
            m.d.comb += [
                requests.wanted[k].eq(
                    0 if of and not any(each.source is one for one in of)
                    else each.source.wanted[number]
                ),
                requests.asks[k].eq(each.asks if several else 1),
                requests.took[k].eq(each.source.took),
            ]
        return requests.request

    def _from_column(self, m: Module, port: int, link: OutputPort) -> tuple[Value, Value]:
        """High if the link's packet comes by the column that link and unit share: one bit for the
        time when it is read, one for the time when it comes."""
        if self._config.speedup == 1:
            return Const(1), Const(1)
        reads, read, comes = (
            Signal(name=f"own_{name}_{port}") for name in ("reads", "read", "comes")
        )
        with m.If(link.grant.any()):
            m.d.sync += reads.eq(link.grant[: self._config.ports].any())
        m.d.sync += [read.eq(reads), comes.eq(read)]
        return reads, comes

    def _share_column(
        self, m: Module, port: int, link: OutputPort, way: OutputPort, asks: Value, to_unit: Value,
        busy: Value,
    ) -> Signal:
        """Share the column of a port between its link and its unit; *busy*: the link uses it.
        Returns which of the two must not take a packet."""
        m.submodules[f"output_{port}"] = sharing = Sharing()
        m.d.comb += [
            sharing.offers.eq(Cat(asks.any(), to_unit.any())),
            sharing.busy.eq(Cat(busy, way.busy)),
            sharing.begins.eq(Cat(link.granted[: self._config.ports].any(), way.granted.any())),
        ]
        return sharing.hold

    def _join(
        self, m: Module, port: int, senders: "list[_Sender]", unit: ReductionPort,
        link: OutputPort, way: OutputPort, recount: Recount, own: Value,
    ) -> None:
        """Join the columns of a port to its link and its unit; *own*: the link's packet comes by
        the column that both share."""
        n = self._config.ports
        others = n if self._config.speedup == 2 else 0
        m.submodules[f"columns_{port}"] = columns = PortColumns(ports=n, others=others)
        wires = self.link[port]
        m.d.comb += [
            columns.link_grant.eq(link.grant),
            columns.unit_grant.eq(way.grant),
            columns.second.eq(~own),
            *(columns.flits[k].eq(each.flit) for k, each in enumerate(senders)),
            columns.valid.eq(link.valid),
            columns.first.eq(link.first),
            columns.recounts.eq(recount.valid),
            columns.header.eq(recount.header),
            wires.tx.valid.eq(columns.tx.valid),
            wires.tx.payload.eq(columns.tx.payload),
            unit.valid.eq(way.valid),
            unit.flit.first.eq(way.first),
            unit.flit.last.eq(way.last),
            unit.flit.data.eq(columns.data),
        ]
        count_anew(m, link, recount)
        m.d.sync += link.credit.eq(wires.tx_credit)

    @staticmethod
    def _lead(
        m: Module, output: OutputPort, source: SendBuffer, header: Any, valid: Any
    ) -> None:
        """Headers of one sender to its port's own unit."""
        m.d.sync += Value.cast(header).eq(source.flit.data)
        m.d.comb += [
            output.traffic[0].eq(0),
            output.length[0].eq(1),
            valid.eq(output.valid),
        ]

    @staticmethod
    def _compare(m: Module, buffers: list[SendBuffer]) -> list[Signal]:
        """For each input, the others that have an older operand."""
        n = len(buffers)
        older = [Signal(n, name=f"older_{k}") for k in range(n)]
        for k, each in enumerate(buffers):
            for j, other in enumerate(buffers):
                if j != k:
                    m.d.comb += older[k][j].eq((other.age - each.age)[len(each.age) - 1])
        return older

    @staticmethod
    def _oldest_first(
        m: Module, port: int, buffers: list[SendBuffer], older: list[Signal], asks: Value,
        link: OutputPort,
    ) -> Value:
        """Inputs that ask for a link; of those with operands only the one that goes first."""
        m.submodules[f"oldest_{port}"] = first = OldestFirst(len(buffers))
        operands = [
            buffer.request[port] & (buffer.channel == Traffic.REQUEST.value) for buffer in buffers
        ]
        m.d.comb += [
            first.asks.eq(Cat(operands)),
            *(first.older[k].eq(others) for k, others in enumerate(older)),
            first.granted.eq((link.grant[: len(buffers)] & first.chosen & first.asks).any()),
        ]
        n = len(buffers)
        return Cat(asks[:n] & (first.chosen | ~first.asks), asks[n:])

    def _share_input(self, m: Module, number: int, parts: "list[_Part]") -> "_Sender":
        """An input of the crossbar of one buffer, or of several that share it."""
        sources = [each.source for each in parts]
        if len(parts) == 1:
            m.d.comb += sources[0].hold.eq(0)
            return _Sender(parts, parts[0].flit)
        port = number % self._config.ports
        m.submodules[f"input_{port}"] = sharing = Sharing(users=len(parts))
        m.d.comb += [
            sharing.offers.eq(Cat(each.offers for each in sources)),
            sharing.busy.eq(Cat(each.busy for each in sources)),
            sharing.begins.eq(Cat(each.granted for each in sources)),
            *(each.hold.eq(sharing.hold[k]) for k, each in enumerate(sources)),
        ]
        flit = Signal(FLIT_BITS, name=f"shared_flit_{port}")
        m.d.comb += flit.eq(_of([each.flit for each in parts], [each.valid for each in parts]))
        return _Sender(parts, flit)

    def _offer(
        self, m: Module, buffers: list[SendBuffer], results: list[SendBuffer],
        units: list[ReductionPort], links: list[OutputPort], ways: list[OutputPort],
        loads: list[OutputPort], notices: list[OutputPort], shared: list[Value],
    ) -> None:
        """Which outputs a class can be sent to. *shared*: columns that links have."""
        pairs = list(zip(links, ways))
        classes = [Traffic.PARTIAL.value, _RESULT]  # of which packets pass others
        ends, way_ends = [], []
        closed = units[0].closed
        for p, (link, way) in enumerate(pairs):
            m.submodules[f"stop_{p}"] = end = StopDetector(classes=len(classes))
            m.submodules[f"way_stop_{p}"] = way_end = StopDetector(classes=1)
            m.d.comb += [
                end.credit.eq(Cat(link.credited[k] for k in classes)),
                way_end.credit.eq(way.credited),
                *(link.shut[k].eq(
                    closed[p] | (end.opens[classes.index(k)] if k in classes else 0)
                ) for k in range(CLASSES)),
                way.shut.eq(way_end.opens),
            ]
            ends.append(end)
            way_ends.append(way_end)

        n = len(pairs)
        units_stopped = Cat(end.stopped for end in way_ends)
        taken = Cat(way.occupied for way in ways)  # columns, by units
        to_units = Signal(n)
        stopped = {number: Signal(n, name=f"stopped_{number}") for number in classes}
        m.d.comb += [
            to_units.eq(Cat(
                way.ready[0] & ~way.occupied & ~busy for way, busy in zip(ways, shared)
            )),
            *(stopped[number][p].eq(end.stopped[place] | closed[p])
              for place, number in enumerate(classes) for p, end in enumerate(ends)),
        ]
        for number in range(CLASSES):
            free = Signal(n, name=f"free_{number}")
            allowed = Cat(link.ready[number] & ~link.occupied for link in links)
            m.d.comb += free.eq(allowed & ~taken if self._config.speedup == 1 else allowed)
            for unit in units:
                if number in classes:
                    m.d.comb += unit.stopped[number].eq(stopped[number])
                m.d.comb += unit.available[number].eq(free)
            if number == _RESULT:
                for each, notice in zip(results, notices):
                    m.d.comb += [
                        each.available[0].eq(Cat(free, notice.available[0])),
                        each.stopped[0].eq(stopped[number]),
                    ]
                continue
            for buffer, load in zip(buffers, loads):
                passes = number in classes
                loading = [] if passes else [load.available[0]]
                m.d.comb += [
                    buffer.available[number].eq(Cat(free & ~taken, to_units, *loading)),
                    buffer.stopped[number].eq(
                        Cat(stopped[number], units_stopped) if passes else 0
                    ),
                ]

    def _report(
        self, m: Module, registers: EngineRegisters, tracker: EpochTracker,
        ingress: list[Ingress], units: list[ReductionPort], kept: list[SendBuffer],
        outputs: list[OutputPort], recounts: list[Recount],
    ) -> None:
        n = len(units)
        m.submodules.tally = of_units = Tally(parts=n, kinds=len(EVENTS))
        m.submodules.drops = of_links = Tally(parts=n, kinds=len(DROPS))
        gone = [Cat(*(each.discarded for each in (*kept[k::n], units[k]))) for k in range(n)]
        m.submodules.discards = discards = Tally(parts=n, kinds=len(gone[0]))
        m.d.comb += [
            *(of_units.events[k].eq(each.events) for k, each in enumerate(units)),
            *(of_links.events[k].eq(each.dropped) for k, each in enumerate(ingress)),
            *(discards.events[k].eq(each) for k, each in enumerate(gone)),
        ]
        purged = [*discards.counts]
        lost: list[Value] = [of_links.found]
        for k, name in enumerate(EVENTS):
            if name in _PURGING:
                purged.append(of_units.counts[k])
                continue
            register = f"dropped_{name}" if name in _DROPPING else name
            registers.count(getattr(registers, register), of_units.counts[k])
            lost += [of_units.found[k]] if name in _DROPPING else []
        registers.count(registers.purged, *purged)
        for k, name in enumerate(DROPS):
            registers.count(getattr(registers, f"dropped_{name}"), of_links.counts[k])
        dropped = Signal()
        m.d.sync += dropped.eq(Cat(lost).any())
        m.submodules.rest = rest = IdleDetector(IDLE_CYCLES, parts=n + 2)
        m.d.comb += [
            rest.quiet.eq(
                Cat(
                    *(each.idle for each in units),
                    Cat(each.idle for each in ingress).all()
                    & ~Cat(each.tx.valid for each in self.link).any(),
                    Cat(each.empty for each in (*kept, *outputs)).all() & tracker.idle
                    & ~Cat(each.counting for each in recounts).any(),
                )
            ),
            self.idle.eq(rest.idle),
        ]
        registers.show("status", idle=rest.was_idle)
        links = {"link": show_links(m, registers, self.status,
                                    shown=registers.port_status)} if self._config.retry else {}
        m.d.comb += self.irq.eq(registers.interrupt_by(dropped=dropped, **links))


@dataclass(frozen=True)
class _Part:
    """A buffer at an input of the crossbar: the classes that it has, and what it sends."""

    source: Any
    classes: Sequence[int]
    flit: Value
    valid: Value

    @property
    def asks(self) -> Value:
        """The class that it asks for, a bit for each."""
        return Cat(Const(0, self.classes[0]), self.source.asking)


class _Sender:
    """An input of the crossbar: of one buffer, or of several of which one asks and sends at a
    time."""

    def __init__(self, parts: list[_Part], flit: Any) -> None:
        self.parts, self.flit = parts, flit
        # Of who does not ask these are 0.
        self.asks = reduce(or_, (each.asks for each in parts))
        self.length = reduce(or_, (each.source.length for each in parts))

    def wants(self, source: Any, output: int) -> Value:
        """High if a part asks for an output, and none has taken the input since that was chosen."""
        return source.wanted[output] & ~Cat(each.source.took for each in self.parts).any()


def _of(values: list[Any], which: Iterable[Value]) -> Value:
    """The value selected by the one-hot *which*; 0 if no bit is set."""
    return reduce(or_, (Mux(this, Value.cast(value), 0) for this, value in zip(which, values)))
