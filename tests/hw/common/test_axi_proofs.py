# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs about bursts, and that no AXI block lets anything through combinationally."""

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.axi import BOUNDARY_BYTES, BurstSplitter
from hw.common.axi_read import AXI4Reader
from hw.common.axi_write import AXI4Writer
from hw.common.registers import Field, Register, RegisterFile, RegisterMap
from tests.hw.common.prover import assert_moore, holds, nth


class BurstHarness(wiring.Component):
    """`bad`: the bursts of a transfer are not exactly its beats, in order, or one is illegal.

    Legal are bursts of up to *max_burst* beats within one 4 KiB page. `bad` is also high when beats
    remain and no burst is offered.
    """

    def __init__(self, splitter, *, data_width, max_burst):
        self.splitter = splitter
        self.beat_bytes = data_width // 8
        self.max_burst = max_burst
        command = splitter.cmd.p
        super().__init__(
            {
                "address": In(len(command.address)),
                "beats": In(len(command.beats)),
                "valid": In(1),
                "ready": In(1),
                "bad": Out(1), "cover_second_transfer_ends_after_several_bursts": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.splitter = splitter = self.splitter
        cmd, o = splitter.cmd, splitter.o
        m.d.comb += [
            cmd.valid.eq(self.valid),
            cmd.p.address.eq(self.address),
            cmd.p.beats.eq(self.beats),
            o.ready.eq(self.ready),
        ]
        low_bits = (self.beat_bytes - 1).bit_length()
        row = Signal(len(self.address) - low_bits)
        remaining = Signal.like(self.beats)
        beats = Signal(9)
        m.d.comb += beats.eq(o.p.length + 1)
        with m.If(cmd.valid & cmd.ready):
            m.d.sync += [row.eq(self.address[low_bits:]), remaining.eq(self.beats)]
        with m.Elif(o.valid & o.ready):
            m.d.sync += [row.eq(row + beats), remaining.eq(remaining - beats)]

        rows_per_page = BOUNDARY_BYTES // self.beat_bytes
        row_in_page = row[: (rows_per_page - 1).bit_length()]
        m.d.comb += self.bad.eq(
            Cat(
                cmd.ready != (remaining == 0),
                o.valid != (remaining != 0),
                o.valid & (o.p.address != row << low_bits),
                o.valid & (beats > remaining),
                o.valid & (beats > self.max_burst),
                o.valid & (o.p.final != (beats == remaining)),
                o.valid & (row_in_page + beats > rows_per_page),
            ).any()
        )
        several = Signal()
        with m.If(o.valid & o.ready):
            m.d.sync += several.eq(~o.p.final)
        m.d.comb += self.cover_second_transfer_ends_after_several_bursts.eq(
            nth(m, o.valid & o.ready & o.p.final & several, 2)
        )
        return m


class CutTooLate(BurstSplitter):
    """Planted bug: cuts at every 8 KiB."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self._cut += 1


WIDE = {"addr_width": 14, "data_width": 512, "max_burst": 256, "beats_width": 7}


@pytest.mark.parametrize(
    "parameters",
    [
        WIDE,
        {"addr_width": 14, "data_width": 512, "max_burst": 16, "beats_width": 7},
        {"addr_width": 13, "data_width": 32, "max_burst": 4, "beats_width": 5},
        {"addr_width": 13, "data_width": 1024, "max_burst": 1, "beats_width": 3},
    ],
    ids=["page", "16", "4", "1"],
)
def test_bursts_are_the_transfer_and_stay_inside_their_page(parameters, tmp_path):
    harness = BurstHarness(
        BurstSplitter(**parameters),
        data_width=parameters["data_width"],
        max_burst=parameters["max_burst"],
    )

    assert holds(harness, tmp_path)


def test_burst_across_a_page_is_refuted(tmp_path):
    harness = BurstHarness(CutTooLate(**WIDE), data_width=512, max_burst=256)

    assert not holds(harness, tmp_path)


@pytest.mark.parametrize("engine", [AXI4Reader, AXI4Writer])
@pytest.mark.parametrize("outstanding", [1, 2, 3])
def test_dma_outputs_depend_on_registers_only(engine, outstanding, tmp_path):
    dut = engine(addr_width=32, data_width=32, outstanding=outstanding)

    assert_moore(dut, tmp_path)


def test_register_file_outputs_depend_on_registers_only(tmp_path):
    registers = RegisterMap(
        "proof",
        [
            Register("a", "rw", [Field("value", 8)]),
            Register("b", "ro", [Field("value", 8)]),
            Register("c", "w1c", [Field("value", 8)]),
            Register("d", "wo", [Field("value", 8)], count=2),
        ],
    )

    assert_moore(RegisterFile(registers), tmp_path)
