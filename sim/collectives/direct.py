# SPDX-License-Identifier: Apache-2.0
"""Direct: every member sends to all others at once, in either half; the network routes."""

import itertools

from sim.collectives.algorithm import Algorithm, Group, Round, Shift
from sim.workload.graph import CollectiveKind

__all__ = ["DIRECT"]


def _everyone(group: Group) -> tuple[Shift, ...]:
    # The first dimension varies slowest.
    offsets = itertools.product(*(range(size) for size in group.shape))
    return tuple(Shift(each) for each in offsets if any(each))


def _reduce_scatter(group: Group) -> tuple[Round, ...]:
    return (Round(to=_everyone(group), send=lambda at: at.peer, reduce=True, on_arrival=True),)


def _all_gather(group: Group) -> tuple[Round, ...]:
    return (Round(to=_everyone(group), send=lambda at: at.rank),)


def _all_to_all(group: Group) -> tuple[Round, ...]:
    return (Round(to=_everyone(group), send=lambda at: at.rank * group.size + at.peer),)


DIRECT = Algorithm(
    name="direct",
    collectives={
        CollectiveKind.REDUCE_SCATTER: _reduce_scatter,
        CollectiveKind.ALL_GATHER: _all_gather,
        CollectiveKind.ALL_TO_ALL: _all_to_all,
    },
)
