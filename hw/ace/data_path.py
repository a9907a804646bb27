# SPDX-License-Identifier: Apache-2.0
"""The data path: everything between the links and the SRAM."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUPool
from hw.ace.config import AceConfig
from hw.ace.control import PortControlSignature
from hw.ace.copy_unit import CopyUnit
from hw.ace.layouts import (
    event_layout,
    lookup_layout,
    ready_layout,
    resolved_layout,
    send_command_layout,
)
from hw.ace.port import LinkSignature, Port
from hw.ace.sram import BankedSRAM, SRAMReadSignature, SRAMWriteSignature

__all__ = ["DataPath"]


class DataPath(wiring.Component):
    """The ports of all links with the ALUs and the SRAM that they share, and with partitions by
    phase the copy unit.

    Control is elsewhere: FSMs answer what packets ask and say what is sent, memory ports fill and
    empty the SRAM. Data sheets of the parts say how long they take and when they stall.

    Members
    -------
    rank : ``In(config.format.node)``, epoch : ``In(config.format.epoch)``
        This node's rank and epoch.
    flush : ``In(1)``, because : ``In(2)``
        Drop what waits to be sent; why all collectives are given up, if a port tells so.
    control : ``In(PortControlSignature(config)).array(ports)``
        Control of each port, and its reports.
    link : ``Out(LinkSignature(flits)).array(ports)``
        The wires.
    lookup, resolved, ready, received : streams, ``.array(ports)``
        Of the receive units: questions and answers, READY packets, events.
    command, sent : streams, ``.array(targets)``
        Commands for the send units and the copy unit; their events.
    read, write : ``In(SRAMReadSignature).array(memory_ports)``, ``In(SRAMWriteSignature)...``
        The SRAM, for the memory ports.
    bank_conflicts, alu_conflicts : ``Out``
        How many requests to SRAM and ALUs waited in the cycle before.
    moves : ``Out(1)``
        A packet was received, sent or copied.
    idle : ``Out(1)``
        No packet or event is held, and nothing is to be sent.
    """

    rank: Signal
    epoch: Signal
    flush: Signal
    because: Signal
    control: list
    link: list
    lookup: list
    resolved: list
    ready: list
    received: list
    command: list
    sent: list
    read: list
    write: list
    bank_conflicts: Signal
    alu_conflicts: Signal
    moves: Signal
    idle: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        always = {"always_ready": True}
        super().__init__(
            {
                "rank": In(c.format.node),
                "epoch": In(c.format.epoch),
                "flush": In(1),
                "because": In(2),
                "control": In(PortControlSignature(c)).array(c.ports),
                "link": Out(LinkSignature(flits=c.flits)).array(c.ports),
                "lookup": Out(stream.Signature(lookup_layout(c))).array(c.ports),
                "resolved": In(stream.Signature(resolved_layout(c), **always)).array(c.ports),
                "ready": Out(stream.Signature(ready_layout(c))).array(c.ports),
                "received": Out(stream.Signature(event_layout(c))).array(c.ports),
                "command": In(stream.Signature(send_command_layout(c))).array(c.targets),
                "sent": Out(stream.Signature(event_layout(c))).array(c.targets),
                "read": In(SRAMReadSignature(**c.sram_port)).array(c.memory_ports),
                "write": In(SRAMWriteSignature(**c.sram_port)).array(c.memory_ports),
                "bank_conflicts": Out(range(c.sram_requesters + 1)),
                "alu_conflicts": Out(range(c.ports + 1)),
                "moves": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.alus = alus = ALUPool(c)
        m.submodules.sram = sram = BankedSRAM(
            depth=c.sram_beats,
            width=8 * c.bus_bytes,
            banks=c.banks,
            interleave=c.group_banks,
            bank_ports=c.bank_ports,
            readers=c.ports + c.targets + c.memory_ports,
            writers=c.targets + c.memory_ports,
        )
        ports = [Port(c) for _ in range(c.ports)]
        units = [port.idle for port in ports]
        for p, port in enumerate(ports):
            m.submodules[f"link_port_{p}"] = port
            self._join_port(m, p, port, alus, sram)
            for q, other in enumerate(ports):
                wiring.connect(m, port.forward[q], other.forwarded[p])
        for n, (read, write) in enumerate(zip(self.read, self.write, strict=True)):
            wiring.connect(m, wiring.flipped(read), sram.read[2 * c.ports + n])
            wiring.connect(m, wiring.flipped(write), sram.write[c.ports + n])
        if c.phased:
            m.submodules.copy_unit = copier = CopyUnit(c)
            wiring.connect(m, wiring.flipped(self.command[-1]), copier.command)
            wiring.connect(m, copier.event, wiring.flipped(self.sent[-1]))
            wiring.connect(m, copier.read, sram.read[-1])
            wiring.connect(m, copier.write, sram.write[-1])
            units.append(copier.idle)
        asking = (*sram.read, *sram.write)
        refused = Signal(len(asking))
        contended = Signal.like(alus.contended)
        m.d.sync += [
            refused.eq(Cat(port.wants.any() & ~port.grant for port in asking)),
            contended.eq(alus.contended),
        ]
        m.d.comb += [
            self.bank_conflicts.eq(sum(refused)),
            self.alu_conflicts.eq(sum(contended)),
            self.moves.eq(Cat(each.valid for each in (*self.received, *self.sent)).any()),
            self.idle.eq(Cat(units).all()),
        ]
        return m

    def _join_port(self, m, p, port, alus, sram):
        """A port to its link, to control, to the FSMs, to an ALU and the SRAM."""
        seen = self.control[p]
        for inner, outer in (
            (port.link, self.link[p]),
            (port.lookup, self.lookup[p]),
            (port.ready, self.ready[p]),
            (port.received, self.received[p]),
            (port.sent, self.sent[p]),
            (port.resolved, self.resolved[p]),
            (port.command, self.command[p]),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        wiring.connect(m, port.alu, alus.client[p])
        wiring.connect(m, port.operand, sram.read[p])
        wiring.connect(m, port.read, sram.read[self._config.ports + p])
        wiring.connect(m, port.store, sram.write[p])
        m.d.comb += [
            port.node.eq(self.rank),
            port.epoch.eq(self.epoch),
            port.flush.eq(self.flush),
            port.because.eq(self.because),
            port.restart.eq(seen.restart),
            port.halt.eq(seen.halt),
            seen.halted.eq(port.halted),
            seen.because.eq(port.halted_because),
            seen.sent.eq(port.link.tx.tvalid & port.link.tx.tready),
            seen.received.eq(port.link.rx.tvalid),
        ]
        for event in ("dropped", "rejected", "repeated", "missing", "parked", "starved"):
            m.d.comb += getattr(seen, event).eq(getattr(port, event))
