# SPDX-License-Identifier: Apache-2.0
"""Queue of all-reduces: checks them, plans them, gives them to the engines, collects outcomes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import exact_log2

from hw.common.all_reduce import AllReduceQueue
from hw.common.fifo import StreamFIFO
from hw.fp.ops import ReduceOp
from hw.smartnic.config import MAX_NODES, SmartNicConfig
from hw.smartnic.layouts import Contract, job_layout, outcome_layout
from hw.smartnic.registers import CommandError

__all__ = ["DIVISION_CYCLES", "Control", "Planner", "descriptor_layout"]

DIVISION_CYCLES = 32


def descriptor_layout(c: SmartNicConfig) -> data.StructLayout:
    """An all-reduce as software describes it."""
    return data.StructLayout(
        {
            "source": c.address_bits,
            "destination": c.address_bits,
            "elements": 32,
            "rank": 9,
            "nodes": 9,
            "op": ReduceOp,
            "compress": 1,
            "tag": 8,
        }
    )


class Planner(wiring.Component):
    """Cuts the vector of a descriptor into rounds and blocks.

    Every rank owns as many beats as are needed for `nodes` equal shares of whole granules: full
    blocks first, one block for each round, then the rest. Takes `DIVISION_CYCLES` + 3 cycles.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    i : ``In(stream.Signature(descriptor_layout(config)))``
        Accepted all-reduces.
    o : ``Out(stream.Signature(job_layout(config)))``
        The same as jobs for the engines.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, config: SmartNicConfig) -> None:
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(descriptor_layout(config))),
                "o": Out(stream.Signature(job_layout(config))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        lane_bits = exact_log2(c.lanes)
        granule_bits = exact_log2(c.granule)
        block_bits = exact_log2(c.block_beats)
        given = self.i.p
        job = self.o.p
        nodes = Signal(9)
        dividend = Signal(32)
        remainder = Signal(10)
        quotient = Signal(32)
        share = Signal(33)  # beats of a rank
        step = Signal(range(DIVISION_CYCLES))
        trial = Signal(11)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    job.source.eq(given.source),
                    job.destination.eq(given.destination),
                    job.rank.eq(given.rank),
                    job.last_rank.eq(given.nodes - 1),
                    job.op.eq(given.op),
                    job.compress.eq(given.compress),
                    job.tail_lanes.eq(given.elements - 1),
                    job.beats.eq((given.elements + (c.lanes - 1)) >> lane_bits),
                    nodes.eq(given.nodes),
                ]
                with m.If(self.i.valid):
                    m.next = "PREPARE"
            with m.State("PREPARE"):
                m.d.sync += [
                    dividend.eq((job.beats + (c.granule - 1)) >> granule_bits),
                    remainder.eq(0),
                    step.eq(0),
                ]
                m.next = "DIVIDE"
            with m.State("DIVIDE"):
                fits = trial >= nodes
                m.d.comb += trial.eq(Cat(dividend[-1], remainder))
                m.d.sync += [
                    remainder.eq(Mux(fits, trial - nodes, trial)),
                    quotient.eq(Cat(fits, quotient)),
                    dividend.eq(dividend << 1),
                    step.eq(step + 1),
                ]
                with m.If(step == DIVISION_CYCLES - 1):
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += [
                    share.eq((quotient + (remainder != 0)) << granule_bits),
                    job.rounds.eq(share >> block_bits),
                    job.rest.eq(share[:block_bits]),
                    self.o.valid.eq(1),
                ]
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m


class Control(AllReduceQueue):
    """Descriptor queue, planning and completion.

    A command is judged 2 cycles after it was given.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    contract : ``Out(stream.Signature(Contract, always_ready=True))``
        Of every all-reduce that is accepted.
    job : ``Out(stream.Signature(job_layout(config))).array(engines)``
        Every job for each engine.
    done : ``In(stream.Signature(outcome_layout(), always_ready=True)).array(engines)``
        Outcomes of the jobs that each engine has done, in order.

    And those of `AllReduceQueue`.
    """

    contract: stream.Interface
    job: Any
    done: Any

    def __init__(self, config: SmartNicConfig) -> None:
        outcome = In(stream.Signature(outcome_layout(), always_ready=True))
        super().__init__(
            config,
            descriptor=descriptor_layout(config),
            outcome=outcome_layout(),
            errors=CommandError,
            contract=Out(stream.Signature(Contract, always_ready=True)),
            job=Out(stream.Signature(job_layout(config))).array(config.engines),
            done=outcome.array(config.engines),
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        clear = ResetInserter(self.flush)
        planner = Planner(c)
        m.submodules.planner = clear(planner)
        tags = StreamFIFO(8, c.descriptors, memory=False)
        m.submodules.tags = clear(tags)
        given, accepted = self._take(m)
        connect(m, accepted, planner.i)
        formats = [c.wire_format(compress=compress) for compress in (False, True)]
        contract = self.contract.p
        m.d.comb += [
            tags.i.payload.eq(given.tag),
            tags.i.valid.eq(self.accepted),
            self.contract.valid.eq(self.accepted),
            contract.elements.eq(given.elements),
            contract.tag.eq(given.tag),
            contract.coding.eq(Mux(given.compress, formats[1], formats[0])),
            contract.last_rank.eq(given.nodes - 1),
            contract.rank.eq(given.rank),
            contract.op.eq(given.op),
        ]
        self._hand_out(m, planner)
        self._collect(m, tags)
        return m

    def _early_faults(self, given: Any) -> dict[str, Any]:
        integers = given.op == ReduceOp.SUM_I32
        return {
            "NODES": (given.nodes < 2) | (given.nodes > MAX_NODES),
            "RANK": given.rank >= given.nodes,
            "COMPRESSION": given.compress & (integers | (self._config.codec_format is None)),
        }

    def _hand_out(self, m: Module, planner: Planner) -> None:
        """Every engine takes every job, each when it can."""
        engines = range(self._config.engines)
        taken = Signal(len(engines))
        takes = Signal(len(engines))
        for e in engines:
            m.d.comb += [
                self.job[e].payload.eq(planner.o.payload),
                self.job[e].valid.eq(planner.o.valid & ~taken[e]),
                takes[e].eq(taken[e] | (self.job[e].valid & self.job[e].ready)),
            ]
        m.d.comb += planner.o.ready.eq(takes.all())
        m.d.sync += taken.eq(Mux(takes.all() | self.flush, 0, takes))

    def _collect(self, m: Module, tags: StreamFIFO) -> None:
        """An all-reduce is complete when every engine has done its part."""
        c = self._config
        engines = range(c.engines)
        parts = [Signal(range(c.descriptors + 1), name=f"parts_{e}") for e in engines]
        causes = [name for name, _ in outcome_layout()]
        m.d.comb += [
            self.completed.eq(Cat(part != 0 for part in parts).all() & ~self.flush),
            self.completed_tag.eq(tags.o.payload),
            tags.o.ready.eq(self.completed),
        ]
        failed: dict[str, list[Any]] = {cause: [] for cause in causes}
        for e in engines:
            arrived = self.done[e].valid
            place = Signal(range(c.descriptors + 1), name=f"place_{e}")
            m.d.comb += place.eq(parts[e] - self.completed)
            m.d.sync += parts[e].eq(Mux(self.flush, 0, place + arrived))
            for cause in causes:
                errors = Signal(c.descriptors, name=f"{cause}_errors_{e}")  # oldest first
                rest = Mux(self.completed, errors >> 1, errors)
                new = (arrived & self.done[e].p[cause]) << place
                m.d.sync += errors.eq(Mux(self.flush, 0, rest | new))
                failed[cause].append(errors[0])
        m.d.comb += [self.failed[cause].eq(Cat(*bits).any()) for cause, bits in failed.items()]
