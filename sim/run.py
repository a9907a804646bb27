"""Run the training system that a description describes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.describe.build import System, build
from sim.describe.reader import ConfigError, TomlReader
from sim.describe.sections import Description
from sim.describe.system import describe, read
from sim.events.record import RunRecord
from sim.units import FS_PER_S
from sim.workload.graph import Job

__all__ = ["RunResult", "run_description"]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One run.

    ``metrics`` are plain numbers, the same on every machine:

    ==========================  =========================================================
    ``time_s``                  until the last NPU has finished
    ``iteration_s``             the same over the training iterations
    ``compute_s``               mean over NPUs, as are the following
    ``exposed_s``               waiting for communication
    ``delay_s``, ``idle_s``     waiting for anything else; finished before others
    ``exposed_percent``         of the whole time
    ``sent_bytes``              over links, mean over NPUs
    ``sent_bytes_per_s``        the same over the whole time
    ``link_percent``            time that links are busy, of the most loaded dimension
    ``nodes``, ``folded``       NPUs; 1 where one was simulated for all
    ``events``, ``messages``    of the simulation
    ==========================  =========================================================
    """

    description: Description
    system: System
    record: RunRecord
    metrics: Mapping[str, float]

    @property
    def job(self) -> Job:
        return self.system.job


def run_description(
    config: Mapping[str, Any] | str | Path,
    *,
    source: str | None = None,
) -> RunResult:
    """Run the training system of *config*: a file, or what such a file holds as a dictionary.

    Parameters
    ----------
    source
        What errors call a dictionary; files that it names are relative to the folder of that path.

    Raises
    ------
    ConfigError
        Naming file, line if known, key, value and what is allowed.
    SimulationError
        If the system cannot finish: its nodes wait for each other.
    """
    # Compiling takes a second the first time, loading what was compiled a tenth.
    from sim.events.simulate import simulate

    if isinstance(config, Mapping):
        folder = Path(source).parent if source else Path()
        description = describe(config, reader=TomlReader(source or "system"), folder=folder)
    else:
        description = read(config)
    system = build(description)
    try:
        record = simulate(
            system.network,
            system.job,
            endpoint=system.endpoint,
            scheduler=system.scheduler,
            algorithms=system.algorithms,
            **system.options,
        )
    except ConfigError:
        raise
    except (ValueError, ArithmeticError) as error:
        # Parts that are right by themselves and do not fit together.
        raise ConfigError(f"{description.reader.source}: {error}") from error
    return RunResult(
        description=description,
        system=system,
        record=record,
        metrics=_metrics(description, system, record),
    )


def _metrics(description: Description, system: System, record: RunRecord) -> dict[str, float]:
    from sim.results.breakdown import break_down

    compute, exposed, delay, idle = (break_down(record, system.job).mean_fs / FS_PER_S).tolist()
    time_s = record.end_fs / FS_PER_S
    rows = 1 if record.folded else record.nodes
    sent = float(record.link_bytes.sum()) / rows
    busy = [0.0]
    for dimension in range(len(system.network.dimensions)):
        chosen = [i for i, link in enumerate(record.links) if link.dimension == dimension]
        if chosen:
            busy.append(float(record.link_busy_fs[chosen].mean()))
    return {
        "time_s": time_s,
        "iteration_s": time_s / description.run.passes,
        "compute_s": compute,
        "exposed_s": exposed,
        "delay_s": delay,
        "idle_s": idle,
        "exposed_percent": 100 * exposed / time_s if time_s else 0.0,
        "sent_bytes": sent,
        "sent_bytes_per_s": sent / time_s if time_s else 0.0,
        "link_percent": 100 * max(busy) / record.end_fs if record.end_fs else 0.0,
        "nodes": float(math.prod(system.network.shape)),
        "folded": float(record.folded),
        "events": float(record.events),
        "messages": float(record.messages.sum()),
    }
