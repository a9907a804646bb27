# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""RegisterFile and RegisterMap: what software writes and reads, and what the document says."""

import json
import random

import pytest
from amaranth.lib import enum

from hw.common.registers import Field, Register, RegisterFile, RegisterMap
from hw.common.testing import simulate

OKAY, SLVERR, DECERR = 0, 2, 3


class Mode(enum.Enum, shape=2):
    OFF = 0
    RING = 1
    TREE = 2


def example_map():
    return RegisterMap(
        "example engine",
        [
            Register("identity", "ro", [Field("version", 8), Field("ports", 4)], "Who it is."),
            Register(
                "control",
                "rw",
                [Field("enable"), Field("mode", Mode, "How it works.", init=1), Field("size", 20)],
            ),
            Register("events", "w1c", [Field("done"), Field("error"), Field("lost", 8, init=3)]),
            Register("length", "rw", [Field("beats", 32)], offset=0x20, count=3),
            Register("command", "wo", [Field("code", 12)]),
        ],
    )


async def write(ctx, bus, address, word, strobe=15, rng=None):
    """Write by AXI4-Lite, address and data in any order; returns the response."""
    bus = bus.write
    pause = rng or random.Random(0)
    await ctx.tick().repeat(pause.randrange(1, 4))
    ctx.set(bus.awaddr, address)
    ctx.set(bus.wdata, word)
    ctx.set(bus.wstrb, strobe)
    waiting = {"aw", "w"}
    offered = set()
    while waiting:
        for channel in sorted(waiting - offered):
            if pause.random() < 0.6:
                offered.add(channel)
                ctx.set(getattr(bus, f"{channel}valid"), 1)
        taken = {c for c in offered & waiting if ctx.get(getattr(bus, f"{c}ready"))}
        await ctx.tick()
        for channel in taken:
            ctx.set(getattr(bus, f"{channel}valid"), 0)
        waiting -= taken
    await ctx.tick().repeat(pause.randrange(1, 4))
    ctx.set(bus.bready, 1)
    (response,) = await ctx.tick().sample(bus.bresp).until(bus.bvalid)
    ctx.set(bus.bready, 0)
    return response


async def read(ctx, bus, address, rng=None):
    """Read by AXI4-Lite; returns the response and the word."""
    bus = bus.read
    pause = rng or random.Random(0)
    ctx.set(bus.araddr, address)
    ctx.set(bus.arvalid, 1)
    await ctx.tick().until(bus.arready)
    ctx.set(bus.arvalid, 0)
    await ctx.tick().repeat(pause.randrange(1, 4))
    ctx.set(bus.rready, 1)
    response, word = await ctx.tick().sample(bus.rresp, bus.rdata).until(bus.rvalid)
    ctx.set(bus.rready, 0)
    return response, word


def test_offsets_follow_the_declaration():
    registers = example_map()

    assert [registers.offset(name) for name in registers.registers] == [0, 4, 8, 0x20, 0x2C]
    assert registers.offset("length", 2) == 0x28
    assert registers.size == 0x30
    assert registers.addr_width == 6


def test_random_writes_with_byte_strobes_match_a_model():
    registers = example_map()
    dut = RegisterFile(registers)
    rng = random.Random(7)
    kept = {"control": (1 << 23) - 1, "length": (1 << 32) - 1}
    model = {("control", None): 1 << 1} | {("length", k): 0 for k in range(3)}

    async def bench(ctx):
        for _ in range(80):
            name, index = key = rng.choice(list(model))
            word, strobe = rng.randrange(1 << 32), rng.randrange(16)
            address = registers.offset(name, index)
            assert await write(ctx, dut.bus, address, word, strobe, rng) == OKAY
            mask = sum(0xFF << 8 * k for k in range(4) if strobe >> k & 1)
            model[key] = (model[key] & ~mask | word & mask) & kept[name]
            for (name, index), expected in model.items():
                address = registers.offset(name, index)
                assert await read(ctx, dut.bus, address, rng) == (OKAY, expected)
            assert ctx.get(dut.control.value.as_value()) == model["control", None]
            assert ctx.get(dut.length[1].value.beats) == model["length", 1]
        assert ctx.get(dut.faults) == 0

    simulate(dut, bench)


def test_strobe_comes_once_with_the_new_value():
    registers = example_map()
    dut = RegisterFile(registers)
    seen = []

    async def watch(ctx):
        async for _, _, strobe, value in ctx.tick().sample(
            dut.command.strobe, dut.command.value.code
        ):
            if strobe:
                seen.append(value)

    async def bench(ctx):
        await write(ctx, dut.bus, registers.offset("command"), 0xABC)
        await write(ctx, dut.bus, registers.offset("command"), 0xABC)
        await write(ctx, dut.bus, registers.offset("command"), 0x123, strobe=0)
        await write(ctx, dut.bus, registers.offset("control"), 1)
        await ctx.tick().repeat(5)

    simulate(dut, bench, checks=[watch])

    assert seen == [0xABC, 0xABC]


def test_read_only_register_shows_its_input_and_refuses_writes():
    registers = example_map()
    dut = RegisterFile(registers)

    async def bench(ctx):
        ctx.set(dut.identity.value, {"version": 0x12, "ports": 6})
        assert await read(ctx, dut.bus, 0) == (OKAY, 0x612)
        assert await write(ctx, dut.bus, 0, 0) == SLVERR
        assert await read(ctx, dut.bus, 0) == (OKAY, 0x612)
        assert ctx.get(dut.faults) == 1

    simulate(dut, bench)


def test_strobes_are_told_of_where_they_are_asked_for():
    registers = RegisterMap(
        "m", [Register("a", "rw", [Field("b", 8)], strobed=True), Register("c", "rw", [Field("b")])]
    )
    dut = RegisterFile(registers)
    seen = []

    async def watch(ctx):
        async for _, _, strobe, value in ctx.tick().sample(dut.a.strobe, dut.a.value.b):
            if strobe:
                seen.append(value)

    async def bench(ctx):
        await write(ctx, dut.bus, registers.offset("a"), 7)
        await write(ctx, dut.bus, registers.offset("c"), 1)
        assert ctx.get(dut.c.value.b) == 1

    simulate(dut, bench, checks=[watch])

    assert seen == [7] and not hasattr(dut.c, "strobe")


def test_a_guarded_register_keeps_its_value_while_it_refuses():
    registers = RegisterMap(
        "m",
        [Register("a", "rw", [Field("b", 8)], guarded=True), Register("c", "rw", [Field("d", 8)])],
    )
    dut = RegisterFile(registers)

    async def bench(ctx):
        assert await write(ctx, dut.bus, registers.offset("a"), 7) == OKAY
        ctx.set(dut.a.refuse, 1)
        assert await write(ctx, dut.bus, registers.offset("a"), 9) == SLVERR
        assert await write(ctx, dut.bus, registers.offset("c"), 5) == OKAY
        assert await read(ctx, dut.bus, registers.offset("a")) == (OKAY, 7)
        assert ctx.get(dut.faults) == 1
        ctx.set(dut.a.refuse, 0)
        assert await write(ctx, dut.bus, registers.offset("a"), 9) == OKAY
        assert await read(ctx, dut.bus, registers.offset("a")) == (OKAY, 9)
        assert ctx.get(dut.faults) == 1

    simulate(dut, bench)


@pytest.mark.parametrize("access, count", [("wo", 0), ("rw", 16), ("rw", 17), ("rw", 40)])
def test_each_of_many_registers_is_read_as_it_was_written(access, count):
    """With and without any that can be read, and one more than are chosen from at once."""
    registers = RegisterMap(
        "m",
        [Register("last", access, [Field("value", 32)]),
         *(Register(f"r{n}", "rw", [Field("value", 9 + n % 24)], count=1 + n % 3)
           for n in range(count))],
    )
    dut = RegisterFile(registers)
    rng = random.Random(count)

    async def bench(ctx):
        expected = {}
        for register in registers.registers.values():
            for n in range(register.words):
                place = registers.offset(register.name) + 4 * n
                word = rng.getrandbits(32)
                assert await write(ctx, dut.bus, place, word) == OKAY
                expected[place] = word & ((1 << register.layout.size) - 1)
        for place, word in expected.items():
            answer = (OKAY, word) if access == "rw" else (SLVERR, 0)
            assert await read(ctx, dut.bus, place, rng) == answer

    simulate(dut, bench)


def test_counters_add_what_comes_and_cannot_be_written():
    registers = RegisterMap(
        "m",
        [
            Register("beats", "ro", [Field("count", 32)], count=3, adds=2),
            Register("few", "ro", [Field("count", 4)], adds=1),
        ],
    )
    dut = RegisterFile(registers)

    async def bench(ctx):
        for first, last, one in [(3, 1, 1), (0, 2, 1), (1, 0, 0), *[(0, 0, 1)] * 17]:
            ctx.set(dut.beats[0].event, first)
            ctx.set(dut.beats[2].event, last)
            ctx.set(dut.few.event, one)
            await ctx.tick()
        ctx.set(dut.few.event, 0)
        await ctx.tick().repeat(2)
        counts = [await read(ctx, dut.bus, registers.offset("beats", n)) for n in range(3)]
        assert counts == [(OKAY, 4), (OKAY, 0), (OKAY, 3)]
        assert await read(ctx, dut.bus, registers.offset("few")) == (OKAY, 19 % 16)
        assert await write(ctx, dut.bus, registers.offset("beats", 1), 9) == SLVERR
        assert await read(ctx, dut.bus, registers.offset("beats", 1)) == (OKAY, 0)

    simulate(dut, bench)


def test_events_are_cleared_by_ones_and_a_simultaneous_event_is_kept():
    registers = example_map()
    dut = RegisterFile(registers)
    events = registers.offset("events")

    async def set_for_one_cycle(ctx, **bits):
        ctx.set(dut.events.set, bits)
        await ctx.tick()
        ctx.set(dut.events.set, {})

    async def bench(ctx):
        assert await read(ctx, dut.bus, events) == (OKAY, 3 << 2)
        await set_for_one_cycle(ctx, done=1, lost=0x80)
        assert await read(ctx, dut.bus, events) == (OKAY, 0x83 << 2 | 1)
        await write(ctx, dut.bus, events, 0xFFFFFFFE, strobe=0b1110)
        assert await read(ctx, dut.bus, events) == (OKAY, 3 << 2 | 1)
        await write(ctx, dut.bus, events, 1)
        assert await read(ctx, dut.bus, events) == (OKAY, 3 << 2)
        ctx.set(dut.events.set, {"error": 1})  # while it is being cleared
        await write(ctx, dut.bus, events, 0xFFFFFFFF)
        ctx.set(dut.events.set, {})
        assert await read(ctx, dut.bus, events) == (OKAY, 2)

    simulate(dut, bench)


def test_no_cycle_of_a_clear_hides_an_event():
    registers = example_map()
    dut = RegisterFile(registers)

    async def watch(ctx):
        was_set = 0
        async for _, _, is_set, value in ctx.tick().sample(
            dut.events.set.error, dut.events.value.error
        ):
            assert value or not was_set, "an event is missing in the cycle after it"
            was_set = is_set

    async def bench(ctx):
        ctx.set(dut.events.set, {"error": 1})
        await write(ctx, dut.bus, registers.offset("events"), 0xFFFFFFFF)

    simulate(dut, bench, checks=[watch])


def test_bad_accesses_are_answered_counted_and_harmless():
    registers = example_map()
    dut = RegisterFile(registers, addr_width=12)
    pulses = []

    async def watch(ctx):
        async for _, _, fault in ctx.tick().sample(dut.fault):
            pulses.append(fault)

    async def bench(ctx):
        assert await write(ctx, dut.bus, 0x10, 5) == DECERR
        assert await write(ctx, dut.bus, 0x804, 0) == DECERR  # not an alias of `control`
        assert await read(ctx, dut.bus, 0x30) == (DECERR, 0)
        assert await read(ctx, dut.bus, registers.offset("command")) == (SLVERR, 0)
        assert await read(ctx, dut.bus, registers.offset("control")) == (OKAY, 2)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.faults) == 4

    simulate(dut, bench, checks=[watch])

    assert sum(pulses) == 4


def test_pack_and_unpack_are_inverse_and_know_choices():
    control = example_map().registers["control"]

    word = control.pack(enable=1, mode="TREE", size=0x12345)

    assert word == 1 | 2 << 1 | 0x12345 << 3
    assert word == control.pack(enable=1, mode=Mode.TREE, size=0x12345)
    assert control.unpack(word) == {"enable": 1, "mode": 2, "size": 0x12345}
    with pytest.raises(ValueError, match=r"^Register control has no field 'speed'$"):
        control.pack(speed=1)
    with pytest.raises(
        ValueError, match=r"^Field control\.mode must be an integer from 0 to 3, not 4"
    ):
        control.pack(mode=4)


def test_json_tells_every_offset_and_bit():
    described = json.loads(example_map().to_json())

    length = next(entry for entry in described["registers"] if entry["name"] == "length")
    control = next(entry for entry in described["registers"] if entry["name"] == "control")
    assert (length["offset"], length["count"]) == (0x20, 3)
    assert control["init"] == 2
    assert control["fields"][1] == {
        "name": "mode",
        "lsb": 1,
        "width": 2,
        "init": 1,
        "choices": {"OFF": 0, "RING": 1, "TREE": 2},
        "doc": "How it works.",
    }


def test_document_has_a_row_for_every_register_and_field():
    text = example_map().markdown()

    assert "# Registers of example engine\n" in text
    assert "| `0x0020` ... `0x0028` | `length[0..2]` | rw | `0x0` |  |" in text
    assert "| 2:1 | `mode` | 0x1 | How it works. (0 = OFF, 1 = RING, 2 = TREE) |" in text
    assert "## `events`: read; writing a 1 clears the bit" in text


@pytest.mark.parametrize(
    "declare, message",
    [
        (lambda: Field("Size", 4), r"^Field name must be a lower-case identifier, not 'Size'$"),
        (lambda: Field("size", 33), r"^Field size width must be an integer from 1 to 32, not 33$"),
        (lambda: Field("size", 4, init=16), r"^Field size init must be an integer from 0 to 15"),
        (
            lambda: Register("a", "rx", [Field("b")]),
            r"^Register a access must be one of 'rw', 'ro', 'w1c', 'wo', not 'rx'$",
        ),
        (
            lambda: Register("a", "rw", [Field("b", 20), Field("c", 20)]),
            r"^Register a width must be an integer from 1 to 32, not 40$",
        ),
        (
            lambda: Register("a", "rw", [Field("b"), Field("b")]),
            r"^Register a fields must be distinct and one at least, not \['b', 'b'\]$",
        ),
        (
            lambda: Register("a", "rw", [Field("b")], offset=6),
            r"^Register a offset must be a multiple of 4 at least 0, not 6$",
        ),
        (
            lambda: Register("a", "rw", [Field("b", 8)], adds=1),
            r"^Register a adds must be None but for a read-only register of one field, not 1$",
        ),
        (
            lambda: Register("a", "ro", [Field("b", 8)], adds=9),
            r"^Register a adds must be an integer from 1 to 8, not 9$",
        ),
        (
            lambda: Register("a", "ro", [Field("b", 8)], strobed=True),
            r"^Register a strobed must be False but for what is read and written, not True$",
        ),
        (
            lambda: RegisterMap("m", [Register("a", "rw", [Field("b")])] * 2),
            r"^RegisterMap m declares register 'a' twice$",
        ),
        (
            lambda: RegisterMap(
                "m",
                [
                    Register("a", "rw", [Field("b")], count=4),
                    Register("c", "rw", [Field("b")], offset=8),
                ],
            ),
            r"^Register c offset must be at least 0x10, the end of the register before it",
        ),
        (
            lambda: RegisterFile(RegisterMap("m", [Register("bus", "rw", [Field("b")])])),
            r"^RegisterFile cannot hold a register of the name 'bus'$",
        ),
        (
            lambda: RegisterFile(example_map(), addr_width=5),
            r"^RegisterFile addr_width must be an integer from 6 to 64, not 5$",
        ),
    ],
)
def test_bad_declarations_are_refused_by_name(declare, message):
    with pytest.raises(ValueError, match=message):
        declare()
