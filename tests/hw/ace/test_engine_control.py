# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The control part of the engine by itself: registers on one side, the parts of the engine on the
other."""

from dataclasses import replace

import pytest

from hw.ace.config import preset
from hw.ace.control import EngineControl
from hw.ace.isa import TABLE_WORDS, placement_layout
from hw.ace.registers import CommandError, register_map
from hw.common.testing import simulate
from tests.hw.common.test_registers import read, write

CONFIG = preset("test")
REGISTERS = register_map(CONFIG)
WRITE_CYCLES = 14
"""In which a write without pauses, and all that follows from it, are over."""


class Software:
    """Reads and writes registers of a control part in a simulation."""

    def __init__(self, ctx, dut):
        self._ctx, self._dut = ctx, dut

    async def get(self, name, index=None):
        response, word = await read(self._ctx, self._dut.csr, REGISTERS.offset(name, index))
        assert response == 0
        return REGISTERS.registers[name].unpack(word)

    async def put(self, name, word=None, **fields):
        word = REGISTERS.registers[name].pack(**fields) if word is None else word
        return await write(self._ctx, self._dut.csr, REGISTERS.offset(name), word)

    async def put_while(self, each, name, **fields):
        """Write without pauses, so that it takes effect in the same cycle every time; *each* is
        called in every cycle with its number."""
        ctx, bus = self._ctx, self._dut.csr.write
        ctx.set(bus.awaddr, REGISTERS.offset(name))
        ctx.set(bus.wdata, REGISTERS.registers[name].pack(**fields))
        ctx.set(bus.wstrb, 15)
        for signal in (bus.awvalid, bus.wvalid, bus.bready):
            ctx.set(signal, 1)
        for cycle in range(WRITE_CYCLES):
            each(cycle)
            taken = {c: ctx.get(getattr(bus, f"{c}ready")) for c in ("aw", "w")}
            await ctx.tick()
            for channel, done in taken.items():
                if done:
                    ctx.set(getattr(bus, f"{channel}valid"), 0)
        ctx.set(bus.bready, 0)

    async def records(self):
        """All records, taken: the fields that are not 0."""
        found = []
        while (record := await self.get("completion"))["valid"]:
            found.append({name: value for name, value in record.items() if value})
            await self.put("completion_taken", 1)
        return found


def on_control(steps, *, config=CONFIG):
    """Run *steps* with the simulation, a control part whose engine is quiet, and its software."""
    dut = EngineControl(config)

    async def bench(ctx):
        ctx.set(dut.quiet, 1)
        ctx.set(dut.command.ready, 1)
        await steps(ctx, dut, Software(ctx, dut))

    simulate(dut, bench)


def _hear(ctx, dut, on, because=0):
    ctx.set(dut.port[0].halted, on)
    ctx.set(dut.port[0].because, because)


def test_refusals_of_one_cycle_are_both_counted():
    """One that the check of its values refuses, and one that is turned away as it is written."""
    last = []

    async def steps(ctx, dut, software):
        for number in range(WRITE_CYCLES - 2):
            await software.put("interrupt", 0x7F)
            await software.put("command", collective=1)
            ctx.set(dut.command.ready, 0)

            def refuse(cycle, at=number):
                ctx.set(dut.ended.valid, cycle == at)
                ctx.set(dut.ended.p.error, CommandError.EMPTY)

            await software.put_while(refuse, "command", collective=2)
            ctx.set(dut.command.ready, 1)
            refusal = await software.get("refusal")
            assert refusal["count"] == 2 * (number + 1)
            last.append((refusal["error"], refusal["collective"]))
            assert (await software.get("interrupt"))["refused"] == 1

    on_control(steps)
    # From one order to the other, so that one delay among them brings both at once.
    full, empty = (CommandError.FULL.value, 2), (CommandError.EMPTY.value, 1)
    assert set(last) == {full, empty}
    assert last == sorted(last, key=[full, empty].index)


def test_watchdog_counts_from_the_last_move_and_from_its_setting():
    async def steps(ctx, dut, software):
        async def stalled_after(cycles):
            await ctx.tick().repeat(cycles)
            return (await software.get("status"))["stalled"]

        await software.put("watchdog", 300)
        await software.put("command", collective=1)
        for _ in range(5):
            assert not await stalled_after(200)
            ctx.set(dut.moves, 1)
            await ctx.tick()
            ctx.set(dut.moves, 0)
        # A shorter time than has passed already begins when it is set.
        await software.put("watchdog", 1000)
        assert not await stalled_after(600)
        await software.put("watchdog", 200)
        assert not await stalled_after(120)
        assert await stalled_after(120)
        ctx.set(dut.moves, 1)
        await ctx.tick()
        ctx.set(dut.moves, 0)
        assert not await stalled_after(5)
        assert (await software.get("interrupt"))["stalled"] == 1  # until it is cleared

    on_control(steps)


def test_commands_are_turned_away_from_an_abort_until_the_engine_is_idle():
    async def steps(ctx, dut, software):
        ctx.set(dut.quiet, 0)
        await software.put("control", abort=1, epoch=5)
        status = await software.get("status")
        assert (status["aborting"], status["idle"], status["epoch"]) == (1, 0, 5)
        assert ctx.get(dut.epoch) == 5 and ctx.get(dut.flush) == 1
        await software.put("command", collective=2)
        refusal = {"error": CommandError.ABORTING.value, "collective": 2, "count": 1}
        assert await software.get("refusal") == refusal
        ctx.set(dut.quiet, 1)
        await ctx.tick().repeat(10)

        assert (await software.get("status"))["aborting"] == 0
        assert ctx.get(dut.flush) == 0
        await software.put("command", collective=3)
        assert await software.get("refusal") == refusal
        assert (await software.get("status"))["outstanding"] == 1
        assert await software.records() == []

    on_control(steps)


@pytest.mark.parametrize("because, cause", [(1, "disagreement"), (2, "lost")])
def test_what_a_neighbour_gave_up_is_given_up_here(because, cause):
    told = []

    async def steps(ctx, dut, software):
        await software.put("links", 2)  # the other link leads nowhere
        await software.put("command", collective=9)
        for on in (1, 0, 0, 0):
            _hear(ctx, dut, on, because)
            told.append([ctx.get(port.halt) for port in dut.port])
            await ctx.tick()

        status = await software.get("status")
        assert (status["halted"], status["outstanding"], status[cause]) == (1, 0, 1)
        assert status["disagreement"] + status["lost"] == 1
        assert await software.records() == [{"valid": 1, cause: 1, "collective": 9}]
        assert (await software.get("interrupt"))["failed"] == 1
        await software.put("command", collective=8)
        assert (await software.get("refusal"))["error"] == CommandError.HALTED.value
        await software.put("control", abort=1)
        status = await software.get("status")
        assert status["halted"] == status[cause] == 0

    on_control(steps)
    assert told == [[0, 0], [0, 0], [0, 1], [0, 0]]


def test_halt_without_a_command_is_told_as_well():
    async def steps(ctx, dut, software):
        _hear(ctx, dut, 1, 2)
        await ctx.tick()
        _hear(ctx, dut, 0)
        await ctx.tick().repeat(3)
        assert (await software.get("interrupt"))["failed"] == 1
        assert await software.records() == []

    on_control(steps)


def test_damaged_header_is_a_loss_while_a_command_is_outstanding_only():
    async def steps(ctx, dut, software):
        async def drop():
            ctx.set(dut.port[1].dropped, 1)
            await ctx.tick()
            ctx.set(dut.port[1].dropped, 0)
            await ctx.tick().repeat(4)
            return await software.get("status")

        assert (await drop())["halted"] == 0
        assert (await software.get("damaged", 1))["count"] == 1
        await software.put("command", collective=1)
        status = await drop()
        assert (status["halted"], status["lost"]) == (1, 1)

    on_control(steps)


def test_an_abort_restarts_the_links_in_use_alone():
    restarted = set()

    async def steps(ctx, dut, software):
        def look(cycle):
            restarted.update(p for p in range(CONFIG.ports) if ctx.get(dut.port[p].restart))

        for used in (1, 2, 3):
            await software.put("links", used=used)
            restarted.clear()
            await software.put_while(look, "control", abort=1)
            assert restarted == {p for p in range(CONFIG.ports) if used >> p & 1}

    on_control(steps)


def test_an_abort_forgets_packets_that_are_found_missing_in_its_cycle():
    """Those of later cycles are of the new epoch, and halt it."""
    async def steps(ctx, dut, software):
        stops, halted = [], []
        await software.put_while(lambda _: stops.append(ctx.get(dut.stop)), "control", abort=1)
        for lost in range(WRITE_CYCLES - 4):
            await software.put_while(
                lambda cycle, lost=lost: ctx.set(dut.port[0].missing, cycle == lost),
                "control", abort=1,
            )
            halted.append((await software.get("status"))["halted"])
            await software.put("control", abort=1)
        at = stops.index(1)
        assert 0 < at < len(halted) - 1
        assert halted == [0] * (at + 1) + [1] * (len(halted) - at - 1)

    on_control(steps)


def test_abort_wins_over_a_halt_of_the_same_cycle():
    """One that is heard later is of the new epoch."""
    halted = []

    async def steps(ctx, dut, software):
        stops = []
        await software.put_while(lambda _: stops.append(ctx.get(dut.stop)), "control", abort=1)
        assert sum(stops) == 1
        at = stops.index(1)
        for heard in (at - 1, at, at + 1):
            await software.put_while(
                lambda cycle, heard=heard: _hear(ctx, dut, cycle == heard, 1), "control", abort=1
            )
            halted.append((await software.get("status"))["halted"])

    on_control(steps)
    assert halted == [0, 0, 1]


def test_command_that_ends_as_it_is_given_up_has_one_record():
    causes = []

    async def steps(ctx, dut, software):
        for number in range(WRITE_CYCLES - 2):
            await software.put("command", collective=1)

            def end(cycle, at=number):
                # No part reports what was given up before.
                ctx.set(dut.ended.valid, cycle == at and not any(causes[at:]))
                ctx.set(dut.ended.p.causes.memory, 1)
                if ctx.get(dut.stop) and at == len(causes):
                    causes.append(cycle < at)

            await software.put_while(end, "control", abort=1)
            late = causes[number]
            (record,) = await software.records()
            expected = {"aborted"} if late else {"memory"}
            assert set(record) == {"valid", "collective"} | expected
            assert (await software.get("status"))["outstanding"] == 0

    on_control(steps)
    assert set(causes) == {False, True}


def test_a_block_has_at_most_the_beats_that_were_written_last_and_those_of_a_slot():
    config = replace(CONFIG, partitions="phase", phases=2, fsms=2)

    async def steps(ctx, dut, software):
        expected = [0] * 16
        most = config.slot_beats
        for fsm, entry, beats in ((0, 3, 5), (1, 4, most), (1, 3, 2), (0, 15, most + 1),
                                  (0, 5, 2 * most + 2), (1, 15, 1)):
            word = placement_layout.const({"first": 7, "beats": beats}).as_bits()
            await software.put("program_address", word=TABLE_WORDS + entry, fsm=fsm)
            await software.put("program_low", word & 0xFFFFFFFF)
            await software.put("program_high", word >> 32)
            expected[entry] = min(beats, most)
            assert [ctx.get(each) for each in dut.limits] == expected

    on_control(steps, config=config)
