# SPDX-License-Identifier: Apache-2.0
"""Simulations of a network and a job that are made in Python: their result is a `Run`."""

from collections.abc import Mapping
from typing import Any

from sim.events import simulate as events
from sim.events.lower import job_network
from sim.events.record import RunRecord
from sim.runs.result import Run, RunParts, returning_a_run

__all__ = ["simulate"]


def _run(record: RunRecord, arguments: Mapping[str, Any]) -> Run:
    job = arguments["job"]
    network = job_network(arguments["network"], job)
    return Run(RunParts(record=record, job=job, network=network))


simulate = returning_a_run(events.simulate, _run)
