# SPDX-License-Identifier: Apache-2.0
"""The kernel, loaded from its object code, leaves Numba's own functions alone."""

import subprocess
import sys

PROGRAM = """
import sys
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.analytic.smartnic_system import NicSystem, trace_job
from sim.analytic.smartnic import Mlp, Worker
from sim.events.simulate import simulate

system = NicSystem(nodes=2, endpoint=SmartNicEndpoint())
job = trace_job(Mlp(layers=1, width=64, batch=1), Worker(flops_per_s=1e9, update_bytes_per_s=1e9))
simulate(system.network, job, **system.parts())
early = "numba" in sys.modules

import numba
import numpy as np

@numba.njit
def pair(count, values):
    made = np.zeros(count)
    for index in range(count):
        made[index] = values[index]
    if count > 5:
        raise ValueError("too many")
    return made, made.copy()

print(early, pair(3, np.arange(5))[1].sum())
"""


def run() -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr[-400:]


def test_numba_works_after_a_simulation_that_did_not_import_it():
    run()  # compiles, if this is the first use
    assert run() == "False 3.0"
