"""The points of sweeps over training systems."""

from typing import Any

from sim.describe.reader import ConfigError
from sim.sweep.points import Metrics

__all__ = ["TRAINING", "training_metrics"]

TRAINING = "sim.sweep.training:training_metrics"


def training_metrics(config: dict[str, Any], *, source: str) -> Metrics:
    """Run the training system that *config* describes; its numbers, the same on every machine."""
    # Importing these loads the compiled kernel, which only the processes that run points need.
    from sim.describe.system import is_training_system
    from sim.run import run_description

    if not is_training_system(config):
        raise ConfigError(f"{source}: has no [workload] or [astra]: a sweep runs training systems")
    return dict(run_description(config, source=source).metrics)
