# SPDX-License-Identifier: Apache-2.0
"""Orders in which tables, home endpoints and requesters added operands, and the resulting sums.

A sum of FP32 depends on that order. The trace ports of switches and endpoints show it; replayed in
numpy it gives the result bit for bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hw.fp import model
from hw.fp.ops import ReduceOp

__all__ = [
    "Added",
    "Orders",
    "Part",
    "Spot",
    "dtype_of",
    "fold",
    "folded",
    "note_home",
    "note_table",
    "pulled",
    "pushed",
    "replay",
    "switches_between",
]

Spot = tuple[int, int]
Part = tuple[int, int]
"""Source of a packet, and the number of operands in its sum."""

Words = NDArray[Any]

_FOLDS: dict[ReduceOp, Callable[[Words, Words], Words]] = {
    ReduceOp.SUM_F32: partial(model.reduce, "SUM_F32"),
    ReduceOp.MIN_F32: partial(model.reduce, "MIN_F32"),
    ReduceOp.MAX_F32: partial(model.reduce, "MAX_F32"),
    ReduceOp.SUM_I32: np.add,
}


class Orders(Protocol):
    """Logged additions.

    Members
    -------
    taken : dict of (plane, region, address) to list of int
        Sources of operands that were pushed, in the order of the table.
    answers : dict of (switch, region, address, requester, tag) to list of Part
        Parts that each table added to an answer.
    took : dict of (plane, region, address) to dict of int to list of Part
        Parts that endpoints added, by endpoint: the home endpoint, the requester, or all members.
    """

    taken: dict[Any, list[int]]
    answers: dict[Any, list[Part]]
    took: dict[Any, dict[int, list[Part]]]


@dataclass(frozen=True, kw_only=True)
class Added:
    """An operand that became part of a sum, with the names of trace ports (`TAKEN`, `TOOK`)."""

    pull: bool
    region: int
    address: int
    destination: int
    tag: int
    source: int
    count: int


def note_table(log: Orders, switch: int, plane: int | None, of: Any) -> None:
    """Log an operand that a table of *switch* added, from the fields *of* a trace port (`TAKEN`).
    """
    if of.pull:
        key = (switch, of.region, of.address, of.destination, of.tag)
        log.answers.setdefault(key, []).append((of.source, of.count))
    else:
        log.taken.setdefault((plane, of.region, of.address), []).append(of.source)


def note_home(log: Orders, endpoint: int, link: int, region: int, of: Any) -> None:
    """Log a packet that the home store of an endpoint's link added, from the fields *of* its trace
    port (`TOOK`)."""
    key = (link, region, of.address)
    log.took.setdefault(key, {}).setdefault(endpoint, []).append((of.source, of.count))


def dtype_of(op: ReduceOp) -> type:
    """Type of the words that an operation takes."""
    return np.int32 if op is ReduceOp.SUM_I32 else np.float32


def fold(op: ReduceOp, left: Words, right: Words) -> Words:
    """Combine the sum of a table with an operand."""
    with np.errstate(over="ignore"):
        return _FOLDS[op](left, right)


def folded(op: ReduceOp, operands: Sequence[Words]) -> Words:
    """The operands reduced one after the other."""
    total = operands[0]
    for each in operands[1:]:
        total = fold(op, total, each)
    return total


def switches_between(peer: Mapping[Spot, Spot], first: int, last: int) -> list[int]:
    """Switches on the path from *first* to *last*, in reverse order.

    Parameters
    ----------
    peer : dict of (switch, port) to (switch, port)
        Pairs of ports that are joined.
    """
    ways = [[last]]
    for way in ways:
        if way[-1] == first:
            return way
        ways += [[*way, s] for (t, _), (s, _) in peer.items() if t == way[-1] and s not in way]
    raise ValueError("no path")


def replay(
    answers: Mapping[Any, Sequence[Part]],
    path: Callable[[int], Sequence[int]],
    key: tuple[Any, ...],
    part: Part,
    op: ReduceOp,
    values: Mapping[int, Words],
    *,
    beyond: int | None = None,
) -> tuple[Words, list[int]]:
    """The sum in a packet that left a switch, and the endpoints whose operands are in it.

    Parameters
    ----------
    answers : dict
        Parts that each table added, in its order: ``(switch, *key)`` to ``[(source, count)]``.
    path : callable
        Switches from an endpoint to the requester, the requester's first.
    key : tuple
        Region, address, requester and tag of the load.
    part : (source, count)
        That of the packet.
    op : ReduceOp
    values : mapping of endpoint to operand
    beyond : int, optional
        The switch that received the packet; None: the requester did.
    """
    source, count = part
    way = path(source)
    for s in way if beyond is None else way[way.index(beyond) + 1 :]:
        added = answers.get((s, *key), [])
        at = next((k for k, (first, _) in enumerate(added) if first == source), None)
        if at is None:
            continue
        group: list[Part] = []
        while sum(n for _, n in group) < count:
            group.append(added[at + len(group)])
        assert sum(n for _, n in group) == count, "a sum of half a sum"
        parts = [replay(answers, path, key, each, op, values, beyond=s) for each in group]
        return (
            folded(op, [total for total, _ in parts]),
            [endpoint for _, endpoints in parts for endpoint in endpoints],
        )
    assert count == 1, "a sum that no table made"
    return values[source], [source]


def pulled(
    log: Orders,
    path: Callable[[int], Sequence[int]],
    plane: int,
    region: int,
    address: int,
    requester: int,
    op: ReduceOp,
    words: Mapping[int, Words],
) -> Words:
    """The sum of a block that *requester* loaded, *words* being all members' operands."""
    took = log.took.get((plane, region, address))
    assert took is not None, "nobody has loaded it"
    assert list(took) == [requester], "another one has added it"
    key = (region, address, requester, 0)
    parts = [replay(log.answers, path, key, each, op, words) for each in took[requester]]
    seen = sorted(endpoint for _, endpoints in parts for endpoint in endpoints)
    assert seen == sorted(words), "an operand is missing or came twice"
    return folded(op, [total for total, _ in parts])


def pushed(
    log: Orders,
    plane: int,
    region: int,
    address: int,
    op: ReduceOp,
    words: Mapping[int, Words],
) -> Words:
    """The sum of a block that was pushed, *words* being all members' operands.

    If partials were multicast, every member has added them, all in one order.
    """
    key = (plane, region, address)
    order = log.taken.get(key, [])
    assert sorted(order) == sorted(words), "an operand is missing or came twice"
    orders = list(log.took.get(key, {0: [(0, len(words))]}).values())
    assert len(orders) in (1, len(words)), "some members have added it, and some have not"
    assert all(each == orders[0] for each in orders), "members have added it in different orders"
    counts = [count for _, count in orders[0]]
    assert sum(counts) == len(words)
    sums = []
    for count in counts:
        sums.append(folded(op, [words[k] for k in order[:count]]))
        order = order[count:]
    return folded(op, sums)
