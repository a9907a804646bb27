"""The smart NIC: everything between host and network."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.engine_registers import CSR_SIGNATURE, EngineRegisters
from hw.common.idle import IdleDetector
from hw.common.params import require_type
from hw.common.signature import ParametricSignature
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.control import Control
from hw.smartnic.engine import RingEngine
from hw.smartnic.registers import NIC_ID, register_map

__all__ = ["NetSignature", "SmartNic"]

IDLE_CYCLES = 6
DROPPED = ("foreign", "length", "stale", "repeated", "gap", "overflow")
"""Verdicts on frames that are dropped."""


class NetSignature(ParametricSignature):
    """An Ethernet port seen from the NIC: AXI4-Stream both ways, one packet per frame, without FCS.

    TKEEP has one bit per byte. ``rx_tuser`` with the last beat says that the frame is damaged.
    ``rx_tready`` is always high: the wire cannot be held back.
    """

    def __init__(self, *, bus_bytes: int) -> None:
        beat = {"tdata": 8 * bus_bytes, "tkeep": bus_bytes, "tlast": 1, "tvalid": 1}
        super().__init__(
            {
                **{f"tx_{name}": Out(width) for name, width in beat.items()},
                "tx_tready": In(1),
                **{f"rx_{name}": In(width) for name, width in beat.items()},
                "rx_tuser": In(1),
                "rx_tready": Out(1),
            },
            bus_bytes=bus_bytes,
        )


class SmartNic(wiring.Component):
    """Network interface that performs ring all-reduces by itself.

    Software describes an all-reduce in registers and gives the command; the NIC reads the vector
    from host memory, reduces it with what comes from the previous rank, sends to the next rank, and
    writes the result. Several may be queued; they run in order, without a pause between them.

    Every output is a register or a function of registers: no path leads from an input to an output
    in the same cycle.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    csr : ``In(AXI4LiteSignature)``
        Registers, see ``hw.smartnic.registers``.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    idle : ``Out(1)``
        Nothing is queued, running or in flight; without inputs, no register changes.
    mem : ``Out(AXI4Signature).array(engines)``
    net : ``Out(NetSignature).array(engines)``
    """

    csr: Any
    irq: Signal
    idle: Signal
    mem: Any
    net: Any

    def __init__(self, config: SmartNicConfig) -> None:
        c = self._config = require_type("SmartNic config", config, SmartNicConfig)
        super().__init__(
            {
                "csr": In(CSR_SIGNATURE),
                "irq": Out(1),
                "idle": Out(1),
                "mem": Out(c.memory_bus).array(c.engines),
                "net": Out(NetSignature(bus_bytes=c.bus_bytes)).array(c.engines),
            }
        )

    @property
    def config(self) -> SmartNicConfig:
        """What was built."""
        return self._config

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        registers = EngineRegisters(m, register_map(c), engine=NIC_ID, csr=self.csr)
        m.submodules.control = control = Control(c)
        engines = []
        for e in range(c.engines):
            m.submodules[f"engine_{e}"] = engine = RingEngine(c, number=e)
            engines.append(engine)
            connect(m, engine.mem, flipped(self.mem[e]))
            connect(m, control.job[e], engine.job)
            connect(m, engine.done, control.done[e])
            self._join_network(m, self.net[e], engine)
            m.d.comb += [
                engine.epoch.eq(control.epoch),
                engine.job_number.eq(control.number),
                engine.flush.eq(control.flush),
                engine.tell.eq(control.tell),
            ]
            if c.ethernet:
                for port, name in (
                    (engine.here, "own"),
                    (engine.following, "next"),
                    (engine.preceding, "previous"),
                ):
                    # The last byte, the highest, counts the ports of a node.
                    address = registers.wide(f"{name}_address")
                    m.d.comb += port.eq(Cat(address[:40], address[40:] + e))
        self._join_commands(m, registers, control)
        self._join_outcomes(m, registers, control, engines)
        self._join_counters(m, registers, control, engines)
        self._join_idle(m, registers, control, engines)
        return m

    def _join_network(self, m: Module, net: Any, engine: RingEngine) -> None:
        m.d.comb += [
            net.tx_tdata.eq(engine.tx.p.data),
            net.tx_tkeep.eq(engine.tx.p.keep),
            net.tx_tlast.eq(engine.tx.p.last),
            net.tx_tvalid.eq(engine.tx.valid),
            engine.tx.ready.eq(net.tx_tready),
            engine.rx.p.data.eq(net.rx_tdata),
            engine.rx.p.keep.eq(net.rx_tkeep),
            engine.rx.p.last.eq(net.rx_tlast),
            engine.rx.p.error.eq(net.rx_tuser),
            engine.rx.valid.eq(net.rx_tvalid),
            net.rx_tready.eq(1),
        ]

    def _join_commands(self, m: Module, r: EngineRegisters, control: Control) -> None:
        c = self._config
        source, destination = r.wide("source"), r.wide("destination")
        m.d.comb += [
            control.command.source.eq(source),
            control.command.destination.eq(destination),
            control.command.elements.eq(r.elements.value.value),
            control.command.rank.eq(r.node.value.rank),
            control.command.nodes.eq(r.node.value.nodes),
            control.command.op.eq(r.command.value.op),
            control.command.compress.eq(r.command.value.compress),
            control.command.tag.eq(r.command.value.tag),
            control.command_strobe.eq(r.command.strobe),
            control.unreachable.eq((source | destination)[c.address_bits :].any()),
            control.memory_end.eq(r.wide("memory_end")),
            control.give_up.eq(r.control.strobe & r.control.value.abort),
        ]
        r.show(
            "shape",
            bus_bytes=c.bus_bytes,
            engines=c.engines,
            ethernet=c.ethernet,
            codec=c.codec_format is not None,
            block_beats=c.block_beats,
        )

    def _join_outcomes(
        self, m: Module, r: EngineRegisters, control: Control, engines: list[RingEngine]
    ) -> None:
        verdicts = [engine.events.verdict for engine in engines]
        # Of the engines that report an abort in the same cycle, the first one's epoch is taken: all
        # ports of a node tell of the same aborts.
        for engine in reversed(engines):
            with m.If(engine.heard):
                m.d.comb += control.heard_epoch.eq(engine.heard_epoch)
        m.d.comb += [
            control.heard.eq(Cat(engine.heard for engine in engines).any()),
            control.lost.eq(Cat(each.gap | each.overflow for each in verdicts).any()),
            control.busy.eq(Cat(engine.busy for engine in engines).any()),
        ]
        r.show("status", idle=self.idle, outstanding=control.outstanding, epoch=control.epoch)
        r.record("refusal", control.refused, error=control.error, tag=control.judged_tag)
        r.record("completed", control.completed, error=control.failed, tag=control.completed_tag)
        enabled = r.interrupt_by(
            done=control.completed,
            refused=control.refused,
            dropped=Cat(getattr(each, cause) for each in verdicts for cause in DROPPED).any(),
            aborted=control.aborted,
            memory=Cat(engine.events.memory_error for engine in engines).any(),
        )
        m.d.comb += self.irq.eq(enabled)

    def _join_counters(
        self, m: Module, r: EngineRegisters, control: Control, engines: list[RingEngine]
    ) -> None:
        for e, engine in enumerate(engines):
            events = engine.events
            counted = {
                "busy": control.outstanding != 0,
                "frames_sent": events.sent_frame,
                "beats_sent": events.sent_beat,
                "frames_received": events.verdict.accepted,
                "beats_read": events.read_beat,
                "beats_written": events.written_beat,
                "starved": events.starved,
                "host_wait": events.host_wait,
                "ring_wait": events.ring_wait,
                **{f"dropped_{cause}": getattr(events.verdict, cause) for cause in DROPPED},
            }
            for name, event in counted.items():
                r.count(getattr(r, name)[e], event)

    def _join_idle(
        self, m: Module, r: EngineRegisters, control: Control, engines: list[RingEngine]
    ) -> None:
        m.submodules.idle_detector = detector = IdleDetector(IDLE_CYCLES)
        m.d.comb += [
            detector.quiet.eq(
                control.idle
                & Cat(engine.idle for engine in engines).all()
                & ~r.command.strobe
                & ~r.control.strobe
            ),
            self.idle.eq(detector.idle),
        ]
