"""The smart NIC: everything between host and network."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.axi import AXI4LiteSignature
from hw.common.registers import RegisterFile
from hw.common.signature import ParametricSignature
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.control import Control
from hw.smartnic.engine import RingEngine
from hw.smartnic.registers import NIC_ID, register_map

__all__ = ["CSR_ADDRESS_BITS", "NetSignature", "SmartNic"]

CSR_ADDRESS_BITS = 12


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
        if not isinstance(config, SmartNicConfig):
            raise TypeError(f"config must be a SmartNicConfig, not {config!r}")
        c = self._config = config
        super().__init__(
            {
                "csr": In(AXI4LiteSignature(addr_width=CSR_ADDRESS_BITS)),
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
        m.submodules.registers = registers = RegisterFile(
            register_map(c), addr_width=CSR_ADDRESS_BITS
        )
        connect(m, flipped(self.csr), registers.bus)
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
                    low = getattr(registers, f"{name}_address_low").value.value
                    high = getattr(registers, f"{name}_address_high").value.value
                    m.d.comb += port.eq(Cat(low, high[:8], high[8:] + e))
        self._join_registers(m, registers, control, engines)
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

    def _join_registers(
        self, m: Module, registers: Any, control: Control, engines: list[RingEngine]
    ) -> None:
        c = self._config
        r = registers

        def pair(name: str) -> Any:
            low = getattr(r, f"{name}_low").value.value
            return Cat(low, getattr(r, f"{name}_high").value.value)

        m.d.comb += [
            control.command.source.eq(pair("source")),
            control.command.destination.eq(pair("destination")),
            control.command.elements.eq(r.elements.value.value),
            control.command.rank.eq(r.node.value.rank),
            control.command.nodes.eq(r.node.value.nodes),
            control.command.op.eq(r.command.value.op),
            control.command.compress.eq(r.command.value.compress),
            control.command.tag.eq(r.command.value.tag),
            control.command_strobe.eq(r.command.strobe),
            control.unreachable.eq((pair("source") | pair("destination"))[c.address_bits :].any()),
            control.memory_end.eq(pair("memory_end")),
            control.give_up.eq(r.control.strobe & r.control.value.abort),
            r.identity.value.engine.eq(NIC_ID),
            r.identity.value.version.eq(1),
            r.shape.value.bus_bytes.eq(c.bus_bytes),
            r.shape.value.engines.eq(c.engines),
            r.shape.value.ethernet.eq(c.ethernet),
            r.shape.value.codec.eq(c.codec_format is not None),
            r.shape.value.block_beats.eq(c.block_beats),
            r.status.value.idle.eq(self.idle),
            r.status.value.outstanding.eq(control.outstanding),
            r.status.value.epoch.eq(control.epoch),
        ]

        # ---- From the engines.
        events = [engine.events for engine in engines]
        verdicts = [each.verdict for each in events]
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

        # ---- Outcomes and interrupts.
        with m.If(control.refused):
            m.d.sync += [
                r.refusal.value.error.eq(control.error),
                r.refusal.value.tag.eq(control.judged_tag),
                r.refusal.value.count.eq(r.refusal.value.count + 1),
            ]
        with m.If(control.completed):
            m.d.sync += [
                r.completed.value.count.eq(r.completed.value.count + 1),
                r.completed.value.error.eq(control.failed),
                r.completed.value.tag.eq(control.completed_tag),
            ]
        dropped = Cat(
            getattr(each, cause)
            for each in verdicts
            for cause in ("foreign", "stale", "length", "repeated", "gap", "overflow")
        ).any()
        pending, enabled = r.interrupt.value.as_value(), r.interrupt_enable.value.as_value()
        m.d.comb += [
            r.interrupt.set.done.eq(control.completed),
            r.interrupt.set.refused.eq(control.refused),
            r.interrupt.set.dropped.eq(dropped),
            r.interrupt.set.aborted.eq(control.aborted),
            r.interrupt.set.memory.eq(Cat(each.memory_error for each in events).any()),
            r.interrupt.set.fault.eq(r.fault),
            self.irq.eq((pending & enabled).any()),
        ]

        # ---- Performance counters.
        for e, each in enumerate(events):
            counted = {
                "busy": control.outstanding != 0,
                "frames_sent": each.sent_frame,
                "beats_sent": each.sent_beat,
                "frames_received": each.verdict.accepted,
                "beats_read": each.read_beat,
                "beats_written": each.written_beat,
                "starved": each.starved,
                "host_wait": each.host_wait,
                "ring_wait": each.ring_wait,
                **{
                    f"dropped_{cause}": getattr(each.verdict, cause)
                    for cause in ("foreign", "length", "stale", "repeated", "gap", "overflow")
                },
            }
            for name, event in counted.items():
                counter = getattr(r, name)[e].value.count
                with m.If(event):
                    m.d.sync += counter.eq(counter + 1)

        # ---- Idle: quiet for long enough that no pulse is on its way to a register.
        quiet = Signal()
        quiet_before = Signal(6)
        m.d.comb += [
            quiet.eq(
                control.idle
                & Cat(engine.idle for engine in engines).all()
                & ~r.command.strobe
                & ~r.control.strobe
            ),
            self.idle.eq(quiet & quiet_before.all()),
        ]
        m.d.sync += quiet_before.eq(Cat(quiet, quiet_before))
