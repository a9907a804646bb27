# SPDX-License-Identifier: Apache-2.0
"""The smart NIC: everything between host and network."""

from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.all_reduce import AllReduceRegisters
from hw.common.engine import Engine
from hw.common.idle import IdleDetector
from hw.common.params import require_type
from hw.common.signature import ParametricSignature
from hw.common.watchdog import Watchdog
from hw.smartnic.abort import AbortControl
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.control import Control
from hw.smartnic.engine import RingEngine
from hw.smartnic.registers import register_map

__all__ = ["NetSignature", "SmartNic"]

IDLE_CYCLES = 6
DROPPED = ("foreign", "length", "stale", "repeated", "gap", "overflow")
"""Verdicts on frames that are dropped."""


class NetSignature(ParametricSignature):
    """An Ethernet port seen from the NIC: AXI4-Stream both ways, one packet per frame, without FCS.

    Members
    -------
    tx_tdata, rx_tdata : ``Out(8 * bus_bytes)``, ``In(8 * bus_bytes)``
        Bytes of a beat, the first in the lowest bits.
    tx_tkeep, rx_tkeep : ``Out(bus_bytes)``, ``In(bus_bytes)``
        A bit per byte that exists.
    tx_tlast, rx_tlast : ``Out(1)``, ``In(1)``
        The beat ends a frame.
    tx_tvalid, rx_tvalid : ``Out(1)``, ``In(1)``
        There is a beat.
    tx_tready : ``In(1)``
        The beat is taken.
    rx_tready : ``Out(1)``
        Always high: the wire cannot be held back.
    rx_tuser : ``In(1)``
        With the last beat: the frame is damaged.
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


class SmartNic(Engine):
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
        Host memory.
    net : ``Out(NetSignature).array(engines)``
        Ethernet ports.
    """

    config: SmartNicConfig
    net: Any

    def __init__(self, config: SmartNicConfig) -> None:
        c = require_type("SmartNic config", config, SmartNicConfig)
        net = Out(NetSignature(bus_bytes=c.bus_bytes)).array(c.engines)
        super().__init__(c, masters=c.engines, net=net)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self.config
        registers = AllReduceRegisters(m, register_map(c), csr=self.csr)
        m.submodules.control = control = Control(c)
        m.submodules.abort = abort = AbortControl(c)
        m.submodules.watchdog = watchdog = Watchdog(31)
        m.d.comb += control.flush.eq(abort.flush)
        engines = []
        for e in range(c.engines):
            m.submodules[f"engine_{e}"] = engine = RingEngine(c, number=e)
            engines.append(engine)
            connect(m, engine.mem, flipped(self.mem[e]))
            connect(m, control.job[e], engine.job)
            connect(m, engine.done, control.done[e])
            self._join_network(m, self.net[e], engine)
            m.d.comb += [
                engine.epoch.eq(abort.epoch),
                engine.rank.eq(abort.rank),
                engine.flush.eq(abort.flush),
                engine.tell.eq(abort.tell),
                engine.cause.eq(abort.cause),
                engine.origin.eq(abort.origin),
                engine.refresh.eq(watchdog.refresh),
                abort.call[e].eq(engine.call),
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
        connect(m, control.contract, engines[0].contract)
        for engine in engines[1:]:
            m.d.comb += engine.contract.valid.eq(0)
        self._join_commands(m, registers, control)
        self._join_aborts(m, registers, abort, watchdog, control, engines)
        was_idle = self._join_idle(m, registers, control, abort, engines)
        m.d.comb += self.irq.eq(
            self._join_outcomes(registers, control, abort, watchdog, engines, was_idle)
        )
        self._join_counters(m, registers, control, engines)
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

    def _join_commands(self, m: Module, r: AllReduceRegisters, control: Control) -> None:
        c = self.config
        r.give_commands(control, address_bits=c.address_bits)
        m.d.comb += [
            control.command.rank.eq(r.node.value.rank),
            control.command.nodes.eq(r.node.value.nodes),
            control.command.compress.eq(r.command.value.compress),
        ]

    def _join_aborts(
        self,
        m: Module,
        r: AllReduceRegisters,
        abort: AbortControl,
        watchdog: Watchdog,
        control: Control,
        engines: list[RingEngine],
    ) -> None:
        events = [engine.events for engine in engines]
        moved = [
            bit
            for each in events
            for bit in (
                each.sent_frame, each.verdict.accepted, each.read_beat, each.written_beat
            )
        ]
        r.watch(watchdog, control, flush=abort.flush, moved=moved)
        m.d.comb += [
            abort.rank.eq(r.node.value.rank),
            abort.give_up.eq(r.control.strobe & r.control.value.abort),
            abort.gap.eq(Cat(each.verdict.gap for each in events).any()),
            abort.overflow.eq(Cat(each.verdict.overflow for each in events).any()),
            abort.disagreed.eq(Cat(each.disagreed for each in events).any()),
            abort.busy.eq(Cat(engine.busy for engine in engines).any()),
        ]
        m.d.sync += abort.stalled.eq(watchdog.stalled & r.watchdog.value.abort)
        r.show("abort", cause=abort.cause, rank=abort.origin)

    def _join_outcomes(
        self, r: AllReduceRegisters, control: Control, abort: AbortControl, watchdog: Watchdog,
        engines: list[RingEngine], was_idle: Value,
    ) -> Value:
        """Join status, completions and refusals; return whether an interrupt is pending."""
        r.show("status", idle=was_idle, outstanding=control.outstanding, epoch=abort.epoch[:24])
        verdicts = [engine.events.verdict for engine in engines]
        return r.record_outcomes(
            control,
            dropped=Cat(getattr(each, cause) for cause in DROPPED for each in verdicts).any(),
            aborted=abort.aborted,
            memory=Cat(engine.events.memory_error for engine in engines).any(),
            stalled=watchdog.stalled,
        )

    def _join_counters(
        self, m: Module, r: AllReduceRegisters, control: Control, engines: list[RingEngine]
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
        self,
        m: Module,
        r: AllReduceRegisters,
        control: Control,
        abort: AbortControl,
        engines: list[RingEngine],
    ) -> Value:
        """Join what says that nothing goes on; return whether it was so in the cycle before."""
        m.submodules.idle_detector = detector = IdleDetector(IDLE_CYCLES)
        m.d.comb += [
            detector.quiet.eq(
                (control.outstanding == 0)
                & ~abort.flush
                & ~abort.tell
                & Cat(engine.idle for engine in engines).all()
                & ~r.command.strobe
                & ~r.control.strobe
            ),
            self.idle.eq(detector.idle),
        ]
        return detector.was_idle
