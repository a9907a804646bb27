"""Queue of all-reduces: checks them, gives them to the links, collects outcomes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.all_reduce import AllReduceQueue
from hw.fp.ops import ReduceOp
from hw.switch.packet import Format
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.fixed_point import UNIT_BITS, unit_of
from hw.switch_dma.layouts import (
    FORMAT,
    NODE,
    PARTS,
    Part,
    halved,
    job_layout,
    outcome_layout,
)
from hw.switch_dma.registers import CommandError

__all__ = ["Control", "descriptor_layout"]


def descriptor_layout(c: SwitchDmaConfig) -> data.StructLayout:
    """An all-reduce as software describes it."""
    return data.StructLayout(
        {
            "source": c.address_bits,
            "destination": c.address_bits,
            "elements": 32,
            "op": ReduceOp,
            "tag": 8,
            "pull": 1,
            **({"fixed": 1, "exponent": UNIT_BITS} if c.fixed_point else {}),
            **(PARTS if c.parts else {}),
            **(FORMAT if c.lengths else {}),
        }
    )


class Control(AllReduceQueue):
    """Descriptor queue and completion.

    A command is judged 2 cycles after it was given. One all-reduce runs at a time; the next is
    begun 2 cycles after the one before is complete on all links.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    node : ``In(NODE)``, joined, ready : ``In(1)``
        See `Membership`. Commands are taken when joined, and run when ready.
    job : ``Out(stream.Signature(job_layout(config)))``
        For all links at once.
    done : ``In(links)``
        Links that have done their part of the job.
    outcomes : ``In(outcome_layout()).array(links)``
        Of each link.

    And those of `AllReduceQueue`.
    """

    node: Any
    joined: Signal
    ready: Signal
    job: stream.Interface
    done: Signal
    outcomes: Any

    def __init__(self, config: SwitchDmaConfig) -> None:
        super().__init__(
            config,
            descriptor=descriptor_layout(config),
            outcome=outcome_layout(),
            errors=CommandError,
            node=In(NODE),
            joined=In(1),
            ready=In(1),
            job=Out(stream.Signature(job_layout(config))),
            done=In(config.links),
            outcomes=In(outcome_layout()).array(config.links),
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        self._reach = self._measure(m) if c.half else None
        _, accepted = self._take(m)
        head = accepted.p
        job = self.job.p
        last = Signal(32)
        block_bits = exact_log2(c.block_elements)
        running = Signal()
        m.d.comb += [
            last.eq(head.elements - 1),
            job.source.eq(head.source),
            job.destination.eq(head.destination),
            job.elements.eq(head.elements),
            job.blocks.eq((last >> block_bits) + 1),
            job.tail_beats.eq(last[exact_log2(c.lanes) : block_bits]),
            job.tail_lanes.eq(last[: exact_log2(c.lanes)]),
            job.op.eq(head.op),
            job.tag.eq(head.tag),
            job.pull.eq(head.pull),
            self.job.valid.eq(accepted.valid & ~running & self.ready & ~self.flush),
            accepted.ready.eq(self.job.valid & self.job.ready),
            self.completed.eq(running & self.done.all() & ~self.flush),
        ]
        if c.fixed_point:
            m.d.comb += job.fixed.eq(head.fixed)
            with m.If(head.fixed):
                m.d.comb += [
                    job.op.eq(ReduceOp.SUM_I32),
                    job.unit.eq(unit_of(head.exponent, self.node.members)),
                ]
        if c.lengths:
            m.d.comb += job.format.eq(head.format)
        if c.half:  # twice as many in a beat
            with m.If(halved(head)):
                m.d.comb += [
                    job.tail_beats.eq(last[exact_log2(c.lanes) + 1 : block_bits]),
                    job.tail_lanes.eq(last),
                ]
        if c.parts:
            m.d.comb += [
                job.part.eq(head.part),
                # The last block is whole, however short it is.
                *(job[name].eq((head[name] + c.block_elements - 1)[:33] >> block_bits)
                  for name in ("begin", "end")),
            ]
            with m.If(head.part == Part.SEND):  # what nothing but zeros is added to
                m.d.comb += job.op.eq(ReduceOp.SUM_I32)
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [running.eq(1), self.completed_tag.eq(job.tag)]
        with m.If(self.completed | self.flush):
            m.d.sync += running.eq(0)
        for name, _ in outcome_layout():
            m.d.comb += self.failed[name].eq(Cat(each[name] for each in self.outcomes).any())
        return m

    def _measure(self, m: Module) -> tuple[Signal, Signal, Signal]:
        """Ends of the vector and the result of the last command, for elements of its format, and
        whether memory cannot be so large."""
        unreachable = Signal()
        given: Any = Signal(self._descriptor, name="measured")
        ends = [Signal(max(self._config.address_bits, 34) + 1, name=f"end_{k}") for k in range(2)]
        with m.If(self.command_strobe):
            m.d.sync += [unreachable.eq(self.unreachable), given.eq(self.command)]
        length_bytes = Mux(halved(given), given.elements << 1, given.elements << 2)
        m.d.sync += [
            end.eq(start + length_bytes - 1)
            for end, start in zip(ends, (given.source, given.destination))
        ]
        return ends[0], ends[1], unreachable

    def _faults(self, given: Any) -> dict[str, Any]:
        endpoints, members = self._config.endpoints, self.node.members
        outside = self.node.endpoint >= endpoints
        fixed: dict[str, Any] = {}
        if self._config.fixed_point:
            exponent = given.exponent
            fixed["WINDOW"] = given.fixed & (
                (given.op != ReduceOp.SUM_F32) | (exponent == 0) | exponent.all()
            )
        if self._config.parts:
            bits = exact_log2(self._config.block_elements)
            cut = Cat(
                each[:bits].any() & (each != given.elements) for each in (given.begin, given.end)
            ).any()
            beyond = (given.end > given.elements) | (given.begin > given.end)
            sent = given.part == Part.SEND
            both = sent & given.fixed if self._config.fixed_point else 0
            fixed["PART"] = (Value.cast(given.part) != Part.NONE.value) & (cut | beyond | both)
        if self._config.lengths:
            fixed |= self._format_faults(given)
        return {
            **fixed,
            "MEMBERS": (members < 2) | (members > endpoints) | outside,
            "UNJOINED": ~self.joined,
        }

    def _format_faults(self, given: Any) -> dict[str, Any]:
        c = self._config
        unknown = Cat(
            given.format == each
            for each in Format if each is not Format.WORDS and each not in c.lengths
        ).any()
        barred = given.op == ReduceOp.SUM_I32
        if c.fixed_point:
            barred = barred | given.fixed
        if c.parts:
            barred = barred | (given.part == Part.SEND)
        faults = {"FORMAT": unknown | ((given.format != Format.WORDS) & barred)}
        if self._reach is not None:
            read, written, unreachable = self._reach
            faults["ADDRESS"] = (
                unreachable | (read > self.memory_end) | (written > self.memory_end)
            )
        return faults
