# SPDX-License-Identifier: Apache-2.0
"""Order of the phases of a collective over several dimensions, by style."""

from collections.abc import Sequence

from sim.workload.graph import CollectiveKind

__all__ = ["BY_DIMENSION", "joined_steps", "phase_steps"]

BY_DIMENSION = ("baseline", "enhanced", "dimension_ordered", "multi_colour", "halves")
"""Styles whose phases go through one dimension each, on any network."""


def phase_steps(
    order: Sequence[int], kind: CollectiveKind, style: str
) -> list[tuple[int, CollectiveKind]]:
    """Pairs of dimension and collective, in the order in which they are done.

    Parameters
    ----------
    order : sequence of int
        Dimensions, in the order in which data are reduced.
    kind : CollectiveKind
    style : str
        One of `BY_DIMENSION`.
    """
    whole = CollectiveKind.ALL_REDUCE
    scatter = [(d, CollectiveKind.REDUCE_SCATTER) for d in order]
    gather = [(d, CollectiveKind.ALL_GATHER) for d in reversed(order)]
    if kind is CollectiveKind.REDUCE_SCATTER:
        return scatter
    if kind is CollectiveKind.ALL_GATHER:
        return gather
    if kind is not whole or style == "baseline" or (len(order) < 2 and style != "halves"):
        return [(d, kind) for d in order]
    if style == "enhanced":
        return [scatter[0], *((d, whole) for d in order[1:]), gather[-1]]
    if style in ("multi_colour", "halves"):
        # Separate halves queue separately in the last dimension, which keeps all dimensions busy.
        return scatter + gather
    return [*scatter[:-1], (order[-1], whole), *gather[1:]]


def joined_steps(
    order: Sequence[int], kind: CollectiveKind, style: str, *, gather_backwards: bool
) -> list[tuple[int, CollectiveKind]]:
    """The same, with halves that meet in a dimension as one all-reduce where they go on in the same
    direction: the phases of programs."""
    halves = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
    made: list[tuple[int, CollectiveKind]] = []
    for step in phase_steps(order, kind, style):
        meet = made and (made[-1], step) == ((step[0], halves[0]), (step[0], halves[1]))
        if meet and not gather_backwards and style != "halves":
            made[-1] = (step[0], CollectiveKind.ALL_REDUCE)
        else:
            made.append(step)
    return made
