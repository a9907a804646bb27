# SPDX-License-Identifier: Apache-2.0
"""Turns a collective on a network into a plan: its phases, their order, and the rings they use."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.collectives.algorithm import Algorithm
from sim.collectives.direct import DIRECT
from sim.collectives.halving_doubling import HALVING_DOUBLING
from sim.collectives.hamiltonian import hamiltonian_rings_of
from sim.collectives.in_switch import in_switch_phase
from sim.collectives.phase_order import BY_DIMENSION, phase_steps
from sim.collectives.phases import make_phase, rings_of
from sim.collectives.program import Phase, Plan, Source, Variant
from sim.collectives.ring import ADDING_RING, RELAY, RING
from sim.collectives.tree import TREE
from sim.fields import FieldError, check_fields, check_integer
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = [
    "ALGORITHMS",
    "BUILT_IN",
    "BY_DIMENSION",
    "STYLES",
    "AlgorithmChoice",
    "colour_loads",
    "orders_of",
    "plan_collective",
    "plan_paths",
    "register",
]

STYLES = (*BY_DIMENSION, "hamiltonian")
ALGORITHMS = {
    each.name: each for each in (RING, ADDING_RING, RELAY, DIRECT, HALVING_DOUBLING, TREE)
}
BUILT_IN = dict(ALGORITHMS)
MOST_PERMUTATIONS = 24
_ALL_TO_ALL = CollectiveKind.ALL_TO_ALL
_ON_RINGS = (
    CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER,
)


def register(algorithm: Algorithm) -> None:
    """Let choices and descriptions name an algorithm; it replaces an own one of the same name.

    Raises
    ------
    ValueError
        If the name is that of a built-in algorithm.
    """
    name = algorithm.name
    if BUILT_IN.get(name, algorithm) is not algorithm:
        raise FieldError(
            "name", f"must not be {name!r}, which is one of Foldwire's own: {', '.join(BUILT_IN)}"
        )
    ALGORITHMS[name] = algorithm


@dataclass(frozen=True, kw_only=True)
class AlgorithmChoice:
    """Choice of the algorithms of collectives, their order and the rings that they use.

    Parameters
    ----------
    style : str
        * ``baseline``: an all-reduce in each dimension, one after the other (ASTRA-SIM, 5.1);
        * ``enhanced``: reduce-scatter in the first dimension, all-reduce in the others,
          all-gather in the first (ASTRA-SIM 5.1, ACE Table 5);
        * ``dimension_ordered``: reduce-scatter in every dimension but the last, all-reduce there,
          all-gather back;
        * ``multi_colour``: both halves in every dimension; chunks go through the
          dimensions in different orders and directions, with shares that load all links alike;
        * ``halves``: reduce-scatter in every dimension, all-gather back, phases of their own in a
          single dimension, too;
        * ``hamiltonian``: rings through all nodes of a torus, in both directions, that together use
          every link once; broadcasts and all-to-alls as ``baseline``.
    reductions : sequence of str or None
        Algorithm for each dimension, one of ``ALGORITHMS``; None takes ring for rings,
        halving-doubling for switches and fat trees of a power of two, direct otherwise. A graph
        counts as what its links are like (`sim.network.network.Network.ways`).
    halves : sequence of str or None
        Algorithm for each dimension of the reduce-scatters and all-gathers that an all-reduce is
        made of; None: as ``reductions``. A tree, which all-reduces only, needs others.
    all_to_all : str
        One of ``ALGORITHMS``, such as ``direct`` (each message goes to its destination, routed by
        the network), ``ring`` (passed on by the endpoints, software routing) or ``relay`` (the
        same, one block at a time: ASTRA-sim's released code).
    all_to_all_span : str
        ``dimensions`` (one phase per dimension, data being relayed) or ``all`` (one phase to
        all members of the group at once).
    rings : int or None
        Most rings of a dimension to use; None for all.
    gather_backwards : bool
        All-gathers go round rings in the direction opposite to reduce-scatters.
    """

    style: str = "multi_colour"
    reductions: tuple[str | None, ...] | None = None
    halves: tuple[str | None, ...] | None = None
    all_to_all: str = "direct"
    all_to_all_span: str = "dimensions"
    rings: int | None = None
    gather_backwards: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        to_all = [name for name, each in ALGORITHMS.items() if each.does(_ALL_TO_ALL)]
        for name, value, allowed in (
            ("style", self.style, STYLES),
            ("all_to_all", self.all_to_all, to_all),
            ("all_to_all_span", self.all_to_all_span, ("dimensions", "all")),
        ):
            if value not in allowed:
                raise FieldError(name, f"must be one of {', '.join(allowed)}, not {value!r}")
        for name in ("reductions", "halves"):
            for algorithm in getattr(self, name) or ():
                if algorithm is not None and algorithm not in ALGORITHMS:
                    what = f"must be of {', '.join(ALGORITHMS)}, not {algorithm!r}"
                    raise FieldError(name, f"{what}; an own one comes with --load FILE")
        if self.rings is not None and self.rings < 1:
            raise FieldError("rings", f"must be at least 1, not {self.rings!r}")
        for name in ("rings", "reductions", "halves"):
            if self.style == "hamiltonian" and getattr(self, name) is not None:
                raise FieldError(
                    name, "must be absent beside style = 'hamiltonian', whose rings are all that "
                    f"there are, not {getattr(self, name)!r}"
                )


def plan_collective(
    network: Network,
    kind: CollectiveKind,
    choice: AlgorithmChoice,
    dimensions: Sequence[int] | None = None,
    *,
    in_switch: str | None = None,
) -> Plan:
    """The plan of a collective over *dimensions* (None for all) of a network, or of its view.

    ``in_switch``: a mode of `sim.collectives.in_switch`; dimensions with switches then reduce and
    multicast there, whatever algorithm the choice names for them.

    Raises
    ------
    ValueError
        For a dimension that does not exist, or an algorithm that does not fit it; for a network
        without switches that are to reduce.
    """
    if in_switch is not None:
        _check_switches(network)
    chosen = range(len(network.shape)) if dimensions is None else dimensions
    for dimension in chosen:
        check_integer("dimension", dimension, 0, len(network.shape))
    if len(set(chosen)) < len(chosen):
        raise FieldError("dimensions", f"must be different ones, not {tuple(chosen)!r}")
    active = [d for d in chosen if network.shape[d] > 1]
    for name in ("reductions", "halves"):
        given = getattr(choice, name)
        if given is not None and len(given) != len(network.whole_shape):
            raise FieldError(
                name, f"must name an algorithm for each of {len(network.whole_shape)} dimensions, "
                f"not {len(given)}"
            )
    rings = max([_rings(network, d, choice) for d in active], default=1)
    if kind is CollectiveKind.ALL_TO_ALL:
        turns = _turns(active) if choice.style == "multi_colour" else [active]
        if choice.all_to_all_span == "all":
            turns = [active]
        variants = [
            Variant(phases=_all_to_all(network, turn, choice, ring), weight=1 / rings / len(turns))
            for turn in turns
            for ring in range(rings)
        ]
    elif choice.style == "hamiltonian" and len(active) > 1 and kind in _ON_RINGS:
        if in_switch is not None:
            raise FieldError("style", "must not be 'hamiltonian' with in_switch")
        cycles = hamiltonian_rings_of(network, active)
        variants = [
            Variant(
                phases=(
                    replace(
                        make_phase(
                            network, active, algorithm, kind, data=1.0, prior=Source.FRESH,
                            ring=2 * lane + back,
                        ),
                        ring=back * len(cycles) + number,
                    ),
                ),
                weight=1 / len(cycles) / 2,
            )
            for back in (0, 1)
            for number, (lane, algorithm) in enumerate(cycles)
        ]
    else:
        variants = []
        # Leaves of a tree are inner nodes of its mirror image: in pairs they load all nodes alike.
        given = choice.reductions or ()
        named = [given[network.origins[d]] for d in active] if given else []
        trees = kind is CollectiveKind.ALL_REDUCE and TREE.name in named
        count = max(rings, 2) if trees else rings
        for order, weight in orders_of(network, active, kind, choice.style):
            variants += [
                Variant(
                    phases=_phases(
                        network, phase_steps(order, kind, choice.style), kind, choice, number,
                        in_switch,
                    ),
                    weight=weight / count,
                )
                for number in range(count)
            ]
    return Plan(name=kind.value, variants=tuple(v for v in variants if v.weight > 0))


def _check_switches(network: Network) -> None:
    if network.mapped:
        raise ValueError("in_switch needs collectives over the physical dimensions of the network")
    if not any(each.has_switches for each in network.dimensions):
        raise ValueError(
            "in_switch needs a network with switches (dimensions of kind switch or fat_tree), "
            f"not {network.describe()}"
        )


def _rings(network: Network, dimension: int, choice: AlgorithmChoice) -> int:
    rings = rings_of(network, dimension)
    return rings if choice.rings is None else min(rings, choice.rings)


def _all_to_all(
    network: Network, active: Sequence[int], choice: AlgorithmChoice, ring: int
) -> tuple[Phase, ...]:
    fresh = Source.FRESH
    if choice.all_to_all_span == "all" and len(active) > 1:
        return (make_phase(network, active, DIRECT, _ALL_TO_ALL, data=1.0, prior=fresh, ring=ring),)
    algorithm = ALGORITHMS[choice.all_to_all]
    return tuple(
        make_phase(
            network, [d], algorithm, _ALL_TO_ALL, data=1.0, prior=fresh,
            ring=ring % _rings(network, d, choice),
        )
        for d in active
    )


def plan_paths(
    network: Network,
    kind: CollectiveKind,
    choice: AlgorithmChoice,
    paths: Sequence[tuple[int, Sequence[tuple[int, CollectiveKind]]]],
) -> Plan:
    """The plan of a collective whose chunks take *paths* in turn: for each, the number of the ring
    that it takes in every dimension, and dimension and collective of its phases."""
    return Plan(
        name=kind.value,
        variants=tuple(
            Variant(
                phases=_phases(network, steps, kind, choice, ring, None), weight=1 / len(paths)
            )
            for ring, steps in paths
        ),
    )


def _phases(
    network: Network,
    steps: Sequence[tuple[int, CollectiveKind]],
    kind: CollectiveKind,
    choice: AlgorithmChoice,
    number: int,
    in_switch: str | None,
) -> tuple[Phase, ...]:
    made: list[Phase] = []
    # The first send of a broadcast costs its root no more than forwarding costs the others.
    data, prior = 1.0, Source.FORWARD if kind is CollectiveKind.BROADCAST else Source.FRESH
    whole = CollectiveKind.ALL_REDUCE
    halves = choice if choice.halves is None else replace(choice, reductions=choice.halves)
    gathers = CollectiveKind.ALL_GATHER, CollectiveKind.BROADCAST
    for (dimension, part), (_, then) in zip(steps, [*steps[1:], (None, None)]):
        ring = number % _rings(network, dimension, choice)
        if in_switch is not None and network.dimensions[dimension].has_switches:
            phase = in_switch_phase(
                network, dimension, part, in_switch, data=data, prior=prior, ring=ring
            )
            made.append(phase)
            data, prior = phase.data_out, phase.leaves
            continue
        phase = make_phase(
            network,
            [dimension],
            _algorithm(network, dimension, part, halves if kind is whole is not part else choice),
            part,
            data=data,
            prior=prior,
            ring=ring,
            number=number,
            backwards=choice.gather_backwards and part is CollectiveKind.ALL_GATHER,
            onward=then is not None and then not in gathers,
        )
        made.append(phase)
        data, prior = phase.data_out, phase.leaves
        if prior is Source.HELD and then not in gathers:
            prior = Source.AGAIN
    return tuple(made)


def _algorithm(
    network: Network, dimension: int, part: CollectiveKind, choice: AlgorithmChoice
) -> Algorithm:
    if part is CollectiveKind.BROADCAST:
        return TREE
    origin = network.origins[dimension]
    named = choice.reductions[origin] if choice.reductions is not None else None
    if named is None:
        size = network.shape[dimension]
        kind = network.ways(dimension).kind
        if kind is DimensionKind.RING:
            return RING
        if kind is DimensionKind.FULLY_CONNECTED or size & (size - 1):
            return DIRECT
        return HALVING_DOUBLING
    if not ALGORITHMS[named].does(part):
        raise ValueError(
            f"algorithm {named} does not do {part.value} in dimension {dimension}; use style "
            "baseline, which has all-reduces alone, or name others in halves"
        )
    return ALGORITHMS[named]


def orders_of(
    network: Network, active: Sequence[int], kind: CollectiveKind, style: str
) -> list[tuple[tuple[int, ...], float]]:
    """Orders of the dimensions, with the share of the data that each takes."""
    if style != "multi_colour" or len(active) < 2 or kind is CollectiveKind.BROADCAST:
        return [(tuple(active), 1.0)]
    orders = list(itertools.islice(itertools.permutations(active), MOST_PERMUTATIONS))
    if len(active) > 4:
        orders = [tuple(turn) for turn in _turns(active)]
    load = np.array([colour_loads(network, order) for order in orders])
    shares = _balanced(load)
    return [(order, share) for order, share in zip(orders, shares) if share > 0]


def _turns(active: Sequence[int]) -> list[list[int]]:
    """The dimensions in cyclic orders, each coming first once."""
    return [[*active[i:], *active[:i]] for i in range(max(1, len(active)))]


def colour_loads(network: Network, order: Sequence[int]) -> list[float]:
    """Time on the links of each dimension (s per byte of data) of a reduce-scatter in an order."""
    data, loads = 1.0, dict.fromkeys(sorted(order), 0.0)
    for dimension in order:
        size = network.shape[dimension]
        rate = network.injection_bytes_per_s(dimension)
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
