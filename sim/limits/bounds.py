# SPDX-License-Identifier: Apache-2.0
"""The shortest time in which a collective can end on a network, whatever the algorithm.

Notation: N nodes; dimension d has size k_d, and a node can send c_d payload bytes per second into
it (all of its links of that dimension together) and receive as many. I is the sum of all c_d. A
link of dimension d joins nodes that differ in coordinate d alone; a switch passes messages on and
does not compute (unless ``network_reduces``). For a set D of dimensions, the *groups* of D are
the M = prod(k_d, d in D) sets of N/M nodes with equal coordinates in D. Data moves between two
groups of D only over links of dimensions in D, and all of those together move N * sum(c_d, d in
D) bytes per second, N/M * sum(c_d) of them out of, or into, each group. Collapsing the groups to
single nodes that know everything known inside only makes a collective easier, so what holds for M
nodes holds for M groups. With D = all dimensions the groups are the nodes: that is the injection
bound.

**Reduce-scatter** of S bytes per node. Take one byte position. It has one owner; each of the
other M-1 groups holds a summand that the owner needs, and sums travel in units of one value, so
at least M-1 values of that position cross between groups. S positions: T >= (M-1) S / (N sum
c_d).

**All-gather** of S bytes from each node. Each of the N S bytes must come to M-1 other groups: T
>= (M-1) S / (sum c_d).

**All-reduce** of S bytes. Take one byte position and order all arrivals of its values in time.
Let g be the group that first holds the complete sum, with arrival e. Every other group has a
summand in that sum, so each has sent a value that arrived at or before e: M-1 crossings. At e
only g is complete, so every other group needs an arrival after e: M-1 more. T >= 2 (M-1) S / (N
sum c_d). If switches reduce and replicate, this no longer holds; but each group still sends a
summand of every position and receives every sum: T >= S M / (N sum c_d). (The two bounds above
are bounds on what a group sends and receives, and so hold for such switches too.)

**Broadcast** of S bytes. A group without the root must receive them: T >= S M / (N sum c_d).

**All-to-all** in which each node sends S/N bytes to each node (itself included). Only links of
dimension d change coordinate d, and a destination at distance a along d needs a of them, whatever
else the route does. With m_d the mean distance (k/4 for an even bidirectional ring, (k^2-1)/(4k)
for an odd one, (k-1)/2 for one direction, (k-1)/k through a switch or a direct link) N S m_d
byte-hops are needed and N c_d are there per second: T >= S m_d / c_d. For an even ring this is
the bisection. Over all dimensions together at least every byte for another node is sent once: T
>= (N-1)/N S / I.

**Fat tree.** Its leaves are groups as well; between them there are only the trunks, so every bound
above holds with the trunks' bandwidth in place of c_d and the number of leaves in place of k_d.

**Graph.** Groups that are joined by the links between switches only, or by links that are not
among the faster ones, are groups as well, with the rate of all links out of them together in place
of N c_d. They need not be equal: broadcast then counts M-1 groups. m_d is the mean number of links
out of a node on a way through the fewest nodes.

**Faults.** Links that are slow or down take from the sum of bandwidths, and the bounds that count
crossings over all groups hold with what is left. (Broadcast then counts M-1 groups that receive.)

**Latency.** Something of every node (of the root) has to reach every other, so also the one
farthest away: T >= sum over dimensions of farthest distance times latency, plus the endpoint's
time per message.

**Memory and bus.** The bytes that nodes send are on average at least those of the injection
bound, V = 2(N-1)/N S and so on, hence some node sends V: T >= V r / rate for an endpoint that
moves r bytes per byte sent. An engine that keeps data on chip loads its input and stores its
result instead.

**Reducer.** Adding N values takes N-1 additions, done somewhere: some node adds at least (N-1)/N
S bytes, for all-reduce and reduce-scatter.

A collective over some of the dimensions, run by all groups at once, has the bounds of the network
of those dimensions: the M groups of a set D of *involved* dimensions now carry N/prod(k_d of
involved) collectives at once over the same N sum c_d, which is the same ratio. So detours through
uninvolved dimensions gain nothing, and the caller passes the involved dimensions only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod

from sim.endpoint.rates import EndpointRates
from sim.fields import FieldError
from sim.limits.cuts import Cut, cuts_of, unions
from sim.network.dimension import Dimension
from sim.workload.graph import CollectiveKind

__all__ = [
    "LATENCY",
    "Bound",
    "BoundViolation",
    "Term",
    "bound_of",
    "crossings",
    "endpoint_terms",
    "lower_bound",
]

LATENCY = "latency"
"""The bound that does not add up over calls: messages in flight do not delay each other."""
ROUNDING = 1e-9
"""Relative error of a simulated time in whole femtoseconds, generously."""


class BoundViolation(RuntimeError):
    """A measured time below its lower bound: the simulation or the bound is wrong."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One lower bound: what sets it, and its value."""

    resource: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The lower bounds of a collective. ``terms`` holds all of them, the largest first."""

    kind: CollectiveKind
    size_bytes: int
    nodes: int
    terms: tuple[Term, ...] = field(default=())

    @property
    def seconds(self) -> float:
        return self.terms[0].seconds if self.terms else 0.0

    @property
    def resource(self) -> str:
        """The resource that sets the bound."""
        return self.terms[0].resource if self.terms else "nothing to do"

    def percent(self, seconds: float) -> float:
        """Percent of the possible speed that a run of *seconds* reached.

        Raises
        ------
        BoundViolation
            If it was faster than possible.
        """
        if seconds < self.seconds * (1 - ROUNDING):
            raise BoundViolation(
                f"{self.kind.value} of {self.size_bytes} bytes on {self.nodes} nodes took "
                f"{seconds:.9g} s, less than its lower bound of {self.seconds:.9g} s "
                f"({self.resource})"
            )
        if seconds == 0:
            return 100.0
        return min(100.0, 100 * self.seconds / seconds)


def lower_bound(
    kind: CollectiveKind,
    size_bytes: int,
    dimensions: Sequence[Dimension],
    *,
    endpoint: EndpointRates | None = None,
    network_reduces: bool = False,
    shares: Sequence[tuple[float, float]] | None = None,
) -> Bound:
    """The largest of all bounds of the module's text.

    Parameters
    ----------
    kind, size_bytes
        As in :class:`~sim.workload.graph.CollectiveCall`: the vector of one NPU.
    dimensions
        Those over which the collective runs.
    endpoint
        None for one without limits.
    network_reduces
        Switches add and replicate.
    shares
        Parts of each dimension's total bandwidth that faults have left, of the members' links and
        of trunks; None for all of it.
    """
    if size_bytes < 0:
        raise FieldError("size_bytes", f"must be at least 0, not {size_bytes!r}")
    endpoint = endpoint or EndpointRates()
    left = [(1.0, 1.0)] * len(dimensions) if shares is None else shares
    cuts = [cuts_of(i, d, shares=s) for i, (d, s) in enumerate(zip(dimensions, left))]
    nodes = prod(d.size for d in dimensions)
    terms: list[Term] = []
    if nodes > 1 and size_bytes:
        terms += _network_terms(kind, size_bytes, cuts, nodes, network_reduces, shares is None)
        terms += endpoint_terms(kind, size_bytes, nodes, endpoint, network_reduces)
        latency = sum(d.farthest_s for d in dimensions) + endpoint.message_s
        terms.append(Term(resource=LATENCY, seconds=latency))
    return bound_of(kind, size_bytes, nodes, terms)


def bound_of(kind: CollectiveKind, size_bytes: int, nodes: int, terms: Sequence[Term]) -> Bound:
    """A bound from terms in any order."""
    ordered = tuple(sorted(terms, key=lambda term: -term.seconds))
    return Bound(kind=kind, size_bytes=size_bytes, nodes=nodes, terms=ordered)


def _network_terms(
    kind: CollectiveKind,
    size: int,
    cuts: Sequence[Sequence[Cut]],
    nodes: int,
    network_reduces: bool,
    even: bool,
) -> list[Term]:
    finest, *others = unions(cuts)
    finest = replace(finest, name="injection")
    if kind is CollectiveKind.ALL_TO_ALL:
        terms = [Term(resource="injection", seconds=(nodes - 1) / nodes * size / finest.rate)]
        for cut in chain.from_iterable(cuts):
            terms.append(Term(resource=cut.name, seconds=size * cut.distance / cut.rate))
        return terms
    terms = []
    for cut in (finest, *others):
        values = crossings(kind, cut.groups, nodes, network_reduces, even and cut.even)
        terms.append(Term(resource=cut.name, seconds=values * size / (nodes * cut.rate)))
    return terms


def crossings(
    kind: CollectiveKind, groups: int, nodes: int, network_reduces: bool, even: bool
) -> int:
    """Values per byte position of ``size_bytes`` that must cross between groups, over all groups.

    Where every group has an even share of the links, the need of one group counts for each.
    """
    if kind is CollectiveKind.REDUCE_SCATTER:
        return groups - 1
    if kind is CollectiveKind.ALL_GATHER:
        return nodes * (groups - 1)
    if kind is CollectiveKind.ALL_REDUCE and not network_reduces:
        return 2 * (groups - 1)
    return groups if even or kind is CollectiveKind.ALL_REDUCE else groups - 1


def endpoint_terms(
    kind: CollectiveKind, size: int, nodes: int, endpoint: EndpointRates, network_reduces: bool
) -> list[Term]:
    """The bounds that a node's endpoint sets, whatever the network."""
    others = (nodes - 1) / nodes
    # Bytes sent by some node, loaded from its memory if each is loaded once, and stored likewise.
    sent, loaded, stored = {
        CollectiveKind.ALL_REDUCE: (size if network_reduces else 2 * others * size, size, size),
        CollectiveKind.REDUCE_SCATTER: (others * size, size, size / nodes),
        CollectiveKind.ALL_GATHER: (
            size if network_reduces else (nodes - 1) * size,
            size,
            (nodes - 1) * size,
        ),
        CollectiveKind.ALL_TO_ALL: (others * size, others * size, others * size),
        CollectiveKind.BROADCAST: (size, size, size),
    }[kind]
    amounts = [
        (
            "memory read",
            endpoint.reads_per_byte_sent * sent + endpoint.loads_per_byte * loaded,
            endpoint.read_bytes_per_s,
        ),
        (
            "memory write",
            endpoint.writes_per_byte_sent * sent + endpoint.stores_per_byte * stored,
            endpoint.write_bytes_per_s,
        ),
        (
            "bus",
            sent if endpoint.reads_per_byte_sent else max(loaded, stored),
            endpoint.bus_bytes_per_s,
        ),
    ]
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER) and not network_reduces:
        amounts.append(("reducer", others * size, endpoint.reducer_bytes_per_s))
    return [Term(resource=n, seconds=amount / rate) for n, amount, rate in amounts if rate]
