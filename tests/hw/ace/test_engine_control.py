# amaranth: UnusedElaboratable=no
"""The control part of the engine by itself: registers on one side, the parts of the engine on the
other."""

from hw.ace.config import preset
from hw.ace.control import EngineControl
from hw.ace.registers import CommandError, register_map
from hw.common.testing import simulate
from tests.hw.common.test_registers import read, write

CONFIG = preset("test")
REGISTERS = register_map(CONFIG)


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


def on_control(steps):
    """Run *steps* with the simulation, a control part whose engine is quiet, and its software."""
    dut = EngineControl(CONFIG)

    async def bench(ctx):
        ctx.set(dut.quiet, 1)
        ctx.set(dut.command.ready, 1)
        await steps(ctx, dut, Software(ctx, dut))

    simulate(dut, bench)


def test_refusals_of_one_cycle_are_both_counted():
    """One that the check of its values refuses, and one that is turned away as it is written."""
    last = []

    async def steps(ctx, dut, software):
        for n, delay in enumerate(range(12)):
            await software.put("interrupt", 0x7F)
            await software.put("command", collective=1)
            ctx.set(dut.command.ready, 0)
            at = REGISTERS.offset("command")
            word = REGISTERS.registers["command"].pack(collective=2)
            bus = dut.csr.write
            ctx.set(bus.awaddr, at)
            ctx.set(bus.wdata, word)
            ctx.set(bus.wstrb, 15)
            ctx.set(bus.awvalid, 1)
            ctx.set(bus.wvalid, 1)
            ctx.set(bus.bready, 1)
            for cycle in range(16):
                ctx.set(dut.ended.valid, cycle == delay)
                ctx.set(dut.ended.p.error, CommandError.EMPTY)
                taken = {c: ctx.get(getattr(bus, f"{c}ready")) for c in ("aw", "w")}
                await ctx.tick()
                for channel, done in taken.items():
                    if done:
                        ctx.set(getattr(bus, f"{channel}valid"), 0)
            ctx.set(bus.bready, 0)
            ctx.set(dut.command.ready, 1)
            refusal = await software.get("refusal")
            assert refusal["count"] == 2 * (n + 1)
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
