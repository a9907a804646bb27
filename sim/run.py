"""Run the collective that a configuration describes, on RTL endpoints, and compare with numpy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hw.common.axi import MEMORY_ALIGNMENT, aligned
from hw.fp.ops import ReduceOp
from sim.collectives.driver import RingCluster, RingSettings
from sim.config import SystemConfig
from sim.report.links import LinkSeries
from sim.report.table import Column, Table
from sim.rtl.specs import LinkSpec, topology_links
from sim.topology.embedding import RingPlace, hamiltonian_cycle, ring_through
from sim.topology.graph import LinkTiming
from sim.topology.torus import Dimension, Torus

__all__ = ["Outcome", "Progress", "make_cluster", "run_collective", "sample_vectors"]

Progress = Callable[[float], None]
Words = npt.NDArray[np.generic]

FINEST_INTERVAL_CYCLES = 16
LARGEST_INTERVALS = 150


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One simulated collective.

    Parameters
    ----------
    cycles
        Clock cycles from the first register write of the command to the last interrupt.
    exact
        Whether every node's result equals numpy's in the same order, bit for bit.
    wall_s
        Seconds that the simulation took.
    links
        Share of capacity, per interval, of each link direction that carried anything.
    """

    config: SystemConfig
    cycles: int
    exact: bool
    wall_s: float
    links: tuple[LinkSeries, ...]
    interval_cycles: int

    @property
    def link_share(self) -> float:
        """Mean share of the capacity of the links in use, headers included."""
        return float(np.mean([link.total for link in self.links]))

    @property
    def payload_share(self) -> float:
        """Payload over everything that the links carried."""
        payload = float(np.sum([link.payload for link in self.links]))
        return payload / float(np.sum([link.total for link in self.links]))

    def table(self) -> Table:
        """One row that says what was run and what came out."""
        collective, run = self.config.collective, self.config.run
        shape = " x ".join(str(size) for size in self.config.topology.dimensions)
        size_bytes = 4 * collective.elements
        table = Table(
            f"{collective.kind} ({collective.op}) of {size_bytes} B per node, "
            f"{self.config.topology.kind} {shape}, preset {self.config.preset}",
            [
                Column("cycles"),
                Column(f"time at {run.clock_mhz:g} MHz", "µs", 1),
                Column("reduced", "B/cycle", 2),
                Column("reduced", "GB/s", 2),
                Column("link use", "%", 1),
                Column("payload share", "%", 1),
                Column("equals numpy"),
                Column("simulated in", "s", 2),
            ],
        )
        table.add(
            self.cycles,
            self.cycles / run.clock_mhz,
            size_bytes / self.cycles,
            size_bytes / self.cycles * run.clock_mhz / 1e3,
            100 * self.link_share,
            100 * self.payload_share,
            self.exact,
            self.wall_s,
        )
        return table


def make_cluster(config: SystemConfig) -> RingCluster:
    """The engines, memories and links of *config*; compiles the engine unless cached."""
    size_bytes = 4 * config.collective.elements
    padded = aligned(size_bytes)
    settings = RingSettings(
        nodes=config.topology.size,
        latency_cycles=config.link.latency_cycles,
        read_latency_cycles=config.memory.latency_cycles,
        link_stalls=config.link.stall_probability,
        memory_stalls=config.memory.stall_probability,
        memory_bytes=2 * padded + MEMORY_ALIGNMENT,
        seed=config.run.seed,
    )
    places, links = _ring_in_topology(config)
    return RingCluster(
        config.engine,
        settings,
        ports=[(place.next_port, place.previous_port) for place in places],
        links=links,
        threads=config.run.threads,
        bucket_cycles=FINEST_INTERVAL_CYCLES,
    )


def run_collective(
    config: SystemConfig,
    *,
    cluster: RingCluster | None = None,
    progress: Progress = lambda share: None,
) -> Outcome:
    """Run the collective of *config* once, on vectors drawn from its seed.

    `progress` is called now and then with an estimate of the share that is done.
    """
    cluster = make_cluster(config) if cluster is None else cluster
    collective = config.collective
    op = ReduceOp[collective.op.upper()]
    plan = cluster.plan(collective.elements)
    vectors = sample_vectors(config)
    shards = [plan.shard(rank) for rank in range(config.topology.size)]
    start = cluster.system.cycle
    expected_cycles = _estimate_cycles(config)

    def report(cycle: int, nodes_done: int) -> None:
        progress(min(0.99, (cycle - start) / expected_cycles))

    if collective.kind == "all_gather":
        parts = [vectors[0][shard] for shard in shards]
        outputs = cluster.all_gather(parts, collective.elements, progress=report)
        expected = [vectors[0]] * len(shards)
    elif collective.kind == "reduce_scatter":
        outputs = cluster.reduce_scatter(vectors, op=op, progress=report)
        golden = cluster.golden(vectors, op=op)
        expected = [golden[shard] for shard in shards]
    else:
        outputs = cluster.all_reduce(vectors, op=op, progress=report)
        expected = [cluster.golden(vectors, op=op)] * len(shards)

    run = cluster.last_run
    assert run is not None
    end = max(cycle for cycle in run.last_host_cycle if cycle is not None) + 1
    links, interval_cycles = _utilisation(config, cluster, run.first_cycle, end)
    return Outcome(
        config=config,
        cycles=end - run.first_cycle,
        exact=all(_same_bits(got, want) for got, want in zip(outputs, expected, strict=True)),
        wall_s=run.wall_s,
        links=links,
        interval_cycles=interval_cycles,
    )


def sample_vectors(config: SystemConfig) -> list[Words]:
    """One vector per node, a function of the seed; of the type that the operation takes."""
    random = np.random.default_rng(config.run.seed)
    shape = (config.topology.size, config.collective.elements)
    if config.collective.op == "sum_i32":
        return list(random.integers(-(2**31), 2**31, shape, dtype=np.int32))
    return list(random.standard_normal(shape, dtype=np.float32))


def _same_bits(a: Words, b: Words) -> bool:
    return np.array_equal(a.view(np.uint32), b.view(np.uint32))


def _ring_in_topology(config: SystemConfig) -> tuple[list[RingPlace], list[LinkSpec]]:
    """Places in the ring by rank, and all links of the topology with ranks for nodes."""
    torus = Torus(
        [Dimension(size=size, timing=LinkTiming()) for size in config.topology.dimensions]
    )
    order = hamiltonian_cycle(torus)
    places = sorted(ring_through(torus, order), key=lambda place: place.rank)
    rank_of = {place.node: place.rank for place in places}
    links = topology_links(
        torus,
        clock_hz=1e6 * config.run.clock_mhz,
        bus_bytes=config.engine.bus_bytes,
        latency_cycles=config.link.latency_cycles,
        stall_probability=config.link.stall_probability,
    )
    pace = replace(links[0].forward, beats_per_cycle=config.link.beats_per_cycle)
    ranked = [
        replace(
            link,
            node_a=rank_of[link.node_a],
            node_b=rank_of[link.node_b],
            forward=pace,
            backward=pace,
        )
        for link in links
    ]
    return places, ranked


def _estimate_cycles(config: SystemConfig) -> float:
    """Rough length of the run, for progress only: two ports, each sending half of the traffic."""
    nodes = config.topology.size
    passes = 2 if config.collective.kind == "all_reduce" else 1
    sent = passes * (nodes - 1) / nodes * 4 * config.collective.elements / 2
    rate = config.engine.bus_bytes * config.link.beats_per_cycle
    return sent / rate / 0.85 + passes * nodes * (config.link.latency_cycles + 200)


def _utilisation(
    config: SystemConfig, cluster: RingCluster, first: int, end: int
) -> tuple[tuple[LinkSeries, ...], int]:
    """Shares of capacity between two cycles, in at most `LARGEST_INTERVALS` equal intervals."""
    fine = FINEST_INTERVAL_CYCLES
    merged = max(1, -(-(end - first) // (fine * LARGEST_INTERVALS)))
    interval = fine * merged
    capacity = interval * config.engine.flits
    intervals = -(-(end - first) // interval)

    def share(flits: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        kept = np.zeros(intervals * merged)
        chosen = flits[first // fine :][: len(kept)]
        kept[: len(chosen)] = chosen
        whole: npt.NDArray[np.float64] = kept.reshape(intervals, merged).sum(axis=1) / capacity
        # The last interval is as long as what is left of the run.
        whole[-1] *= interval / (end - first - (intervals - 1) * interval)
        return np.minimum(whole, 1.0)

    places, _ = _ring_in_topology(config)
    nodes = len(places)

    def series() -> Iterator[LinkSeries]:
        for place in places:
            for port, step in ((place.next_port, 1), (place.previous_port, -1)):
                activity = cluster.system.link_activity(place.rank, port)
                if not activity.flits:
                    continue  # an engine with one FSM uses one direction only
                yield LinkSeries(
                    name=f"rank {place.rank} → {(place.rank + step) % nodes}",
                    header=share(activity.header_flits_per_bucket),
                    payload=share(activity.payload_flits_per_bucket),
                )

    return tuple(series()), interval
