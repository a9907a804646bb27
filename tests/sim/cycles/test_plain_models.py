# SPDX-License-Identifier: Apache-2.0
"""Cycle models as plain Python, for a debugger: the same states, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset as ace_preset
from hw.smartnic.config import preset as nic_preset
from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import preset as dma_preset
from sim.cycles import model as base
from sim.cycles.ace import model as of_ace
from sim.cycles.smartnic import model as of_nic
from sim.cycles.switch import model as of_switch
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.messages import MessageModel, ring_messages
from sim.hosts.command import Command
from sim.hosts.script import Compute, Interrupt, Issue, Reached
from sim.hosts.surroundings import Surroundings

RING = Surroundings(
    nodes=3, latency_cycles=5, memory_bytes=1 << 22, fsms=None, link_stalls=0.2, memory_stalls=0.2,
    seed=3,
)
SCRIPTS = [
    (Compute(cycles=30 * n + 1), Issue(command=0), Interrupt(), Reached(count=1)) for n in range(3)
]
SWITCH, DMA = replace(switch_preset("test"), entries=1), dma_preset("test")


def ace():
    command = Command(elements=2000, destination=1 << 20)
    return of_ace.EngineModel(ace_preset("test"), replace(RING, fsms=1), [command], SCRIPTS)


def nic(compress):
    config = nic_preset("100g")
    command = Command(
        elements=5 * config.granule * config.lanes, compress=compress, destination=1 << 20
    )
    return of_nic.NicModel(config, RING, [command], SCRIPTS)


def switch(mode):
    around = of_switch.SwitchSettings(stalls=0.2, timeout_cycles=90)
    job = of_switch.AllReduceJob(elements=300, mode=mode)
    return of_switch.SwitchModel(
        SWITCH, DMA, Fabric.flat(3), around, [job], [[0], [40], [150]]
    )


def software():
    program = ring_messages(3, 2000, channels=2, chunk_bytes=200)
    return MessageModel(SWITCH, DMA, Fabric.flat(3), of_switch.SwitchSettings(), program)


def plain(function, state, *, doing):
    """In place of :func:`sim.native.binding.bind`: fields of records are attributes of rows."""
    made = type(state)(*(a.view(np.recarray) if a.dtype.names else a for a in state))

    def call(*values):
        with np.errstate(over="ignore"):  # hashes wrap
            return int(function(made, *values))

    return call


@pytest.mark.parametrize("make, arguments", [
    (ace, ()), (nic, (False,)), (nic, (True,)), (switch, ("push",)), (switch, ("pull",)),
    (software, ()),
], ids=["ace", "nic", "codec", "push", "pull", "software"])
def test_plain_python_leaves_the_state_that_compiled_code_does(make, arguments, monkeypatch):
    one, other = make(*arguments), make(*arguments)
    one.run()
    monkeypatch.setattr(base, "bind", plain)
    other.run()

    assert one.done and other.done
    assert [a.tobytes() for a in other.state] == [a.tobytes() for a in one.state]
    for array in one.state:
        for name in array.dtype.names or ():
            assert not hasattr(np.recarray, name) and not hasattr(np.record, name)
