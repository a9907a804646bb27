# SPDX-License-Identifier: Apache-2.0
"""The points of sweeps: runs of descriptions, at any level."""

from typing import Any

from sim.sweep.points import Metrics

__all__ = ["RUNNER", "run_metrics"]

RUNNER = "sim.sweep.training:run_metrics"


def run_metrics(config: dict[str, Any], *, source: str) -> Metrics:
    """Run the system of *config*; return its numbers, the same on every machine, and the unit that
    limits it."""
    # Importing this loads the compiled kernel, which only the processes that run points need.
    from sim.run import run

    done = run(config, source=source)
    return {**done.metrics, "limited_by": done.limited_by}
