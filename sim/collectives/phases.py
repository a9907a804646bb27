"""Programs of single phases: ring, direct, halving-doubling and tree, on one dimension.

``data`` is the size of a node's data at the start of the phase over that of the chunk; ``prior``
is where the first send's data come from; ``last`` tells that no phase follows, so that a sum must
be made on arrival and not by the next send. Sizes of messages follow from these.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.collectives.program import Carry, Phase, Program, Receipt, Segment, Send, Source
from sim.network.dimension import Dimension
from sim.network.network import Channel, Network

__all__ = [
    "direct_all_to_all",
    "direct_reduction",
    "halving_doubling",
    "ring_all_to_all",
    "ring_reduction",
    "rings_of",
    "span_all_to_all",
    "tree",
]

PARTS = ("reduce-scatter", "all-gather", "all-reduce")


def ring_reduction(
    network: Network,
    dimension: int,
    part: str,
    *,
    data: float,
    prior: Source,
    ring: int,
    last: bool = True,
    backwards: bool = False,
) -> Phase:
    """Reduce-scatter, all-gather or both around a ring of k nodes: k - 1 steps each.

    ``backwards`` goes round the other way than the ring's own.
    """
    size = network.shape[dimension]
    lane, direction = lane_of(network, dimension, ring)
    if backwards:
        direction = -direction
    channel = network.shift(dimension, direction, lane=lane, direction=direction)
    segments: list[Segment] = []
    arrived = 0
    piece = data / size if part != "all-gather" else data
    if part != "all-gather":
        first = Send(channel=channel, fraction=piece, source=prior, carry=Carry.TURN)
        later = replace(first, source=Source.REDUCED)
        alone = last and part == "reduce-scatter"
        segments += _ring_steps(size, first, later, arrived, last_is_reduced=alone)
        arrived, prior = size - 1, Source.REDUCED
    if part != "reduce-scatter":
        first = Send(channel=channel, fraction=piece, source=prior, carry=Carry.TURN)
        later = replace(first, source=Source.FORWARD)
        segments += _ring_steps(size, first, later, arrived)
        arrived += size - 1
    segments.append(Segment(steps=1, count=arrived))
    leaves = Source.FORWARD if last or part != "reduce-scatter" else Source.REDUCED
    made = _phase("ring", network, dimension, part, ring, segments, data)
    return replace(made, leaves=leaves)


def _ring_steps(
    size: int, first: Send, later: Send, arrived: int, *, last_is_reduced: bool = False
) -> list[Segment]:
    sends = [first] + [later] * (size - 2)
    if last_is_reduced:
        sends[-1] = replace(sends[-1], receipt=Receipt.REDUCE)
    segments: list[Segment] = []
    for step, send in enumerate(sends):
        if segments and segments[-1].sends[0][0] is send:
            segments[-1] = replace(segments[-1], steps=segments[-1].steps + 1)
        else:
            segments.append(
                Segment(steps=1, count=arrived + step, count_stride=1, sends=((send,),))
            )
    return segments


def direct_reduction(
    network: Network,
    dimension: int,
    part: str,
    *,
    data: float,
    prior: Source,
    ring: int,
    last: bool = True,
) -> Phase:
    """Everyone sends to everyone of the group at once, in either half; sums are made on arrival."""
    size = network.shape[dimension]
    segments, slot = [], 0
    piece = data / size if part != "all-gather" else data
    if part != "all-gather":
        alone = Receipt.REDUCE
        sends = _to_all(network, dimension, piece, slot, prior, ring, alone, Carry.PEER)
        segments.append(Segment(steps=1, sends=(sends,)))
        prior, slot = Source.FORWARD, slot + 1
    if part != "reduce-scatter":
        keep, own = Receipt.KEEP, Carry.OWN
        sends = _to_all(network, dimension, piece, slot, prior, ring, keep, own)
        wait = size - 1 if slot else 0
        segments.append(Segment(steps=1, slot=0, count=wait, sends=(sends,)))
        slot += 1
    segments.append(Segment(steps=1, slot=slot - 1, count=size - 1))
    return _phase("direct", network, dimension, part, ring, segments, data, slots=slot)


def direct_all_to_all(network: Network, dimension: int, *, data: float, ring: int) -> Phase:
    """Every node sends each other one its part at once; the network routes it."""
    size = network.shape[dimension]
    keep, fresh = Receipt.KEEP, Source.FRESH
    sends = _to_all(network, dimension, data / size, 0, fresh, ring, keep, Carry.PEER)
    segments = [Segment(steps=1, sends=(sends,)), Segment(steps=1, count=size - 1)]
    return _phase("direct", network, dimension, "all-to-all", ring, segments, data)


def ring_all_to_all(network: Network, dimension: int, *, data: float, ring: int) -> Phase:
    """Store and forward: in step s every node passes on the k - s parts that have further to go."""
    size = network.shape[dimension]
    lane, direction = lane_of(network, dimension, ring)
    channel = network.shift(dimension, direction, lane=lane, direction=direction)
    steps = []
    for step in range(1, size):
        source = Source.FRESH if step == 1 else Source.FORWARD
        part = data * (size - step) / size
        steps.append((Send(channel=channel, fraction=part, source=source, carry=Carry.TURN),))
    segments = [
        Segment(steps=size - 1, count_stride=1, sends=tuple(steps)),
        Segment(steps=1, count=size - 1),
    ]
    return _phase("ring", network, dimension, "all-to-all", ring, segments, data)


def span_all_to_all(
    network: Network, dimensions: Sequence[int], *, data: float, ring: int
) -> Phase:
    """Every node sends its part to each member of a group of several dimensions at once."""
    shape = [network.shape[d] for d in dimensions]
    total = math.prod(shape)
    sends = []
    for offset in itertools.product(*(range(k) for k in shape)):
        if not any(offset):
            continue
        coordinates = list(network.coordinates)
        for dimension, step in zip(dimensions, offset):
            coordinates[dimension] = (coordinates[dimension] + step) % network.shape[dimension]
        name = ("span", tuple(dimensions), offset)
        channel = network.table(
            name, network.members(coordinates), lane=ring, tie=1 - 2 * (ring % 2)
        )
        sends.append(Send(channel=channel, fraction=data / total, carry=Carry.PEER))
    segments = [Segment(steps=1, sends=(tuple(sends),)), Segment(steps=1, count=total - 1)]
    made = _phase("direct", network, dimensions[0], "all-to-all", ring, segments, data)
    return replace(made, name="direct all-to-all")


def halving_doubling(
    network: Network,
    dimension: int,
    part: str,
    *,
    data: float,
    prior: Source,
    ring: int,
    last: bool = True,
) -> Phase:
    """Recursive halving, recursive doubling or both; the size must be a power of two."""
    size = network.shape[dimension]
    rounds = size.bit_length() - 1
    if 1 << rounds != size:
        raise ValueError(
            f"halving-doubling needs a power of two, not the {size} nodes of dimension {dimension}"
        )
    lane, _ = lane_of(network, dimension, ring)
    steps: list[tuple[Send, ...]] = []
    if part != "all-gather":
        for step in range(rounds):
            steps.append(
                (
                    Send(
                        channel=network.exchange(dimension, size >> (step + 1), lane=lane),
                        fraction=data / (2 << step),
                        slot=len(steps),
                        source=prior if step == 0 else Source.REDUCED,
                        receipt=(
                            Receipt.REDUCE
                            if last and part == "reduce-scatter" and step == rounds - 1
                            else Receipt.KEEP
                        ),
                        carry=Carry.SIDE,
                    ),
                )
            )
        prior = Source.REDUCED
    if part != "reduce-scatter":
        piece = data / size if part == "all-reduce" else data
        for step in range(rounds):
            steps.append(
                (
                    Send(
                        channel=network.exchange(dimension, 1 << step, lane=lane),
                        fraction=piece * (1 << step),
                        slot=len(steps),
                        source=prior if step == 0 else Source.FORWARD,
                    ),
                )
            )
    count = len(steps)
    segments = [Segment(steps=1, sends=(steps[0],))]
    if count > 1:
        segments.append(
            Segment(steps=count - 1, slot=0, slot_stride=1, count=1, sends=tuple(steps[1:]))
        )
    segments.append(Segment(steps=1, slot=count - 1, count=1))
    leaves = Source.FORWARD if last or part != "reduce-scatter" else Source.REDUCED
    made = _phase("halving-doubling", network, dimension, part, ring, segments, data, slots=count)
    return replace(made, leaves=leaves)


def tree(
    network: Network,
    dimension: int,
    part: str,
    *,
    data: float,
    prior: Source,
    ring: int,
    last: bool = True,
) -> Phase:
    """A binary tree: up with reduction, then down; or only down (broadcast) from coordinate 0.

    Odd rings take the mirror image, in which leaves of the other tree are inner nodes: two trees
    with half of the data each keep all links busy (double binary tree).
    """
    size = network.shape[dimension]
    lane, _ = lane_of(network, dimension, ring)
    mirror = bool(ring % 2) and part != "broadcast"
    parent, children = _binary_tree(size, rooted_at_zero=part == "broadcast")
    here = network.coordinates[dimension]
    position = size - 1 - here if mirror else here

    def peers(of: np.ndarray) -> np.ndarray:
        goal = of[position]
        back = np.where(goal < 0, here, size - 1 - goal if mirror else goal)
        coordinates = list(network.coordinates)
        coordinates[dimension] = back
        return np.where(goal < 0, -1, network.members(coordinates))

    def channel(name: str, of: np.ndarray) -> Channel:
        return network.table((name, dimension, part, mirror), peers(of), lane=lane)

    up = channel("up", parent)
    down = [channel("left", children[0]), channel("right", children[1])]
    kinds = (parent >= 0) * 4 + (children[0] >= 0) * 2 + (children[1] >= 0) * 1
    present = sorted(set(kinds.tolist()))
    programs = [_tree_program(k, up, down, data, prior, part) for k in present]
    role = np.searchsorted(np.asarray(present), kinds)[position]
    return Phase(
        name=f"tree {part} dim {dimension}",
        dimension=dimension,
        ring=ring,
        programs=tuple(programs),
        data_in=data,
        data_out=data,
        role=role,
    )


def _tree_program(
    kind: int, up: Channel, down: list[Channel], data: float, prior: Source, part: str
) -> Program:
    has_parent, sides = bool(kind & 4), [bool(kind & 2), bool(kind & 1)]
    below = sum(sides)
    reduces = part != "broadcast"
    segments = []
    receipt = Receipt.REDUCE
    if reduces and has_parent:
        source = Source.FORWARD if below else prior
        send = Send(channel=up, fraction=data, slot=0, source=source, receipt=receipt)
        segments.append(Segment(steps=1, slot=0, count=below, sends=((send,),)))
    sends = tuple(
        Send(channel=channel, fraction=data, slot=1, source=Source.FORWARD)
        for channel, used in zip(down, sides)
        if used
    )
    if has_parent:
        segments.append(Segment(steps=1, slot=1, count=1, sends=(sends,)))
    else:
        segments.append(Segment(steps=1, slot=0, count=below if reduces else 0, sends=(sends,)))
    return Program(segments=tuple(segments), slots=2)


def _binary_tree(size: int, *, rooted_at_zero: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """In-order binary tree over 0 .. size-1, or heap order from 0: parents, children; -1 = none."""
    parent = np.full(size, -1)
    children = [np.full(size, -1), np.full(size, -1)]

    def attach(node: int, above: int, side: int) -> None:
        parent[node] = above
        if above >= 0:
            children[side][above] = node

    if rooted_at_zero:
        for node in range(1, size):
            attach(node, (node - 1) // 2, (node - 1) % 2)
        return parent, children
    todo = [(0, size, -1, 0)]
    while todo:
        low, high, above, side = todo.pop()
        if low < high:
            middle = (low + high) // 2
            attach(middle, above, side)
            todo += [(low, middle, middle, 0), (middle + 1, high, middle, 1)]
    return parent, children


def lane_of(network: Network, dimension: int, ring: int) -> tuple[int, int]:
    """Lane and direction of a dimension's n-th ring; on a mapped network only the direction."""
    dim = _physical(network, dimension)
    if dim is None:
        return ring // 2, 1 - 2 * (ring % 2)
    lane, way = divmod(ring, dim.directions)
    return lane % dim.lanes, 1 - 2 * way


def rings_of(network: Network, dimension: int) -> int:
    """How many rings (or switches) a logical dimension offers."""
    dim = _physical(network, dimension)
    return 2 if dim is None else dim.lanes * dim.directions


def _physical(network: Network, dimension: int) -> Dimension | None:
    return None if network.mapped else network.dimensions[dimension]


def _to_all(
    network: Network,
    dimension: int,
    fraction: float,
    slot: int,
    source: Source,
    ring: int,
    receipt: Receipt,
    carry: Carry,
) -> tuple[Send, ...]:
    size = network.shape[dimension]
    lane, tie = lane_of(network, dimension, ring)
    sends = []
    for distance in range(1, size):
        # Where both ways are equally long, the rings share them.
        channel = network.shift(dimension, distance, lane=lane, tie=tie)
        sends.append(
            Send(
                channel=channel,
                fraction=fraction,
                slot=slot,
                source=source,
                receipt=receipt,
                carry=carry,
            )
        )
    return tuple(sends)


def _phase(
    algorithm: str,
    network: Network,
    dimension: int,
    part: str,
    ring: int,
    segments: list[Segment],
    data: float,
    slots: int = 1,
) -> Phase:
    size = network.shape[dimension]
    out = {"reduce-scatter": data / size, "all-gather": data * size}.get(part, data)
    return Phase(
        name=f"{algorithm} {part} dim {dimension}",
        dimension=dimension,
        ring=ring,
        programs=(Program(segments=tuple(segments), slots=slots),),
        data_in=data,
        data_out=out,
    )
