# SPDX-License-Identifier: Apache-2.0
"""What waits for a link: most phases to go first, unless chunks wait at the node that sends."""

import random
from typing import Any

import numpy as np
import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.collectives.program import Plan, Source
from sim.endpoint.endpoint import Credits, EndpointModel, Stage, Unit
from sim.endpoint.kinds import IdealEndpoint
from sim.events.kernel import lines, queue, tables
from sim.events.kernel.constants import CHUNK_AT, LINK_SPAN, PHASE_AT
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

NS = 1e6  # fs
FREE = IdealEndpoint(delay_s=0.0, message_bytes=None)
ONE_WAY = AlgorithmChoice(style="dimension_ordered", rings=1)


def network(*sizes: int) -> Network:
    """10 bytes per ns, 100 ns."""
    return Network([Dimension.ring(size, 10e9, 100e-9) for size in sizes])


@pytest.mark.parametrize("seed", range(5))
def test_turns_of_a_collective_go_to_messages_with_most_phases_left(seed: int) -> None:
    rng = random.Random(seed)
    registers = queue.queue_arrays(64, 16)[4]
    waiters = np.empty(64, tables.WAITER).view(np.recarray)
    link = np.zeros(1, tables.LINK).view(np.recarray)
    link["first"] = -1
    chunks = np.zeros(8, tables.CHUNK).view(np.recarray)
    chunks["phases"] = [1, 2, 3, 3, 4, 5, 5, 6]
    chunks["call"] = [0, 1, 0, 1, 0, 1, 0, 1]
    turns: list[int] = []
    waiting: dict[int, list[tuple[int, bool, tuple[int, int, int]]]] = {0: [], 1: []}
    for now in range(400):
        if (turns and rng.random() < 0.48) or len(turns) == 60:
            taken = lines.next_in_line(registers, waiters, link, 0)
            assert taken == waiting[turns.pop(0)].pop(0)[2]
        else:
            chunk = rng.randrange(8)
            phase = rng.randrange(chunks[chunk].phases)
            key, node = (chunk << CHUNK_AT) | (phase << PHASE_AT), rng.randrange(100)
            left, keeps = int(chunks[chunk].phases) - phase, rng.random() < 0.2
            alone = lines.line_up(registers, waiters, link, chunks, 0, now, key, node, keeps, left)
            assert alone == (not turns)
            mine = waiting[int(chunks[chunk].call)]
            turns.append(int(chunks[chunk].call))
            place = len(mine)
            while place and not mine[place - 1][1] and all(m[0] < left for m in mine[place - 1 :]):
                place -= 1
            mine.insert(place, (left, keeps, (key, node, now)))
    assert (link[0].first < 0) == (not turns)


def run(*calls: tuple[float, CollectiveCall], **options: Any) -> RunRecord:
    """Collectives that begin after so many ns, in chunks of a third."""
    builder = GraphBuilder()
    for begin_ns, call in calls:
        wait = builder.add("wait", TaskKind.DELAY, duration_s=begin_ns * 1e-9)
        builder.add("call", TaskKind.COLLECTIVE, call=call, after=[wait])
    return simulate(
        network(2, 2),
        Job(name="calls", graphs=(builder.graph(),)),
        endpoint=FREE,
        algorithms=ONE_WAY,
        scheduler=Scheduler(splits=3),
        **options,
    )


def test_collectives_take_turns_on_a_link() -> None:
    """Three chunks of a gather, each 100 ns on the link of dimension 0, and as many of a
    reduce-scatter with more phases behind it, which asks for the link later: it waits for all."""
    gather = CollectiveCall(kind=CollectiveKind.ALL_GATHER, size_bytes=3000, dimensions=(0,))
    reduce = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=6000)
    alone = run((150, reduce)).task_end_fs[0][1] / NS
    both = run((0, gather), (150, reduce)).task_end_fs[0] / NS

    assert both[1] == pytest.approx(300 + 100)
    assert both[3] == pytest.approx(alone + 150)


def order_on_a_link(links: Network, style: str, scheduler: Scheduler) -> list[int]:
    """Phases of the messages of an all-reduce, in 12 chunks, on the first link of node 0."""
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=12 * 2000)
    builder.add("reduce", TaskKind.COLLECTIVE, call=call)
    record = simulate(
        links,
        Job(name="one", graphs=(builder.graph(),)),
        endpoint=FREE,
        algorithms=AlgorithmChoice(style=style, rings=1),
        scheduler=scheduler,
        spans=1000,
    )
    spans = record.spans[(record.spans["kind"] == LINK_SPAN) & (record.spans["row"] == 0)]
    first = np.sort(spans[spans["lane"] == spans["lane"].min()], order="start_fs")
    phases: list[int] = first["phase"].tolist()
    return phases


def test_gathers_with_a_phase_behind_them_pass_last_ones() -> None:
    """Every second chunk begins in dimension 1; its phases 2 and 3 are in dimension 0, where the
    others have 1 and 4. Some of phase 4 ask for the link earlier than the last ones of phase 3."""
    links = Network([Dimension.ring(2, 10e9, 100e-9), Dimension.ring(2, 10e9, 1e-9)])
    order = order_on_a_link(links, "multi_colour", Scheduler(splits=12, concurrency=None))

    assert order == [1] * 6 + [2] * 6 + [3] * 6 + [4] * 6


def test_messages_keep_their_turns_while_chunks_wait() -> None:
    """From 500 ns on gathers ask for the link, and until 1000 ns chunks wait for places. Each keeps
    its turn, between reduce-scatters that begin when an earlier one has ended."""
    scheduler = Scheduler(splits=12, concurrency=4, queues="phase")
    order = order_on_a_link(network(2, 2), "dimension_ordered", scheduler)

    assert order == [1] * 7 + [3, 1] * 5 + [3] * 7


class Makers(IdealEndpoint):
    """Servers that make messages of 500 bytes, 50 ns on a link; the oldest chunk goes first."""

    def __init__(self, servers: int, made_ns: float, credits: Credits | None = None) -> None:
        super().__init__(delay_s=0.0)
        make = Stage(unit="makers", fixed_s=made_ns * 1e-9, outbox=True)
        self.made = EndpointModel(
            units=(Unit(name="makers", servers=servers, turns=servers),),
            before={Source.FRESH: (make,), Source.SUM: (make,)},
            message_bytes=500.0,
            oldest_first=True,
            credits=credits,
        )

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        return self.made


def made_messages(
    kind: CollectiveKind, size_bytes: int, servers: int, made_ns: float,
    credits: Credits | None = None,
) -> list[tuple[int, float]]:
    """Chunk and start on the link from node 0 to 1, in ns, of all messages of two chunks."""
    builder = GraphBuilder()
    call = CollectiveCall(kind=kind, size_bytes=size_bytes)
    builder.add("call", TaskKind.COLLECTIVE, call=call)
    record = simulate(
        network(2),
        Job(name="one", graphs=(builder.graph(),)),
        endpoint=Makers(servers, made_ns, credits),
        algorithms=AlgorithmChoice(style="halves", rings=1),
        scheduler=Scheduler(splits=2, concurrency=None),
        spans=1000,
    )
    spans = record.spans[(record.spans["kind"] == LINK_SPAN) & (record.spans["row"] == 0)]
    spans = np.sort(spans, order="start_fs")
    return [(int(each["chunk"]), float(each["start_fs"] / NS)) for each in spans]


def test_a_server_makes_one_message_ahead_for_a_link() -> None:
    """Four messages of each chunk, made in 70 ns by a server of its own. The older one has all
    that it makes on the link at once. The third of the younger is ready at 210 ns behind the
    second, which leaves at 270: it is made again by 340. Likewise the fourth, by 440."""
    found = made_messages(CollectiveKind.REDUCE_SCATTER, 8000, 2, 70)

    assert found == [
        (0, 70), (1, 120), (0, 170), (0, 220), (1, 270), (0, 320), (1, 370), (1, 440),
    ]


def test_the_oldest_of_the_messages_of_a_server_is_made_first() -> None:
    """Eight messages of each chunk and phase. The first chunk is in its gather from 510 ns on, when
    four of the other chunk's are waiting in the server and one for the link."""
    found = made_messages(CollectiveKind.ALL_REDUCE, 16000, 1, 10)

    assert [chunk for chunk, _ in found] == [0] * 8 + [1] * 4 + [0] * 8 + [1] * 12


def test_a_credit_is_for_the_oldest_when_it_is_back() -> None:
    """Places for two messages, each taken for 50 ns on the link, its latency both ways, and 80 ns.
    Messages are made in 10 ns. The younger chunk's first is ready as early as the older one's, and
    has a credit when those have had theirs."""
    credits = Credits(places=2, handled_s=80e-9)
    found = made_messages(CollectiveKind.REDUCE_SCATTER, 8000, 2, 10, credits)

    starts = 10, 60, 340, 390, 670, 720, 1000, 1050
    assert found == list(zip([0] * 4 + [1] * 4, starts))


@pytest.mark.parametrize("fold", ["on", "off"])
def test_lines_are_the_same_folded_and_recorded(fold: str) -> None:
    """Chunks of two orders of dimensions meet on every link."""
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 18)
    builder.add("reduce", TaskKind.COLLECTIVE, call=call)
    job = Job(name="one", graphs=(builder.graph(),))
    plain = simulate(network(3, 4), job, scheduler=Scheduler(splits=16), fold="off", check=True)
    other = simulate(
        network(3, 4), job, scheduler=Scheduler(splits=16), fold=fold, spans=100_000, bucket_s=1e-7
    )

    assert set(other.task_end_fs.ravel().tolist()) == {plain.end_fs}
    assert other.phases.network_delay_fs.sum() == pytest.approx(
        plain.phases.network_delay_fs.sum() * other.task_end_fs.shape[0] / plain.nodes
    )
