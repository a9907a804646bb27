# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""SRAMBank is a synchronous RAM, as a memory and as a macro."""

import random
from types import SimpleNamespace

import pytest
from amaranth.back import verilog
from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sram import SRAMBank
from hw.common.testing import simulate
from tests.hw.common.prover import ever, holds, nth


class RowsHarness(wiring.Component):
    """Compares a bank with an array of registers; `bad` when `r_data` differs."""

    def __init__(self, bank, *, parts, single):
        self.bank = bank
        self.parts = parts
        self.single = single
        row = In(range(bank.depth))
        super().__init__(
            {
                "r_en": In(1),
                "r_addr": row,
                "w_en": In(parts),
                "w_addr": row,
                "w_data": In(bank.width),
                "bad": Out(1), "cover_fourth_write_is_read": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = self.bank
        r_addr = self.w_addr if self.single else self.r_addr
        w_addr = self.w_addr
        m.d.comb += [bank.r_en.eq(self.r_en), bank.w_en.eq(self.w_en), bank.w_data.eq(self.w_data)]
        if self.single:
            m.d.comb += bank.addr.eq(w_addr)
        else:
            m.d.comb += [bank.r_addr.eq(r_addr), bank.w_addr.eq(w_addr)]

        rows = Signal(data.ArrayLayout(unsigned(bank.width), bank.depth), reset_less=True)
        expected = Signal(bank.width, reset_less=True)
        broken = Signal(reset_less=True)  # a row past the end was addressed
        known = Signal(reset_less=True)  # something was read
        out_of_range = (r_addr >= bank.depth) | (w_addr >= bank.depth)
        mask = Cat(part.replicate(bank.width // self.parts) for part in self.w_en)
        with m.If(out_of_range):
            m.d.sync += broken.eq(1)
        with m.If(self.r_en & ~(self.w_en.any() & self.single)):
            m.d.sync += [expected.eq(rows[r_addr]), known.eq(1)]
        m.d.sync += rows[w_addr].eq(rows[w_addr] & ~mask | self.w_data & mask)
        m.d.comb += self.bad.eq(known & ~broken & (bank.r_data != expected))
        written = ever(m, nth(m, self.w_en.any() & ~out_of_range, 4))
        m.d.comb += self.cover_fourth_write_is_read.eq(
            written & known & ~broken & expected.all()
        )
        return m


@pytest.mark.parametrize("macros", [False, True], ids=["memory", "macro"])
@pytest.mark.parametrize("granularity", [None, 1])
@pytest.mark.parametrize("ports", ["1r1w", "1rw"])
def test_bank_is_an_array_of_rows(ports, granularity, macros, tmp_path):
    bank = SRAMBank(depth=3, width=2, ports=ports, granularity=granularity)
    harness = RowsHarness(bank, parts=1 if granularity is None else 2, single=ports == "1rw")

    assert holds(harness, tmp_path, macros=macros)


def test_bank_that_reads_new_data_would_be_refuted(tmp_path):
    class NewData(SRAMBank):
        """Planted bug: a row that is being written is read with its new contents."""

        def elaborate(self, platform):
            m = super().elaborate(platform)
            bypass = Signal()
            m.d.sync += bypass.eq(self.r_en & self.w_en.any() & (self.r_addr == self.w_addr))
            late = Signal.like(self.w_data)
            m.d.sync += late.eq(self.w_data)
            with m.If(bypass):
                m.d.comb += self.r_data.eq(late)
            return m

    bank = NewData(depth=3, width=2)

    assert not holds(RowsHarness(bank, parts=1, single=False), tmp_path)


@pytest.mark.parametrize("granularity", [None, 8])
def test_reads_see_the_last_write_before_them(granularity):
    dut = SRAMBank(depth=12, width=32, granularity=granularity)
    parts = 1 if granularity is None else 4
    part_mask = (1 << 32 // parts) - 1
    rng = random.Random(1)

    async def bench(ctx):
        rows = [0] * 12
        expected = 0
        for _ in range(400):
            read, read_row = rng.random() < 0.5, rng.randrange(12)
            enables, write_row = rng.randrange(1 << parts), rng.randrange(12)
            word = rng.randrange(1 << 32)
            ctx.set(dut.r_en, read)
            ctx.set(dut.r_addr, read_row)
            ctx.set(dut.w_en, enables)
            ctx.set(dut.w_addr, write_row)
            ctx.set(dut.w_data, word)
            await ctx.tick()
            if read:
                expected = rows[read_row]  # the old contents, if the row is written as well
            mask = sum(part_mask << (k * 32 // parts) for k in range(parts) if enables >> k & 1)
            rows[write_row] = rows[write_row] & ~mask | word & mask
            assert ctx.get(dut.r_data) == expected

    simulate(dut, bench)


def test_single_port_writes_and_then_does_not_read():
    dut = SRAMBank(depth=4, width=8, ports="1rw")

    async def bench(ctx):
        for row in range(4):
            ctx.set(dut.addr, row)
            ctx.set(dut.w_en, 1)
            ctx.set(dut.w_data, 0x10 + row)
            await ctx.tick()
        ctx.set(dut.w_en, 0)
        ctx.set(dut.r_en, 1)
        for row in range(4):
            ctx.set(dut.addr, row)
            await ctx.tick()
            assert ctx.get(dut.r_data) == 0x10 + row
        ctx.set(dut.w_en, 1)
        ctx.set(dut.addr, 0)
        await ctx.tick()
        assert ctx.get(dut.r_data) == 0x13

    simulate(dut, bench)


@pytest.mark.parametrize("ports", ["1r1w", "1rw"])
def test_platform_with_macros_gets_an_instance_and_its_body(ports):
    platform = SimpleNamespace(sram_macros={})
    dut = SRAMBank(depth=4096, width=512, ports=ports, granularity=128)

    m = Module()
    m.submodules.bank = dut
    text = verilog.convert(
        m, platform=platform, emit_src=False, strip_internal_attrs=True, ports=[],
    )

    name = f"sram_{ports}_4096x512_w128"
    assert dut.macro_name == name
    assert list(platform.sram_macros) == [name]
    assert f"module {name} (" in platform.sram_macros[name]
    assert f"{name} bank" in text or f"{name} \\bank" in text
    assert "reg [511:0]" not in text


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"depth": 1}, r"^SRAMBank depth must be an integer at least 2, not 1$"),
        ({"width": 0}, r"^SRAMBank width must be an integer at least 1, not 0$"),
        ({"ports": "2rw"}, r"^SRAMBank ports must be one of '1r1w', '1rw', not '2rw'$"),
        ({"granularity": 5}, r"^SRAMBank granularity must be a divisor of the width of 32, not 5$"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        SRAMBank(**{"depth": 8, "width": 32, **parameters})
