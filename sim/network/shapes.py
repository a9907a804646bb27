# SPDX-License-Identifier: Apache-2.0
"""Shapes that split each other: dimensions of a job as parts of those of a network."""

from collections.abc import Collection, Sequence
from math import prod
from typing import NamedTuple

__all__ = ["ShapePart", "coarsest", "parts_within", "split_into"]


class ShapePart(NamedTuple):
    """A part of dimension ``within``; ``whole``: all of it."""

    within: int
    whole: bool


def split_into(shape: tuple[int, ...], split: tuple[int, ...]) -> list[tuple[int, ...]]:
    """For each dimension of *shape*, the numbers of those of *split* that are its parts.

    Raises
    ------
    ValueError
        If *split* does not consist of parts of *shape* alone.
    """
    found = []
    position = 0
    for size in shape:
        start = position
        while position < len(split) and (
            position == start or prod(split[start:position]) < size
        ):
            position += 1
        if prod(split[start:position]) != size or position == start:
            break
        found.append(tuple(range(start, position)))
    if len(found) != len(shape) or any(size != 1 for size in split[position:]):
        raise ValueError(f"{_text(split)} does not split the dimensions of {_text(shape)}")
    found[-1] += tuple(range(position, len(split)))
    return found


def coarsest(
    split: tuple[int, ...], parts: Sequence[tuple[int, ...]], chosen: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shape of fewest dimensions in which *chosen* ones of *split* are whole dimensions.

    ``parts`` are those of :func:`split_into`; parts of different dimensions stay apart. Returns
    the shape, the dimension of which each one is a part, and which of them are chosen.
    """
    shape: list[int] = []
    origins: list[int] = []
    inside: list[int] = []
    for origin, of in enumerate(parts):
        before: bool | None = None
        for each in [part for part in of if split[part] > 1] or of[:1]:
            taken = each in chosen
            if taken is not before:
                shape.append(1)
                origins.append(origin)
                if taken:
                    inside.append(len(shape) - 1)
            shape[-1] *= split[each]
            before = taken
    return tuple(shape), tuple(origins), tuple(inside)


def parts_within(split: tuple[int, ...], shape: tuple[int, ...]) -> tuple[ShapePart | None, ...]:
    """For each dimension of *split*, the dimension of *shape* that it is a part of, if its members
    are equally spaced in one; sizes multiply to the same number."""
    if split == shape:
        return tuple(ShapePart(within=each, whole=True) for each in range(len(shape)))
    found: list[ShapePart | None] = []
    stride = 1
    for size in split:
        part = None
        below = 1
        for within, whole in enumerate(shape):
            above = below * whole
            fits = stride % below == 0 and above % (stride * size) == 0
            if size > 1 and fits and below <= stride and stride * size <= above:
                part = ShapePart(within=within, whole=size == whole)
            below = above
        found.append(part)
        stride *= size
    return tuple(found)


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
