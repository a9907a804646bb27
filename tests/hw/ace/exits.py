# SPDX-License-Identifier: Apache-2.0
"""Collectives that are left unfinished, what every rank says of them, and the way back."""

from hw.ace.registers import INTERRUPTS
from sim.hosts.command import Command

__all__ = ["assert_exact", "outcomes", "recover", "start"]

DESTINATION = 1 << 15


def start(cluster, arrays, *, after=lambda rank: 0, change=lambda rank, command: command):
    """Start an all-reduce on all nodes without waiting for its end; *change* makes the command of
    a rank another one."""
    command = Command(elements=len(arrays[0]), destination=DESTINATION)
    for rank, (node, array) in enumerate(zip(cluster.system.nodes, arrays, strict=True)):
        node.memory[: array.nbytes] = array.view("uint8")
        node.memory[DESTINATION:] = 0xA5
        node.delay(after(rank))
        cluster.start(node, change(rank, command))
    cluster.next_collective()


def outcomes(cluster, arrays, *, watchdog=2000, **options):
    """Run an all-reduce to its end, or until watchdogs find that it has none; return what each rank
    reports besides ``done``, after a look at the data of those that are done and report no failure.
    """
    for node in cluster.system.nodes:
        cluster.write(node, "watchdog", cycles=watchdog)
    start(cluster, arrays, **options)
    for node in cluster.system.nodes:
        node.wait_irq()
        node.delay(watchdog // 2)  # packets, and words of what happened, that are under way
    cluster.system.run(max_cycles=100_000, drain=False)
    golden, found = cluster.golden(arrays), []
    for rank, node in enumerate(cluster.system.nodes):
        causes = {name for name, on in cluster.read(node, "interrupt").items() if on}
        assert causes, f"rank {rank} says nothing"
        if "done" in causes and not causes & {"failed", "stalled"}:
            end = DESTINATION + golden.nbytes
            assert node.memory[DESTINATION:end].tobytes() == golden.tobytes(), f"rank {rank}"
        found.append(causes - {"done"})
    return found


def recover(cluster, *, after=lambda rank: 0, again=None):
    """The procedure that the control register asks for; interrupts are cleared as well.

    *after* are the cycles until a rank aborts, *again* those from there until it aborts once more.
    """
    epoch = cluster.read(cluster.system.nodes[0], "status")["epoch"]
    for rank, node in enumerate(cluster.system.nodes):
        for turn, cycles in enumerate([after] if again is None else [after, again]):
            node.delay(cycles(rank))
            cluster.write(node, "control", abort=1, epoch=(epoch + 1 + turn) % 8)
    cluster.system.run(drain=False)
    for node in cluster.system.nodes:
        node.wait_register(cluster.registers.offset("status"), mask=1, value=1)
    cluster.system.run(max_cycles=20_000)
    for node in cluster.system.nodes:
        cluster.write(node, "interrupt", **dict.fromkeys(INTERRUPTS, 1))
    cluster.system.run(drain=False)
    for node in cluster.system.nodes:
        cluster.records(node)
        status = cluster.read(node, "status")
        assert {name for name, value in status.items() if value} - {"epoch"} == {"idle"}


def assert_exact(cluster, arrays):
    """An all-reduce gives every rank the golden result."""
    golden = cluster.golden(arrays)
    for got in cluster.all_reduce(arrays, max_cycles=200_000):
        assert got.tobytes() == golden.tobytes()
