# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Several regions at the same switches: groups that share no endpoint, and endpoints in several."""

import random
from dataclasses import replace

import pytest

from hw.common.axi import AXIResponse
from hw.fp.ops import ReduceOp
from hw.switch.config import preset as switch_preset
from hw.switch.packet import AbortCause
from hw.switch_dma.config import SwitchDmaConfig, preset
from hw.switch_dma.registers import COUNTERS, CommandError
from tb.switch_dma.fabric import SOURCE, AllReduce, Placement, flat, join, two_levels
from tests.families import full

SWITCH = replace(switch_preset("test"), regions=3, entries=1, trace=True)
DMA = replace(preset("test"), trace=True)
SEVERAL = replace(DMA, regions=3, descriptors=6, fixed_point=True)
QUIET = 700
DROPPED = [name for name in COUNTERS if name.startswith("dropped")]
_BYTES = 1 << 14  # of memory for an all-reduce


class Collectives:
    """All-reduces in the regions of a system: each member has its own in this order."""

    def __init__(self, system, seed):
        self.system, self.rng = system, random.Random(seed)
        self.base, self.epoch = {}, {}
        self.places = dict.fromkeys(range(len(system.nodes)), 0)

    def draw(self, region, elements=None, **changes):
        """A new one; its operands lie where no member has those of another."""
        rng, members = self.rng, self.system.groups[region]
        place = max(self.places[k] for k in members)
        for k in members:
            self.places[k] = place + 1
        what = {"mode": rng.choice(("push", "pull")), "op": rng.choice(list(ReduceOp)),
                "seed": rng.getrandbits(30), "tag": rng.getrandbits(8), **changes}
        if self.system.dma.fixed_point and what["op"] is ReduceOp.SUM_F32:
            what["fixed"] = rng.random() < 0.5  # its unit depends on the number of members
        return AllReduce(self.system, what.pop("op"), elements or rng.randint(1, 700),
                         region=region, at=Placement(SOURCE + _BYTES * place), **what)

    def start(self, jobs, *, skew=0, without=()):
        """Give the commands, at drawn times, by all members but those that are left out."""
        begin = self.system.cycle
        times = dict.fromkeys(range(len(self.system.nodes)), begin)
        todo = []
        for job in jobs:
            for node in job.nodes:
                if node.number not in without:
                    times[node.number] += self.rng.randint(0, skew)
                    todo.append((times[node.number], len(todo), job, node))
        for time, _, job, node in sorted(todo, key=lambda each: each[:2]):
            while self.system.cycle < time:
                self.system.step()
            job.start([node])

    def check(self, *jobs):
        """All members have the results; those of a region in the order in which they ran."""
        dma = self.system.dma
        for job in jobs:
            base = self.base.get(job.region, [0] * dma.links)
            job.check(base=base, epoch=self.epoch.get(job.region, 0))
            blocks = -(-job.elements // dma.block_elements)
            self.base[job.region] = [
                b + 1 + len(range(k, blocks, dma.links)) for k, b in enumerate(base)
            ]

    def given_up(self, region):
        """A new epoch of a region; blocks are counted anew."""
        self.base.pop(region, None)
        self.epoch[region] = self.epoch.get(region, 0) + 1


def undisturbed(system, members, *, done):
    """These endpoints have noticed nothing: all that was given is *done*, nothing was dropped."""
    nodes = [system.nodes[k] for k in members]
    for answer, completed in zip(system.ask("interrupt", nodes=nodes),
                                 system.ask("completed", nodes=nodes)):
        assert {name for name, on in answer.items() if on} == {"done"}
        assert completed["count"] == done and not completed["error"]
    for name in DROPPED:
        for k in range(system.dma.links):
            assert not any(each["count"] for each in system.ask(name, k, nodes=nodes)), name


def acknowledge(system):
    for node in system.nodes:
        node.write("interrupt", **dict.fromkeys(
            ("aborted", "done", "memory", "invalid", "stalled", "dropped", "refused"), 1))
    system.settle(quiet=5)


# ---- Groups that share no endpoint.

PAIRS = [(0, 2), (1, 3)]
LEAVES = [(0, 3, 4), (1, 2, 5, 6, 7)]  # both at several leaves, and together on the cables


@pytest.mark.parametrize("make, groups, seed", [
    (flat, PAIRS, 1), (two_levels, LEAVES, 3),
    *full((make, groups, seed)
          for seed in range(4, 9) for make, groups in ((flat, PAIRS), (two_levels, LEAVES))),
])
def test_each_group_has_collectives_of_its_own(make, groups, seed):
    """Other modes, operations, lengths and times, all under way at once."""
    rng = random.Random(seed)
    system = join(make(SWITCH, DMA, sum(map(len, groups)), groups=groups, seed=seed,
                       stalls=rng.choice((0.0, 0.3)), latency=rng.choice((1, 5)),
                       timeout=rng.choice((40, 200))))
    work = Collectives(system, seed)
    jobs = [work.draw(region) for _ in range(3) for region in range(2)]
    work.start(jobs, skew=200)
    system.settle(quiet=QUIET)

    work.check(*jobs)
    undisturbed(system, range(len(system.nodes)), done=3)


@pytest.mark.full
def test_three_groups_on_two_planes():
    groups = [(0, 5), (1, 4, 6), (2, 3, 7)]
    system = join(two_levels(SWITCH, replace(DMA, links=2), 8, groups=groups, stalls=0.2))
    work = Collectives(system, 1)
    jobs = [work.draw(region) for _ in range(3) for region in range(3)]
    work.start(jobs, skew=300)
    system.settle(quiet=QUIET)

    work.check(*jobs)
    undisturbed(system, range(8), done=3)


def _abort(system, nodes, job):
    job.start(nodes)
    system.step(150)
    nodes[0].write("control", system.nodes[0].rows[job.region], abort=1)


def _reset(system, nodes, job):
    job.start(nodes[1:])
    system.step(150)
    nodes[0].restart()
    nodes[0].configure(members=len(nodes), region=job.region)
    nodes[0].join()


TROUBLES = {
    AbortCause.SOFTWARE: _abort,
    AbortCause.RESET: _reset,
    AbortCause.WATCHDOG: lambda system, nodes, job: job.start(nodes[1:]),
    AbortCause.DISAGREEMENT: lambda system, nodes, job: (
        job.start(nodes[1:]), job.start(nodes[:1], elements=job.elements + 1)),
}


@pytest.mark.parametrize("cause, mode", [
    *zip(TROUBLES, ("push", "pull", "pull", "push")),
    *full(zip(TROUBLES, ("pull", "push", "push", "pull"))),
])
def test_what_one_group_gives_up_does_not_disturb_the_other(cause, mode):
    """Tables of one entry, which both use; the group that gave up works on afterwards."""
    groups = [(0, 3, 4), (1, 2, 5)]
    system = join(two_levels(SWITCH, DMA, 6, leaf=2, groups=groups, stalls=0.1, timeout=60,
                             memory_bytes=1 << 18))
    for k in groups[0]:  # the other group would wait longer
        system.nodes[k].write("watchdog", cycles=400, abort=1)
    system.settle(quiet=5)
    work = Collectives(system, 1)
    others = [work.draw(1, 700, mode=each) for each in (mode, "push", "pull")]
    work.start(others)
    TROUBLES[cause](system, [system.nodes[k] for k in groups[0]], work.draw(0, 600, mode=mode))
    system.settle(quiet=QUIET)

    aborts = system.ask("abort", nodes=[system.nodes[k] for k in groups[0]])
    assert cause.value in {each["cause"] for each in aborts}
    work.check(*others)
    undisturbed(system, groups[1], done=3)
    assert [each["value"] for each in system.ask("epoch")] == [1, 0, 0, 1, 1, 0]
    acknowledge(system)
    work.given_up(0)
    jobs = [work.draw(region, seed=9) for region in range(2)]
    work.start(jobs)
    system.settle(quiet=QUIET)
    work.check(*jobs)


# ---- Endpoints in several regions.


def overlapping(rng, endpoints, regions):
    """Members of each region; every endpoint is in one at least, some in several."""
    while True:
        groups = [tuple(sorted(rng.sample(range(endpoints), rng.randint(2, endpoints))))
                  for _ in range(regions)]
        if {k for group in groups for k in group} == set(range(endpoints)):
            return groups


@pytest.mark.parametrize("make, endpoints, seed", [
    (flat, 4, 2), (two_levels, 6, 3),
    *full((make, endpoints, seed)
          for seed in range(4, 10) for make, endpoints in ((flat, 4), (two_levels, 7))),
])
def test_collectives_in_any_region_one_after_the_other(make, endpoints, seed):
    """Nothing is programmed anew between them; endpoints that are in none of those under way are
    in others at the same time."""
    rng = random.Random(seed)
    groups = overlapping(rng, endpoints, 3)
    system = join(make(SWITCH, SEVERAL, endpoints, groups=groups, seed=seed,
                       memory_bytes=1 << 18,
                       stalls=rng.choice((0.0, 0.3)), latency=rng.choice((1, 5)),
                       timeout=rng.choice((40, 200))))
    work = Collectives(system, seed)
    for _ in range(2):
        jobs = [work.draw(region, rng.randint(1, 300)) for region in rng.choices(range(3), k=4)]
        work.start(jobs, skew=150)
        system.settle(quiet=QUIET)
        work.check(*jobs)
    for name in DROPPED:
        assert not any(each["count"] for each in system.ask(name, 0)), name
    for answer in system.ask("interrupt"):
        assert not any(on for name, on in answer.items() if name != "done")


def test_partials_of_a_region_wait_while_another_is_busy():
    """Endpoint 1 is the home of blocks of both, which lie in the same slots; it has begun one."""
    system = join(flat(SWITCH, SEVERAL, 4, groups=[(0, 1, 2), (1, 2, 3)], timeout=20))
    work = Collectives(system, 1)
    first, second = (work.draw(region, 150, mode="push", op=ReduceOp.SUM_F32)
                     for region in range(2))
    work.start([first, second], without=[0])
    system.settle(quiet=QUIET)
    held = system.ask("partials", 0)[1]["count"]
    assert system.ask("status")[1]["outstanding"] == 2
    # Of the first endpoints 1 and 2 have pushed, of the second endpoint 3 alone.
    took = {region for (_, region, _), parts in system.log.took.items() if parts}
    assert held > 0 and took == {0, 1}
    first.start(first.nodes[:1])
    system.settle(quiet=QUIET)

    work.check(first, second)


@pytest.mark.parametrize("after, mode", [
    (40, "push"), (250, "pull"), (700, "push"), (1400, "pull"),
    *full(((40, "pull"), (250, "push"), (700, "pull"), (1400, "push"))),
])
def test_an_abort_concerns_its_region_alone(after, mode):
    """Two endpoints have commands of both regions in their queues, by turns; after some time one
    region is given up, whichever is busy then."""
    groups = [(0, 1, 2), (1, 2, 3)]
    system = join(flat(SWITCH, SEVERAL, 4, groups=groups, stalls=0.1, seed=after,
                       memory_bytes=1 << 18))
    work = Collectives(system, after)
    jobs = [work.draw(region, 300, mode=mode) for _ in range(2) for region in range(2)]
    work.start(jobs)
    system.step(after)
    system.nodes[2].write("control", system.nodes[2].rows[0], abort=1)
    system.settle(quiet=QUIET)

    for k, (answer, status) in enumerate(zip(system.ask("interrupt"), system.ask("status"))):
        assert answer["aborted"] == (k in groups[0])
        assert status["aborted"] == (k in groups[0]) and status["outstanding"] == 0
        assert status["idle"] and status["ready"] == (3 if k in (1, 2) else 1)
    for k in (1, 2):
        assert system.ask("abort", 0)[k]["cause"] == AbortCause.SOFTWARE.value
        assert system.ask("abort", 1)[k]["cause"] == AbortCause.NONE.value
        assert [system.ask("epoch", row)[k]["value"] for row in range(2)] == [1, 0]
    work.check(*jobs[1::2])
    undisturbed(system, [3], done=2)

    # Commands of the other region are taken before software has noted the abort, its own are not.
    work.given_up(0)
    own, other = work.draw(0, 100, tag=1), work.draw(1, 100, tag=2)
    refused = [each["count"] for each in system.ask("refusal")]
    own.start()
    other.start()
    system.settle(quiet=QUIET)
    work.check(other)
    counts = [each["count"] - before for each, before in zip(system.ask("refusal"), refused)]
    assert counts == [1, 1, 1, 0]
    assert {each["error"] for each in system.ask("refusal")[:3]} == {CommandError.ABORTING.value}
    acknowledge(system)
    work.start([own, other := work.draw(1, 90)])
    system.settle(quiet=QUIET)
    work.check(own, other)


def test_the_watchdog_gives_up_the_region_that_waits():
    """What is behind it in the queue then has its turn."""
    groups = [(0, 1, 2), (1, 2, 3)]
    system = join(flat(SWITCH, SEVERAL, 4, groups=groups), watchdog=600)
    system.nodes[3].write("watchdog", cycles=0)
    work = Collectives(system, 1)
    first, second = work.draw(0, 200), work.draw(1, 200)
    work.start([first, second], without=[0])
    system.settle(quiet=1000)

    assert [each["aborted"] for each in system.ask("interrupt")] == [1, 1, 1, 0]
    assert {each["cause"] for each in system.ask("abort", 0)[:3]} == {AbortCause.WATCHDOG.value}
    work.check(second)


def test_a_region_is_programmed_anew_while_another_is_in_use():
    """A row gets another region, with other members, while the endpoint reduces in a second one;
    that of a region with outstanding all-reduces is refused."""
    groups = [(0, 1, 2), (1, 2, 3), (0, 2, 3)]
    system = flat(SWITCH, SEVERAL, 4, groups=groups, memory_bytes=1 << 18)
    for region, group in enumerate(groups[:2]):
        for k in group:
            node = system.nodes[k]
            node.configure(members=3, region=region, row=len(node.rows))
    for node in system.nodes:
        node.join()
    system.settle(quiet=100)
    work = Collectives(system, 1)
    warm = work.draw(0, 100)
    work.start([warm])
    system.settle(quiet=QUIET)
    work.check(warm)

    busy = [work.draw(1, 700, mode=mode) for mode in ("push", "pull")]
    work.start(busy)
    refused = system.nodes[2].try_write("node", 1, endpoint=2, members=3, region=2)
    for k in groups[2]:
        node = system.nodes[k]
        row = node.rows.pop(0, 1)
        node.rows[2] = row
        node.write("node", row, endpoint=k, members=3, region=2)
        node.write("control", row, join=1)
    system.settle(quiet=30)
    assert refused.response == AXIResponse.SLVERR.value
    assert system.nodes[2].rows == {1: 1, 2: 0}
    outstanding = [each["outstanding"] for each in system.ask("status")]
    assert outstanding[1:] != [0, 0, 0], "all was over before the region was programmed"
    jobs = [work.draw(2, 150), work.draw(1, 90), work.draw(2, 70)]
    work.start(jobs)
    system.settle(quiet=QUIET)

    work.check(*busy, *jobs)
    assert not any(each["aborted"] or each["refused"] for each in system.ask("interrupt"))


@pytest.mark.parametrize("region, error", [
    (1, CommandError.MEMBERS),  # a row that has no region
    (2, CommandError.REGION),  # the same region as in row 0
    (3, CommandError.REGION),  # no such row
    (7, CommandError.REGION),
])
def test_a_command_in_a_bad_region_is_refused(region, error):
    system = join(flat(SWITCH, SEVERAL, 2))
    node = system.nodes[0]
    node.write("node", 2, endpoint=0, members=2, region=0)
    system.settle(quiet=5)
    work = Collectives(system, 1)
    job = work.draw(0, 64)
    node.rows = {0: region}
    job.start([node], tag=77)
    system.settle(quiet=10)
    (refusal,) = system.ask("refusal", nodes=[node])
    assert refusal == {"error": error.value, "tag": 77, "count": 1}

    node.rows = {0: 0}
    work.start([job])
    system.settle(quiet=QUIET)
    work.check(job)


def test_a_region_that_was_not_joined_takes_no_commands():
    system = join(flat(SWITCH, SEVERAL, 2))
    node = system.nodes[0]
    node.configure(members=2, region=5, row=1)
    system.settle(quiet=5)
    node.all_reduce(ReduceOp.SUM_I32, 8, source=SOURCE, destination=2 * SOURCE, region=5)
    system.settle(quiet=10)
    assert system.ask("refusal", nodes=[node])[0]["error"] == CommandError.UNJOINED.value


def test_a_queue_full_of_what_was_given_up_takes_no_more():
    """Places of given up commands are free when those before them have begun."""
    groups = [(0, 1), (1, 2)]
    system = join(flat(SWITCH, SEVERAL, 3, groups=groups, memory_bytes=1 << 18))
    work = Collectives(system, 1)
    busy, next_, own = work.draw(1, 400), work.draw(1, 90), work.draw(0, 50)
    shared = system.nodes[1]
    for job in (busy, next_, *[own] * (SEVERAL.descriptors - 2)):
        job.start([shared])
    system.settle(quiet=50)
    shared.write("control", shared.rows[0], abort=1)
    system.settle(quiet=100)
    acknowledge(system)
    assert system.ask("status", nodes=[shared])[0]["outstanding"] == 2
    own.start([shared])
    system.settle(quiet=50)
    (refusal,) = system.ask("refusal", nodes=[shared])
    assert (refusal["error"], refusal["count"]) == (CommandError.FULL.value, 1)
    work.start([busy, next_], without=[1])
    system.settle(quiet=QUIET)
    work.check(busy, next_)
    work.given_up(0)
    jobs = [work.draw(region, 60) for region in (0, 1, 0, 1)]
    work.start(jobs)
    system.settle(quiet=QUIET)
    work.check(*jobs)


def test_the_number_of_regions_is_checked():
    with pytest.raises(ValueError, match=r"^regions must be an integer from 1 to 8, not 9$"):
        SwitchDmaConfig(regions=9)
