"""Measures the latencies of the engine's blocks on its RTL.

``python -m sim.rtl.measure`` writes them to the data file of ``sim.cycles.ace.latencies``.

Each latency is found on one path through the engine. The same small run is made on the RTL and on
the model; what the RTL takes longer on the path is added to the latency, until all paths agree.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

from hw.ace.config import AceConfig, preset
from sim.collectives.partition import Partition
from sim.collectives.ring import Collective
from sim.cycles.ace.latencies import Latencies
from sim.cycles.ace.model import Command, EngineModel, Surroundings
from sim.rtl.ace_ring import RingCluster, RingSettings
from sim.rtl.script import (
    POLL_CYCLES,
    START_WRITES,
    Compute,
    Interrupt,
    Issue,
    Reached,
    Step,
    model_script,
    queue_steps,
)

__all__ = ["PATHS", "Run", "Scenario", "fit", "on_model", "on_rtl"]

_ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class Run:
    """What node 0 did, in cycles from the start of the scripts: the end of each step, the beats
    sent on both ports, the last beat read from memory and the last one written."""

    steps: list[int]
    beats: tuple[list[int], list[int]]
    last_load: int
    last_store: int


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One path: what is run, and which of its cycles are the path.

    ``scale`` is how often the latency lies on it.
    """

    collective: Collective
    elements: int
    cycles: Callable[[Run], int]
    nodes: int = 2
    block: int | None = None
    queues: int = 1
    latency_cycles: int = 1
    rx_packets: int = 8
    commands: int = 1
    steps: tuple[Step, ...] = (Issue(command=0), Interrupt())
    scale: int = 1


_PACKET = 5  # beats of a full packet with its header, on a 16-byte link

PATHS: Mapping[str, Scenario] = {
    "register_write": Scenario(
        collective=Collective.ALL_GATHER, elements=8, scale=START_WRITES,
        cycles=lambda run: run.steps[0],
    ),
    "register_read": Scenario(
        collective=Collective.ALL_GATHER, elements=8,
        steps=(Issue(command=0), Reached(count=0)), cycles=lambda run: run.steps[1] - run.steps[0],
    ),
    # READY packets of the chunks of two FSMs, which leave by different ports.
    "chunk": Scenario(
        collective=Collective.ALL_GATHER, elements=16, block=4, queues=2, latency_cycles=200,
        cycles=lambda run: run.beats[0][0] - run.beats[1][0],
    ),
    # The last load of the second of two commands, which is checked when the first is admitted.
    "check": Scenario(
        collective=Collective.ALL_GATHER, elements=128, nodes=8, block=4, queues=2,
        latency_cycles=200, commands=2,
        steps=(Issue(command=0), Issue(command=1), Reached(count=2)),
        cycles=lambda run: run.last_load,
    ),
    "report": Scenario(
        collective=Collective.ALL_REDUCE, elements=8,
        cycles=lambda run: run.beats[1][0] - run.last_load,
    ),
    "command": Scenario(
        collective=Collective.ALL_REDUCE, elements=8,
        cycles=lambda run: run.beats[1][0] - run.steps[0],
    ),
    # From the last beat that arrives to the first one that is forwarded.
    "parse": Scenario(
        collective=Collective.ALL_REDUCE, elements=48, nodes=3,
        cycles=lambda run: run.beats[0][_PACKET] - run.beats[0][_PACKET - 1],
    ),
    "event": Scenario(
        collective=Collective.REDUCE_SCATTER, elements=32,
        cycles=lambda run: run.last_store - run.beats[0][_PACKET - 1],
    ),
    "interrupt": Scenario(
        collective=Collective.REDUCE_SCATTER, elements=32,
        cycles=lambda run: run.steps[1] - run.last_store,
    ),
    # The third packet waits for the credit of the first one.
    "credit": Scenario(
        collective=Collective.ALL_GATHER, elements=256, block=128, latency_cycles=50, rx_packets=2,
        cycles=lambda run: run.beats[0][2 * _PACKET] - run.beats[0][0],
    ),
}

# The read that is the first to show a completion, whatever its distance from the last one.
_SAMPLE = [
    Scenario(
        collective=Collective.ALL_GATHER, elements=8,
        steps=(Issue(command=0), Compute(cycles=phase), Reached(count=1)),
        cycles=lambda run: run.steps[2],
    )
    for phase in range(POLL_CYCLES + 4)
]


def _config(path: Scenario) -> AceConfig:
    return replace(preset("duo"), rx_packets=path.rx_packets)


def _command(path: Scenario) -> Command:
    config = _config(path)
    partition = Partition.plan(
        path.elements, path.nodes, queues=path.queues, lanes=config.lanes,
        packet_elements=config.packet_elements, slot_elements=config.slot_elements,
        block=path.block,
    )
    return Command(collective=path.collective, partition=partition, destination=1 << 16)


def on_rtl(path: Scenario) -> Run:
    """The run of a path on compiled engines."""
    config = _config(path)
    settings = RingSettings(
        nodes=path.nodes, latency_cycles=path.latency_cycles, queues=path.queues,
        memory_bytes=1 << 17,
    )
    cluster = RingCluster(config, settings, record_beats=True, bucket_cycles=1)
    begin = cluster.system.cycle
    commands = [_command(path)] * path.commands
    tickets = [queue_steps(cluster, node, path.steps, commands) for node in cluster.system.nodes]
    cluster.system.run()
    memory = [cluster.system.memory_activity(0, port) for port in range(config.memory_ports)]
    beats = [cluster.system.link_activity(0, port).beat_cycles for port in range(2)]
    reads = [np.flatnonzero(m.read_bytes_per_bucket) for m in memory]
    writes = [np.flatnonzero(m.written_bytes_per_bucket) for m in memory]
    return Run(
        steps=[ticket.cycle - begin for ticket in tickets[0]],
        beats=(
            (beats[0][beats[0] >= begin] - begin).tolist(),
            (beats[1][beats[1] >= begin] - begin).tolist(),
        ),
        last_load=int(np.concatenate(reads).max()) - begin,
        last_store=int(np.concatenate(writes).max()) - begin,
    )


def on_model(path: Scenario, table: Latencies) -> Run:
    """The run of a path on the model."""
    around = Surroundings(nodes=path.nodes, latency_cycles=path.latency_cycles, queues=path.queues)
    model = EngineModel(
        _config(path), around, [_command(path)] * path.commands,
        [model_script(path.steps)] * path.nodes, latencies=table, trace=True,
    )
    model.run()
    return Run(
        steps=model.steps(0).tolist(),
        beats=(model.beats(0, 0).tolist(), model.beats(0, 1).tolist()),
        last_load=int(model.state.loader["arrives"][0].max()),
        last_store=int(model.state.storer["last_write"][0].max()),
    )


def fit(names: Sequence[str] | None = None) -> Latencies:
    """Measure the latencies called *names* (all by default); the others are taken as stored.

    Raises
    ------
    RuntimeError
        If model and RTL do not come to agree: the engine's structure is no longer the model's.
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
    Path(__file__).with_name("latencies.json").write_text(
        json.dumps(asdict(measured), indent=2) + "\n"
    )
    print(measured)
