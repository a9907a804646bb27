"""What a lower bound has to know of a network: its dimensions and how fast their links are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["KINDS", "LinkDimension", "farthest", "mean_distance", "nodes_of", "port_rate"]

KINDS = ("ring", "switch", "fully_connected")


@dataclass(frozen=True, kw_only=True)
class LinkDimension:
    """One dimension of a network. Its links join nodes that differ in this coordinate only.

    Parameters
    ----------
    kind : str
        ``"ring"``, ``"switch"`` (every node has a port to each of ``lanes`` switches), or
        ``"fully_connected"`` (every node has ``lanes`` links to each other node).
    size : int
        Nodes along the dimension. A ring of two has two parallel links, one per direction of the
        ring, where it is bidirectional.
    bandwidth_bytes_per_s : float
        Of one link, per direction, before ``efficiency``.
    lanes : int
        Parallel rings, switches or links.
    bidirectional : bool
        Whether a ring runs both ways round; of no meaning to the other kinds.
    efficiency : float
        Share of the link time that carries payload, above 0 and at most 1.
    latency_s : float
        From a node to its neighbour, through the switch where there is one.
    """

    kind: str
    size: int
    bandwidth_bytes_per_s: float
    lanes: int = 1
    bidirectional: bool = True
    efficiency: float = 1.0
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        for name in ("size", "lanes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
        if not self.bandwidth_bytes_per_s > 0:
            raise ValueError(
                f"bandwidth_bytes_per_s must be above 0, not {self.bandwidth_bytes_per_s!r}"
            )
        if not 0 < self.efficiency <= 1:
            raise ValueError(f"efficiency must be above 0 and at most 1, not {self.efficiency!r}")
        if not self.latency_s >= 0:
            raise ValueError(f"latency_s must be at least 0, not {self.latency_s!r}")


def nodes_of(dimensions: Sequence[LinkDimension]) -> int:
    """Number of nodes of the network that the dimensions span."""
    return math.prod(dimension.size for dimension in dimensions)


def port_rate(dimension: LinkDimension) -> float:
    """Payload bytes per second that one node can send into a dimension, and receive from it."""
    if dimension.size == 1:
        return 0.0
    links = {
        "ring": 2 if dimension.bidirectional else 1,
        "switch": 1,
        "fully_connected": dimension.size - 1,
    }[dimension.kind]
    return dimension.bandwidth_bytes_per_s * dimension.efficiency * dimension.lanes * links


def mean_distance(dimension: LinkDimension) -> float:
    """Fewest links of a dimension on the way to a destination, averaged over all of its nodes.

    The node itself counts, at distance 0, as it does in the size of an all-to-all.
    """
    size = dimension.size
    if dimension.kind != "ring":
        return (size - 1) / size
    if not dimension.bidirectional:
        return (size - 1) / 2
    return (size * size // 4) / size


def farthest(dimension: LinkDimension) -> int:
    """Links of a dimension between the two nodes along it that are farthest apart."""
    if dimension.kind != "ring":
        return min(1, dimension.size - 1)
    return dimension.size // 2 if dimension.bidirectional else dimension.size - 1
