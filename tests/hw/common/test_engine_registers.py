# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The registers that all engines have, on an engine that does nothing else; and idle."""

import hashlib

import pytest
from amaranth.hdl import Module
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import preset as ace_preset
from hw.ace.registers import register_map as ace_registers
from hw.common.engine_registers import (
    CSR_SIGNATURE,
    VERSION,
    EngineRegisters,
    counter_registers,
    identity_register,
    memory_end_registers,
    outcome_registers,
    wide_registers,
)
from hw.common.idle import IdleDetector
from hw.common.register_map import Field, RegisterMap
from hw.common.testing import simulate
from hw.smartnic.config import preset as nic_preset
from hw.smartnic.registers import register_map as nic_registers
from hw.switch.config import preset as switch_preset
from hw.switch.registers import register_map as switch_registers
from hw.switch_dma.config import preset as dma_preset
from hw.switch_dma.registers import register_map as dma_registers
from tests.hw.common.test_registers import read, write

CAUSES = {"done": "A command has completed.", "fault": "A register access failed."}


class Refusal(enum.Enum, shape=4):
    NONE = 0
    EMPTY = 1
    FULL = 2


def clerk_map():
    return RegisterMap(
        "the clerk",
        [
            identity_register(0xC1E2),
            *memory_end_registers(40),
            *wide_registers("source", "Where.", bits=48),
            *outcome_registers(
                of="the clerk",
                tag="tag",
                status=[Field("outstanding", 6)],
                completed=[Field("count", 23), Field("error")],
                errors=Refusal,
                interrupts=CAUSES,
            ),
            *counter_registers({"work": ("beats", "")}, count=2, bits={"work": 3}),
        ],
    )


class Clerk(wiring.Component):
    """Its inputs are what an engine would report."""

    def __init__(self):
        super().__init__(
            {
                "csr": In(CSR_SIGNATURE),
                "irq": Out(1),
                "source": Out(48),
                "memory_end": Out(64),
                "idle": In(1),
                "done": In(1),
                "failed": In(1),
                "refused": In(1),
                "reason": In(Refusal),
                "tag": In(8),
                "work": In(3),
            }
        )

    def elaborate(self, platform):
        m = Module()
        r = EngineRegisters(m, clerk_map(), csr=self.csr)
        r.show("status", idle=self.idle, outstanding=5)
        r.record("completed", self.done, error=self.failed, tag=self.tag)
        r.record("refusal", self.refused, error=self.reason, tag=self.tag)
        r.count(r.work[1], self.work)
        m.d.comb += [
            self.irq.eq(r.interrupt_by(done=self.done)),
            self.source.eq(r.wide("source")),
            self.memory_end.eq(r.wide("memory_end")),
        ]
        return m


def on_clerk(steps):
    """Run *steps* with the engine and two functions that read and write its registers."""
    dut, registers = Clerk(), clerk_map()

    async def bench(ctx):
        async def get(name, index=None):
            response, word = await read(ctx, dut.csr, registers.offset(name, index))
            assert response == 0
            return registers.registers[name].unpack(word)

        async def put(name, word):
            return await write(ctx, dut.csr, registers.offset(name), word)

        await steps(ctx, dut, get, put)

    simulate(dut, bench)


def test_identity_and_the_end_of_memory_can_be_read():
    async def steps(ctx, dut, get, put):
        assert await get("identity") == {"engine": 0xC1E2, "version": VERSION}
        assert await get("memory_end_low") == {"value": 0xFFFF_FFFF}
        assert await get("memory_end_high") == {"value": 0xFF}
        assert ctx.get(dut.memory_end) == (1 << 40) - 1

    on_clerk(steps)


def test_a_wide_number_is_written_in_halves():
    async def steps(ctx, dut, get, put):
        await put("source_low", 0x89AB_CDEF)
        await put("source_high", 0x1234_4567)

        assert ctx.get(dut.source) == 0x4567_89AB_CDEF

    on_clerk(steps)


def test_outcomes_are_counted_and_the_last_one_is_kept():
    async def steps(ctx, dut, get, put):
        for tag, done, refused, reason, failed in [
            (7, 1, 0, Refusal.NONE, 0),
            (8, 1, 0, Refusal.NONE, 1),
            (9, 0, 1, Refusal.EMPTY, 0),
            (1, 0, 0, Refusal.FULL, 0),
        ]:
            for name, value in (("tag", tag), ("done", done), ("refused", refused)):
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.reason, reason)
            ctx.set(dut.failed, failed)
            await ctx.tick()

        assert await get("completed") == {"count": 2, "error": 1, "tag": 8}
        assert await get("refusal") == {"error": Refusal.EMPTY.value, "tag": 9, "count": 1}

    on_clerk(steps)


def test_status_is_shown_and_work_is_added_up():
    async def steps(ctx, dut, get, put):
        ctx.set(dut.idle, 1)
        ctx.set(dut.work, 5)
        await ctx.tick().repeat(3)
        ctx.set(dut.work, 0)

        assert await get("status") == {"idle": 1, "outstanding": 5}
        assert await get("work", 0) == {"beats": 0}
        assert await get("work", 1) == {"beats": 15}

    on_clerk(steps)


def test_a_counter_takes_all_that_may_come_in_a_cycle():
    class Wide(Clerk):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            r = EngineRegisters(Module(), clerk_map(), csr=self.csr)
            r.count(r.work[0], self.work[:2], self.work[:2])  # 6 at most
            with pytest.raises(ValueError, match=r"of 3 bits cannot take 8 in a cycle$"):
                r.count(r.work[0], self.work, self.done)
            return m

    Wide().elaborate(None)


def test_an_interrupt_is_raised_while_it_is_enabled_and_pending():
    async def steps(ctx, dut, get, put):
        ctx.set(dut.done, 1)
        await ctx.tick()
        ctx.set(dut.done, 0)
        assert await get("interrupt") == {"done": 1, "fault": 0}
        assert not ctx.get(dut.irq)

        await put("interrupt_enable", 1)
        assert ctx.get(dut.irq)

        assert await put("identity", 1) != 0
        assert await get("interrupt") == {"done": 1, "fault": 1}
        await put("interrupt", 1)
        assert not ctx.get(dut.irq)
        await put("interrupt_enable", 2)
        assert ctx.get(dut.irq)

    on_clerk(steps)


@pytest.mark.parametrize("cycles", [1, 4, 6])
def test_idle_is_quiet_that_has_lasted(cycles):
    dut = IdleDetector(cycles)
    quiet = [0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, *[1] * 9]

    async def bench(ctx):
        seen = []
        for value in quiet:
            ctx.set(dut.quiet, value)
            seen.append(ctx.get(dut.idle))
            await ctx.tick()
        assert seen == [
            now >= cycles and all(quiet[now - cycles : now + 1]) for now in range(len(quiet))
        ]

    simulate(dut, bench)


@pytest.mark.parametrize("cycles, error", [(0, ValueError), (2.0, TypeError)])
def test_an_idle_detector_looks_back(cycles, error):
    with pytest.raises(error, match=r"^IdleDetector cycles must be an integer at least 1, not "):
        IdleDetector(cycles)


# As drivers see them, by version. A map that changes after a release gets another version.
MAPS = {
    2: {"ace": "cdd26fb52b502dc8", "smartnic": "bff90ae9e59e8463"},
    3: {
        "ace": "cdd26fb52b502dc8", "smartnic": "3d683b1675f2dff6", "switch": "a619a0fbb8ce6c1b",
        "switch-dma": "a475e3ce5072419d",
    },
    4: {
        "ace": "c7d731b8f919bf2b", "smartnic": "3d683b1675f2dff6", "switch": "a619a0fbb8ce6c1b",
        "switch-dma": "a475e3ce5072419d",
    },
    5: {
        "ace": "22cece46caa4f964", "smartnic": "3d683b1675f2dff6", "switch": "a619a0fbb8ce6c1b",
        "switch-dma": "a475e3ce5072419d",
    },
}


def _digest(registers):
    """Of everything but texts and the values after reset."""
    rows = [
        (
            register.name, register.access, register.count, registers.offset(register.name),
            [(field.name, field.width, field.choices) for field in register.fields],
        )
        for register in registers.registers.values()
    ]
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def test_version_tells_which_registers_there_are():
    found = {
        "ace": _digest(ace_registers(ace_preset("test"))),
        "smartnic": _digest(nic_registers(nic_preset("test"))),
        "switch": _digest(switch_registers(switch_preset("test"))),
        "switch-dma": _digest(dma_registers(dma_preset("test"))),
    }
    # If not: raise VERSION, once for all changes between two releases, and renew its entry.
    assert MAPS[VERSION] == found


def test_maps_that_differ_do_not_share_a_version():
    changed = ace_registers(ace_preset("duo"))
    assert _digest(changed) == MAPS[VERSION]["ace"]  # a configuration is no change
    changed.registers["node"].fields[0] = Field("rank", 11)
    assert _digest(changed) != MAPS[VERSION]["ace"]
