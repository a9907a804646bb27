# SPDX-License-Identifier: Apache-2.0
"""Named topologies: the dimensions that a name and a shape stand for.

Unless stated, links inside a package (the first dimension of a hierarchical topology) are those of
the ACE papers: 200 GB/s and 90 cycles, those between packages 25 GB/s and 500 cycles of a 1.245 GHz
clock, 94 % of the time payload. NVLink and its switches are those of the DGX-2: 25 GB/s, six
planes, 150 ns in a switch, 128 B of payload in 144 B.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sim.fields import FieldError, not_one_of

__all__ = ["TOPOLOGIES", "NamedTopology", "named_dimensions"]

ACE_CLOCK_HZ = 1.245e9
INTRA = {
    "bandwidth_bytes_per_s": 200e9,
    "latency_s": 90 / ACE_CLOCK_HZ,
    "efficiency": 0.94,
}
INTER = {
    "bandwidth_bytes_per_s": 25e9,
    "latency_s": 500 / ACE_CLOCK_HZ,
    "efficiency": 0.94,
}
NVLINK = {
    "bandwidth_bytes_per_s": 25e9,
    "latency_s": 0.0,
    "router_latency_s": 150e-9,
    "efficiency": 128 / 144,
    "lanes": 6,
    "group": 8,
}


class NamedTopology(NamedTuple):
    """``sizes`` describes the numbers of a shape; ``dimensions`` are the fields of each dimension.

    Where there are fewer dimensions than sizes, the last one stands for all further ones.
    """

    sizes: str
    least: int
    most: int
    dimensions: tuple[Mapping[str, Any], ...]


def _of_one(kind: str, links: Mapping[str, Any], *, sizes: str = "nodes") -> NamedTopology:
    """A single dimension."""
    return NamedTopology(sizes=sizes, least=1, most=1, dimensions=({"kind": kind, **links},))


TOPOLOGIES = {
    "ring": _of_one("ring", INTER),
    "torus": NamedTopology(
        sizes="nodes of each dimension", least=1, most=16, dimensions=({"kind": "ring", **INTER},)
    ),
    "hierarchical_torus": NamedTopology(
        sizes="local, vertical, horizontal",
        least=3,
        most=3,
        dimensions=({"kind": "ring", **INTRA}, {"kind": "ring", **INTER}),
    ),
    "switch": _of_one("switch", INTER),
    "hierarchical_all_to_all": NamedTopology(
        sizes="local, packages",
        least=2,
        most=2,
        dimensions=({"kind": "ring", **INTRA}, {"kind": "switch", **INTER, "lanes": 4}),
    ),
    "fully_connected": _of_one("fully_connected", INTER),
    "dgx2": _of_one("fat_tree", {**NVLINK, "spine": False}, sizes="16"),
    "fat_tree": _of_one("fat_tree", NVLINK, sizes="nodes, a multiple of group"),
    "links": _of_one("links", INTER),
}


def named_dimensions(kind: str, shape: Sequence[int] | None) -> list[dict[str, Any]]:
    """The fields of each dimension of a named topology.

    Raises
    ------
    ValueError
        For an unknown name, or a shape that does not fit it.
    """
    if kind not in TOPOLOGIES:
        raise FieldError("kind", not_one_of(kind, TOPOLOGIES))
    named = TOPOLOGIES[kind]
    if kind == "links":  # whose size and graph are those of its links
        return [dict(named.dimensions[0])]
    if shape is None and kind == "dgx2":
        shape = (16,)
    if shape is None:
        raise FieldError("shape", f"must be given for {kind}: {named.sizes}")
    if not named.least <= len(shape) <= named.most or min(shape) < 1:
        raise FieldError(
            "shape",
            f"must be a list of positive sizes for {kind}: {named.sizes}; not {list(shape)!r}"
        )
    if kind == "dgx2" and tuple(shape) != (16,):
        raise FieldError("shape", f"must be [16] for dgx2, not {list(shape)!r}")
    last = len(named.dimensions) - 1
    return [
        {**named.dimensions[min(index, last)], "size": size} for index, size in enumerate(shape)
    ]
