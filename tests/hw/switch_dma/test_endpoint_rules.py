# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Rules that an endpoint keeps where all-reduces seldom come: what it refuses, what it tells, what
it gives back, and what `idle` says."""

import random
from collections import Counter
from dataclasses import replace
from operator import attrgetter

import pytest
from amaranth.hdl import Signal
from amaranth.sim import Simulator

from hw.common.axi import AXIResponse
from hw.common.testing import simulate
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch.config import preset as switch_preset
from hw.switch.packet import CLASSES, AbortCause, Kind, encode
from hw.switch.recount import GUARD_CYCLES
from hw.switch_dma import lane
from hw.switch_dma.config import preset
from hw.switch_dma.lane import Lane
from hw.switch_dma.receive import Receive
from tb.switch_dma.fabric import AllReduce, flat, join

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True)
QUIET = 700


@pytest.fixture(params=["push", "pull"])
def mode(request):
    """How operands are reduced."""
    return request.param


@pytest.mark.parametrize("name, fields", [
    ("waves", {"size_log2": 0, "outstanding": 1}), ("pull", {"own": 1}),
])
def test_what_all_members_must_have_alike_is_not_changed_under_way(name, fields):
    system = join(flat(SWITCH, DMA, 2))
    node, other = system.nodes
    job = AllReduce(system, ReduceOp.SUM_I32, 100)
    job.start([node])
    system.settle(quiet=50)
    (before,) = system.ask(name, nodes=[node])

    assert node.offer(name, **fields) == AXIResponse.SLVERR.value
    assert system.ask(name, nodes=[node]) == [before]
    job.start([other])
    system.settle(quiet=QUIET)
    job.check()
    node.write(name, **fields)
    system.settle(quiet=10)
    assert system.ask(name, nodes=[node]) == [before | fields]


SENT = (Kind.LOAD, Kind.PARTIAL, Kind.RESPONSE, Kind.RESULT, Kind.SYNC)
"""Kinds that an endpoint takes."""


@pytest.mark.parametrize("seed", range(3))
def test_every_credit_comes_home_whatever_becomes_of_its_packet(seed):
    """Sound ones, some cut short, with a flit too many, of other regions or addresses, of a kind
    that only switches take, or while the region is closed, in any order, while their takers stall:
    as many credits of each class come back as there were packets of it."""
    rng = random.Random(seed)
    dut = Receive(DMA, link=0)
    size = DMA.payload_flits
    paid, back, taken, owed = ([0] * CLASSES for _ in range(4))
    fates, seen = Counter(), Counter()

    def packet():
        """Class, flits, and what becomes of it."""
        kind = rng.choice((*SENT, Kind.PUSH))
        fields = rng.choice(({}, {}, {}, {"region": 5}, {"address": 9 * size + 1}))
        if kind in (Kind.SYNC, Kind.PUSH):
            fields = {}
        header = encode({"kind": kind.value, "address": 9 * size, "count": 1, "source": 0,
                         "destination": 1, "op": 3, **fields})
        flits = 0 if kind in (Kind.LOAD, Kind.SYNC) else size
        fate = "damaged" if kind is Kind.PUSH else "region" if fields else "sound"
        if fate == "sound" and flits and rng.random() < 0.6:
            fate = rng.choice(("truncated", "truncated", "damaged"))
            flits = rng.randrange(size) if fate == "truncated" else size + 1
        return kind.value & 3, [header, *range(flits)], fate

    async def bench(ctx):
        for name, value in {"endpoint": 1, "members": 2, "region": 0}.items():
            ctx.set(dut.node[name], value)
        ctx.set(dut.open, 1)
        for number in range(200):
            traffic, flits, fate = packet()
            if number == 199:  # the last one ends what came before it
                traffic, fate = 0, "sound"
                flits = [encode({"kind": Kind.LOAD.value, "count": 1, "op": 3})]
            ctx.set(dut.rx.valid, 0)
            for waited in range(1000):
                if owed[traffic] < DMA.buffer_packets and rng.random() < 0.7:
                    break
                assert waited < 999, f"a credit of class {traffic} is lost"
                await ctx.tick()
            paid[traffic] += 1
            owed[traffic] += 1
            fates[fate] += 1
            ctx.set(dut.open, rng.random() < 0.8)
            for place, flit in enumerate(flits):
                ctx.set(dut.rx.valid, 1)
                ctx.set(dut.rx.p.start, place == 0)
                ctx.set(dut.rx.p.data, flit)
                await ctx.tick()
        ctx.set(dut.rx.valid, 0)
        await ctx.tick().repeat(300)
        assert ctx.get(dut.idle)

    async def watch(ctx):
        async for _, _, credit, drops, stale in ctx.tick().sample(
            dut.credit, dut.dropped, dut.stale
        ):
            for k in range(CLASSES):
                back[k] += credit >> k & 1
                owed[k] -= credit >> k & 1
            for k, name in enumerate(("damaged", "truncated", "region", "overflow")):
                seen[name] += drops >> k & 1
            seen["stale"] += stale

    async def take(ctx):
        while True:
            for port in (*dut.o, dut.heard):
                ctx.set(port.ready, rng.random() < 0.7)
            await ctx.tick()

    async def count(ctx):
        firsts = [port.valid & port.ready & port.p.first for port in dut.o]
        async for _, _, *begun in ctx.tick().sample(*firsts):
            for k, first in enumerate(begun):
                taken[k] += first

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.add_testbench(take, background=True)
    simulator.add_process(watch)
    simulator.add_process(count)
    simulator.run()
    assert back == paid and min(paid) > 20
    assert min(fates.values()) > 10 and min(taken) > 2
    assert seen["region"] == fates["region"] and not seen["overflow"]
    assert 5 < seen["truncated"] <= fates["truncated"] and seen["stale"] > 10


@pytest.mark.parametrize("who", ["itself", "another"])
def test_commands_that_an_abort_takes_before_all_are_ready_are_told(who, mode):
    """Two of three have joined, and one has a command: nothing else would tell its software."""
    system = flat(SWITCH, DMA, 3, mode=mode)
    for node in system.nodes:
        node.configure(members=3)
    system.settle(quiet=5)
    for node in system.nodes[:2]:
        node.join()
    system.settle(quiet=60)
    job = AllReduce(system, ReduceOp.SUM_I32, 100)
    job.start(system.nodes[:1])
    system.settle(quiet=30)
    assert [each["ready"] for each in system.ask("status")] == [0, 0, 0]
    assert system.ask("status")[0]["outstanding"] == 1

    system.nodes[0 if who == "itself" else 1].write("control", abort=1)
    system.settle(quiet=QUIET)

    assert [each["aborted"] for each in system.ask("interrupt")] == [1, 0, 0]
    assert system.nodes[0].output("irq")
    assert system.ask("abort")[0]["cause"] == AbortCause.SOFTWARE.value
    assert system.ask("status")[0]["outstanding"] == 0
    system.nodes[0].write("interrupt", aborted=1)
    system.nodes[2].join()
    system.settle(quiet=QUIET)
    job.start()
    system.settle(quiet=QUIET)
    job.check(epoch=system.ask("epoch")[0]["value"])


def test_a_partial_that_comes_before_joining_is_in_no_sum():
    """It is of the epoch that the endpoint will join, and of a block that it will be home of."""
    system = flat(SWITCH, DMA, 2)
    for node in system.nodes:
        node.configure(members=2)
    system.settle(quiet=10)
    tap = system.tap(system.to_node((0, 1)))
    header = encode({"kind": Kind.PARTIAL.value, "address": DMA.payload_flits, "count": 1,
                     "source": 0, "destination": 1, "op": ReduceOp.SUM_I32.value})
    system.add(tap, ([header | 1 << FLIT_BITS, *range(DMA.payload_flits)], 1))
    system.settle(quiet=100)
    assert not system.added(tap)
    assert system.ask("dropped_stale", 0)[1]["count"] == 1
    assert system.ask("partials", 0)[1]["count"] == 0

    for node in system.nodes:
        node.write("interrupt", dropped=1)
    system.settle(quiet=10)
    join(system)
    job = AllReduce(system, ReduceOp.SUM_I32, 200)
    job.start()
    system.settle(quiet=QUIET)
    job.check()


@pytest.mark.parametrize("channel", ["r", "w"])
def test_a_slow_memory_is_no_standstill(channel, mode):
    """A beat now and then, a packet in more than the watchdog's time: nobody gives up."""
    pause = 60
    system = join(flat(SWITCH, DMA, 2, mode=mode), watchdog=5 * pause)
    assert DMA.payload_flits > 6

    for node in system.nodes:
        node.node.pace_memory(pause, [channel])
    job = AllReduce(system, ReduceOp.SUM_I32, 130)
    job.start()
    system.run(lambda: all(node.output("irq") for node in system.nodes))
    system.settle(quiet=QUIET)

    job.check()
    answers = system.ask("interrupt")
    assert all(each["done"] and not each["aborted"] and not each["stalled"] for each in answers)


@pytest.mark.parametrize("what", [
    {"epoch": 7}, {"address": 200 * DMA.payload_flits}, {"count": 1},
])
def test_poison_of_a_result_that_nobody_waits_for_spoils_nothing(what, mode):
    """Of another epoch, of a block far away, of too few operands."""
    system = join(flat(SWITCH, DMA, 2, mode=mode))
    tap = system.tap(system.to_node((0, 1)))
    job = AllReduce(system, ReduceOp.SUM_I32, 1500)
    job.start()
    header = encode({"kind": Kind.RESULT.value, "address": 20 * DMA.payload_flits, "count": 2,
                     "source": 0, "op": 3, "poison": 1, **what})
    system.run(lambda: system.ask("results", 0, nodes=system.nodes[1:])[0]["count"] > 5)
    system.add(tap, ([header | 1 << FLIT_BITS, *range(DMA.payload_flits)], 2))
    system.run(lambda: not system.added(tap))
    assert not system.nodes[1].output("irq"), "too late"
    system.settle(quiet=QUIET)

    job.check()
    drop = "stale" if "epoch" in what else "unknown"
    assert system.ask(f"dropped_{drop}", 0)[1]["count"] == 1
    assert all(each["done"] and not each["invalid"] for each in system.ask("interrupt"))


def test_a_lane_is_not_idle_while_it_holds_a_packet():
    """Nothing is counted, sent, or asked of memory in a cycle in which a lane says that it is idle,
    or after it if nothing came in."""
    dut = Lane(DMA, link=0)
    size = DMA.payload_flits
    headers = [(Kind.LOAD, 0, {}), (Kind.LOAD, 0, {"epoch": 3}), (Kind.RESULT, size, {}),
               (Kind.RESULT, size, {"epoch": 3}), (Kind.SYNC, 0, {}),
               (Kind.RESPONSE, size, {}), (Kind.RESULT, size, {"region": 1}),
               (Kind.RESULT, size, {"count": 0}), (Kind.COUNT, 0, {}), (Kind.PUSH, size, {})]
    happened = []

    async def bench(ctx):
        for name, value in {"endpoint": 1, "members": 2, "region": 0}.items():
            ctx.set(dut.member.node[name], value)
        ctx.set(dut.region.open, 1)
        ctx.set(dut.heard.ready, 1)
        await ctx.tick().repeat(5)
        for kind, flits, fields in headers:
            header = encode({"kind": kind.value, "address": 9 * size, "count": 1, "source": 0,
                             "destination": 1, "op": 3, **fields})
            for flit in (header, *range(flits)):
                ctx.set(dut.link.rx.valid, 1)
                ctx.set(dut.link.rx.p.start, int(flit == header))
                ctx.set(dut.link.rx.p.data, flit)
                await ctx.tick()
            ctx.set(dut.link.rx.valid, 0)
            await ctx.tick().repeat(2 * GUARD_CYCLES + 60 if kind is Kind.COUNT else 60)
            assert ctx.get(dut.idle.all()), kind
            happened.append(kind)

    async def check(ctx):
        asleep = False
        shown = [dut.idle.all(), dut.link.rx.valid, dut.events.as_value(), dut.link.rx_credit,
                 dut.link.tx.valid, dut.heard.valid, dut.mem.read.arvalid,
                 dut.mem.write.awvalid]
        async for _, _, idle, comes, events, *seen in ctx.tick().sample(*shown):
            asleep = (idle or asleep) and not comes
            assert not (asleep and (events or any(seen))), (events, seen)

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.add_process(check)
    simulator.run()
    assert len(happened) == len(headers)


HELD = [
    ("Loads", "empty", 0), ("Loads", "walking", 1), ("Receive", "idle", 0),
    ("Transmit", "empty", 0), ("Transmit", "credits.counting", 1), ("HomeStore", "empty", 0),
    ("HomeStore", "busy", 1), ("Operands", "busy", 1), ("Results", "writing", 1),
    ("WaveControl", "idle", 0),
]


def test_a_lane_is_not_idle_while_one_of_its_parts_is_not(monkeypatch):
    """Whether one part holds something when all others have nothing is up to latencies."""
    forced = {each: Signal(name="_".join(each[:2]).replace(".", "_")) for each in HELD}

    def speaking(kind, says):
        class Forced(kind):
            def elaborate(self, platform):
                m = super().elaborate(platform)
                for output, value, force in says:
                    with m.If(force):
                        m.d.comb += attrgetter(output)(self).eq(value)
                return m

        return Forced

    for part in {part for part, _, _ in HELD}:
        says = [(output, value, force) for (name, output, value), force in forced.items()
                if name == part]
        monkeypatch.setattr(lane, part, speaking(getattr(lane, part), says))

    async def bench(ctx):
        await ctx.tick().repeat(3)
        for each, force in forced.items():
            assert ctx.get(dut.idle.all())
            ctx.set(force, 1)
            assert not ctx.get(dut.idle.all()), each
            ctx.set(force, 0)

    dut = Lane(DMA, link=0)
    simulate(dut, bench)
