# SPDX-License-Identifier: Apache-2.0
"""The ACE hardware on a torus, phase by phase, as events: limits of its blocks and memory ports.

What holds on a ring (`sim.endpoint.ace_ring`) holds for each phase. A phase begins when everything
of the one before has arrived and left; then the previous node of the next ring is told (READY), and
may send. That of a gather has been told a phase before.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from hw.ace.config import ELEMENT_BYTES
from hw.link.packet import FLIT_BYTES
from sim.collectives.ace_program import PROGRAM_ENTRY, AceProgram
from sim.collectives.path_choice import torus_paths
from sim.collectives.phases import rings_of
from sim.collectives.plan import AlgorithmChoice, plan_paths
from sim.collectives.program import Plan, Receipt, Source, Variant
from sim.collectives.torus_paths import TorusPaths
from sim.endpoint.ace_ring import AceRingTimes
from sim.endpoint.endpoint import EndpointModel, Piece, Room, Stage, Unit
from sim.fields import FieldError
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["AceTorusTimes"]

_ALL_GATHER = CollectiveKind.ALL_GATHER


class _Traffic(NamedTuple):
    """Data that arrive at a node for a chunk, and those that its SRAM reads, in chunks."""

    arrives: float
    reads: float


@dataclass(frozen=True, kw_only=True)
class AceTorusTimes(AceRingTimes):
    """Engines of one configuration on a torus whose collectives go dimension by dimension.

    Parameters
    ----------
    style : str
        One of `sim.collectives.phase_order.BY_DIMENSION`.
    torus : TorusPaths or None
        Paths through a network; None before it is known.
    plan : Plan or None
        What is done there.
    network : Network or None
        Their links.
    """

    style: str
    torus: TorusPaths | None = None
    plan: Plan | None = None
    network: Network | None = None

    def of(self, network: Network, plan: Plan) -> "AceTorusTimes | None":
        """The engines of all nodes of a torus; None for groups of some dimensions, for phases that
        are no rings, and for what the hardware does not run: slots without room for a beat of each
        node, fewer partitions by phase than the style needs, or FSMs that its paths cannot share.
        """
        phases = [phase for variant in plan.variants for phase in variant.phases]
        spanned = {phase.dimension for phase in phases}
        linked = {n for n, each in enumerate(network.dimensions) if each.size > 1}
        if not phases or spanned != linked or any(len(each.group) != 1 for each in phases):
            return None
        try:
            fsms = math.gcd(*self.config.fsms_by_phase)
            paths = torus_paths(network, style=self.style, fsms=fsms)
        except FieldError:
            return None
        if len(paths) % 2 or len(plan.variants) < 2:
            return None
        torus = TorusPaths(shape=network.shape, style=self.style, paths=paths)
        made = replace(self, torus=torus, plan=plan, network=network)
        try:
            if self.config.phased:
                made.program.check_ways()
            for kind in PROGRAM_ENTRY:
                made.program.cut(1, collective=kind)
        except FieldError:
            return None
        return made

    def planned(
        self, network: Network, kind: CollectiveKind, choice: AlgorithmChoice, plan: Plan
    ) -> Plan:
        """*plan* with the paths and phases of the engines' programs; itself where there are none.
        """
        if kind not in PROGRAM_ENTRY:
            return plan
        made = self.of(network, plan)
        if made is None:
            return plan
        assert made.torus is not None
        torus = replace(made.torus, gather_backwards=choice.gather_backwards)
        # Paths of a ring, that is of a lane in one direction, follow each other.
        rings = max(rings_of(network, n) for n, size in enumerate(network.shape) if size > 1)
        paths = len(torus.paths)
        return plan_paths(
            network, kind, choice,
            [(path * rings // paths, torus.steps(kind, path)) for path in range(paths)],
        )

    @property
    def program(self) -> AceProgram:
        assert self.torus is not None
        paths = len(self.torus.paths)
        queues = max(paths, self.config.first_fsms // paths * paths)
        return AceProgram(config=self.config, nodes=self.nodes, queues=queues, torus=self.torus)

    def model(self, kind: CollectiveKind) -> EndpointModel:
        c, known = self.config, self.latencies
        assert self.plan is not None and self.torus is not None and self.network is not None
        cycle = 1 / self.clock_hz
        beat = cycle / c.bus_bytes  # seconds per byte
        banks = c.slot_banks * (1 if c.bank_ports == "1r1w" else 0.5)
        made_s = known.ace_generate * cycle
        make = Stage(unit="FSMs", fixed_s=made_s, ahead_s=made_s, outbox=True)
        variant = self.plan.variants[0]
        traffic = _traffic(variant, self.torus.shape, phases=c.phases)
        share = traffic.reads / traffic.arrives
        passes = (
            Stage(
                unit="SRAM", s_per_byte=beat * share / banks,
                ahead_s=beat * share / banks * c.packet_bytes, share=share,
            ),
            Stage(unit=None, s_per_byte=beat, latency_s=self._hop_cycles * cycle),
        )
        own = (make, Stage(unit=None, s_per_byte=beat))
        over_s = known.ace_hand_over * cycle if c.phased else 0.0
        opened = (Stage(unit=None, latency_s=self._ready_s + over_s), *own)
        turned = (Stage(unit=None, latency_s=known.ace_turn * cycle), *own)
        if c.phased:
            # Its place in the next partition is taken when the chunk moves there.
            turned = opened
        queues = self.program.queues
        chunk = float(self.program.chunk_elements(kind) * ELEMENT_BYTES)
        rooms, contexts = self._rooms(chunk)
        # A chunk has an FSM of its own, or one in each phase.
        fsms = Unit(name="FSMs", servers=queues, turns=queues)
        if c.phased:
            fsms = Unit(name="FSMs", servers=c.fsms)
        names = "TX DMA", "reads", "RX DMA", "writes"
        return EndpointModel(
            units=(
                Unit(name="SRAM"),
                fsms,
                Unit(name="dispatcher"),
                *self._copiers,
                *(Unit(name=name, servers=c.memory_ports, turns=queues) for name in names),
            ),
            before={
                Source.FRESH: own, Source.SUM: opened, Source.AGAIN: opened, Source.HELD: turned,
                Source.REDUCED: (),
                Source.FORWARD: (),
            },
            after={Receipt.KEEP: passes, Receipt.REDUCE: passes},
            rooms=rooms,
            contexts=contexts,
            message_bytes=float(c.packet_bytes),
            grain_bytes=FLIT_BYTES,
            header_bytes=FLIT_BYTES,
            credits=self.credits,
            oldest_first=True,
            start_of=partial(self._last_turns_s, kind),
            cut=partial(self._chunks, kind),
            moves=partial(self._moves, kind),
            polls=self.polls,
        )

    def _rooms(self, chunk: float) -> tuple[tuple[Room, ...], tuple[int, ...]]:
        """Rooms between phases, and contexts of each, for chunks of so many bytes. A chunk that
        keeps its slot takes the same one in all of them."""
        c = self.config
        assert self.plan is not None
        phases = max(len(each.phases) for each in self.plan.variants)
        if not c.phased:
            rooms = (
                Room(name=f"slots {n}", size_bytes=c.slots * chunk) for n in range(phases + 1)
            )
            return tuple(rooms), (c.slots,) * phases
        counts = c.slots_by_partition
        steps = self.plan.variants[0].phases
        sizes = [each.data_in for each in steps] + [steps[-1].data_out]
        names = [f"partition {n}" for n in range(phases)] + ["results"]
        rooms = (
            Room(name=name, size_bytes=count * chunk * size)
            for name, count, size in zip(names, (*counts[:phases], counts[-1]), sizes, strict=True)
        )
        return tuple(rooms), counts[:phases]

    def _chunks(self, kind: CollectiveKind, size_bytes: float) -> list[Piece]:
        """Chunks of a call; variants of the plan are the paths of FSMs.

        An all-reduce moves runs of blocks, those that lie behind the vector included, other
        collectives block by block; each has packets of its own.
        """
        part, program = self._part(kind, size_bytes), self.program
        packet = self.config.packet_elements
        blocks = 1 if kind is _ALL_GATHER else self.nodes
        found = []
        for number in range(part.chunks):
            elements = part.elements_of(number, blocks)
            if part.contiguous:
                carried = packet * elements / part.stride
            else:
                block = elements / blocks
                carried = block / math.ceil(block / packet)
            found.append(
                Piece(
                    program.kind(number % program.queues), float(ELEMENT_BYTES * elements),
                    ELEMENT_BYTES * carried,
                )
            )
        return found


def _traffic(variant: Variant, shape: Sequence[int], *, phases: int) -> _Traffic:
    """Reads are of first sends, of an operand of every addition, and of the result; of engines that
    have *phases*, of copies: of what a gather begins with, and of all in phases that are left."""
    copies = phases > 0
    result = variant.phases[-1].data_out
    arrives, reads = 0.0, result * (1 + max(0, phases - len(variant.phases)))
    for phase in variant.phases:
        size = shape[phase.dimension]
        gathers = phase.kind is _ALL_GATHER
        part = phase.data_in if gathers else phase.data_in / size
        rounds = 2 if phase.kind is CollectiveKind.ALL_REDUCE else 1
        arrives += rounds * (size - 1) * part
        reads += part * (1 + copies if gathers else size)
    return _Traffic(arrives, reads)
