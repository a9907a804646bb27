# SPDX-License-Identifier: Apache-2.0
"""Groups of NPUs given by their numbers, as dimensions of a shape.

A group is usable when it is a block of the system's mixed-radix numbering: one value of every other
coordinate, all values of its own. Dimensions are split where a group covers part of one, so that
the groups of tensor, data and pipeline parallelism on one system all become sets of dimensions.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TypeAlias

from sim.fields import FieldError
from sim.opened import opening

__all__ = ["Groups", "common_shape", "dimensions_of", "group_spans", "read_groups"]

Groups: TypeAlias = Mapping[str, tuple[int, ...]]
"""Numbers of the NPUs of each group, by its name."""

LARGEST_FILE = 64 << 20


def read_groups(path: str | Path, *, npus: int) -> dict[str, tuple[int, ...]]:
    """The groups in the JSON file *path*: an object with a list of NPUs for each name.

    Raises
    ------
    ValueError
        With the file, if it is anything else or names NPUs beyond *npus*.
    """
    path = opening(path)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"{path}: is larger than the {LARGEST_FILE} bytes allowed")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: must be an object with a list of NPUs for each group")
    groups = {}
    for name, members in content.items():
        if not isinstance(members, list) or not members:
            raise ValueError(f"{path}: group {name!r} must be a list of NPUs, not {members!r}")
        for member in members:
            if isinstance(member, bool) or not isinstance(member, int) or not 0 <= member < npus:
                raise ValueError(
                    f"{path}: group {name!r}: NPU must be 0 .. {npus - 1}, not {member!r}"
                )
        if len(set(members)) != len(members):
            raise ValueError(f"{path}: group {name!r} names an NPU twice")
        groups[name] = tuple(members)
    return groups


def group_spans(members: Sequence[int]) -> list[tuple[int, int]]:
    """The strides and counts that make *members*, smallest stride first.

    ``[0, 1, 8, 9]`` is two NPUs at stride 1, two of these at stride 8.
    """
    numbers = sorted(members)
    first = numbers[0]
    offsets = [number - first for number in numbers]
    spans: list[tuple[int, int]] = []
    size = 1
    while size < len(offsets):
        stride = offsets[size]
        count = 1
        while (count + 1) * size <= len(offsets) and offsets[count * size] == count * stride:
            count += 1
        spans.append((stride, count))
        size *= count
        if count == 1:
            break
    expected = [0]
    for stride, count in spans:
        expected = [step * stride + offset for step in range(count) for offset in expected]
    if expected != offsets:
        raise ValueError(f"NPUs {_listed(numbers)} are not equally spaced in every dimension")
    return spans


def common_shape(shape: tuple[int, ...], groups: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """*shape* with dimensions split so that each of *groups* is a set of whole dimensions."""
    cuts = {1}
    for size in shape:
        cuts.add(max(cuts) * size)
    for members in groups:
        for stride, count in group_spans(members):
            cuts |= {stride, stride * count}
    ordered = sorted(cuts)
    for smaller, larger in pairwise(ordered):
        if larger % smaller:
            raise FieldError(
                "groups",
                f"must fit {' x '.join(map(str, shape))} and each other: one has blocks of "
                f"{smaller} NPUs, another of {larger}"
            )
    if ordered[-1] > prod(shape):
        raise FieldError("groups", f"must stay within the {prod(shape)} NPUs, not {ordered[-1]}")
    split: list[int] = []
    inner = iter([larger // smaller for smaller, larger in pairwise(ordered)])
    for size in shape:
        # Dimensions of size 1 stay, so that positions keep their meaning.
        parts = [1] if size == 1 else []
        while prod(parts) < size:
            parts.append(next(inner))
        split += parts
    return tuple(split)


def dimensions_of(members: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of *shape*, from :func:`common_shape`, in which *members* differ."""
    spans = group_spans(members)
    for stride, count in spans:
        if min(members) // stride % count:
            raise ValueError(
                f"NPUs {_listed(sorted(members))} lie across the blocks of {stride * count} NPUs "
                "that groups of their size are made of"
            )
    inside = [(stride, stride * count) for stride, count in spans]
    found = []
    stride = 1
    for dimension, size in enumerate(shape):
        if size > 1 and any(low <= stride and stride * size <= high for low, high in inside):
            found.append(dimension)
        stride *= size
    return tuple(found)


def _listed(numbers: Sequence[int]) -> str:
    text = ", ".join(map(str, numbers[:8]))
    return f"{text}, ..." if len(numbers) > 8 else text
