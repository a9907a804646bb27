# SPDX-License-Identifier: Apache-2.0
"""An all-reduce through RTL switches that one endpoint gives up."""

import pytest

from sim.rtl.errors import GivenUpError
from sim.rtl.switch.fabric import SwitchFabric


def give_up(config, settings, command, data, *, after_cycles):
    """The fabric of *config* after software of endpoint 2 has aborted *command* and all know it.

    *data*: operands by rank.
    """
    fabric = SwitchFabric(config, settings)
    for rank, node in enumerate(fabric.nodes):
        fabric.store(node, command, data[rank])
        fabric.start(node, command)
    fabric.next_collective()
    fabric.system.advance(fabric.system.cycle + after_cycles)
    fabric.write(fabric.nodes[2], "control", abort=1)
    waits = [fabric.wait(node) for node in fabric.nodes]
    fabric.system.run()
    assert all(wait.done for wait in waits)
    for rank, node in enumerate(fabric.nodes):
        with pytest.raises(GivenUpError, match=rf"^endpoint {rank} reports: .*at endpoint 2"):
            fabric.acknowledge(rank, node)
    return fabric
