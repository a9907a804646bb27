"""Run the training system that a description describes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.describe.build import System, build
from sim.describe.reader import ConfigError, TomlReader
from sim.describe.sections import Description
from sim.describe.system import describe, read
from sim.events.record import RunRecord
from sim.workload.graph import Job

__all__ = ["RunResult", "run_description"]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One run; ``metrics`` are those of `sim.results.metrics`, the same on every machine."""

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
    from sim.results.breakdown import break_down
    from sim.results.metrics import metrics

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
        metrics=metrics(break_down(record, system.job)),
    )
