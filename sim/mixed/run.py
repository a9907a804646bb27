"""Collectives and jobs on a ring of engines: in RTL, as models, or mixed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.common.axi import aligned
from sim.collectives.driver import RingCluster, RingSettings
from sim.collectives.golden import ring_all_reduce
from sim.collectives.partition import Partition
from sim.collectives.ring import Collective
from sim.mixed.exchange import Exchange
from sim.mixed.model import Command, EngineModel, Surroundings
from sim.mixed.script import Compute, Issue, Step, model_script, queue_steps
from sim.rtl.system import Node

__all__ = ["Outcome", "completion_cycles", "draw_inputs", "run_mixed", "run_model", "run_rtl"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A run.

    ``steps`` has, for each rank, the cycles in which the steps of its script ended, counted like
    ``begin``. ``wrong`` counts RTL results (ranks x commands) that differ from the golden model in
    any bit, ``checked`` those compared, ``packets`` the packets from RTL nodes to models that were
    compared, all equal.
    """

    begin: int
    steps: list[list[int]]
    checked: int = 0
    wrong: int = 0
    packets: int = 0
    wall_s: float = 0.0

    @property
    def cycles(self) -> int:
        """From the start to the end of the last script."""
        return max(steps[-1] for steps in self.steps if steps) + 1 - self.begin


def draw_inputs(commands: Sequence[Command], nodes: int, *, seed: int) -> list[NDArray[np.float32]]:
    """Random data for every command, ranks x elements (all-gather: elements of a shard).

    A shard that ends early is filled up; what is behind its end is not used.
    """
    rng = np.random.default_rng(seed)
    data = []
    for command in commands:
        part = command.partition
        length = part.stride if command.collective is Collective.ALL_GATHER else part.elements
        data.append(rng.standard_normal((nodes, length)).astype(np.float32))
    return data


def run_model(
    config: AceConfig,
    around: Surroundings,
    commands: Sequence[Command],
    steps: Sequence[Sequence[Step]],
    *,
    start_cycle: int = 0,
) -> Outcome:
    """Run the scripts *steps* of all ranks on the cycle model.

    Raises
    ------
    RuntimeError
        If a script does not come to its end.
    """
    model = EngineModel(
        config, around, commands, [model_script(script) for script in steps],
        start_cycle=start_cycle,
    )  # fmt: skip
    wall = model.run()
    if not model.done:
        raise RuntimeError("the cycle model came to a standstill before its scripts had ended")
    return Outcome(
        begin=start_cycle,
        steps=[model.steps(rank).tolist() for rank in range(around.nodes)],
        wall_s=wall,
    )


def completion_cycles(
    config: AceConfig,
    around: Surroundings,
    collective: Collective,
    size_bytes: int,
    *,
    starts: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """When each rank has completed one collective, by the cycle model.

    Parameters
    ----------
    config : AceConfig
    around : Surroundings
    collective : Collective
    size_bytes : int
        Of the whole vector, a multiple of 4.
    starts : sequence of int or None
        Cycle in which the host of each rank begins to write the registers of its engine; None: 0.

    Returns
    -------
    array of *nodes*
        Cycles in which the engines count the collective as complete.
    """
    if size_bytes < ELEMENT_BYTES or size_bytes % ELEMENT_BYTES:
        raise ValueError(
            f"size_bytes must be a multiple of {ELEMENT_BYTES} above 0, not {size_bytes!r}"
        )
    begins = [0] * around.nodes if starts is None else list(starts)
    if len(begins) != around.nodes or min(begins) < 0:
        raise ValueError(f"starts must be {around.nodes} cycles of at least 0, not {starts!r}")
    partition = Partition.plan(
        size_bytes // ELEMENT_BYTES, around.nodes, queues=around.queues or config.fsms,
        lanes=config.lanes, packet_elements=config.packet_elements,
        slot_elements=config.slot_elements,
    )  # fmt: skip
    command = Command(collective=collective, partition=partition)
    # A delay ends in its last cycle; what follows starts in the next one.
    scripts = [
        model_script([*([Compute(cycles=begin - 1)] if begin else []), Issue(command=0)])
        for begin in begins
    ]
    model = EngineModel(config, around, [command], scripts)
    model.run()
    return model.completions()[:, 0]


def run_rtl(
    config: AceConfig,
    around: Surroundings,
    commands: Sequence[Command],
    steps: Sequence[Sequence[Step]],
    inputs: Sequence[NDArray[np.float32]],
    *,
    max_cycles: int = 100_000_000,
    **options: Any,
) -> Outcome:
    """Run the scripts on compiled engines and compare their results, bit for bit.

    *options* are those of :class:`sim.collectives.driver.RingCluster` (threads, memory_stalls).
    """
    memory_stalls = options.pop("memory_stalls", 0.0)
    cluster = RingCluster(
        config, _settings(around, commands, memory_stalls=memory_stalls), **options
    )
    begin = cluster.system.cycle
    tickets = []
    for rank, node in enumerate(cluster.system.nodes):
        _fill_memory(node, commands, inputs, rank)
        tickets.append(queue_steps(cluster, node, steps[rank], commands))
    result = cluster.system.run(max_cycles=max_cycles)
    checked, wrong = _compare(cluster.system.nodes, range(around.nodes), around, commands, inputs)
    return Outcome(
        begin=begin,
        steps=[[ticket.cycle for ticket in of_rank] for of_rank in tickets],
        checked=checked, wrong=wrong, wall_s=result.wall_s,
    )  # fmt: skip


def run_mixed(
    config: AceConfig,
    around: Surroundings,
    commands: Sequence[Command],
    steps: Sequence[Sequence[Step]],
    inputs: Sequence[NDArray[np.float32]],
    *,
    rtl: Sequence[int],
    window_cycles: int | None = None,
    max_cycles: int = 100_000_000,
    threads: int = 1,
) -> Outcome:
    """Run the scripts with the ranks *rtl* as compiled engines and all others as models.

    Both sides run a window alone and then exchange what they have sent: packets with their header
    and payload, and credits. Every packet of an RTL node is compared with the golden model.

    Parameters
    ----------
    window_cycles : int or None
        1 to the latency of the links, None for the largest; it changes nothing but the speed.

    Raises
    ------
    ValueError
        For ranks that do not exist, or a bad window.
    PayloadError
        If an RTL node sends a packet that is not the golden one.
    RuntimeError
        If the scripts have not ended after *max_cycles*.
    """
    exchange = Exchange(
        config, _settings(around, commands), around, commands, inputs,
        [model_script(script) for script in steps], rtl=rtl, threads=threads,
        window_cycles=window_cycles,
    )  # fmt: skip
    tickets = {}
    for rank, node in exchange.nodes.items():
        _fill_memory(node, commands, inputs, rank)
        tickets[rank] = queue_steps(exchange.cluster, node, steps[rank], commands)
    wall = exchange.run(max_cycles)
    checked, wrong = _compare(
        list(exchange.nodes.values()), list(exchange.nodes), around, commands, inputs
    )
    return Outcome(
        begin=exchange.begin,
        steps=[
            [ticket.cycle for ticket in tickets[rank]] if rank in tickets
            else exchange.model.steps(rank).tolist()
            for rank in range(around.nodes)
        ],
        checked=checked, wrong=wrong, packets=exchange.packets, wall_s=wall,
    )  # fmt: skip


def _settings(
    around: Surroundings, commands: Sequence[Command], *, memory_stalls: float = 0.0
) -> RingSettings:
    ends = [command.destination + 4 * command.partition.elements for command in commands]
    return RingSettings(
        nodes=around.nodes,
        latency_cycles=around.latency_cycles,
        read_latency_cycles=around.read_latency_cycles,
        link_stalls=around.link_stalls,
        memory_stalls=memory_stalls,
        memory_bytes=aligned(max(ends)),
        queues=around.queues,
        bidirectional=around.bidirectional,
        seed=around.seed,
    )


def _fill_memory(
    node: Node, commands: Sequence[Command], inputs: Sequence[NDArray[np.float32]], rank: int
) -> None:
    for command, data in zip(commands, inputs, strict=True):
        raw = data[rank].view(np.uint8)
        node.memory[command.source : command.source + len(raw)] = raw


def _compare(
    nodes: Sequence[Node],
    ranks: Sequence[int],
    around: Surroundings,
    commands: Sequence[Command],
    inputs: Sequence[NDArray[np.float32]],
) -> tuple[int, int]:
    """Results in memory that were compared with the golden model, and those that differ."""
    checked = wrong = 0
    for command, data in zip(commands, inputs, strict=True):
        part = command.partition
        if command.collective is Collective.ALL_GATHER:
            golden = data.reshape(-1)[: part.elements]
        else:
            golden = ring_all_reduce(list(data), part, bidirectional=around.bidirectional)
        for node, rank in zip(nodes, ranks, strict=True):
            place = (
                part.shard(rank) if command.collective is Collective.REDUCE_SCATTER
                else slice(0, part.elements)
            )  # fmt: skip
            expected = golden[place].tobytes()
            first = command.destination
            checked += 1
            wrong += node.memory[first : first + len(expected)].tobytes() != expected
    return checked, wrong
