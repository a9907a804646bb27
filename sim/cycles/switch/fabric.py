# SPDX-License-Identifier: Apache-2.0
"""Places of switches and endpoints, and the tables that software writes into the switches."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

__all__ = ["Fabric", "Spot"]

Spot = tuple[int, int]
"""A port: number of the switch, number of the port."""

_GROUP = 8  # endpoints of a switch, and links up from it


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """Switches of one or several planes, and the trees of their regions.

    Parameters
    ----------
    places : list of list of Spot
        For each endpoint, the port where each of its links ends; link *k* in plane *k*.
    cables : list of (Spot, Spot)
        Links between switches.
    trees : list of list of sequences of int
        For each region and switch, the ports of the region's tree.
    homes : list of sequences of int
        For each region, the home endpoints of successive blocks, leaf after leaf in turn.
    routes : list of list of int
        For each switch and endpoint of its plane, the port that leads there; -1 for none.
    """

    places: list[list[Spot]]
    cables: list[tuple[Spot, Spot]]
    trees: list[list[Sequence[int]]]
    homes: list[Sequence[int]]
    routes: list[list[int]]

    @property
    def switches(self) -> int:
        """Number of switches."""
        return len(self.routes)

    def behind(self) -> Callable[[int, Spot], int]:
        """Function of region and port: number of endpoints behind the link in the region's tree."""
        reached = self.reached()
        return lambda region, spot: len(reached(region, spot))

    def reached(self) -> Callable[[int, Spot], Sequence[int]]:
        """Function of region and port: the endpoints behind the link in the region's tree."""
        peers = {a: b for cable in self.cables for a, b in (cable, cable[::-1])}
        ends = {spot: rank for rank, spots in enumerate(self.places) for spot in spots}

        @cache
        def found(region: int, spot: Spot) -> Sequence[int]:
            if spot not in peers:
                return [ends[spot]] if spot in ends else []
            w, back = peers[spot]
            return [
                rank for p in self.trees[region][w] if p != back for rank in found(region, (w, p))
            ]

        return found

    @classmethod
    def flat(cls, members: int, *, planes: int = 1) -> "Fabric":
        """All endpoints at one switch per plane."""
        return cls(
            places=[[(k, e) for k in range(planes)] for e in range(members)],
            cables=[],
            trees=[[range(members)] * planes],
            homes=[range(members)],
            routes=[list(range(members)) for _ in range(planes)],
        )

    @classmethod
    def two_levels(cls, members: int, *, leaf: int, planes: int = 1) -> "Fabric":
        """Up to *leaf* endpoints at a switch, and one switch above these, per plane."""
        leaves = -(-members // leaf)
        count = leaves + 1  # switches of a plane; the root is the last
        tree: list[Sequence[int]] = [
            [*range(min(leaf, members - leaf * k)), leaf] for k in range(leaves)
        ]
        tree.append(range(leaves))
        routes = [
            [e % leaf if e // leaf == k else leaf for e in range(members)] for k in range(leaves)
        ] + [[e // leaf for e in range(members)]]
        return cls(
            places=[[(k * count + e // leaf, e % leaf) for k in range(planes)]
                    for e in range(members)],
            cables=[((k * count + each, leaf), (k * count + leaves, each))
                    for k in range(planes) for each in range(leaves)],
            trees=[tree * planes],
            homes=[_by_turns(range(members), leaf)],
            routes=routes * planes,
        )

    @classmethod
    def pair(cls, leaf: int, *, cables: int, planes: int = 1) -> "Fabric":
        """Two groups of *leaf* endpoints; two switches per plane, joined by *cables* links.

        A region's tree has one link between the groups, so there are as many regions as cables.
        """
        endpoints = range(2 * leaf)
        return cls(
            places=[[(2 * k + e // leaf, e % leaf) for k in range(planes)] for e in endpoints],
            cables=[((2 * k, leaf + r), (2 * k + 1, leaf + r))
                    for k in range(planes) for r in range(cables)],
            trees=[[[*range(leaf), leaf + r]] * (2 * planes) for r in range(cables)],
            homes=[_by_turns((e for e in endpoints if e % leaf % cables == r), leaf)
                   for r in range(cables)],
            routes=[[e % leaf if e // leaf == group else leaf + e % leaf % cables
                     for e in endpoints]
                    for _ in range(planes) for group in range(2)],
        )

    @classmethod
    def dgx_2(cls, *, planes: int = 6) -> "Fabric":
        """16 endpoints in two groups; two switches per plane, joined by eight links."""
        return cls.pair(_GROUP, cables=_GROUP, planes=planes)

    @classmethod
    def spines(
        cls, endpoints: int, *, leaf: int, cables: int, ports: int, planes: int = 1
    ) -> "Fabric":
        """Two levels of switches with *ports* ports; *leaf* endpoints at each of the lower ones,
        from which *cables* links lead up.

        The tree of each of the *cables* regions has another link up from every leaf.
        """
        leaves = endpoints // leaf
        roots = -(-cables // (ports // leaves))
        count = leaves + roots
        places = [[(k * count + e // leaf, e % leaf) for k in range(planes)]
                  for e in range(endpoints)]
        joins, trees = [], []
        for r in range(cables):
            root, row = r % roots, r // roots * leaves
            joins += [((k * count + each, leaf + r), (k * count + leaves + root, row + each))
                      for k in range(planes) for each in range(leaves)]
            tree: list[Sequence[int]] = [[*range(leaf), leaf + r]] * leaves
            tree += [range(row, row + leaves) if each == root else () for each in range(roots)]
            trees.append(tree * planes)
        way = [e % leaf % cables for e in range(endpoints)]
        routes = [
            [e % leaf if e // leaf == each else leaf + way[e] for e in range(endpoints)]
            for each in range(leaves)
        ]
        routes += [
            [way[e] // roots * leaves + e // leaf if way[e] % roots == root else -1
             for e in range(endpoints)]
            for root in range(roots)
        ]
        return cls(
            places=places, cables=joins, trees=trees, routes=routes * planes,
            homes=[_by_turns((e for e in range(endpoints) if way[e] == r), leaf)
                   for r in range(cables)],
        )

    @classmethod
    def fat_tree(cls, endpoints: int, *, planes: int = 6) -> "Fabric":
        """Two levels of switches with 16 ports, 64 or 128 endpoints; 8 at a leaf of each plane."""
        return cls.spines(endpoints, leaf=_GROUP, cables=_GROUP, ports=2 * _GROUP, planes=planes)


def _by_turns(endpoints: Iterable[int], leaf: int) -> list[int]:
    """One endpoint of each leaf, then the next of each. So operands of successive blocks go to
    different leaves, and where switches have fewer rows than homes, the rows name all leaves."""
    return sorted(endpoints, key=lambda e: (e % leaf, e // leaf))
