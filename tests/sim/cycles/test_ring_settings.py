# SPDX-License-Identifier: Apache-2.0
"""Settings, commands and scripts of a ring: every field is checked, and named in one line."""

import re

import numpy as np
import pytest

from hw.common.axi import aligned
from sim.hosts.command import Command
from sim.hosts.script import Compute, Issue, Reached, check_scripts
from sim.hosts.surroundings import Surroundings
from sim.workload.graph import CollectiveKind


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"nodes": 1}, "nodes must be an integer at least 2, not 1"),
        ({"nodes": "4"}, "nodes must be an integer at least 2, not '4'"),
        ({"nodes": True}, "nodes must be an integer at least 2, not True"),
        ({"latency_cycles": 0}, "latency_cycles must be an integer at least 1, not 0"),
        ({"latency_cycles": 1.5}, "latency_cycles must be an integer at least 1, not 1.5"),
        ({"read_latency_cycles": -1}, "read_latency_cycles must be an integer at least 1, not -1"),
        ({"write_latency_cycles": 0}, "write_latency_cycles must be an integer at least 1, not 0"),
        ({"link_stalls": 2.0}, "link_stalls must be at least 0 and below 1, not 2.0"),
        ({"memory_stalls": "no"}, "memory_stalls must be at least 0 and below 1, not 'no'"),
        ({"host_stalls": float("nan")}, "host_stalls must be at least 0 and below 1, not nan"),
        ({"beats_per_cycle": 0}, "beats_per_cycle must be above 0 and at most 1, not 0"),
        ({"host_bytes_per_cycle": 0}, "host_bytes_per_cycle must be above 0 or None, not 0"),
        ({"memory_bytes": 0}, "memory_bytes must be an integer at least 128, not 0"),
        ({"memory_bytes": 1000}, "memory_bytes must be a multiple of 128, not 1000"),
        ({"fsms": 0}, "fsms must be an integer at least 1, not 0"),
        ({"bidirectional": "no"}, "bidirectional must be True or False, not 'no'"),
        ({"seed": -1}, f"seed must be an integer from 0 to {2**64 - 1}, not -1"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Surroundings(**({"nodes": 4} | changes))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"elements": 0}, "elements must be an integer from 1 to 4294967295, not 0"),
        ({"source": -4}, f"source must be an integer from 0 to {2**64 - 1}, not -4"),
        ({"op": "sum"}, "op must be one of ReduceOp.SUM_F32, ReduceOp.MIN_F32, "),
        ({"collective": 0}, "collective must be one of CollectiveKind.ALL_REDUCE, "),
    ],
)
def test_bad_commands_are_refused(changes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Command(**({"elements": 4} | changes))


def test_settings_and_commands_take_numbers_of_numpy():
    assert Surroundings(nodes=np.int64(4), link_stalls=np.float32(0.5)).nodes == 4
    command = Command(
        collective=CollectiveKind.ALL_GATHER,
        elements=np.int64(3),
        source=128,
        destination=aligned(129),
    )
    assert command.end == 256 + 12


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Compute(cycles=-1), "cycles must be an integer at least 0, not -1"),
        (lambda: Compute(cycles=0.5), "cycles must be an integer at least 0, not 0.5"),
        (lambda: Issue(command=None), "command must be an integer at least 0, not None"),
    ],
)
def test_bad_steps_are_refused(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


@pytest.mark.parametrize(
    "scripts, message",
    [
        ([[]], "scripts must be one per rank (2), not 1"),
        ([[], [Issue(command=1)]], "the script of rank 1 must issue commands 0 to 1 in order, "),
        ([[Issue(command=0)] * 2, []], "the script of rank 0 must issue commands 0 to 1 in order"),
        ([[Reached(count=3)], []], "the script of rank 0 must wait for at most 2 completions"),
    ],
)
def test_scripts_that_do_not_fit_are_refused(scripts, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check_scripts(scripts, nodes=2, commands=2)


def test_scripts_that_fit_are_taken():
    script = [Issue(command=0), Compute(cycles=3), Issue(command=1), Reached(count=2)]
    check_scripts([script, script[:1]], nodes=2, commands=2)
