# SPDX-License-Identifier: Apache-2.0
"""A program of ACE as one value: code of every FSM, cut of the vectors, order of the additions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.ace.isa import MOST_FIRST_RUN, Opcode
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BYTES
from sim.collectives.algorithm import Algorithm, Group
from sim.collectives.fsm_program import (
    PROGRAM_ENTRY,
    FsmProgram,
    PhaseStart,
    RingPhase,
    loaded_programs,
    phase_length,
    program_words,
    ring_program,
)
from sim.collectives.golden import (
    direction_of,
    ring_all_reduce,
    ring_partials,
    rotated_all_reduce,
    torus_all_reduce,
    translated,
    translated_all_reduce,
)
from sim.collectives.outcome import check_outcome
from sim.collectives.partition import Partition
from sim.collectives.partition_programs import HeldBlocks, PartitionedProgram, partitioned
from sim.collectives.ring import RING
from sim.collectives.torus_paths import TorusPaths
from sim.fields import FieldError
from sim.network.embedding import RingPlace
from sim.workload.graph import CollectiveKind

__all__ = ["PROGRAM_ENTRY", "AceProgram"]


@dataclass(frozen=True, kw_only=True)
class AceProgram:
    """Code, cut and order of additions of a group of engines, the same value on all of them.

    Drivers, cycle models and golden results take everything from here; how vectors are cut and
    which way data travel is known to this package alone.

    Parameters
    ----------
    config : AceConfig
    nodes : int
        Ranks, at least 2.
    queues : int
        FSMs in use; with partitions by phase, of the first phase.
    bidirectional : bool
        Every second round of FSMs runs its ring backwards.
    rings : tuple of tuples of RingPlace
        Rings that lie in the network, by place, with ranks for nodes; FSM ``f`` runs ring
        ``f % len(rings)``. None given: one ring in the order of the ranks, each of which has port 0
        to the next and port 1 to the previous one.
    torus : TorusPaths or None
        Phases, dimension by dimension, in place of rings.
    algorithm : Algorithm
        Of rings, for the collectives that it does; others are those of the ring. Not with phases.
    """

    config: AceConfig
    nodes: int
    queues: int
    bidirectional: bool = True
    rings: tuple[tuple[RingPlace, ...], ...] = ()
    torus: TorusPaths | None = None
    algorithm: Algorithm = RING

    def __post_init__(self) -> None:
        if self.algorithm is not RING and (self.torus is not None or self.config.phased):
            raise FieldError(
                "algorithm", f"must be ring where programs have phases, not {self.algorithm.name!r}"
            )

    def algorithm_of(self, collective: CollectiveKind) -> Algorithm:
        """The algorithm of a collective."""
        return self.algorithm if self.algorithm.does(collective) else RING

    def check_places(self) -> None:
        """Refuse programs of an algorithm that differ from place to place in more than the blocks,
        which are as many places further.

        Raises
        ------
        ValueError
        """
        if self.algorithm is RING:
            return
        for kind in range(self.kinds):
            for collective in self.loaded(kind):
                first = self.first(collective, kind=kind)
                for place in range(1, self.nodes):
                    code = self._code_of(collective, -1 if kind else 1, place, (0, 1), None)
                    if code != _moved_on(first, place, self.nodes):
                        raise ValueError(
                            f"algorithm {self.algorithm.name} does not do the same at all places: "
                            f"its {collective.value} differs at place {place}, and cycle models "
                            "have one program for all; level 'rtl' has one for each"
                        )

    # ---- Ways of the data.

    @property
    def _ways(self) -> int:
        """Both directions of rings, or paths."""
        return 2 if self.torus is None else len(self.torus.paths)

    @property
    def kinds(self) -> int:
        """Kinds of FSMs, by the way of their data and, with partitions by phase, their phase."""
        return self._ways * max(1, self.config.phases)

    def way(self, fsm: int) -> int:
        """Direction or path of the data of an FSM's chunks."""
        number = self.config.phase_of(fsm)[1]
        return int(self.direction(number) < 0) if self.torus is None else number % self._ways

    def kind(self, fsm: int) -> int:
        """Kind of an FSM."""
        return self.config.phase_of(fsm)[0] * self._ways + self.way(fsm)

    def _of_kind(self, kind: int) -> tuple[int, int]:
        """Phase and way of a kind of FSM."""
        return divmod(kind, self._ways)

    @property
    def fsms(self) -> list[int]:
        """FSMs in use: with partitions by phase, all those of later phases."""
        return [*range(self.queues), *range(self.config.first_fsms, self.config.fsms)] if (
            self.config.phased
        ) else [*range(self.queues)]

    def coordinates(self, fsm: int) -> NDArray[np.int64]:
        """Ranks x dimensions: place of each rank for an FSM."""
        if self.torus is not None:
            return self.torus.places
        places: NDArray[np.int64] = self.places[self.ring_of(fsm)][:, None]
        return places

    def check_ways(self) -> None:
        """Refuse partitions by phase in whose FSMs a chunk would change its path.

        Raises
        ------
        ValueError
            For numbers of FSMs that are no multiples of the paths.
        """
        c = self.config
        counts = (self.queues, *c.fsms_by_phase[1:])
        # Where nothing is sent, the same is copied on all paths.
        phases = [
            phase for phase in range(c.phases)
            if any(self.first(each, kind=phase * self._ways).receives for each in PROGRAM_ENTRY)
        ]
        for chunk in range(lcm(*counts)):
            ways = {
                self.way(c.fsms_of(phase)[chunk % counts[phase]])
                for phase in phases
            }
            if len(ways) > 1:
                raise FieldError(
                    "phase_fsms", f"must be multiples of the {self._ways} paths that chunks take, "
                    f"not {c.fsms_by_phase} with {self.queues} of the first phase in use"
                )

    # ---- Rings.

    @cached_property
    def _orders(self) -> list[list[int]]:
        """Ranks of each ring; empty for one in the order of the ranks."""
        return [[each.node for each in ring] for ring in self.rings]

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Rings x ranks: place of each rank in each ring."""
        orders = np.array(self._orders or [list(range(self.nodes))])
        return np.argsort(orders, axis=1)

    @property
    def order_of_places(self) -> NDArray[np.int64]:
        """Rings (or one torus) x nodes: rank at each place, that of a torus by number."""
        if self.torus is not None:
            return self.torus.ranks[None, :]
        order: NDArray[np.int64] = np.argsort(self.places, axis=1)
        return order

    def ring_of(self, fsm: int) -> int:
        """Number of the ring that an FSM runs."""
        return fsm % max(1, len(self.rings))

    def direction(self, fsm: int) -> int:
        """1 if the data of an FSM travel to the next place of its ring, -1 if to the previous."""
        return direction_of(
            fsm, queues=self.queues, bidirectional=self.bidirectional,
            rings=max(1, len(self.rings)),
        )

    def place(self, fsm: int, rank: int) -> int:
        """Place of a rank in the ring of an FSM."""
        return int(self.places[self.ring_of(fsm), rank])

    def order(self, fsm: int) -> list[int] | None:
        """Ranks by place in the ring of an FSM, None if they are those of the places."""
        return self._orders[self.ring_of(fsm)] if self.rings else None

    def ports(self, fsm: int, rank: int) -> tuple[int, int]:
        """Ports of a rank to the next and the previous place of an FSM's ring."""
        if not self.rings:
            return 0, 1
        here = self.rings[self.ring_of(fsm)][self.place(fsm, rank)]
        return here.next_port, here.previous_port

    def used_ports(self, rank: int) -> set[int]:
        """Ports of a rank that any program sends or receives through."""
        if self.torus is not None:
            return {
                port for path in self.torus.paths for dimension in path.order
                for port in path.ports[dimension]
            }
        return {port for fsm in range(self.queues) for port in self.ports(fsm, rank)}

    def digits(
        self, collective: CollectiveKind, *, kind: int
    ) -> list[list[tuple[int, int, int, bool]]]:
        """For each phase of a kind of FSM, how its blocks depend on the place of a node, see
        `TorusPaths.digits`: (dimension, blocks, nodes along it, blocks belong to ranks)."""
        phase, way = self._of_kind(kind)
        if self.torus is None:
            found = [[(0, 1, self.nodes, True)]]
        else:
            ranked = collective is not CollectiveKind.ALL_REDUCE
            found = [
                [(n, blocks, self.torus.shape[n], ranked) for n, blocks in each]
                for each in self.torus.digits(collective, way)
            ]
        if not self.config.phased:
            return found
        if phase < len(found):
            return found[phase : phase + 1]
        # What all nodes have alike is copied from its beginning.
        return [[] if collective is CollectiveKind.ALL_REDUCE else found[-1]]

    # ---- Code.

    def first(self, collective: CollectiveKind, *, kind: int) -> FsmProgram:
        """Instructions of the origin for a kind of FSM: blocks by place; those of another place are
        as many coordinates further. In a ring, port 0 leads to the next place and 1 to the previous
        one."""
        phase, way = self._of_kind(kind)
        if self.config.phased:
            return self._first_partitioned(collective, way).codes[phase]
        if self.torus is not None:
            return self.torus.first(collective, path=way)
        return self._code_of(collective, -1 if way else 1, 0, (0, 1), None)

    def _code_of(
        self, collective: CollectiveKind, direction: int, place: int, ports: tuple[int, int],
        order: tuple[int, ...] | None,
    ) -> FsmProgram:
        algorithm = self.algorithm_of(collective)
        return _code(algorithm, collective, direction, place, self.nodes, ports, order)

    def _first_partitioned(self, collective: CollectiveKind, way: int) -> PartitionedProgram:
        if self.torus is not None:
            return _partitioned(collective, self.config.phases, self.torus.origin, way, 0)
        return _partitioned_ring(
            collective, self.config.phases, -1 if way else 1, 0, self.nodes, (0, 1), None
        )

    def partitioned(self, collective: CollectiveKind, *, fsm: int, rank: int) -> PartitionedProgram:
        """Instructions of a rank for the chunks of an FSM, with partitions by phase."""
        way, phases = self.way(fsm), self.config.phases
        if self.torus is not None:
            return _partitioned(collective, phases, self.torus, way, rank)
        number = self.config.phase_of(fsm)[1]
        order = self.order(number)
        return _partitioned_ring(
            collective, phases, self.direction(number), self.place(number, rank), self.nodes,
            self.ports(number, rank), None if order is None else tuple(order),
        )

    def code(self, collective: CollectiveKind, *, fsm: int, rank: int) -> FsmProgram:
        """Instructions of a rank for an FSM."""
        if self.config.phased:
            phase = self.config.phase_of(fsm)[0]
            return self.partitioned(collective, fsm=fsm, rank=rank).codes[phase]
        if self.torus is not None:
            return self.torus.code(collective, path=self.way(fsm), rank=rank)
        order = self.order(fsm)
        return self._code_of(
            collective, self.direction(fsm), self.place(fsm, rank), self.ports(fsm, rank),
            None if order is None else tuple(order),
        )

    def words(self, fsm: int, *, rank: int) -> dict[int, int]:
        """Program store of an FSM, address to word."""
        loaded = self.loaded(self.kind(fsm))
        c = self.config
        limits = None
        if c.phased:
            limits = {
                each: self.chunk_elements(each) // (self.nodes * c.lanes) for each in loaded
            }
        return program_words(
            {each: self.code(each, fsm=fsm, rank=rank) for each in loaded}, block_beats=limits
        )

    def length(self, collective: CollectiveKind, *, kind: int) -> int:
        """Instructions of a program for a kind of FSM, of the rank that has most."""
        if self.config.phased:
            return len(self.first(collective, kind=kind).instructions)
        if self.torus is not None:
            return self.torus.length(collective, path=kind)
        if self.algorithm_of(collective) is not RING:
            codes = (
                self._code_of(collective, -1 if kind else 1, place, (0, 1), None)
                for place in range(self.nodes)
            )
            return max(len(each.instructions) for each in codes)
        return 1 + phase_length(collective, size=self.nodes, runs=1)

    def loaded(
        self, kind: int, *, wanted: CollectiveKind = CollectiveKind.ALL_REDUCE
    ) -> list[CollectiveKind]:
        """Collectives whose programs are in the store of a kind of FSM: those that fit.

        Raises
        ------
        ValueError
            If the *wanted* one does not fit, or has more steps than a packet can name; or if an
            all-reduce begins with runs of more blocks than an entry of the table can say.
        """
        if self.torus is not None:
            way = self._of_kind(kind)[1]
            first = self.torus.digits(CollectiveKind.ALL_REDUCE, way)[0][-1][1]
            if first > MOST_FIRST_RUN:
                shape = " x ".join(map(str, self.torus.shape))
                raise FieldError(
                    "nodes", f"must be few enough for runs of {MOST_FIRST_RUN} blocks in a first "
                    f"phase; an all-reduce on {shape} nodes needs {first}"
                )
        lengths = {each: self.length(each, kind=kind) for each in PROGRAM_ENTRY}
        return loaded_programs(self.config, lengths, wanted)

    # ---- Cut of a vector.

    def cut(
        self,
        elements: int,
        *,
        block: int | None = None,
        collective: CollectiveKind,
    ) -> Partition:
        """Chunks and blocks of a vector of *elements*; *block* None: chosen. Those of an all-reduce
        on a torus are contiguous.

        Raises
        ------
        ValueError
            For no elements, or a *block* that does not fit.
        """
        c = self.config
        # Headers number the packets of a run.
        most = c.block_packets * c.packet_elements // max(self.runs(collective))
        return Partition.plan(
            elements, self.nodes, queues=self.queues, lanes=c.lanes,
            packet_elements=c.packet_elements, slot_elements=self.chunk_elements(collective),
            most=most,
            block=block,
            contiguous=self.torus is not None and collective is CollectiveKind.ALL_REDUCE,
        )

    def chunk_elements(self, collective: CollectiveKind) -> int:
        """Most elements of a chunk: of a slot, or with partitions by phase, so many that what is
        in each partition fits one of its slots."""
        c = self.config
        if not c.phased:
            return c.slot_elements
        least = c.slot_beats
        for way in sorted({self.way(fsm) for fsm in range(self.queues)}):
            spans = self._spans(collective, way)
            for number, (slot, span) in enumerate(zip(c.partition_beats, spans, strict=True)):
                if slot < span:
                    raise FieldError(
                        "partition_bytes" if c.partition_bytes else "sram_bytes",
                        f"must be large enough for {span} beats in each slot of partition "
                        f"{number}, one of each block that {collective.value} has there, not {slot}"
                    )
                least = min(least, slot // span)
        return least * c.lanes * self.nodes

    def _spans(self, collective: CollectiveKind, way: int) -> list[int]:
        """Most blocks that a rank has in each partition."""
        orders = (self.torus is not None and self.torus.members) or self.rings
        if not orders:
            return [each.span for each in self._first_partitioned(collective, way).held]
        fsms = [fsm for fsm in range(self.queues) if self.way(fsm) == way]
        spans = [
            [each.span for each in self.partitioned(collective, fsm=fsm, rank=rank).held]
            for fsm in fsms for rank in range(self.nodes)
        ]
        return [max(each) for each in zip(*spans)]

    def settings(
        self, elements: int, *, block: int | None = None, collective: CollectiveKind
    ) -> dict[str, int]:
        """The cut as the registers of a command have it, see `Partition.settings`."""
        return self.cut(elements, block=block, collective=collective).settings

    def runs(self, collective: CollectiveKind) -> set[int]:
        """Blocks of the runs of all phases of all kinds of FSMs."""
        kinds = range(self.kinds)
        if self.config.phased:
            return {self.first(collective, kind=kind).first.run for kind in kinds}
        if self.torus is None or collective is not CollectiveKind.ALL_REDUCE:
            return {1}
        return {phase[-1][1] for kind in kinds for phase in self.torus.digits(collective, kind)}

    def shard(self, elements: int, rank: int, *, block: int | None = None) -> slice:
        """Elements that a rank owns; may be empty."""
        return self.cut(
            elements, block=block, collective=CollectiveKind.REDUCE_SCATTER
        ).shard(rank)

    def most_flits(
        self, elements: int, *, block: int | None = None, collective: CollectiveKind
    ) -> int:
        """Upper bound of the flits that a node sends for a command, READY packets included."""
        cut, c = self.cut(elements, block=block, collective=collective), self.config
        most = [0] * self._ways
        for kind in range(self.kinds):
            program = self.first(collective, kind=kind)
            for phase in program.phases:
                run = phase.run * cut.block
                packets = -(-run // c.packet_elements)
                flits = phase.sends * (packets + -(-run * ELEMENT_BYTES // FLIT_BYTES))
                most[self._of_kind(kind)[1]] += flits + 4 * len(phase.ready_ports)
        return max(most) * cut.chunks + 64

    def packet(
        self, command_cut: Partition, *, chunk: int, block: int, run: int, offset: int
    ) -> slice:
        """Elements of packet *offset* of a *run* of blocks of a chunk."""
        size = self.config.packet_elements
        whole = command_cut.run(chunk, block, run)
        start = whole.start + offset * size
        return slice(start, max(start, min(whole.stop, start + size)))

    # ---- Results.

    def all_reduced(
        self,
        arrays: Sequence[NDArray[Any]],
        *,
        op: ReduceOp,
        block: int | None = None,
        collective: CollectiveKind,
    ) -> NDArray[Any]:
        """The vector that every rank holds after an all-reduce, or of which it holds its shard
        after a reduce-scatter, bit for bit."""
        cut = self.cut(len(arrays[0]), block=block, collective=collective)
        if self.torus is not None:
            return torus_all_reduce(arrays, cut, self.torus, op=op)
        return ring_all_reduce(
            arrays, cut, op=op, bidirectional=self.bidirectional, rings=self._orders,
            by=(self.algorithm_of(collective), collective),
        )

    def rotated(
        self,
        vector: NDArray[Any],
        *,
        op: ReduceOp,
        block: int | None = None,
        collective: CollectiveKind,
    ) -> NDArray[Any]:
        """The same where rank 0 has *vector*, and every other rank its image, see `images`."""
        cut = self.cut(len(vector), block=block, collective=collective)
        if self.torus is not None:
            return translated_all_reduce(vector, cut, self.torus, op=op)
        return rotated_all_reduce(vector, cut, op=op, bidirectional=self.bidirectional)

    def images(
        self,
        vector: NDArray[Any],
        *,
        block: int | None = None,
        collective: CollectiveKind,
    ) -> list[NDArray[Any]]:
        """Vectors of all ranks that make each of them, with its program, a copy of rank 0 with
        *vector*: its shards moved on by the rank in a circle or, on a torus, the parts of each of
        its chunks by the rank's coordinates."""
        cut = self.cut(len(vector), block=block, collective=collective)
        if self.torus is not None:
            return translated(vector, cut, self.torus)
        shards = vector.reshape(self.nodes, cut.stride)
        return [np.roll(shards, rank, axis=0).ravel() for rank in range(self.nodes)]

    def partials(
        self,
        arrays: NDArray[Any],
        *,
        rank: int,
        op: ReduceOp,
        block: int | None = None,
        collective: CollectiveKind,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Partial results that arrive at a rank and leave it, and the final ones, bit for bit."""
        if self.torus is not None:
            raise ValueError("partial results of phases are those of a block, see torus_partial")
        cut = self.cut(np.shape(arrays)[1], block=block, collective=collective)
        return ring_partials(
            arrays, cut, rank=rank, op=op, bidirectional=self.bidirectional, rings=self._orders
        )


def _moved_on(program: FsmProgram, places: int, nodes: int) -> FsmProgram:
    """A program of one phase with blocks that are so many places further round the ring."""
    return replace(program, instructions=tuple(
        each if isinstance(each, PhaseStart) or each.op is Opcode.END
        else replace(each, block=(each.block + places) % nodes)
        for each in program.instructions
    ))


@lru_cache(maxsize=4096)
def _code(
    algorithm: Algorithm,
    collective: CollectiveKind,
    direction: int,
    rank: int,
    nodes: int,
    ports: tuple[int, int],
    order: tuple[int, ...] | None,
) -> FsmProgram:
    check_outcome(algorithm, collective, Group(shape=(nodes,), way=direction))
    to_port, from_port = ports if direction == 1 else ports[::-1]
    return ring_program(
        collective, rank=rank, nodes=nodes, direction=direction, to_port=to_port,
        from_port=from_port, algorithm=algorithm, order=order,
    )


@lru_cache(maxsize=4096)
def _partitioned(
    collective: CollectiveKind, phases: int, torus: TorusPaths, way: int, rank: int
) -> PartitionedProgram:
    whole = collective is CollectiveKind.ALL_REDUCE
    gathers = collective is CollectiveKind.ALL_GATHER
    held = HeldBlocks((rank,)) if gathers else HeldBlocks((0,), torus.nodes)
    return partitioned(
        torus.phases(collective, path=way, rank=rank), held, count=phases, joins=whole
    )


@lru_cache(maxsize=4096)
def _partitioned_ring(
    collective: CollectiveKind, phases: int, direction: int, place: int, nodes: int,
    ports: tuple[int, int], order: tuple[int, ...] | None,
) -> PartitionedProgram:
    to_port, from_port = ports if direction == 1 else ports[::-1]
    blocks = range(nodes) if order is None else order
    phase = RingPhase(
        collective=collective, place=place, size=nodes, way=direction, to_port=to_port,
        from_port=from_port, blocks=tuple((block,) for block in blocks),
    )
    gathers = collective is CollectiveKind.ALL_GATHER
    held = HeldBlocks((blocks[place],)) if gathers else HeldBlocks((0,), nodes)
    return partitioned(
        [phase], held, count=phases, joins=collective is CollectiveKind.ALL_REDUCE
    )
