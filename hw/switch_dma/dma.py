"""The endpoint: registers, commands, links."""

from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib.wiring import Out, connect, flipped

from hw.common.all_reduce import AllReduceRegisters
from hw.common.engine import Engine
from hw.common.idle import IdleDetector
from hw.common.params import require_type
from hw.common.watchdog import Watchdog
from hw.switch.layouts import LinkSignature
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.control import Control
from hw.switch_dma.home import TOOK
from hw.switch_dma.lane import Lane
from hw.switch_dma.layouts import DROPS
from hw.switch_dma.membership import Membership
from hw.switch_dma.registers import register_map

__all__ = ["SwitchDma"]

IDLE_CYCLES = 12


class SwitchDma(Engine):
    """Endpoint of the in-switch reduction: a DMA engine for all-reduces through switches.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    csr : ``In(AXI4LiteSignature)``
        Registers, see ``hw.switch_dma.registers``.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    idle : ``Out(1)``
        Nothing is queued, running or in flight; without inputs, no register changes.
    mem : ``Out(AXI4Signature).array(links)``
    link : ``Out(LinkSignature()).array(links)``
        To a port of a switch: ``rx`` here is ``tx`` there.
    took : ``Out(TOOK).array(links)``, only with ``config.trace``
        Partials as each link's home store adds them.
    """

    config: SwitchDmaConfig
    link: Any
    took: Any

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = require_type("SwitchDma config", config, SwitchDmaConfig)
        trace = {"took": Out(TOOK).array(c.links)} if c.trace else {}
        super().__init__(
            c, masters=c.links, link=Out(LinkSignature()).array(c.links), **trace
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self.config
        registers = AllReduceRegisters(m, register_map(c), csr=self.csr)
        m.submodules.control = control = Control(c)
        m.submodules.membership = membership = Membership(c)
        m.submodules.watchdog = watchdog = Watchdog(24, tries_bits=4)
        lanes = []
        for k in range(c.links):
            m.submodules[f"lane_{k}"] = lane = Lane(c, link=k)
            lanes.append(lane)
            connect(m, lane.mem, flipped(self.mem[k]))
            connect(m, lane.link, flipped(self.link[k]))
            if c.trace:
                m.d.comb += self.took[k].eq(lane.took)
            m.d.comb += [
                lane.node.eq(Value.cast(registers.node.value)),
                lane.epoch.eq(membership.epoch),
                lane.rank.eq(membership.rank),
                lane.whole.eq(registers.pull.value.own),
                lane.size_log2.eq(registers.waves.value.size_log2),
                lane.outstanding.eq(registers.waves.value.outstanding),
                lane.forget.eq(~membership.joined),
                lane.flush.eq(membership.flush),
                lane.job.valid.eq(control.job.valid & control.job.ready),
                lane.job.payload.eq(control.job.payload),
                control.done[k].eq(lane.done),
                control.outcomes[k].eq(lane.outcome),
            ]
            if k > 0:  # notices travel on the first link
                m.d.comb += [lane.told.valid.eq(0), Value.cast(lane.told.payload).eq(0)]
        connect(m, membership.o, lanes[0].told)
        m.d.comb += [
            control.job.ready.eq(Cat(lane.job.ready for lane in lanes).all()),
            membership.notice.valid.eq(lanes[0].notice.valid),
            membership.notice.p.eq(lanes[0].notice.p),
            membership.sender.eq(lanes[0].sender),
        ]
        self._join_commands(m, registers, control, membership)
        self._join_aborts(m, registers, membership, watchdog, control, lanes)
        m.d.comb += self.irq.eq(
            self._join_outcomes(registers, control, membership, watchdog, lanes)
        )
        self._join_counters(m, registers, lanes)
        m.submodules.idle_detector = detector = IdleDetector(IDLE_CYCLES)
        m.d.comb += [
            detector.quiet.eq(
                (control.outstanding == 0) & ~membership.flush & ~membership.o.valid
                & Cat(lane.idle for lane in lanes).all()
                & ~registers.command.strobe & ~registers.control.strobe
            ),
            self.idle.eq(detector.idle),
        ]
        return m

    def _join_commands(
        self, m: Module, r: AllReduceRegisters, control: Control, membership: Membership
    ) -> None:
        c = self.config
        held = control.outstanding != 0
        r.give_commands(control, address_bits=c.address_bits)
        m.d.comb += [
            control.command.pull.eq(r.command.value.pull),
            *(control.command[name].eq(r.command.value[name])
              for name in ("fixed", "exponent") if c.fixed_point),
            *((control.command.part.eq(r.command.value.part),
               control.command.begin.eq(r.part_begin.value.value),
               control.command.end.eq(r.part_end.value.value)) if c.parts else ()),
            *((control.command.format.eq(r.command.value.format),) if c.lengths else ()),
            control.node.eq(Value.cast(r.node.value)),
            control.joined.eq(membership.joined),
            control.ready.eq(membership.ready),
            control.flush.eq(membership.flush),
            r.node.refuse.eq(held),
            r.waves.refuse.eq(held),
            r.pull.refuse.eq(held),
        ]

    def _join_aborts(
        self, m: Module, r: AllReduceRegisters, membership: Membership, watchdog: Watchdog,
        control: Control, lanes: list[Lane],
    ) -> None:
        limit = r.watchdog.value
        moved = [
            bit
            for each in (lane.events for lane in lanes)
            for bit in (each.operand, each.load, each.answer, each.partial, each.result,
                        each.read_beat, each.written_beat)
        ]
        r.watch(watchdog, control, flush=membership.flush, moved=moved)
        m.d.comb += [
            membership.node.eq(Value.cast(r.node.value)),
            membership.join.eq(r.control.strobe & r.control.value.join),
            membership.leave.eq(r.node.strobe),
            membership.give_up.eq(r.control.strobe & r.control.value.abort),
            membership.disagreed.eq(Cat(lane.disagreed for lane in lanes).any()),
            membership.overflow.eq(Cat(lane.overflow for lane in lanes).any()),
            membership.stalled.eq(watchdog.failed & limit.abort),
            membership.outstanding.eq(control.outstanding != 0),
            membership.busy.eq(Cat(lane.busy for lane in lanes).any()),
            watchdog.tries.eq(limit.tries),
        ]
        r.show("abort", cause=membership.cause, endpoint=membership.origin)
        r.show("epoch", value=membership.epoch)

    def _join_outcomes(
        self, r: AllReduceRegisters, control: Control, membership: Membership,
        watchdog: Watchdog, lanes: list[Lane],
    ) -> Value:
        """Whether an interrupt is pending."""
        r.show(
            "status", idle=self.idle, outstanding=control.outstanding, joined=membership.joined,
            ready=membership.ready,
        )
        events = [lane.events for lane in lanes]
        return r.record_outcomes(
            control,
            dropped=Cat(each.dropped for each in events).any(),
            aborted=membership.aborted,
            memory=Cat(each.memory_error for each in events).any(),
            stalled=watchdog.stalled,
        )

    def _join_counters(self, m: Module, r: AllReduceRegisters, lanes: list[Lane]) -> None:
        for k, lane in enumerate(lanes):
            events = lane.events
            counted: dict[str, Any] = {
                "operands": events.operand,
                "loads": events.load,
                "answers": events.answer,
                "partials": events.partial,
                "finished": events.finished,
                "results": events.result,
                "flits_sent": events.sent,
                "starved": events.starved.any(),
                "wave_wait": events.wave_wait,
                "barrier": events.barrier,
                "beats_read": events.read_beat,
                "beats_written": events.written_beat,
                **{f"dropped_{name}": events.dropped[n] for n, name in enumerate(DROPS)},
                **({"outside": events.outside} if self.config.fixed_point else {}),
            }
            for name, event in counted.items():
                r.count(getattr(r, name)[k], event)
