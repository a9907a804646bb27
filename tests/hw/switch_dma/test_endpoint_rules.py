# amaranth: UnusedElaboratable=no
"""Rules that an endpoint keeps where all-reduces seldom come: what it refuses, what it tells, what
it gives back, and what `idle` says."""

from dataclasses import replace

import pytest

from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch.config import preset as switch_preset
from hw.switch.packet import AbortCause, Kind, encode
from hw.switch_dma.config import preset
from tb.switch_dma.fabric import AllReduce, flat, join
from tb.switch_dma.faults import Tap
from tb.switch_dma.node import SLVERR

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

    answer = node.try_write(name, **fields)
    system.settle(quiet=10)

    assert answer == {"response": SLVERR} and system.ask(name, nodes=[node]) == [before]
    job.start([other])
    system.settle(quiet=QUIET)
    job.check()
    node.write(name, **fields)
    system.settle(quiet=10)
    assert system.ask(name, nodes=[node]) == [before | fields]


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
    assert system.nodes[0].pins.get("irq")
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
    tap = Tap.to_node(system, (0, 1))
    header = encode({"kind": Kind.PARTIAL.value, "address": DMA.payload_flits, "count": 1,
                     "source": 0, "destination": 1, "op": ReduceOp.SUM_I32.value})
    tap.added.append(([header | 1 << FLIT_BITS, *range(DMA.payload_flits)], 1))
    system.settle(quiet=100)
    assert not tap.added
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
        for port in node.ports:
            port.awake = lambda each, port=port: each != channel or port.cycle % pause == 0
    job = AllReduce(system, ReduceOp.SUM_I32, 130)
    job.start()
    system.run(lambda: all(node.pins.get("irq") for node in system.nodes))
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
    tap = Tap.to_node(system, (0, 1))
    job = AllReduce(system, ReduceOp.SUM_I32, 1500)
    job.start()
    header = encode({"kind": Kind.RESULT.value, "address": 20 * DMA.payload_flits, "count": 2,
                     "source": 0, "op": 3, "poison": 1, **what})
    system.run(lambda: system.ask("results", 0, nodes=system.nodes[1:])[0]["count"] > 5)
    tap.added.append(([header | 1 << FLIT_BITS, *range(DMA.payload_flits)], 2))
    system.run(lambda: not tap.added)
    assert not system.nodes[1].pins.get("irq"), "too late"
    system.settle(quiet=QUIET)

    job.check()
    drop = "stale" if "epoch" in what else "unknown"
    assert system.ask(f"dropped_{drop}", 0)[1]["count"] == 1
    assert all(each["done"] and not each["invalid"] for each in system.ask("interrupt"))


HELD = [
    ("Loads", "empty", 0), ("Loads", "walking", 1), ("Receive", "idle", 0),
    ("Transmit", "empty", 0), ("HomeStore", "empty", 0), ("HomeStore", "busy", 1),
    ("Operands", "busy", 1), ("Results", "writing", 1), ("WaveControl", "idle", 0),
]


