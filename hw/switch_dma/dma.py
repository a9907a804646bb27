# SPDX-License-Identifier: Apache-2.0
"""The endpoint: registers, commands, links."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.all_reduce import AllReduceRegisters
from hw.common.arbiter import StreamArbiter
from hw.common.engine import Engine
from hw.common.idle import IdleDetector
from hw.common.params import require_type
from hw.common.watchdog import Watchdog
from hw.link.retry_registers import LINK_STATUS, show_links
from hw.switch.layouts import LinkSignature
from hw.switch.packet import FLIT
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.control import Control
from hw.switch_dma.home import TOOK
from hw.switch_dma.interfaces import SettingsSignature
from hw.switch_dma.lane import IDLE_PARTS, Lane
from hw.switch_dma.layouts import DROPS, each_region, heard_layout, row_of
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
        Memory.
    link : ``Out(LinkSignature()).array(links)``
        To a port of a switch: ``rx`` here is ``tx`` there.
    status : ``In(LINK_STATUS).array(links)``, only with ``config.retry``
        How the links do.
    took : ``Out(TOOK).array(links)``, only with ``config.trace``
        Partials as each link's home store adds them.
    """

    config: SwitchDmaConfig
    link: Any
    status: Any
    took: Any

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = require_type("SwitchDma config", config, SwitchDmaConfig)
        more = {
            **({"status": In(LINK_STATUS).array(c.links)} if c.retry else {}),
            **({"took": Out(TOOK).array(c.links)} if c.trace else {}),
        }
        super().__init__(c, masters=c.links, link=Out(LinkSignature()).array(c.links), **more)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self.config
        registers = AllReduceRegisters(m, register_map(c), csr=self.csr)
        m.submodules.control = control = Control(c)
        memberships = []
        for row in range(c.regions):
            memberships.append(Membership(c))
            m.submodules["membership" if c.regions == 1 else f"membership_{row}"] = memberships[row]
        m.submodules.watchdog = watchdog = Watchdog(24, tries_bits=4)
        settings: Any = SettingsSignature().create(path=("settings",))
        m.d.comb += [
            settings.whole.eq(registers.pull.value.own),
            settings.window.size_log2.eq(registers.waves.value.size_log2),
            settings.window.outstanding.eq(registers.waves.value.outstanding),
        ]
        lanes = []
        for k in range(c.links):
            m.submodules[f"lane_{k}"] = lane = Lane(c, link=k)
            lanes.append(lane)
            connect(m, lane.mem, flipped(self.mem[k]))
            connect(m, lane.link, flipped(self.link[k]))
            connect(m, settings, lane.settings)
            connect(m, control.lanes[k], lane.work)
            if c.trace:
                m.d.comb += self.took[k].eq(lane.took)
            for row, membership in enumerate(memberships):
                connect(m, membership.member, each_region(c, lane.member)[row])
                connect(m, membership.lanes[k], each_region(c, lane.region)[row])
                m.d.comb += each_region(c, lane.rank)[row].eq(membership.rank)
        for membership, state in zip(memberships, each_region(c, control.state)):
            connect(m, membership.state, state)
        m.submodules.idle_detector = detector = IdleDetector(
            IDLE_CYCLES, parts=1 + IDLE_PARTS * c.links
        )
        self._join_links(m, registers, lanes)
        telling = self._join_notices(m, registers, memberships, lanes)
        self._join_commands(m, registers, control, memberships)
        self._join_aborts(m, registers, memberships, watchdog, control, lanes)
        m.d.comb += self.irq.eq(
            self._join_outcomes(
                m, registers, control, memberships, watchdog, lanes, detector.was_idle
            )
        )
        self._join_counters(m, registers, lanes)
        m.d.comb += [
            detector.quiet.eq(Cat(
                (control.outstanding == 0) & ~self._of(memberships, "flush").any()
                & ~telling & ~registers.command.strobe
                & ~Cat(each.strobe for each in each_region(c, registers.control)).any(),
                *(lane.idle for lane in lanes),
            )),
            self.idle.eq(detector.idle),
        ]
        return m

    @staticmethod
    def _of(memberships: list[Membership], name: str) -> Value:
        """A bit of all regions."""
        return Cat(getattr(each.state, name) for each in memberships)

    def _join_links(self, m: Module, r: AllReduceRegisters, lanes: list[Lane]) -> None:
        """Credits are counted anew when software says so, when the endpoint joins for the first
        time, since a switch may have some of before the reset, and when the switch was reset."""
        joins = Cat(each.strobe & each.value.join for each in each_region(self.config, r.control))
        joined = Signal()
        with m.If(joins.any()):
            m.d.sync += joined.eq(1)
        for k, lane in enumerate(lanes):
            control, status = r.link_control[k], r.link_status[k].value
            starts = (control.strobe & control.value.resync) | (joins.any() & ~joined)
            if self.config.retry:
                starts |= self.status[k].restarted
            m.d.comb += [
                lane.credits.resync.eq(starts),
                status.counting.eq(lane.credits.counting),
                status.credits_home.eq(lane.credits.home),
            ]

    def _join_notices(
        self, m: Module, r: AllReduceRegisters, memberships: list[Membership], lanes: list[Lane]
    ) -> Value:
        """Notices of all regions by each link, those that come to their region. Returns whether one
        is waiting."""
        c = self.config
        waits: list[Value] = []
        m.submodules.hears = hears = StreamArbiter(heard_layout(c), c.links)
        m.d.comb += hears.o.ready.eq(1)
        for k, lane in enumerate(lanes):
            m.submodules[f"tells_{k}"] = tells = StreamArbiter(FLIT, c.regions)
            for each, port in zip(memberships, tells.i, strict=True):
                connect(m, each.o[k], port)
            connect(m, tells.o, lane.told)
            connect(m, lane.heard, hears.i[k])
            waits.append(tells.o.valid)
        row, ours = row_of([each.value for each in each_region(c, r.node)], hears.o.p.region)
        # Those of no region of ours go nowhere.
        for k, each in enumerate(memberships):
            m.d.comb += [
                each.heard.valid.eq(hears.o.valid & ours & (row == k)),
                each.heard.payload.eq(hears.o.payload),
            ]
        waits += [lane.heard.valid for lane in lanes]
        waits += [o.valid for each in memberships for o in each.o]
        return Cat(waits, hears.o.valid).any()

    def _join_commands(
        self, m: Module, r: AllReduceRegisters, control: Control, memberships: list[Membership]
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
            control.command.row.eq(r.command.value.region) if c.regions > 1
            else control.flush.eq(self._of(memberships, "flush")),
            r.waves.refuse.eq(held),
            r.pull.refuse.eq(held),
        ]
        for row, node in enumerate(each_region(c, r.node)):
            m.d.comb += [
                each_region(c, control.node)[row].eq(Value.cast(node.value)),
                node.refuse.eq(memberships[row].state.outstanding),
            ]

    def _join_aborts(
        self, m: Module, r: AllReduceRegisters, memberships: list[Membership], watchdog: Watchdog,
        control: Control, lanes: list[Lane],
    ) -> None:
        c = self.config
        limit = r.watchdog.value
        moved = [lane.moves for lane in lanes]
        several = c.regions > 1
        flushes = self._of(memberships, "flush")
        flush = flushes.bit_select(control.row, 1) if several else flushes
        r.watch(watchdog, control, flush=flush, moved=moved)
        m.d.comb += watchdog.tries.eq(limit.tries)
        for row, membership in enumerate(memberships):
            node, given = each_region(c, r.node)[row], each_region(c, r.control)[row]
            waits = control.row == row if several else 1
            # Heard a cycle later, as are other reasons to end an epoch.
            m.d.sync += membership.stalled.eq(watchdog.failed & limit.abort & waits)
            m.d.comb += [
                membership.node.eq(Value.cast(node.value)),
                membership.join.eq(given.strobe & given.value.join),
                membership.leave.eq(node.strobe),
                membership.give_up.eq(given.strobe & given.value.abort),
                each_region(c, r.abort)[row].value.cause.eq(membership.cause),
                each_region(c, r.abort)[row].value.endpoint.eq(membership.origin),
                each_region(c, r.epoch)[row].value.value.eq(membership.epoch),
            ]

    def _join_outcomes(
        self, m: Module, r: AllReduceRegisters, control: Control, memberships: list[Membership],
        watchdog: Watchdog, lanes: list[Lane], was_idle: Value,
    ) -> Value:
        """Join status, completions and refusals; return whether an interrupt is pending."""
        r.show(
            "status", idle=was_idle, outstanding=control.outstanding,
            **{name: self._of(memberships, name) for name in ("joined", "ready")},
            **({"aborted": control.pending} if self.config.regions > 1 else {}),
        )
        events = [lane.events for lane in lanes]
        return r.record_outcomes(
            control,
            dropped=Cat(each.dropped for each in events).any(),
            aborted=self._of(memberships, "aborted").any(),
            memory=Cat(each.memory_error for each in events).any(),
            stalled=watchdog.stalled,
            **({"link": show_links(m, r, self.status, shown=r.link_status)}
               if self.config.retry else {}),
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
