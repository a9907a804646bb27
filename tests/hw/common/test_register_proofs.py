# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Unbounded proof that a register file answers every access once, and holds what was written."""

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.axi import AXIResponse
from hw.common.registers import Field, Register, RegisterFile, RegisterMap
from tests.hw.common.prover import ever, holds, nth

REGISTERS = RegisterMap(
    "proof",
    [
        Register("setting", "rw", [Field("low", 8), Field("high", 4)], strobed=True),
        Register("command", "wo", [Field("code", 2)]),
        Register("status", "ro", [Field("code", 2)]),
    ],
)


class AccessHarness(wiring.Component):
    """Any AXI4-Lite master. `bad` when

    a write is not answered within 2 cycles, a read within 3, an access is answered twice or without
    being made, an answer is wrong or changes while it waits, a write is not what its strobes say,
    or a second access of the kind is accepted before the first one is answered.
    """

    def __init__(self, file):
        self.file = file
        super().__init__(
            {
                "write_to": In(2),
                "awvalid": In(1),
                "word": In(12),
                "strobe": In(2),
                "wvalid": In(1),
                "bready": In(1),
                "read_from": In(2),
                "arvalid": In(1),
                "rready": In(1),
                "bad": Out(1), "cover_part_of_a_register_is_written_and_read_twice": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.file = file = self.file
        write, read = file.bus.write, file.bus.read
        m.d.comb += [
            write.awaddr.eq(Cat(0, 0, self.write_to)),
            write.awvalid.eq(self.awvalid),
            write.wdata.eq(self.word),
            write.wstrb.eq(self.strobe),
            write.wvalid.eq(self.wvalid),
            write.bready.eq(self.bready),
            read.araddr.eq(Cat(0, 0, self.read_from)),
            read.arvalid.eq(self.arvalid),
            read.rready.eq(self.rready),
        ]
        due = {}
        for channel in ("aw", "w", "ar"):
            due[channel] = Signal(name=f"due_{channel}")
            bus = read if channel == "ar" else write
            with m.If(getattr(bus, f"{channel}valid") & getattr(bus, f"{channel}ready")):
                m.d.sync += due[channel].eq(1)
            answer = "r" if channel == "ar" else "b"
            with m.If(getattr(bus, f"{answer}valid") & getattr(bus, f"{answer}ready")):
                m.d.sync += due[channel].eq(0)

        target, origin = Signal(2), Signal(2)
        word, mask = Signal(12), Signal(12)
        with m.If(write.awvalid & write.awready):
            m.d.sync += target.eq(self.write_to)
        with m.If(write.wvalid & write.wready):
            enabled = Cat(self.strobe[0].replicate(8), self.strobe[1].replicate(4))
            m.d.sync += [word.eq(self.word), mask.eq(enabled)]
        with m.If(read.arvalid & read.arready):
            m.d.sync += origin.eq(self.read_from)

        setting = Signal(12)
        taking = due["aw"] & due["w"] & ~write.bvalid
        with m.If(taking & (target == 0)):
            m.d.sync += setting.eq(setting & ~mask | word & mask)
        shown = Signal(32)
        reading = due["ar"] & ~read.rvalid
        late = Signal(3)
        with m.If(reading & ~late[1]):
            m.d.sync += shown.eq(Mux(origin == 0, setting, 0))

        def response(address, forbidden):
            refused = Mux(address == 3, AXIResponse.DECERR, AXIResponse.OKAY)
            return Mux(address == forbidden, AXIResponse.SLVERR, refused)

        m.d.sync += late.eq(Cat(taking, reading, reading & late[1]))
        m.d.comb += self.bad.eq(
            Cat(
                (write.awready & due["aw"]) | (write.wready & due["w"]),
                read.arready & due["ar"],
                ~write.awready & ~due["aw"],
                ~write.wready & ~due["w"],
                ~read.arready & ~due["ar"],
                write.bvalid & ~(due["aw"] & due["w"]),
                read.rvalid & ~due["ar"],
                late[0] & taking,
                late[2] & reading,
                write.bvalid & (write.bresp != response(target, 2)),
                read.rvalid & (read.rresp != response(origin, 1)),
                read.rvalid & (read.rdata != shown),
                file.setting.value.as_value() != setting,
            ).any()
        )
        part = ever(m, write.wvalid & write.wready & (self.strobe == 1))
        m.d.comb += self.cover_part_of_a_register_is_written_and_read_twice.eq(
            part & nth(m, read.rvalid & read.rready & (shown != 0), 2)
        )
        return m


class ForgetsStrobes(RegisterFile):
    """Planted bug: writes whole words."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        word = Signal(12)
        with m.If(self.bus.write.wvalid & self.bus.write.wready):
            m.d.sync += word.eq(self.bus.write.wdata)
        with m.If(self.setting.strobe):
            m.d.sync += self.setting.value.as_value().eq(word)
        return m


class AnswersEarly(RegisterFile):
    """Planted bug: acknowledges a write before its data has arrived."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(self.bus.write.awvalid & self.bus.write.awready):
            m.d.sync += self.bus.write.bvalid.eq(1)
        return m


def test_every_access_is_answered_once_and_correctly(tmp_path):
    assert holds(AccessHarness(RegisterFile(REGISTERS)), tmp_path)


@pytest.mark.parametrize("planted", [ForgetsStrobes, AnswersEarly])
def test_planted_register_bug_is_refuted(planted, tmp_path):
    assert not holds(AccessHarness(planted(REGISTERS)), tmp_path)
