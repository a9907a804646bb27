"""From a collective on a network to a plan: which phases in which order, on which rings."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sim.collectives import phases
from sim.collectives.phases import rings_of
from sim.collectives.program import Phase, Plan, Source, Variant
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["ALGORITHMS", "STYLES", "AlgorithmChoice", "plan_collective"]

ALGORITHMS = ("ring", "direct", "halving_doubling", "tree")
STYLES = ("baseline", "enhanced", "dimension_ordered", "multi_colour")
REDUCTIONS: dict[str, Callable[..., Phase]] = {
    "ring": phases.ring_reduction,
    "direct": phases.direct_reduction,
    "halving_doubling": phases.halving_doubling,
    "tree": phases.tree,
}
MOST_PERMUTATIONS = 24


@dataclass(frozen=True, kw_only=True)
class AlgorithmChoice:
    """How collectives are to be done.

    Parameters
    ----------
    style : str
        * ``baseline``: an all-reduce in each dimension, one after the other (ASTRA-SIM, 5.1);
        * ``enhanced``: reduce-scatter in the first dimension, all-reduce in the others,
          all-gather in the first (ASTRA-SIM 5.1, ACE Table 5);
        * ``dimension_ordered``: reduce-scatter in every dimension but the last, all-reduce there,
          all-gather back;
        * ``multi_colour``: both halves in every dimension, the chunks going through the
          dimensions in different orders and directions, with shares that load all links alike.
    reductions : sequence of str or None
        Algorithm for each dimension; None takes ring for rings, halving-doubling for switches
        and fat trees of a power of two, direct otherwise.
    all_to_all : str
        ``direct`` (each message goes to its destination, routed by the network), ``ring``
        (passed on by the endpoints, software routing).
    all_to_all_span : str
        ``dimensions`` (one phase per dimension, data being relayed) or ``all`` (one phase to
        all members of the group at once).
    rings : int or None
        Use no more than that many rings of a dimension; None for all.
    gather_backwards : bool
        All-gathers on rings go round the other way than reduce-scatters.
    sum_on_arrival : bool
        The last sum of a reduce-scatter is made and stored before the next phase begins, not by the
        next phase's first send.
    """

    style: str = "multi_colour"
    reductions: tuple[str | None, ...] | None = None
    all_to_all: str = "direct"
    all_to_all_span: str = "dimensions"
    rings: int | None = None
    gather_backwards: bool = False
    sum_on_arrival: bool = False

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("style", self.style, STYLES),
            ("all_to_all", self.all_to_all, ("direct", "ring")),
            ("all_to_all_span", self.all_to_all_span, ("dimensions", "all")),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        for algorithm in self.reductions or ():
            if algorithm is not None and algorithm not in ALGORITHMS:
                raise ValueError(
                    f"reductions must be of {', '.join(ALGORITHMS)}, not {algorithm!r}"
                )
        if self.rings is not None and self.rings < 1:
            raise ValueError(f"rings must be at least 1, not {self.rings!r}")


def plan_collective(
    network: Network,
    kind: CollectiveKind,
    choice: AlgorithmChoice,
    dimensions: Sequence[int] | None = None,
) -> Plan:
    """The plan of a collective over *dimensions* (None for all).

    Raises
    ------
    ValueError
        For a dimension that does not exist, or an algorithm that does not fit it.
    """
    chosen = range(len(network.shape)) if dimensions is None else dimensions
    for dimension in chosen:
        if not 0 <= dimension < len(network.shape):
            raise ValueError(
                f"dimension must be from 0 to {len(network.shape) - 1}, not {dimension!r}"
            )
    active = [d for d in chosen if network.shape[d] > 1]
    if choice.reductions is not None and len(choice.reductions) != len(network.shape):
        raise ValueError(
            f"reductions must name an algorithm for each of {len(network.shape)} dimensions, "
            f"not {len(choice.reductions)}"
        )
    rings = max([_rings(network, d, choice) for d in active], default=1)
    if kind is CollectiveKind.ALL_TO_ALL:
        variants = [
            Variant(phases=_all_to_all(network, active, choice, ring), weight=1 / rings)
            for ring in range(rings)
        ]
    else:
        variants = []
        for order, weight in _orders(network, active, kind, choice):
            variants += [
                Variant(
                    phases=_reduction(network, order, kind, choice, ring), weight=weight / rings
                )
                for ring in range(rings)
            ]
    return Plan(name=kind.value, variants=tuple(v for v in variants if v.weight > 0))


def _rings(network: Network, dimension: int, choice: AlgorithmChoice) -> int:
    rings = rings_of(network, dimension)
    return rings if choice.rings is None else min(rings, choice.rings)


def _all_to_all(
    network: Network, active: Sequence[int], choice: AlgorithmChoice, ring: int
) -> tuple[Phase, ...]:
    if choice.all_to_all_span == "all" and len(active) > 1:
        return (phases.span_all_to_all(network, active, data=1.0, ring=ring),)
    made = []
    for dimension in active:
        own = ring % _rings(network, dimension, choice)
        if choice.all_to_all == "ring":
            made.append(phases.ring_all_to_all(network, dimension, data=1.0, ring=own))
        else:
            made.append(phases.direct_all_to_all(network, dimension, data=1.0, ring=own))
    return tuple(made)


def _reduction(
    network: Network,
    order: Sequence[int],
    kind: CollectiveKind,
    choice: AlgorithmChoice,
    ring: int,
) -> tuple[Phase, ...]:
    steps: list[tuple[int, str]]
    if kind is CollectiveKind.BROADCAST:
        steps = [(d, "broadcast") for d in order]
    elif kind is CollectiveKind.REDUCE_SCATTER:
        steps = [(d, "reduce-scatter") for d in order]
    elif kind is CollectiveKind.ALL_GATHER:
        steps = [(d, "all-gather") for d in reversed(order)]
    elif choice.style == "baseline" or len(order) < 2:
        steps = [(d, "all-reduce") for d in order]
    elif choice.style == "enhanced":
        first, rest = order[0], order[1:]
        steps = [(first, "reduce-scatter")]
        steps += [(d, "all-reduce") for d in rest]
        steps.append((first, "all-gather"))
    elif choice.style == "multi_colour":
        # Halves of their own queue apart in the last dimension, which keeps all dimensions busy.
        steps = [(d, "reduce-scatter") for d in order]
        steps += [(d, "all-gather") for d in reversed(order)]
    else:
        steps = [(d, "reduce-scatter") for d in order[:-1]]
        steps.append((order[-1], "all-reduce"))
        steps += [(d, "all-gather") for d in reversed(order[:-1])]
    made: list[Phase] = []
    data, prior = 1.0, Source.FRESH
    for number, (dimension, part) in enumerate(steps, start=1):
        own = ring % _rings(network, dimension, choice)
        make = _algorithm(network, dimension, part, choice)
        if choice.gather_backwards and part == "all-gather" and make is phases.ring_reduction:
            make = partial(make, backwards=True)
        last = choice.sum_on_arrival or number == len(steps)
        phase = make(network, dimension, part, data=data, prior=prior, ring=own, last=last)
        made.append(phase)
        data, prior = phase.data_out, phase.leaves
    return tuple(made)


def _algorithm(
    network: Network, dimension: int, part: str, choice: AlgorithmChoice
) -> Callable[..., Phase]:
    if part == "broadcast":
        return phases.tree
    named = choice.reductions[dimension] if choice.reductions is not None else None
    if named is None:
        size = network.shape[dimension]
        kind = DimensionKind.RING if network.mapped else network.dimensions[dimension].kind
        if kind is DimensionKind.RING:
            named = "ring"
        elif kind is DimensionKind.FULLY_CONNECTED or size & (size - 1):
            named = "direct"
        else:
            named = "halving_doubling"
    if named == "tree" and part != "all-reduce":
        raise ValueError(f"the tree does all-reduce only, not {part}; use style baseline")
    return REDUCTIONS[named]


def _orders(
    network: Network, active: Sequence[int], kind: CollectiveKind, choice: AlgorithmChoice
) -> list[tuple[tuple[int, ...], float]]:
    """Orders of the dimensions, with the share of the data that each takes."""
    if choice.style != "multi_colour" or len(active) < 2 or kind is CollectiveKind.BROADCAST:
        return [(tuple(active), 1.0)]
    orders = list(itertools.islice(itertools.permutations(active), MOST_PERMUTATIONS))
    if len(active) > 4:
        orders = [tuple(active[i:]) + tuple(active[:i]) for i in range(len(active))]
    load = np.array([_loads(network, order) for order in orders])
    shares = _balanced(load)
    return [(order, share) for order, share in zip(orders, shares) if share > 0]


def _loads(network: Network, order: Sequence[int]) -> list[float]:
    """Time on the links of each dimension (s per byte of data) of a reduce-scatter in an order."""
    data, loads = 1.0, dict.fromkeys(sorted(order), 0.0)
    for dimension in order:
        size = network.shape[dimension]
        if network.mapped:
            rate = 1.0
        else:
            dim = network.dimensions[dimension]
            rate = dim.injection_bytes_per_s
        loads[dimension] = data * (size - 1) / size / rate
        data /= size
    return list(loads.values())


def _balanced(load: np.ndarray) -> list[float]:
    """Shares of the orders that make the most loaded dimension's time least.

    A small linear programme, solved exactly by trying every basis: at most as many orders take
    part as there are dimensions.
    """
    orders, dims = load.shape
    best, shares = math.inf, np.zeros(orders)
    scale = load.max()
    for count in range(1, dims + 1):
        for chosen in itertools.combinations(range(orders), count):
            part = load[list(chosen)] / scale
            for tight in itertools.combinations(range(dims), count):
                # Equal time on the tight dimensions, shares that add up to one.
                matrix = np.zeros((count + 1, count + 1))
                matrix[:count, :count] = part[:, list(tight)].T
                matrix[:count, count] = -1
                matrix[count, :count] = 1
                right = np.zeros(count + 1)
                right[count] = 1
                try:
                    solution = np.linalg.solve(matrix, right)[:count]
                except np.linalg.LinAlgError:
                    continue
                if (solution < -1e-12).any():
                    continue
                worst = float((solution @ part).max())
                if worst < best * (1 - 1e-9):
                    best, shares = worst, np.zeros(orders)
                    shares[list(chosen)] = np.clip(solution, 0, None)
    return [float(s) for s in shares / shares.sum()]
