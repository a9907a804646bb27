# SPDX-License-Identifier: Apache-2.0
"""Tables, credits and waves of switches that reduce: resources of events, beside cycle models."""

from dataclasses import replace

import numpy as np
import pytest

from bench.records.in_switch.levels import switch_descriptions
from hw.switch.config import PRESETS as SWITCHES
from hw.switch_dma.config import PRESETS as ENDPOINTS
from sim.collectives import turns
from sim.collectives.execute import what_is_wrong
from sim.collectives.plan import AlgorithmChoice, plan_collective
from sim.collectives.program import RelayKind
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.model import SwitchModel, SwitchSettings
from sim.describe.reader import ConfigError
from sim.endpoint.switch_hardware import behind_others
from sim.endpoint.switch_system import held_by
from sim.events import check, simulate
from sim.events.kernel import constants, relays, tables
from sim.events.kernel.queue import queue_arrays
from sim.hosts.script import POLL_CYCLES
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.run import run
from sim.workload.graph import CollectiveKind

KIB = 1 << 10
FAR = {"latency_s": 100e-9}
DEEP = {"buffer_packets": 40, "credits": 40}
CLOCK_HZ = 25e9 / 16
AHEAD = {"read_ahead": 64, "outstanding_bursts": 64}


def described(mode, level, kib, *, nodes=4, switch=None, endpoint=None, dimension=None, **topology):
    return {
        "topology": {
            "kind": "switch", "shape": [nodes], "bandwidth_bytes_per_s": 25e9,
            "latency_s": 6.4e-9, **topology,
        },
        "dimension": [dimension or {"lanes": 1}],
        "endpoint": {"kind": "in_switch", "level": level, **(endpoint or {})},
        "switch": {"preset": "16-port", "regions": 8, "mode": mode, **(switch or {})},
        "workload": {"collective": "all_reduce", "size_bytes": int(kib * KIB)},
        "run": {"passes": 1, **({"check": True} if level == "events" else {})},
    }


def both(mode, kib, **more):
    return [run(described(mode, level, kib, **more)) for level in ("events", "cycles")]


def apart(events, cycles):
    return abs(events.time_s - cycles.time_s) / cycles.time_s


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_a_block_of_each_member_takes_its_cycles(nodes):
    """Next to nothing contends, so what is left are the latencies of every step, and that loads
    which come at once leave a buffer one in three cycles, and take a unit's turn a cycle after
    something else had it; the host sees the end when it looks for it, at events half as late as it
    may be."""
    events, cycles = both("pull", nodes / 8, nodes=nodes)
    apart_cycles = abs(events.time_s - cycles.time_s) * CLOCK_HZ
    assert round(apart_cycles) <= (POLL_CYCLES + 2) / 2 + 2 + 3 * (nodes - 1)


@pytest.mark.parametrize("leaves, age_bits", [(3, 0), (5, 0), (4, 8), (8, 8)])
def test_pushes_between_leaves_wait_behind_others_at_both_levels(leaves, age_bits):
    """Bytes added over time added, so that what every push begins and ends with does not count."""
    tree = {"group": 8, "lanes": 1}
    more = {
        "kind": "fat_tree", "dimension": tree, "nodes": 8 * leaves,
        "endpoint": {**AHEAD, "waves": 32},
        "switch": {
            **DEEP, "entries": 32, "homes": 32, "endpoints": 8 * leaves, "age_bits": age_bits,
        },
    }
    short, long = both("push", 128, **more), both("push", 256, **more)
    events_s, cycles_s = (after.time_s - before.time_s for before, after in zip(short, long))
    assert long[1].metrics["evicted"] == 0
    assert events_s == pytest.approx(cycles_s, rel=0.09)
    assert 128 * KIB / cycles_s < 0.99 * 25e9 * 8 / 9


def test_pushes_that_begin_together_lose_a_turn_of_homes_at_both_levels():
    more = {
        "kind": "fat_tree", "dimension": {"group": 8, "lanes": 1}, "nodes": 64,
        "endpoint": {**AHEAD, "waves": 32}, "switch": {**DEEP, "entries": 8, "endpoints": 64},
    }
    events, cycles = both("push", 64, **more)
    assert apart(events, cycles) < 0.08
    steady_s = 64 * KIB / (25e9 * 8 / 9 * behind_others(8) * 8 / 7)
    assert cycles.time_s > 1.2 * steady_s


def test_pushes_that_begin_together_lose_nothing_where_the_oldest_operand_goes_first():
    more = {
        "kind": "fat_tree", "dimension": {"group": 8, "lanes": 1}, "nodes": 64,
        "endpoint": {**AHEAD, "waves": 32},
        "switch": {**DEEP, "entries": 8, "endpoints": 64, "age_bits": 8},
    }
    for size in (64, 128):
        assert apart(*both("push", size, **more)) < 0.05


@pytest.mark.parametrize("nodes, rows, share", [(5, 16, 0.8), (12, 16, 2 / 3), (12, 32, 8 / 9)])
def test_rows_that_homes_do_not_fill_evenly_slow_pushes(nodes, rows, share):
    """Five homes in 16 rows: one has four; its port takes 20 packets while endpoints send 16."""
    more = {"nodes": nodes, "switch": {**DEEP, "homes": rows}, "endpoint": AHEAD}
    events, cycles = both("push", 128, **more)
    assert apart(events, cycles) < 0.02
    assert cycles.time_s == pytest.approx(128 * KIB / (25e9 * 8 / 9 * share), rel=0.05)


@pytest.mark.parametrize("entries", [1, 4, 32])
def test_entries_bound_pull_as_in_the_cycle_model(entries):
    more = {"switch": {**DEEP, "entries": entries}, "endpoint": AHEAD, **FAR}
    events, cycles = both("pull", 64, nodes=8, **more)

    assert apart(events, cycles) < 0.15
    assert (events.metrics["stalled"] > 0) == (cycles.metrics["stalled"] > 0) == (entries < 32)
    assert events.metrics["evicted"] == cycles.metrics["evicted"] == 0


def test_the_rate_is_entries_over_the_time_that_they_are_held():
    """Little's law, from the latencies that are stated."""
    blocks, nodes, way, memory = 256 * 8, 8, 157, 50
    packet = 9
    load_on = 3 + 1 + way  # 5 cycles of this step are those to a further table
    answer = memory + 33 + packet + way + 8 + packet * (nodes - 1)
    held_s = (load_on + answer) / 1.5625e9
    more = {"nodes": nodes, "endpoint": AHEAD, **FAR}
    for entries in (1, 2):
        done = run(described("pull", "events", 256, switch={**DEEP, "entries": entries}, **more))
        wanted = blocks / (entries * nodes) * held_s
        # A load that waited finds its entry at once; at the ends fewer are under way.
        assert done.time_s == pytest.approx(wanted, rel=0.1)


def test_credits_are_of_a_class_each():
    """Eight packets of a class in a round trip: answers and results do not share them."""
    events, cycles = both("pull", 64, nodes=8, **FAR)
    assert apart(events, cycles) < 0.1
    with_all = run(described("pull", "events", 64, nodes=8, switch={**DEEP, "entries": 32},
                             endpoint=AHEAD, **FAR))
    assert with_all.time_s < 0.6 * events.time_s


def test_loads_go_on_without_an_entry_where_others_have_them():
    found = []
    for links in (2, 4):
        tree = {"group": 4, "lanes": 1, "trunk_bandwidth_bytes_per_s": links * 25e9}
        more = {"kind": "fat_tree", "dimension": tree, "nodes": 8}
        found.append(run(described("pull", "events", 64, **more)).metrics["bypassed"])
    assert found[0] > 0 == found[1], "half as many tables between leaves as at endpoints"


def test_evictions_are_counted_and_cost_time():
    found = {}
    for entries in (1, 4):
        done = run(
            {
                **described("push", "events", 128, switch={"entries": entries, **DEEP}),
                "topology": {"kind": "dgx2"}, "dimension": [],
                "endpoint": {"kind": "in_switch", **AHEAD, "waves": 32},
            }
        )
        found[entries] = done.metrics["evicted"], done.time_s
        assert "entries evicted" in str(done.summary)
    assert found[1][0] > 0 == found[4][0]
    assert found[1][1] > found[4][1]


@pytest.mark.parametrize("period", [1000, 4000, 8000])
def test_what_is_left_of_the_last_sums_waits_for_its_time_out(period):
    """Sums that gave way take another entry with their next operand; none comes after the last."""
    tree = {"group": 2, "lanes": 1, "trunk_bandwidth_bytes_per_s": 50e9}
    few = {"entries": 2, "buffer_packets": 17, "credits": 17, "timeout_cycles": period}
    events, cycles = both(
        "push", 56, kind="fat_tree", dimension=tree, latency_s=400e-9, switch=few,
        endpoint={"read_ahead": 4, "waves": 8},
    )
    assert apart(events, cycles) < 0.03
    assert events.metrics["evicted"] == pytest.approx(
        cycles.metrics["evicted"] + cycles.metrics["expired"], rel=0.03
    )


def test_entries_of_pulls_outlast_the_loads_before_them_unless_it_is_stated_otherwise():
    """Answers whose entry is gone travel one by one."""
    more = {"nodes": 8, "latency_s": 600e-9, "endpoint": {"read_ahead": 16, "waves": 16}}
    few = {"buffer_packets": 2, "credits": 2, "entries": 16}
    events, cycles = both("pull", 48, switch=few, **more)
    short = run(described("pull", "cycles", 48, switch={**few, "timeout_cycles": 4000}, **more))

    assert cycles.metrics["expired"] == 0 and apart(events, cycles) < 0.03
    assert short.metrics["expired"] > 0 and short.time_s > 1.4 * cycles.time_s


def test_entries_outlast_the_loads_of_all_units_that_wait_for_one_endpoint():
    few = {"buffer_packets": 2, "credits": 2, "entries": 16}
    ahead = {"read_ahead": 16, "waves": 16}
    cycles = run(described("pull", "cycles", 48, nodes=16, switch=few, endpoint=ahead, **FAR))

    assert cycles.metrics["expired"] == 0


@pytest.mark.parametrize("places", [2, 4, 8])
def test_own_operands_are_read_by_turns_with_those_of_others(places):
    few = {"entries": 2, "buffer_packets": 17, "credits": 17}
    times = [
        run({
            **described(
                "pull", level, 53, nodes=3, latency_s=63e-9, switch=few,
                endpoint={"read_ahead": places, "waves": 8},
            ),
            "memory": {"read_latency_s": 585 / CLOCK_HZ},
        }).time_s
        for level in ("events", "cycles")
    ]
    assert times[0] == pytest.approx(times[1], rel=0.1)


def test_both_levels_hold_what_one_function_says():
    switch = replace(SWITCHES["test"], credits=1)  # not as many each way
    dma = replace(ENDPOINTS["test"], buffer_packets=switch.credits, credits=switch.buffer_packets)
    held = held_by(switch, dma)
    assert (held.credits_up, held.credits_down) == (switch.buffer_packets, 1) != (1, 1)
    model = SwitchModel(switch, dma, Fabric.flat(4), SwitchSettings(), [])
    c = model.state.c[0]
    assert (c["entries"], c["blocks_under_way"]) == (held.entries, held.window)
    assert held.window == dma.waves * dma.wave_blocks
    assert {held.credits_up, held.credits_down} <= set(model.state.pool["level"].tolist())

    runs = []
    keep = simulate._run
    try:
        simulate._run = lambda *given: (runs.append(given[-1]), keep(*given))
        few = {"preset": "test", "regions": 2, "credits": 1}
        done = run(described("pull", "events", 4, switch=few, endpoint={"preset": "test"}))
    finally:
        simulate._run = keep
    state, network = runs[0].state, done.network
    pools = state.pools[: len(state.link)]
    assert set(pools["most"].tolist()) == {held.entries}
    sizes = state.windows["places"].reshape(-1, constants.CLASSES)[:, turns.RESULT]
    down = network.link_target < network.nodes
    assert set(sizes[down].tolist()) == {held.credits_down}
    assert set(sizes[~down].tolist()) == {held.credits_up}


def test_entries_that_are_not_given_back_are_found(monkeypatch):
    right = check.what_is_wrong

    def lost(network, lowered, end_fs):
        lowered.state.pools["left"][0] -= 1
        return right(network, lowered, end_fs)

    monkeypatch.setattr(simulate, "what_is_wrong", lost)
    with pytest.raises(simulate.SimulationError, match="entries of tables are left at the end"):
        run(described("pull", "events", 4))


def test_a_sum_without_an_answer_is_found(monkeypatch):
    """Planted: at the requester's leaf one answer less is waited for."""
    right = turns._Turn._answers

    def hasty(self):
        home, away = right(self)
        home.needs[self.home] -= 1
        return home, away

    monkeypatch.setattr(turns._Turn, "_answers", hasty)
    network = Network([Dimension.fat_tree(12, 4, 1e9, lanes=2)])
    kind = CollectiveKind.ALL_REDUCE
    plan = plan_collective(network, kind, AlgorithmChoice(), in_switch="pull turns")
    assert what_is_wrong(network, plan, kind, elements=24) is not None


# ---- The parts of the kernel, as plain Python.


def records(kind, count):
    return np.zeros(count, kind).view(np.recarray)


def test_a_credit_is_back_after_its_time():
    windows, credits = records(tables.WINDOW, 1), np.zeros(2, np.int64)
    windows[0].places, windows[0].away_fs = 2, 100

    def begin(now, amount):
        return relays.credit(windows, credits, np.array([128.0]), 0, now, amount)

    assert [begin(now, 128) for now in (0, 10, 20, 20)] == [0, 10, 100, 110]
    assert begin(500, 3 * 128) == 600  # three packets, of which two have credits


def test_entries_are_taken_while_there_are_some():
    pools = records(tables.POOL, 1)
    pools[0].left = pools[0].most = 3
    assert relays.taken(pools, 0, 2, True)
    assert not relays.taken(pools, 0, 2, True)
    assert not relays.taken(pools, 0, 1, False), "others wait before it"
    assert relays.taken(pools, 0, 1, True)
    pools[0].left = 3
    assert relays.taken(pools, 0, 100, True), "more than there are: all"


def storing(entries, counts):
    """A switch's tables of so many entries: what the operand of a sum that needs one makes give
    way."""
    pools, chunks = records(tables.POOL, 1), records(tables.CHUNK, 1)
    pools[0].left = pools[0].most = entries
    pools[0].first = -1
    chunks[0].open = 1
    waiters, registers = records(tables.WAITER, 999), queue_arrays(999, 999)[4]

    def store(at):
        return relays.stored(registers, waiters, pools, chunks, counts, 0, 1, at, 0)

    return pools, store


def test_the_oldest_sum_that_is_incomplete_gives_way():
    counts = np.zeros(8, np.int32)
    pools, store = storing(2, counts)

    def begin(at):
        counts[at] = 1
        return store(at)

    assert [begin(0), begin(1)] == [0, 0]
    counts[0] = 0  # complete
    pools[0].left += 1
    assert begin(2) == 0
    assert begin(3) == 1
    assert counts[1] >= constants.WITHOUT > counts[2]
    assert begin(4) == 1
    assert counts[2] >= constants.WITHOUT > counts[3]


def test_a_sum_whose_entry_has_given_way_has_one_again_with_its_next_operand():
    counts = np.zeros(2, np.int32)
    _, store = storing(1, counts)

    for number in range(200):  # more often than the number would have room for
        at = number % 2
        counts[at] += 1
        counts[at] += constants.WITHOUT * relays.lost(counts[at])
        store(at)
        assert not relays.lost(counts[at])
        assert number == 0 or relays.lost(counts[1 - at])
    assert (counts % constants.WITHOUT).tolist() == [100, 100]


def test_kinds_of_relays_are_those_of_the_kernel():
    names = ("PASS", "WAIT", "TRY", "ADD", "OWN", "HOME", "STORE")
    assert [RelayKind[name] for name in names] == [getattr(constants, name) for name in names]


def test_what_hardware_takes_is_no_key():
    plain = described("pull", "events", 4)
    del plain["switch"]
    with pytest.raises(ConfigError, match=r"endpoint\.times: unknown key"):
        run({**plain, "endpoint": {"kind": "in_switch", "times": 3}})


def test_descriptions_of_the_bench_are_enough():
    names = [name for name, _ in switch_descriptions()]
    assert len(names) >= 8
    assert {name.split(",")[0] for name in names} == {"push", "pull"}


@pytest.mark.parametrize("bursts", [{"outstanding_bursts": 1}, {"outstanding_bursts": 2},
                                    {"outstanding_bursts": 4, "max_burst": 4}])
@pytest.mark.parametrize(("mode", "most"), [("push", 0.1), ("pull", 0.2)])
def test_bursts_under_way_bound_what_endpoints_read(mode, most, bursts):
    description = described(mode, "events", 256, nodes=8, endpoint=bursts)
    times = [run(each).time_s for each in (description, described(
        mode, "cycles", 256, nodes=8, endpoint=bursts
    ))]
    assert times[0] == pytest.approx(times[1], rel=most)


def test_networks_for_which_a_switch_has_too_few_ports_are_refused():
    with pytest.raises(ConfigError, match=r"switch.ports: at level 'events', must be at least 9"):
        run(described("push", "events", 4, nodes=9, switch={"preset": "8-port"}))
