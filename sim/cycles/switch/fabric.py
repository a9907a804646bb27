"""Where switches and endpoints are, and what software writes into the tables of the switches."""

from collections.abc import Callable, Sequence
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
        Of each endpoint, where each of its links ends; link *k* in plane *k*.
    cables : list of (Spot, Spot)
        Between switches.
    trees : list of list of sequences of int
        Of each region and switch, the ports of the region's tree.
    homes : list of sequences of int
        Of each region, the home endpoints of successive blocks.
    routes : list of list of int
        Of each switch and endpoint of its plane, the port that leads there; -1 for none.
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
        """Of a region and a port: how many endpoints the link leads to, in the region's tree."""
        peers = {a: b for cable in self.cables for a, b in (cable, cable[::-1])}
        ends = {spot for spots in self.places for spot in spots}

        @cache
        def count(region: int, spot: Spot) -> int:
            if spot not in peers:
                return int(spot in ends)
            w, back = peers[spot]
            return sum(count(region, (w, p)) for p in self.trees[region][w] if p != back)

        return count

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
            homes=[range(members)],
            routes=routes * planes,
        )

    @classmethod
    def dgx_2(cls, *, planes: int = 6) -> "Fabric":
        """16 endpoints in two groups; two switches per plane, joined by eight links.

        A region's tree has one link between the groups, so there are eight regions.
        """
        endpoints = range(2 * _GROUP)
        return cls(
            places=[[(2 * k + e // _GROUP, e % _GROUP) for k in range(planes)]
                    for e in endpoints],
            cables=[((2 * k, _GROUP + r), (2 * k + 1, _GROUP + r))
                    for k in range(planes) for r in range(_GROUP)],
            trees=[[[*range(_GROUP), _GROUP + r]] * (2 * planes) for r in range(_GROUP)],
            homes=[[r, r + _GROUP] for r in range(_GROUP)],
            routes=[[e % _GROUP + (0 if e // _GROUP == group else _GROUP) for e in endpoints]
                    for _ in range(planes) for group in range(2)],
        )

    @classmethod
    def fat_tree(cls, endpoints: int, *, planes: int = 6) -> "Fabric":
        """Two levels of switches with 16 ports, 64 or 128 endpoints; 8 at a leaf of each plane.

        The tree of each of the eight regions has another link up from every leaf.
        """
        leaves = endpoints // _GROUP
        roots = leaves // 2
        count = leaves + roots
        places = [[(k * count + e // _GROUP, e % _GROUP) for k in range(planes)]
                  for e in range(endpoints)]
        cables, trees = [], []
        for r in range(_GROUP):
            root, row = r % roots, r // roots * leaves
            cables += [((k * count + leaf, _GROUP + r), (k * count + leaves + root, row + leaf))
                       for k in range(planes) for leaf in range(leaves)]
            tree: list[Sequence[int]] = [[*range(_GROUP), _GROUP + r]] * leaves
            tree += [range(row, row + leaves) if each == root else () for each in range(roots)]
            trees.append(tree * planes)
        routes = [
            [e % _GROUP + (0 if e // _GROUP == leaf else _GROUP) for e in range(endpoints)]
            for leaf in range(leaves)
        ]
        routes += [
            [e % _GROUP // roots * leaves + e // _GROUP if e % _GROUP % roots == root else -1
             for e in range(endpoints)]
            for root in range(roots)
        ]
        return cls(
            places=places, cables=cables, trees=trees, routes=routes * planes,
            homes=[range(r, endpoints, _GROUP) for r in range(_GROUP)],
        )
