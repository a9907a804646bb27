# SPDX-License-Identifier: Apache-2.0
"""Measures the latencies of the engine's blocks on its RTL.

``python -m sim.rtl.ace.measure`` writes them to the data file of ``sim.cycles.ace.latencies``.

Each latency is found on one path through the engine. The same small run is made on the RTL and on
the model; the cycles that the RTL takes longer are added to the latency, until all paths agree.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from hw.ace.config import AceConfig, preset
from sim.cycles.ace.latencies import Latencies
from sim.cycles.ace.model import START_WRITES, EngineModel
from sim.hosts.command import Command
from sim.hosts.script import POLL_CYCLES, Compute, Interrupt, Issue, Reached, Step
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.workload.graph import CollectiveKind

__all__ = ["PATHS", "MeasuredRun", "Scenario", "fit", "on_model", "on_rtl"]

_ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """Events of node 0, in cycles from the start of the scripts: the end of each step, the beats
    sent on both ports, the last beat read from memory and the last one written."""

    steps: list[int]
    beats: tuple[list[int], list[int]]
    last_load: int
    last_store: int


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One path: the run, and the function that finds the path's cycles in it.

    ``scale``: number of times that the latency occurs on the path.
    """

    collective: CollectiveKind
    elements: int
    cycles: Callable[[MeasuredRun], int]
    nodes: int = 2
    block: int | None = None
    fsms: int = 1
    latency_cycles: int = 1
    rx_packets: int = 8
    commands: int = 1
    steps: tuple[Step, ...] = (Issue(command=0), Interrupt())
    scale: int = 1


_PACKET = 5  # beats of a full packet with its header, on a 16-byte link

PATHS: Mapping[str, Scenario] = {
    "register_write": Scenario(
        collective=CollectiveKind.ALL_GATHER, elements=8, scale=START_WRITES,
        cycles=lambda run: run.steps[0],
    ),
    "register_read": Scenario(
        collective=CollectiveKind.ALL_GATHER, elements=8,
        steps=(Issue(command=0), Reached(count=0)), cycles=lambda run: run.steps[1] - run.steps[0],
    ),
    # READY packets of the chunks of two FSMs, which leave by different ports.
    "chunk": Scenario(
        collective=CollectiveKind.ALL_GATHER, elements=16, block=4, fsms=2, latency_cycles=200,
        cycles=lambda run: run.beats[0][0] - run.beats[1][0],
    ),
    # The last load of the second of two commands, which is checked when the first is admitted.
    "check": Scenario(
        collective=CollectiveKind.ALL_GATHER, elements=128, nodes=8, block=4, fsms=2,
        latency_cycles=200, commands=2,
        steps=(Issue(command=0), Issue(command=1), Reached(count=2)),
        cycles=lambda run: run.last_load,
    ),
    "report": Scenario(
        collective=CollectiveKind.ALL_REDUCE, elements=8,
        cycles=lambda run: run.beats[1][0] - run.last_load,
    ),
    "command": Scenario(
        collective=CollectiveKind.ALL_REDUCE, elements=8,
        cycles=lambda run: run.beats[1][0] - run.steps[0],
    ),
    # From the last beat that arrives to the first one that is forwarded.
    "parse": Scenario(
        collective=CollectiveKind.ALL_REDUCE, elements=48, nodes=3,
        cycles=lambda run: run.beats[0][_PACKET] - run.beats[0][_PACKET - 1],
    ),
    "event": Scenario(
        collective=CollectiveKind.REDUCE_SCATTER, elements=32,
        cycles=lambda run: run.last_store - run.beats[0][_PACKET - 1],
    ),
    "interrupt": Scenario(
        collective=CollectiveKind.REDUCE_SCATTER, elements=32,
        cycles=lambda run: run.steps[1] - run.last_store,
    ),
    # The third packet waits for the credit of the first one.
    "credit": Scenario(
        collective=CollectiveKind.ALL_GATHER, elements=256, block=128, latency_cycles=50,
        rx_packets=2,
        cycles=lambda run: run.beats[0][2 * _PACKET] - run.beats[0][0],
    ),
}

# The read that is the first to show a completion, whatever its distance from the last one.
_SAMPLE = [
    Scenario(
        collective=CollectiveKind.ALL_GATHER, elements=8,
        steps=(Issue(command=0), Compute(cycles=phase), Reached(count=1)),
        cycles=lambda run: run.steps[2],
    )
    for phase in range(POLL_CYCLES + 4)
]


def _config(path: Scenario) -> AceConfig:
    return replace(preset("duo"), rx_packets=path.rx_packets)


def _ring(path: Scenario) -> tuple[Surroundings, list[Command]]:
    ring = Surroundings(
        nodes=path.nodes, latency_cycles=path.latency_cycles, fsms=path.fsms, memory_bytes=1 << 17
    )
    command = Command(
        collective=path.collective, elements=path.elements, block=path.block, destination=1 << 16
    )
    return ring, [command] * path.commands


def on_rtl(path: Scenario) -> MeasuredRun:
    """The run of a path on compiled engines."""
    config = _config(path)
    ring, commands = _ring(path)
    driver = AceRing(config, ring, record_beats=True, bucket_cycles=1)
    system = driver.system
    begin = system.cycle
    tickets = [driver.queue_script(node, path.steps, commands) for node in system.nodes]
    system.run()
    memory = [system.memory_activity(0, port) for port in range(config.memory_ports)]
    beats = [system.link_activity(0, port).beat_cycles for port in range(2)]
    reads = [np.flatnonzero(m.read_bytes_per_bucket) for m in memory]
    writes = [np.flatnonzero(m.written_bytes_per_bucket) for m in memory]
    return MeasuredRun(
        steps=[ticket.cycle - begin for ticket in tickets[0]],
        beats=(
            (beats[0][beats[0] >= begin] - begin).tolist(),
            (beats[1][beats[1] >= begin] - begin).tolist(),
        ),
        last_load=int(np.concatenate(reads).max()) - begin,
        last_store=int(np.concatenate(writes).max()) - begin,
    )


def on_model(path: Scenario, table: Latencies) -> MeasuredRun:
    """The run of a path on the model."""
    ring, commands = _ring(path)
    model = EngineModel(
        _config(path), ring, commands, [path.steps] * path.nodes, latencies=table, trace=True
    )
    model.run()
    beats = [model.link_activity(0, port).beat_cycles.tolist() for port in range(2)]
    return MeasuredRun(
        steps=model.steps(0).tolist(),
        beats=(beats[0], beats[1]),
        last_load=int(model.state.loader["arrives"][0].max()),
        last_store=int(model.state.storer["last_write"][0].max()),
    )


def fit(names: Sequence[str] | None = None) -> Latencies:
    """Measure the latencies called *names* (all by default); the others are taken as stored.

    Raises
    ------
    RuntimeError
        If model and RTL never agree: the engine's structure is no longer the model's.
    """
    every = [field.name for field in fields(Latencies)]
    chosen = [name for name in every if names is None or name in names]
    table = (
        Latencies(**dict.fromkeys(every, 1)) if names is None
        else replace(Latencies.stored(), **dict.fromkeys(chosen, 1))
    )
    wanted = {name: path.cycles(on_rtl(path)) for name, path in PATHS.items() if name in chosen}
    sample = min(path.cycles(on_rtl(path)) for path in _SAMPLE) if "sample" in chosen else None
    for _ in range(_ROUNDS):
        before = table
        for name, cycles in wanted.items():
            path = PATHS[name]
            missing = cycles - path.cycles(on_model(path, table))
            cycles_now = max(0, getattr(table, name) + missing // path.scale)
            table = replace(table, **{name: cycles_now})
        if sample is not None:
            missing = sample - min(path.cycles(on_model(path, table)) for path in _SAMPLE)
            table = replace(table, sample=table.sample + missing)
        if table == before:
            return table
    raise RuntimeError(f"the model does not come to agree with the RTL: {table}")


if __name__ == "__main__":
    measured = fit()
    measured.store()
    print(measured)
