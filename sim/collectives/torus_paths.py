# SPDX-License-Identifier: Apache-2.0
"""Ways of chunks through a torus: dimension by dimension, on rings of neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sim.collectives.fsm_program import FsmProgram, RingPhase, phase_length, phase_program
from sim.collectives.phase_order import joined_steps
from sim.fields import FieldError, check_type
from sim.workload.graph import CollectiveKind

__all__ = ["TorusPath", "TorusPaths"]


@dataclass(frozen=True, kw_only=True)
class TorusPath:
    """Way of the chunks of an FSM.

    Parameters
    ----------
    order : tuple of int
        Dimensions in the order in which data are reduced; they are gathered in the reverse order.
        Dimensions of size 1 are left out.
    way : int
        1 if reductions go to higher coordinates, -1 if to lower ones.
    ports : tuple of (int, int)
        By dimension, the links to the next and to the previous coordinate.
    """

    order: tuple[int, ...]
    way: int
    ports: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class TorusPaths:
    """Phases of a collective on a torus, for every path that chunks take.

    An all-reduce cuts what a node works on into as many parts as the ring of a phase has nodes,
    each a run of consecutive blocks; after a reduce-scatter it works on one of them. So a chunk has
    a block for each node, and a program few instructions. Blocks of the other collectives belong to
    ranks and are in their order; they are moved one by one.

    Parameters
    ----------
    shape : tuple of int
        Nodes along each dimension; node numbers have the first one varying fastest.
    style : str
        One of :data:`~sim.collectives.phase_order.BY_DIMENSION`: which collective is done in which
        dimension.
    paths : tuple of TorusPath
        FSM ``f`` runs ``paths[f % len(paths)]``.
    members : tuple of int
        Rank of each node; empty: the node's number.
    gather_backwards : bool
        All-gathers travel in the direction opposite to reduce-scatters.

    Raises
    ------
    ValueError
        For paths that do not go through every dimension once.
    """

    shape: tuple[int, ...]
    style: str
    paths: tuple[TorusPath, ...]
    members: tuple[int, ...] = ()
    gather_backwards: bool = False

    def __post_init__(self) -> None:
        back = self.gather_backwards
        check_type("gather_backwards", back, "True or False", isinstance(back, bool))
        active = [n for n, size in enumerate(self.shape) if size > 1]
        if not active:
            raise FieldError("shape", f"must have two nodes or more, not {self.shape!r}")
        if not self.paths:
            raise FieldError("paths", "must be at least one")
        for path in self.paths:
            if sorted(path.order) != active:
                raise FieldError(
                    "paths", f"must go once through the dimensions {active}, not {path.order!r}"
                )
        if self.members and sorted(self.members) != list(range(self.nodes)):
            raise FieldError("members", f"must have every rank below {self.nodes} once")

    @property
    def nodes(self) -> int:
        """Nodes of the torus."""
        return int(np.prod(self.shape))

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """Rank of each node."""
        return np.array(self.members or range(self.nodes), np.int64)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Ranks x dimensions: coordinates of each rank."""
        nodes = np.argsort(self.ranks)
        return np.stack(np.unravel_index(nodes, self.shape, order="F"), axis=1)

    def path(self, fsm: int) -> TorusPath:
        """Path of an FSM."""
        return self.paths[fsm % len(self.paths)]

    def code(self, collective: CollectiveKind, *, path: int, rank: int) -> FsmProgram:
        """Program of a rank for a path."""
        return _program(self, collective, path, tuple(self.places[rank].tolist()))

    def first(self, collective: CollectiveKind, *, path: int) -> FsmProgram:
        """Program of the node at the origin, whose blocks are numbers of nodes; those of other
        nodes are as many coordinates further."""
        return self.origin.code(collective, path=path, rank=0)

    @cached_property
    def origin(self) -> "TorusPaths":
        """The same paths where ranks are numbers of nodes."""
        return replace(self, members=())

    def phases(self, collective: CollectiveKind, *, path: int, rank: int) -> list[RingPhase]:
        """Phases of a rank on a path, one by one."""
        return _phases(self, collective, path, tuple(self.places[rank].tolist()))

    def length(self, collective: CollectiveKind, *, path: int) -> int:
        """Instructions of each program."""
        steps = self.steps(collective, path)
        return len(steps) + sum(
            phase_length(kind, size=self.shape[dimension], runs=runs)
            for (dimension, kind), runs in zip(steps, self._runs(collective, steps), strict=True)
        )

    def _runs(
        self, collective: CollectiveKind, steps: Sequence[tuple[int, CollectiveKind]]
    ) -> list[int]:
        """Runs of blocks that a part consists of in each phase."""
        if collective is CollectiveKind.ALL_REDUCE:
            return [1] * len(steps)
        runs, held = [], self.nodes if collective is not CollectiveKind.ALL_GATHER else 1
        for dimension, kind in steps:
            size = self.shape[dimension]
            if kind is CollectiveKind.ALL_GATHER:
                held *= size
            runs.append(held // size)
            if kind is CollectiveKind.REDUCE_SCATTER:
                held //= size
        return runs

    def digits(self, collective: CollectiveKind, path: int) -> list[list[tuple[int, int]]]:
        """For each phase, how blocks depend on the place of a node: (dimension, blocks from one
        coordinate to the next), the largest first. A block of the origin that is so many
        coordinates into each is moved on, in a circle, by those of another node."""
        if collective is not CollectiveKind.ALL_REDUCE:
            strides = np.cumprod([1, *self.shape[:-1]]).tolist()
            whole = [(n, stride) for n, stride in enumerate(strides) if self.shape[n] > 1]
            return [whole[::-1]] * len(self.steps(collective, path))
        found = []
        scattered: list[tuple[int, int]] = []
        length = self.nodes
        for dimension, kind in self.steps(collective, path):
            size = self.shape[dimension]
            if kind is CollectiveKind.ALL_GATHER:
                assert scattered[-1][0] == dimension
                length = size * scattered.pop()[1]
            run = length // size
            found.append([*scattered, (dimension, run)])
            if kind is CollectiveKind.REDUCE_SCATTER:
                scattered.append((dimension, run))
                length = run
        return found

    def parts(self, path: int) -> NDArray[np.int64]:
        """Blocks x dimensions: the node of each ring whose part a block of an all-reduce is."""
        blocks = np.arange(self.nodes)
        found = np.zeros((self.nodes, len(self.shape)), np.int64)
        whole = CollectiveKind.ALL_REDUCE
        steps = self.steps(whole, path)
        for (dimension, kind), digits in zip(steps, self.digits(whole, path), strict=True):
            if kind is not CollectiveKind.ALL_GATHER:
                rest = blocks
                for _, run in digits[:-1]:
                    rest = rest % run
                found[:, dimension] = rest // digits[-1][1]
        return found

    def parts_of(self, collective: CollectiveKind, path: int) -> list[list[int]]:
        """By block, the node of each ring whose part the block is."""
        places = self.parts(path) if collective is CollectiveKind.ALL_REDUCE else self.places
        found: list[list[int]] = places.tolist()
        return found

    def steps(self, collective: CollectiveKind, path: int) -> list[tuple[int, CollectiveKind]]:
        """Dimension and collective of each phase."""
        return joined_steps(
            self.paths[path].order, collective, self.style, gather_backwards=self.gather_backwards
        )


@lru_cache(maxsize=4096)
def _program(
    torus: TorusPaths, collective: CollectiveKind, path: int, place: Sequence[int]
) -> FsmProgram:
    return phase_program(_phases(torus, collective, path, place))


def _phases(
    torus: TorusPaths, collective: CollectiveKind, path: int, place: Sequence[int]
) -> list[RingPhase]:
    way, ports = torus.paths[path].way, torus.paths[path].ports
    grid = torus.ranks.reshape(torus.shape, order="F")
    scattered: set[int] = set()
    operands = 1
    phases: list[RingPhase] = []
    by_runs = collective is CollectiveKind.ALL_REDUCE
    steps, digits = torus.steps(collective, path), torus.digits(collective, path)
    for (dimension, kind), ((*outer, (_, run))) in zip(steps, digits, strict=True):
        gathers = kind is CollectiveKind.ALL_GATHER
        if collective is CollectiveKind.ALL_GATHER and not phases:
            scattered = {n for n, size in enumerate(torus.shape) if size > 1}
        if gathers:
            scattered.discard(dimension)
        size = torus.shape[dimension]
        blocks: tuple[tuple[int, ...], ...]
        if by_runs:
            first = sum(place[n] * length for n, length in outer)
            blocks = tuple((first + each * run,) for each in range(size))
        else:
            # Blocks that the node holds, by its coordinates in the dimensions that are scattered.
            # They are counted from its own, so programs of all nodes are the same one, moved.
            others = [n for n in range(grid.ndim) if n != dimension]
            held = np.roll(grid, [-place[n] for n in others], axis=others)[
                tuple(0 if n in scattered else slice(None) for n in range(grid.ndim))
            ]
            axis = sum(n not in scattered for n in range(dimension))
            blocks = tuple(
                tuple(held.take(each, axis=axis).ravel(order="F").tolist()) for each in range(size)
            )
        ahead, behind = ports[dimension]
        forward = way * (-1 if gathers and torus.gather_backwards else 1)
        to_port, from_port = (ahead, behind) if forward > 0 else (behind, ahead)
        phases.append(
            RingPhase(
                collective=kind, place=place[dimension], size=size, way=forward, to_port=to_port,
                from_port=from_port, blocks=blocks, run=run if by_runs else 1, operands=operands,
            )
        )
        if not gathers:
            operands *= size
        if kind is CollectiveKind.REDUCE_SCATTER:
            scattered.add(dimension)
    return phases
