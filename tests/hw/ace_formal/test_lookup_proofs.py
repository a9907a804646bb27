# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proof about lookups: no packet is granted before the READYs that it waits for are counted."""

import pytest
from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace import lookup
from hw.ace.config import AceConfig
from hw.ace.isa import INSTRUCTION_BITS, instruction_layout
from hw.ace.lookup import LOOKUP_LATENCY, LookupPipeline
from hw.ace.ready_table import GrantSignature
from tests.hw.common.prover import holds, with_change

CONFIG = AceConfig(
    ports=2, bus_bytes=16, packet_bytes=16, sram_bytes=128, banks=1, alus=1, alu_stages=2, fsms=1,
    contexts=2, program_words=64, memory_ports=1, rx_packets=2, tx_packets=2, max_nodes=2,
    address_bits=24, commands=1,
)  # fmt: skip


def any_program(pipeline):
    """*pipeline* with a program store that holds any ``word`` in any cycle."""

    class AnyProgram(pipeline):
        def _instruction(self, m, stage):
            self.word = Signal(INSTRUCTION_BITS)
            instruction = Signal(instruction_layout)
            m.d.comb += instruction.eq(self.word)
            return instruction

    return AnyProgram(CONFIG)


class GrantHarness(wiring.Component):
    """Requests of two receive units and the send generator, about any instructions, and READYs that
    are counted at will.

    `bad`: an answer grants a port to a packet though, in the cycle before, no more READYs of the
    peer there were counted for its context than the instruction says are for earlier packets; or an
    answer comes to nobody who asked, or none to somebody who did.
    """

    def __init__(self, pipeline):
        self.pipeline = pipeline
        super().__init__(
            {
                "grants": In(GrantSignature(CONFIG)),
                "asks": In(3),
                "context": In(1).array(3),
                "word": In(INSTRUCTION_BITS),
                "bad": Out(1), "cover_a_packet_of_a_later_ready_is_granted": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipeline = self.pipeline
        m.submodules.pipeline = pipeline.elaborate(platform)
        for of_context, told in zip(pipeline.grants.readies, self.grants.readies):
            m.d.comb += [mine.eq(each) for mine, each in zip(of_context, told)]
        requests = [*pipeline.request, pipeline.own_request]
        answers = [
            *((each.valid, each.p) for each in pipeline.response),
            (pipeline.own_response.valid, pipeline.own_response.p.resolved),
        ]
        m.d.comb += pipeline.word.eq(self.word)
        # The instruction is read three cycles before the answer.
        read = Signal(instruction_layout)
        held = Signal(instruction_layout)
        instruction = Signal(instruction_layout)
        m.d.sync += [read.eq(self.word), held.eq(read), instruction.eq(held)]

        bad, granted = [], []
        for n, (request, (valid, resolved)) in enumerate(zip(requests, answers)):
            context = request.p.context if n == CONFIG.ports else request.p.context[:1]
            m.d.comb += [request.valid.eq(self.asks[n]), context.eq(self.context[n])]
            asked, of = request.valid & request.ready, self.context[n]
            for stage in range(LOOKUP_LATENCY - 1):
                before, whose = asked, of
                asked = Signal(name=f"asked_{n}_{stage}")
                of = Signal(name=f"of_{n}_{stage}")
                m.d.sync += [asked.eq(before), of.eq(whose)]
            due = Signal(name=f"due_{n}")
            counted = [Signal(2, name=f"counted_{n}_{p}") for p in range(CONFIG.ports)]
            m.d.sync += due.eq(asked)
            m.d.sync += [
                seen.eq(Array(each[p] for each in self.grants.readies)[of])
                for p, seen in enumerate(counted)
            ]
            grants = valid & resolved.granted & (resolved.port < CONFIG.ports)
            known = Array(counted)[resolved.port[:1]]
            bad += [valid != due, grants & (known <= instruction.readies)]
            granted.append(grants & (instruction.readies != 0))
        m.d.comb += [
            self.bad.eq(Cat(bad).any()),
            self.cover_a_packet_of_a_later_ready_is_granted.eq(Cat(granted).any()),
        ]
        return m


def test_no_packet_is_granted_before_its_ready_is_counted(tmp_path):
    assert holds(GrantHarness(any_program(LookupPipeline)), tmp_path)


@pytest.mark.parametrize(
    "old, new",
    [("readies > instruction.readies", "readies >= instruction.readies"),
     ("for r in self.grants.readies)[query.context]", "for r in self.grants.readies)[0]")],
)
def test_an_early_grant_is_refuted(old, new, tmp_path):
    changed = with_change(lookup, "LookupPipeline", old, new)
    assert not holds(GrantHarness(any_program(changed)), tmp_path)
