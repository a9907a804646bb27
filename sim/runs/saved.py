# SPDX-License-Identifier: Apache-2.0
"""Runs to and from folders, at the public door: their results are a `Run`."""

from sim.results import store
from sim.runs.result import Run, returning_a_run

__all__ = ["load_run", "save_run"]

load_run = returning_a_run(store.load_run, lambda saved, _: Run(saved))
save_run = returning_a_run(store.save_run, lambda saved, _: Run(saved))
