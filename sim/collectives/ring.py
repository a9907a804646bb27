# SPDX-License-Identifier: Apache-2.0
"""The ring: every member sends to the next one, k - 1 steps for each half of an all-reduce.

In the reduce-scatter block b starts at the member after b, every member on its way adds its own,
and it ends at member b. The all-gather takes it round once more (ACE, section 4.2, figure 7).
"""

import numpy as np

from sim.collectives.algorithm import Algorithm, Group, Neighbour, Round
from sim.workload.graph import CollectiveKind

__all__ = ["ADDING_RING", "NIC_RING", "RELAY", "RING"]


def _reduce_scatter(
    group: Group, ahead: int = 0, on_arrival: bool = False
) -> tuple[Round, ...]:
    size, way = group.size, group.way
    send = Round(
        to=Neighbour(way),
        send=lambda at: (at.rank + way * (ahead - 1 - at.step)) % size,
        reduce=True,
        times=size - 1,
        on_arrival=on_arrival,
    )
    return (send,)


def _all_gather(group: Group, ahead: int = 0) -> tuple[Round, ...]:
    size, way = group.size, group.way
    send = Round(
        to=Neighbour(way),
        send=lambda at: (at.rank + way * (ahead - at.step)) % size,
        times=size - 1,
    )
    return (send,)


def _all_to_all(group: Group) -> tuple[Round, ...]:
    """Store and forward: in step s a member passes on the k - s blocks that have further to go."""
    size, way = group.size, group.way

    def relay(step: int) -> Round:
        further = np.arange(step, size)
        return Round(
            to=Neighbour(way),
            send=lambda at: (
                (at.rank + way * (1 - step)) % size * size
                + (at.rank + way * (1 - step + further)) % size
            ),
        )

    return tuple(relay(step) for step in range(1, size))


def _all_to_all_singly(group: Group) -> tuple[Round, ...]:
    """The same, one block at a time: k (k - 1) / 2 steps, each after the one before."""
    size, way = group.size, group.way

    def relay(step: int) -> Round:
        return Round(
            to=Neighbour(way),
            send=lambda at: (
                (at.rank + way * (1 - step)) % size * size
                + (at.rank + way * (1 + at.step)) % size
            ),
            times=size - step,
        )

    return tuple(relay(step) for step in range(1, size))


RING = Algorithm(
    name="ring",
    collectives={
        CollectiveKind.REDUCE_SCATTER: _reduce_scatter,
        CollectiveKind.ALL_GATHER: _all_gather,
        CollectiveKind.ALL_TO_ALL: _all_to_all,
    },
)

# Data are added on arrival, whether or when they are sent on: the smart NIC at level events.
ADDING_RING = Algorithm(
    name="adding_ring",
    collectives={
        CollectiveKind.REDUCE_SCATTER: lambda group: _reduce_scatter(group, on_arrival=True),
        CollectiveKind.ALL_GATHER: _all_gather,
    },
)

# ASTRA-sim's all-to-all on a ring.
RELAY = Algorithm(
    name="relay", collectives={CollectiveKind.ALL_TO_ALL: _all_to_all_singly}
)

# The smart NIC numbers a block by its start: it starts at member b, and the member before b
# completes it.
NIC_RING = Algorithm(
    name="nic_ring",
    collectives={
        CollectiveKind.ALL_REDUCE: lambda group: (
            *_reduce_scatter(group, ahead=1),
            *_all_gather(group, ahead=1),
        )
    },
)
