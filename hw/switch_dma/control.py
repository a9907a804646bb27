"""Queue of all-reduces: checks them, gives them to the links, collects outcomes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.engine import ELEMENT_BYTES
from hw.common.fifo import StreamFIFO
from hw.fp.ops import ReduceOp
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import NODE, job_layout, outcome_layout
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
        }
    )


class Control(wiring.Component):
    """Descriptor queue and completion.

    A command is judged 2 cycles after it was given. One all-reduce runs at a time; the next is
    begun 2 cycles after the one before is complete on all links.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    command : ``In(descriptor_layout(config))``, command_strobe : ``In(1)``
    unreachable : ``In(1)``
        With a command: an address that software gave needs more than `address_bits`.
    memory_end : ``In(address_bits)``
        Last byte of memory.
    node : ``In(NODE)``, joined, ready : ``In(1)``
        See `Membership`. Commands are taken when joined, and run when ready.
    accepted, refused : ``Out(1)``, error : ``Out(CommandError)``, judged_tag : ``Out(8)``
        High for one cycle per command.
    job : ``Out(stream.Signature(job_layout(config)))``
        For all links at once.
    done : ``In(links)``
        Links that have done their part of the job.
    outcome : ``In(outcome_layout()).array(links)``
    completed : ``Out(1)``, completed_tag : ``Out(8)``, failed : ``Out(outcome_layout())``
        High for one cycle per all-reduce that is done; why its result is not valid.
    outstanding : ``Out(range(descriptors + 1))``
    flush : ``In(1)``
        Forget everything, refuse all commands.
    unaware : ``In(1)``
        Software has not taken note of an abort: refuse all commands.
    """

    command: Any
    command_strobe: Signal
    unreachable: Signal
    memory_end: Signal
    node: Any
    joined: Signal
    ready: Signal
    accepted: Signal
    refused: Signal
    error: Any
    judged_tag: Signal
    job: stream.Interface
    done: Signal
    outcome: Any
    completed: Signal
    completed_tag: Signal
    failed: Any
    outstanding: Signal
    flush: Signal
    unaware: Signal

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "command": In(descriptor_layout(c)),
                "command_strobe": In(1),
                "unreachable": In(1),
                "memory_end": In(c.address_bits),
                "node": In(NODE),
                "joined": In(1),
                "ready": In(1),
                "accepted": Out(1),
                "refused": Out(1),
                "error": Out(CommandError),
                "judged_tag": Out(8),
                "job": Out(stream.Signature(job_layout(c))),
                "done": In(c.links),
                "outcome": In(outcome_layout()).array(c.links),
                "completed": Out(1),
                "completed_tag": Out(8),
                "failed": Out(outcome_layout()),
                "outstanding": Out(range(c.descriptors + 1)),
                "flush": In(1),
                "unaware": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        queue = StreamFIFO(descriptor_layout(c), c.descriptors, memory=False)
        m.submodules.queue = ResetInserter(self.flush)(queue)
        self._judge(m, queue)
        head = queue.o.p
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
            job.tail_lanes.eq(last),
            job.op.eq(head.op),
            job.tag.eq(head.tag),
            job.pull.eq(head.pull),
            self.job.valid.eq(queue.o.valid & ~running & self.ready & ~self.flush),
            queue.o.ready.eq(self.job.valid & self.job.ready),
            self.completed.eq(running & self.done.all() & ~self.flush),
        ]
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [running.eq(1), self.completed_tag.eq(job.tag)]
        with m.If(self.completed | self.flush):
            m.d.sync += running.eq(0)
        for name, _ in outcome_layout():
            m.d.comb += self.failed[name].eq(Cat(each[name] for each in self.outcome).any())
        m.d.sync += self.outstanding.eq(
            Mux(self.flush, 0, self.outstanding + self.accepted - self.completed)
        )
        return m

    def _judge(self, m: Module, queue: StreamFIFO) -> None:
        c = self._config
        given: Any = Signal(descriptor_layout(c))
        given_valid, summed, outside = Signal(), Signal(), Signal()
        length_bytes = given.elements * ELEMENT_BYTES
        # Wide enough for any length, however narrow addresses are: nothing may wrap around.
        last_read = Signal(max(c.address_bits, len(length_bytes)) + 1)
        last_written = Signal.like(last_read)
        m.d.sync += [given_valid.eq(self.command_strobe), summed.eq(given_valid)]
        with m.If(self.command_strobe):
            m.d.sync += [given.eq(self.command), outside.eq(self.unreachable)]
        with m.If(given_valid):
            m.d.sync += [
                last_read.eq(given.source + length_bytes - 1),
                last_written.eq(given.destination + length_bytes - 1),
            ]
        misaligned = (given.source | given.destination) & (c.bus_bytes - 1)
        beyond = outside | (last_read > self.memory_end) | (last_written > self.memory_end)
        members = self.node.members
        strange = (members < 2) | (members > c.endpoints) | (self.node.endpoint >= c.endpoints)
        reasons: list[tuple[Any, CommandError]] = [
            (self.flush | self.unaware, CommandError.ABORTING),
            (strange, CommandError.MEMBERS),
            (~self.joined, CommandError.UNJOINED),
            (given.elements == 0, CommandError.EMPTY),
            (misaligned != 0, CommandError.ALIGNMENT),
            (beyond, CommandError.ADDRESS),
            (self.outstanding == c.descriptors, CommandError.FULL),
        ]
        for holds, error in reversed(reasons):
            with m.If(holds):
                m.d.comb += self.error.eq(error)
        m.d.comb += [
            self.accepted.eq(summed & (Value.cast(self.error) == CommandError.NONE.value)),
            self.refused.eq(summed & (Value.cast(self.error) != CommandError.NONE.value)),
            self.judged_tag.eq(given.tag),
            queue.i.payload.eq(given),
            queue.i.valid.eq(self.accepted),
        ]
