# SPDX-License-Identifier: Apache-2.0
"""Chunks and places that nobody has stated."""

import pytest

from sim.collectives.plan import AlgorithmChoice, plan_collective
from sim.endpoint.kinds import KINDS, endpoint
from sim.events.defaults import ALL_CHUNKS, LEAST_PLACES, MOST_CHUNKS, chunk_bytes, chunk_size
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.limits.network import call_bound
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.run import run
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

MIB = 1 << 20
FAR = {"bandwidth_bytes_per_s": 25e9, "latency_s": 400e-9, "efficiency": 0.94}


def ring(size: int, **changed: float) -> Dimension:
    return Dimension(kind="ring", size=size, **{**FAR, **changed})


def job(*calls: CollectiveCall) -> Job:
    graph = GraphBuilder()
    before: list[int] = []
    for number, call in enumerate(calls):
        before = [graph.add(f"call {number}", TaskKind.COLLECTIVE, before, call=call)]
    return Job(name="calls", graphs=(graph.graph(),))


def all_reduce(size_bytes: int, **more: object) -> CollectiveCall:
    return CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size_bytes, **more)


def chunks_and_places(network: Network, call: CollectiveCall, **options: object):
    record = simulate(network, job(call), **options)
    (places,) = set(record.admission.places)
    return int(record.phases.chunks[0]), places


@pytest.mark.parametrize(
    ("dimensions", "size_bytes", "least"),
    [
        ([ring(64)], 16 * MIB, 99.5),
        ([ring(64)], 256 * MIB, 99.5),
        ([ring(8)] * 3, 256 * MIB, 98.5),
        ([ring(16)] * 2, 16 * MIB, 97),
        ([Dimension.switch(8, 450e9, 400e-9, efficiency=0.94)], 16 * MIB, 97),
        ([Dimension.switch(8, 450e9, 400e-9, efficiency=0.94)], 64 * MIB, 99),
    ],
)
def test_defaults_reach_the_bound(dimensions, size_bytes, least):
    network, call = Network(dimensions), all_reduce(size_bytes)

    record = simulate(network, job(call))

    assert least <= call_bound(network, call).percent(record.end_fs / 1e15) <= 100


def test_what_is_stated_is_never_overridden():
    network, call = Network([ring(64)]), all_reduce(16 * MIB)

    both = chunks_and_places(network, call, scheduler=Scheduler(splits=48, concurrency=3))
    chunks = chunks_and_places(network, call, scheduler=Scheduler(chunk_bytes=MIB))
    places = chunks_and_places(network, call, scheduler=Scheduler(concurrency=5))
    unbound = simulate(network, job(call), scheduler=Scheduler(concurrency=None))

    assert both == (48, 3)
    assert chunks[0] == 16
    assert places[1] == 5 and places[0] == 256
    assert unbound.admission.places == ()


def test_large_chunks_need_fewer_places():
    network, call = Network([ring(8)] * 3), all_reduce(64 * MIB)

    small = chunks_and_places(network, call, scheduler=Scheduler(chunk_bytes=32768))
    large = chunks_and_places(network, call, scheduler=Scheduler(chunk_bytes=MIB))

    assert small[1] > 32 > large[1] >= LEAST_PLACES


def test_more_latency_asks_for_more_places():
    near, far = (Network([ring(16, latency_s=each)] * 2) for each in (50e-9, 2e-6))

    places = [chunks_and_places(each, all_reduce(64 * MIB))[1] for each in (near, far)]

    assert places[0] == LEAST_PLACES and places[1] > 100


def test_chunks_grow_with_the_collective():
    assert chunk_size(1 * MIB, 1) == 65536
    assert chunk_size(1 << 40, 1) == (1 << 40) / MOST_CHUNKS
    # Of an all-gather counts what it ends with.
    assert chunk_size(1 * MIB, 1, growth=64) == 1024
    # Jobs of very many collectives can still be numbered.
    assert (1 << 40) / chunk_size(1 << 40, ALL_CHUNKS // 16) == 16


def test_chunks_fit_into_the_buffers_of_an_engine():
    network = Network([ring(4)] * 3)
    plan = plan_collective(network, CollectiveKind.ALL_REDUCE, AlgorithmChoice())
    small = endpoint("ace", sram_bytes=1 << 16)
    model = small.model(network, CollectiveKind.ALL_REDUCE, plan)

    chosen = chunk_bytes(1 << 30, 1, plan, model)

    assert chosen * 2 <= min(room.size_bytes for room in model.rooms)
    assert simulate(network, job(all_reduce(MIB)), endpoint=small).end_fs > 0


@pytest.mark.parametrize("kind", [each for each in KINDS if each.startswith(("ace", "baseline"))])
def test_no_endpoint_gets_much_slower_than_with_the_defaults_before(kind):
    network, call = Network([ring(4)] * 3), job(all_reduce(4 * MIB))
    before = Scheduler(chunk_bytes=65536, concurrency=8)

    now, then = (
        simulate(network, call, endpoint=kind, scheduler=each).end_fs for each in (None, before)
    )

    assert now <= 1.02 * then


def test_a_collective_does_not_depend_on_what_else_the_job_does():
    network = Network([ring(4), ring(8)])
    world, group = all_reduce(8 * MIB), all_reduce(100, dimensions=(1,))

    alone = simulate(network, job(world))
    first = simulate(network, job(world, group))
    then = simulate(network, job(group, world))

    assert alone.task_end_fs[0, 0] == first.task_end_fs[0, 0]
    assert alone.end_fs == then.task_end_fs[0, 1] - then.task_end_fs[0, 0]


def test_python_files_and_sweeps_choose_alike():
    system = {
        "dimension": [{"kind": "ring", "size": 16, **FAR}],
        "workload": {"collective": "all_reduce", "size_bytes": 4 * MIB},
        "run": {"passes": 1},
    }
    described = run(system)
    direct = simulate(Network([ring(16)]), job(all_reduce(4 * MIB)))

    assert described.record.end_fs == direct.end_fs
    assert described.record.admission.places == direct.admission.places
    (note,) = [each for each in described.record.notes if each.startswith("chosen: ")]
    assert note == (
        "chosen: chunks of 65536 bytes (scheduler.chunk_bytes), 16 in a queue "
        "(scheduler.concurrency)"
    )
    stated = run({**system, "scheduler": {"chunk_bytes": 65536}})
    (note,) = [each for each in stated.record.notes if each.startswith("chosen: ")]
    assert note == "chosen: 16 in a queue (scheduler.concurrency)"


def test_waves_of_switches_are_the_same_in_python_and_in_files():
    network = Network([Dimension.switch(8, 25e9, 400e-9, efficiency=128 / 160)])
    call = all_reduce(MIB)
    described = run({
        "topology": {
            "kind": "switch", "shape": [8], "bandwidth_bytes_per_s": 25e9, "latency_s": 400e-9,
        },
        "endpoint": {"kind": "in_switch"},
        "workload": {"collective": "all_reduce", "size_bytes": MIB},
        "run": {"passes": 1},
    })

    direct = simulate(network, job(call), endpoint="in_switch")

    assert direct.end_fs == described.record.end_fs
    assert set(direct.admission.places) == {16}
    assert int(direct.phases.chunks[0]) == MIB // 8192
