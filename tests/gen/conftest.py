# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""What the tests of `gen` build from: a design with every awkward feature, and a cache."""

from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.common.sram import SRAMBank


class Mixed(wiring.Component):
    """Memories of all kinds, and outputs that follow registers, inputs, both, or nothing."""

    step: In(8)
    data: In(40)
    wide: In(100)
    follows_input: Out(9)
    follows_state: Out(40)
    kept: Out(40)
    block_read: Out(40)
    table_read: Out(40)
    bank_read: Out(72)
    folded: Out(100)
    constant: Out(5)
    through: Out(8)

    def elaborate(self, platform):
        m = Module()
        count, total = Signal(8), Signal(40)
        m.submodules.rows = rows = Memory(shape=40, depth=16, init=[1, 2, 3])
        m.submodules.bank = bank = SRAMBank(depth=20, width=72)
        write = rows.write_port()
        block, table = rows.read_port(), rows.read_port(domain="comb")
        m.d.sync += [
            count.eq(count + self.step),
            total.eq((total ^ self.data) + count),
            self.folded.eq((self.folded << 7) ^ (self.folded >> 3) ^ self.wide),
        ]
        m.d.comb += [
            write.addr.eq(self.step),
            write.en.eq(self.step[7]),
            write.data.eq(self.data),
            block.addr.eq(count),
            block.en.eq(self.data[0]),
            table.addr.eq(count ^ self.step),
            bank.r_en.eq(self.data[1]),
            bank.r_addr.eq(count[:4]),
            bank.w_en.eq(self.data[2]),
            bank.w_addr.eq(self.step[:4]),
            bank.w_data.eq(self.wide),
            self.follows_input.eq(self.step + count),
            self.follows_state.eq(total * 3 + block.data),
            self.kept.eq(total),
            self.block_read.eq(block.data),
            self.table_read.eq(table.data),
            self.bank_read.eq(bank.r_data),
            self.constant.eq(19),
            self.through.eq(self.step),
        ]
        with m.Switch(self.step[:2]):
            with m.Case(0):
                m.d.sync += total.eq(self.data - 1)
            with m.Case(3):
                m.d.sync += count.eq(count - 5)
        return m


@pytest.fixture
def mixed() -> Mixed:
    return Mixed()


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")
