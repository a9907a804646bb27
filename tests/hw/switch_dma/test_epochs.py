# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""What was given up never meets what comes after it, and hinders nobody; links survive resets."""

import random
from collections import deque
from dataclasses import replace

import pytest
from amaranth.sim import Simulator

from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch.config import preset as switch_preset
from hw.switch.packet import AbortCause, Kind, decode, encode, notice_fields
from hw.switch.recount import GUARD_CYCLES
from hw.switch_dma.config import SwitchDmaConfig, preset
from hw.switch_dma.receive import Receive
from tb.switch_dma.fabric import AllReduce, Placement, flat, join, two_levels
from tests.families import full

SWITCH = replace(switch_preset("test"), regions=3, timeout_bits=16, trace=True)
DMA = replace(preset("test"), trace=True)
SEVERAL = replace(DMA, regions=2)
QUIET = 2 * GUARD_CYCLES + 400
MEMBERS = 4


def acknowledge(system):
    """All are in one epoch of each region and ready; interrupts are cleared. Returns epochs of the
    regions."""
    for node in system.nodes:
        node.write("interrupt", **dict.fromkeys(
            ("aborted", "done", "memory", "invalid", "stalled", "dropped", "refused"), 1))
    system.settle(quiet=5)
    epochs = {}
    for region, members in system.groups.items():
        rows = [(system.nodes[k], system.nodes[k].rows[region]) for k in members]
        answers = system.answers([node.read("epoch", row) for node, row in rows])
        states = system.answers([node.read("status") for node, _ in rows])
        assert all(each["ready"] >> row & 1 for each, (_, row) in zip(states, rows)), region
        assert len({each["value"] for each in answers}) == 1, "not in one epoch"
        epochs[region] = answers[0]["value"]
    return epochs


def collective(system, epochs, *, region=0, seed=1, elements=333):
    """The first all-reduce of an epoch is exact everywhere."""
    system.log.clear()
    job = AllReduce(system, ReduceOp.SUM_F32, elements, region=region, seed=seed)
    job.start()
    system.settle(quiet=QUIET)
    job.check(epoch=epochs[region])
    for node in job.nodes:
        found = node.ask("interrupt")
        assert found["done"] and not (found["aborted"] or found["invalid"]), node.number


def all_credits_are_home(system):
    for k in range(system.dma.links):
        for number, each in enumerate(system.ask("link_status", k)):
            assert each == {"counting": 0, "credits_home": 1}, (number, k)


@pytest.fixture(params=["push", "pull"])
def mode(request):
    """How operands are reduced."""
    return request.param


# ---- Aborts, while operands stay in tables.

@pytest.mark.parametrize("make, aborts, options", [
    (flat, 8, {"timeout": 20_000}),
    (flat, 9, {"timeout": 0, "dma": replace(DMA, links=2)}),
    (two_levels, 8, {"timeout": 20_000}),
    *full((make, aborts, {"timeout": timeout, "dma": replace(DMA, links=links)})
          for aborts in (1, 2, 7, 8, 15, 16, 20) for timeout in (200, 65_535)
          for make, links in ((flat, 1), (flat, 2), (two_levels, 1))),
])
def test_nothing_of_epochs_before_is_in_a_sum(make, aborts, options, mode):
    """The last member comes late every time, so operands of the others wait for it in tables; the
    epochs' numbers in packets have 3 bits."""
    rng = random.Random(aborts)
    dma = options.pop("dma", DMA)
    system = join(make(SWITCH, dma, MEMBERS, mode=mode, seed=aborts, stalls=0.1, **options))
    for number in range(aborts):
        job = AllReduce(system, ReduceOp.SUM_F32, 333, seed=100 + number)
        job.start(job.nodes[:-1])
        system.step(rng.randrange(30, 300))
        rng.choice(system.nodes).write("control", abort=1)
        system.settle(quiet=150)
        assert acknowledge(system) == {0: number + 1}

    collective(system, {0: aborts}, seed=5)
    all_credits_are_home(system)


def test_aborts_of_one_region_leave_the_other_alone(mode):
    """Both share links, buffers and tables; the other's vector goes on during all of them."""
    rng = random.Random(3)
    system = join(flat(SWITCH, SEVERAL, MEMBERS, mode=mode, seed=3, timeout=20_000,
                       groups=[range(4), (0, 2)]))
    for number in range(9):
        job = AllReduce(system, ReduceOp.SUM_I32, 200, seed=number)
        job.start(job.nodes[1::2])  # of them that are in this region alone
        other = AllReduce(system, ReduceOp.SUM_I32, 500, region=1, seed=50 + number,
                          at=Placement(0x4000))
        other.start()
        system.step(rng.randrange(100, 400))
        rng.choice(system.nodes).write("control", 0, abort=1)
        system.settle(quiet=150)
        for words in other.results():
            assert (words == sum(other.inputs)).all()
        assert acknowledge(system)[0] == number + 1
    assert acknowledge(system)[1] == 0
    collective(system, {0: 9}, seed=5)


# ---- A memory that stands still.

def test_a_frozen_memory_blocks_nobody_once_its_all_reduce_is_given_up(mode):
    """Results for it would fill the switch; two of the members go on in a region of their own."""
    system = join(flat(SWITCH, SEVERAL, 3, mode=mode, groups=[range(3), (0, 1)], timeout=200),
                  watchdog=400)
    dead = system.nodes[2]
    first = AllReduce(system, ReduceOp.SUM_I32, 2000)
    first.start()
    system.step(300)
    dead.node.pace_memory(0)
    system.run(lambda: all(node.output("irq") for node in system.nodes))
    begin = system.cycle
    for node in system.nodes[:2]:
        node.write("interrupt", aborted=1, stalled=1)
    system.settle(quiet=5)
    other = AllReduce(system, ReduceOp.SUM_I32, 700, region=1, at=Placement(0x8000), seed=9)
    other.start()
    system.run(lambda: all(node.output("irq") for node in system.nodes[:2]))
    assert system.cycle - begin < 10_000
    for words in other.results():
        assert (words == sum(other.inputs)).all()
    system.settle(quiet=QUIET)
    assert system.ask("abort", 0, [dead])[0]["cause"] != AbortCause.NONE.value
    assert not system.ask("status", nodes=[dead])[0]["ready"], "memory has not answered"
    dead.node.pace_memory()
    system.settle(quiet=QUIET)
    epochs = acknowledge(system)
    collective(system, epochs, seed=4)


# ---- Resets of one endpoint, of which nobody else knows.

@pytest.mark.parametrize("make, options", [
    (flat, {}), (flat, {"dma": replace(DMA, links=2)}), (two_levels, {"timeout": 2000}),
])
def test_resets_in_mid_run_cost_no_credit(make, options, mode):
    """Twelve in a row, of an endpoint with packets on its links in both directions; buffers hold
    two."""
    rng = random.Random(7)
    dma = options.pop("dma", DMA)
    system = join(make(SWITCH, dma, MEMBERS, mode=mode, seed=7, **options))
    for number in range(12):
        AllReduce(system, ReduceOp.SUM_F32, 900, seed=number).start()
        system.step(rng.randrange(50, 500))
        node = system.nodes[rng.randrange(MEMBERS)]
        node.restart()
        node.configure(members=MEMBERS)
        node.join()
        system.settle(quiet=QUIET)
        collective(system, acknowledge(system), seed=50 + number, elements=150)
    all_credits_are_home(system)


def test_credits_are_counted_anew_when_software_says_so(mode):
    system = join(flat(SWITCH, DMA, 3, mode=mode))
    job = AllReduce(system, ReduceOp.SUM_I32, 1500)
    job.start()
    for _ in range(6):
        system.step(300)
        system.nodes[1].write("link_control", 0, resync=1)
    system.settle(quiet=QUIET)
    job.check()
    all_credits_are_home(system)


def test_a_row_with_a_port_that_has_no_cable_stops_nobody(mode):
    """What is sent there is dropped; in service, operands and notices would wait for credits."""
    system = join(flat(SWITCH, DMA, 3, mode=mode, timeout=200))
    (switch,) = system.switches
    switch.write("targets", 0, ports=0b1111)
    AllReduce(system, ReduceOp.SUM_I32, 600).start()
    system.settle(quiet=QUIET)
    system.nodes[1].write("control", 0, abort=1)
    system.settle(quiet=QUIET)
    epochs = acknowledge(system)
    collective(system, epochs, seed=2)
    all_credits_are_home(system)


def test_an_endpoint_without_an_answer_is_not_ready_and_lives():
    """The switch is not there: registers work, commands wait, and the watchdog says so."""
    system = flat(SWITCH, DMA, 2)
    silent = system.nodes[0]
    for wire in (system.to_node((0, 0)), system.to_switch((0, 0))):
        system.system.cut(*wire)
    silent.configure(members=2, watchdog=300)
    silent.join()
    system.step(50)
    AllReduce(system, ReduceOp.SUM_I32, 64).start([silent])
    system.step(2500)
    status, cause, link = system.answers(
        [silent.read("status"), silent.read("interrupt"), silent.read("link_status", 0)]
    )
    assert status["joined"] and not status["ready"]
    assert cause["stalled"] and cause["aborted"]
    assert link == {"counting": 1, "credits_home": 0}


# ---- What the receiver hands on.

_ROWS = SwitchDmaConfig(payload_flits=4, buffer_packets=3, regions=2)
_CLASS_KINDS = (Kind.LOAD, Kind.RESPONSE, Kind.RESULT)
_SETTLED = 12  # cycles from a flit, or a change, until it acts everywhere


class Receiver:
    """A `Receive` with two regions, which are closed and opened at any moment. A region is opened
    when nothing of it is on its way, as behind a notice."""

    def __init__(self, seed):
        self.dut, self.rng = Receive(_ROWS, link=0), random.Random(seed)
        self.open, self.changed = [True, True], [0, 0]
        self.flits, self.cycle, self.busy_at = deque(), 0, [0, 0]
        self.credits = [_ROWS.buffer_packets] * 3
        self.sent = {}  # number -> (row, class)
        self.certain, self.lost = set(), set()  # numbers that must, and must not, be handed on
        self.told, self.asked = [], []
        self.handed, self.heard, self.counted = [[] for _ in range(3)], [], []
        self.stale = 0

    def change(self):
        """Perhaps close or open a region."""
        for row in range(2):
            since = self.cycle - max(self.changed[row], 0 if self.open[row] else self.busy_at[row])
            likely = 0.004 if self.open[row] else 0.05
            settles = since > _SETTLED and not self.flits
            may = self.cycle < 2000 or not self.open[row]
            if may and settles and self.rng.random() < likely:
                self.open[row] = not self.open[row]
                self.changed[row] = self.cycle
                of_row = {n for n, (r, _) in self.sent.items() if r == row}
                self.lost |= of_row if not self.open[row] else set()
        self.certain -= self.lost

    def send(self):
        """Perhaps begin a packet, for which there is a credit if it needs one."""
        kind = self.rng.choice((*_CLASS_KINDS, Kind.SYNC, Kind.COUNT, Kind.PUSH))
        traffic, row, number = kind.value & 3, self.rng.randrange(2), len(self.sent)
        if traffic < 3 and not self.credits[traffic]:
            return
        fields = {"kind": kind, "region": 5 + row, "address": 4 * number, "tag": number & 255}
        if traffic < 3:
            self.credits[traffic] -= 1
        self.sent[number] = row, traffic
        if kind is Kind.SYNC:
            self.told.append(number)
            fields |= notice_fields({"epoch": number, "cause": AbortCause.NONE, "origin": 0,
                                     "fresh": 0, "settled": 0})
        elif kind is Kind.COUNT:
            self.asked.append(number & 255)
        elif kind in _CLASS_KINDS and self.open[row] and (
            self.cycle - self.changed[row] > _SETTLED or not self.changed[row]
        ):
            self.certain.add(number)
        data = [self.rng.getrandbits(FLIT_BITS) for _ in range(kind.value & 4)]
        self.flits.extend([encode(fields) | 1 << FLIT_BITS, *data])

    def drive(self, ctx, patience):
        dut, rng = self.dut, self.rng
        ctx.set(dut.open, self.open[0] | self.open[1] << 1)
        goes = bool(self.flits) and rng.random() < 0.9
        ctx.set(dut.rx.valid, goes)
        if goes:
            bits = self.flits.popleft()
            self.busy_at[self.sent[len(self.sent) - 1][0]] = self.cycle
            ctx.set(dut.rx.p, {"data": bits & (1 << FLIT_BITS) - 1, "start": bits >> FLIT_BITS})
        for k in range(3):
            ctx.set(dut.o[k].ready, rng.random() < patience[k])
        ctx.set(dut.heard.ready, rng.random() < 0.5)

    def look(self, ctx):
        dut = self.dut
        if ctx.get(dut.heard.valid) and ctx.get(dut.heard.ready):
            self.heard.append(ctx.get(dut.heard.p.notice.epoch))
        if ctx.get(dut.asked.count):
            self.counted.append(ctx.get(dut.asked.nonce))
        self.stale += ctx.get(dut.stale)
        for k, o in enumerate(dut.o):
            self.credits[k] += ctx.get(dut.credit) >> k & 1
            if ctx.get(o.valid) and ctx.get(o.ready) and ctx.get(o.p.first):
                number = decode(ctx.get(o.p.data))["address"] // 4
                if self.changed[self.sent[number][0]] != self.cycle:  # closed from the next one on
                    assert number not in self.lost, "its region was closed since it came"
                self.handed[k].append(number)

    async def run(self, ctx):
        for row, node in enumerate(self.dut.node):
            ctx.set(node, {"endpoint": 1, "members": 4, "region": 5 + row})
        patience = [1.0] * 3
        for self.cycle in range(3500):
            busy = self.cycle < 3000
            if self.cycle % 200 == 0:
                patience = [self.rng.choice((0.05, 0.5, 1.0)) if busy else 1.0 for _ in range(3)]
            if busy:
                self.change()
                if not self.flits and self.rng.random() < 0.5:
                    self.send()
            self.drive(ctx, patience)
            self.look(ctx)
            await ctx.tick()
        assert ctx.get(self.dut.idle)


@pytest.mark.parametrize("seed", range(3))
def test_what_came_before_its_region_was_closed_is_never_handed_on(seed):
    """Whenever outputs take it: what was sent to an open region that stays open is handed on, in
    the order of its class; every credit comes back; notices and link control always pass."""
    receiver = Receiver(seed)
    simulator = Simulator(receiver.dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(receiver.run)
    simulator.run()

    assert receiver.heard == receiver.told and receiver.counted == receiver.asked
    assert receiver.credits == [_ROWS.buffer_packets] * 3
    assert receiver.certain <= {n for numbers in receiver.handed for n in numbers}
    for numbers in receiver.handed:
        assert numbers == sorted(set(numbers)) and len(numbers) > 20
    assert receiver.stale > 20 and len(receiver.told) > 20
