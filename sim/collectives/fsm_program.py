# SPDX-License-Identifier: Apache-2.0
"""Algorithms as programs for ACE's FSMs.

A block that arrives is one receive instruction, which may add, store and send it on once. So an
FSM runs algorithms that send blocks along chains of neighbours: it adds one packet to its own data
of a block, and passes every packet on to one neighbour at most. A ring can be run through in both
directions at once; the second direction is the same program with predecessor and successor
exchanged. A program does one such collective, or several one after the other, each a *phase* on a
ring of its own: a torus is reduced dimension by dimension. The other limits are those of
:mod:`hw.ace.isa` (widths of fields) and of the engine (words of a program store, steps that a
packet can name).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import AceConfig
from hw.ace.isa import (
    ENTRY_WORDS,
    TABLE_WORDS,
    Opcode,
    instruction_layout,
    phase_layout,
    placement_layout,
    program_entry_layout,
)
from sim.collectives.algorithm import (
    Algorithm,
    Group,
    Neighbour,
    Peer,
    held_at_start,
    messages,
    places_among_equals,
)
from sim.collectives.ring import RING
from sim.fields import FieldError
from sim.workload.graph import CollectiveKind

__all__ = [
    "PROGRAM_ENTRY",
    "FsmProgram",
    "Instruction",
    "PhaseStart",
    "RingPhase",
    "copying_program",
    "decode",
    "loaded_programs",
    "phase_length",
    "phase_program",
    "program_words",
    "ring_program",
]

PROGRAM_ENTRY: Mapping[CollectiveKind, int] = {
    CollectiveKind.ALL_REDUCE: 0,
    CollectiveKind.REDUCE_SCATTER: 1,
    CollectiveKind.ALL_GATHER: 2,
}
"""The collectives of an engine, and the entry of each in the program table."""

_OPERANDS = 1 << 10  # are counted modulo this
_MOST_READIES = 3  # READY packets of a peer that a context counts
_MOST_AHEAD = 2047  # runs of a phase in one of the next
_REDUCE, _STORE, _SEND, _RECEIVE = 1, 2, 4, 8


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction; see ``hw.ace.isa`` for what the opcodes do. ``block`` is the first one of
    its run."""

    op: Opcode
    block: int = 0
    port: int = 0
    peer_step: int = 0
    contributions: int = 0
    arriving: int = 0
    readies: int = 0
    odd: int = 0

    def text(self, run: int) -> str:
        """Operands of an instruction whose runs have so many blocks."""
        parts = [f"block {self.block}"] if self.op is not Opcode.END else []
        if parts and run > 1:
            parts = [f"blocks {self.block}-{self.block + run - 1}"]
        if self.op is Opcode.COPY:
            return f"{parts[0]} to the next partition"
        if self.op.value & _RECEIVE:
            parts.append(f"of {self.arriving}")
        if self.op.value & _SEND:
            after = f" after READY {self.readies + 1}" if self.readies else ""
            parts.append(
                f"{self.contributions} to port {self.port}, step {self.peer_step}{after}"
            )
        return ", ".join(parts)

    def encode(self) -> int:
        """The instruction as a 64-bit word."""
        fields: Mapping[str, object] = {
            "op": self.op.value,
            "block": self.block,
            "port": self.port,
            "peer_step": self.peer_step,
            "contributions": self.contributions % _OPERANDS,
            "arriving": self.arriving % _OPERANDS,
            "readies": self.readies,
            "odd": self.odd,
        }
        return _pack(instruction_layout, fields)


@dataclass(frozen=True, kw_only=True)
class PhaseStart:
    """Runs of blocks that arrive and leave in a phase, the blocks of each, and the links whose
    peers may send from its beginning on: of the first one in the table entry, of the others an
    instruction ``PHASE``. ``ahead``: so many of its runs are a run of the next phase, whose peers
    are among those that may send; 0: they are not. The table entry has no bits for it: it is 1 at
    most. ``from_ports``: links that the packets of this phase come through, where that is known;
    a word does not tell."""

    receives: int
    sends: int
    ready_ports: frozenset[int]
    run: int = 1
    ahead: int = 0
    from_ports: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def op(self) -> Opcode:
        return Opcode.PHASE

    def __str__(self) -> str:
        parts = []
        if self.ready_ports:
            parts.append("READY to " + ", ".join(map(str, sorted(self.ready_ports))))
        if self.run > 1:
            parts.append(f"runs of {self.run} blocks, {self.receives} in, {self.sends} out")
        else:
            parts.append(f"{self.receives} blocks arrive, {self.sends} leave")
        if self.ahead:
            parts.append(f"the next, of {self.run * self.ahead}, may come")
        return "; ".join(parts)

    @property
    def counts(self) -> dict[str, int]:
        """Counts and ports of a first phase, as the table has them."""
        return {
            "receives": self.receives,
            "sends": self.sends,
            "ready_ports": sum(1 << port for port in self.ready_ports),
            "run": self.run,
        }

    @property
    def fields(self) -> dict[str, int]:
        """Its counts and ports, as the fields of a word have them."""
        return {**self.counts, "ahead": self.ahead}

    def encode(self) -> int:
        """The instruction as a 64-bit word."""
        return _pack(phase_layout, {"op": self.op.value, **self.fields})


@dataclass(frozen=True, kw_only=True)
class FsmProgram:
    """Instructions for one FSM; the table entry of the program has the counts of its first phase.

    Parameters
    ----------
    instructions : tuple of Instruction or PhaseStart
    first : PhaseStart
        Of the first phase.
    results : int or None
        First block of what a phase leaves to the next one, with partitions by phase.

    Raises
    ------
    ValueError
        For instructions in no order that an FSM has, and counts of phases that would make it wait
        for what never comes, or end before the last packet.
    """

    instructions: tuple[Instruction | PhaseStart, ...]
    first: PhaseStart
    results: int | None = None

    def __post_init__(self) -> None:
        code = self.instructions
        end = next((n for n, each in enumerate(code) if each.op is Opcode.END), None)
        if end is None:
            raise FieldError("instructions", "must have an END")
        arriving = [each for each in code[end + 1 :] if each.op.value & _RECEIVE]
        if len(arriving) < len(code) - end - 1:
            raise FieldError("instructions", f"must be receive instructions behind END, step {end}")
        for step, each in enumerate(code[:end]):
            if each.op not in (Opcode.SEND, Opcode.COPY, Opcode.PHASE):
                raise FieldError(
                    "instructions", f"must be SEND, COPY or PHASE before END, not {each.op.name} "
                    f"at step {step}"
                )
        sends = sum(bool(each.op.value & _SEND) for each in code)
        for name, counted, there in (
            ("receives", self.receives, len(arriving)), ("sends", self.sends, sends)
        ):
            if counted != there:
                raise FieldError(
                    name, f"of all phases must be those of the instructions, {there}, not {counted}"
                )
        own, phase = 0, self.first
        for step, each in enumerate(code[:end]):
            own, phase = (0, each) if isinstance(each, PhaseStart) else (own + 1, phase)
            if own > phase.sends:
                raise FieldError(
                    "sends", f"of a phase must be at least its SENDs, not {phase.sends} before "
                    f"step {step}"
                )
        for step, (each, number) in enumerate(zip(code, self.phase_of)):
            if isinstance(each, Instruction) and each.op is not Opcode.END and (
                each.odd != number % 2
            ):
                raise FieldError(
                    "odd", f"must be {number % 2} at step {step}, in phase {number}, not {each.odd}"
                )

    @property
    def phases(self) -> tuple[PhaseStart, ...]:
        """All phases in order."""
        later = (each for each in self.instructions if isinstance(each, PhaseStart))
        return self.first, *later

    @property
    def ready_ports(self) -> frozenset[int]:
        """Links whose peers send to this program."""
        return frozenset[int]().union(*(each.ready_ports for each in self.phases))

    @property
    def receives(self) -> int:
        """Runs of blocks that arrive."""
        return sum(each.receives for each in self.phases)

    @property
    def sends(self) -> int:
        """Runs of blocks that are sent, own or forwarded ones."""
        return sum(each.sends for each in self.phases)

    def listing(self) -> str:
        """The program as text, a line for each step."""
        lines = [" " * 27 + str(self.first)]
        for step, each in enumerate(self.instructions):
            text = str(each) if isinstance(each, PhaseStart) else each.text(self.run_of(step))
            lines.append(f"{step:4} {each.op.name:22}{text}".rstrip())
        return "\n".join(lines)

    def table_entry(self, entry: int) -> int:
        """Word of the program table for a program whose first instruction is at word *entry*, a
        multiple of `ENTRY_WORDS`."""
        assert entry % ENTRY_WORDS == 0
        return _pack(
            program_entry_layout,
            {
                "entry": entry // ENTRY_WORDS, "last": len(self.instructions) - 1,
                **self.first.counts,
            },
        )

    def placement(self, beats: int) -> int:
        """Word behind the program table, with partitions by phase, for blocks of so many *beats* at
        most."""
        return _pack(placement_layout, {"first": self.results or 0, "beats": beats})

    def run_of(self, step: int) -> int:
        """Blocks of the run of an instruction."""
        return self.phases[self.phase_of[step]].run

    @cached_property
    def phase_of(self) -> list[int]:
        """Number of the phase that each instruction belongs to; END and PHASE to the one before."""
        end = next(n for n, each in enumerate(self.instructions) if each.op is Opcode.END)
        numbers, phase = [], 0
        for each in self.instructions[: end + 1]:
            numbers.append(phase)
            phase += isinstance(each, PhaseStart)
        for number, each in enumerate(self.phases):
            numbers += [number] * each.receives
        return numbers


def _pack(layout: object, fields: Mapping[str, object]) -> int:
    word = 0
    for name, value in fields.items():
        place = layout[name]  # type: ignore[index]
        if not 0 <= int(value) < 1 << place.width:  # type: ignore[call-overload]
            raise FieldError(name, f"must fit {place.width} bits, not {value!r}")
        word |= int(value) << place.offset  # type: ignore[call-overload]
    return word


def _unpack(layout: Any, word: int) -> dict[str, int]:
    return {
        name: word >> place.offset & (1 << place.width) - 1 for name, place in layout
        if name not in ("op", "reserved")
    }


def decode(word: int) -> Instruction | PhaseStart:
    """The instruction that a 64-bit word is; operands are those of the word, modulo 1024.

    Raises
    ------
    ValueError
        If its opcode is none.
    """
    op = Opcode(word & 15)
    if op is not Opcode.PHASE:
        return Instruction(op=op, **_unpack(instruction_layout, word))
    fields = _unpack(phase_layout, word)
    counts = {name: fields[name] for name in ("receives", "sends", "run", "ahead")}
    ports = frozenset(n for n in range(8) if fields["ready_ports"] >> n & 1)
    return PhaseStart(ready_ports=ports, from_ports=frozenset(), **counts)


@dataclass(frozen=True, kw_only=True)
class RingPhase:
    """A collective on a ring of neighbours, a phase of a program.

    Parameters
    ----------
    collective : CollectiveKind
    place, size : int
        Place of this node in the ring, and size of the ring, at least 2.
    way : int
        +1 if data travels to higher places, -1 if to lower ones.
    to_port, from_port : int
        Links to the next and from the previous place in this direction.
    blocks : tuple of tuples of int
        By place of the ring, the first blocks of the runs that its part of a chunk consists of;
        equally many for each, in an order that is the same on all nodes of the ring.
    run : int
        Blocks of each of these runs.
    operands : int
        Operands that the node's own data have at the beginning.
    algorithm : Algorithm
        One whose members send to neighbours.
    """

    collective: CollectiveKind
    place: int
    size: int
    way: int
    to_port: int
    from_port: int
    blocks: tuple[tuple[int, ...], ...]
    run: int = 1
    operands: int = 1
    algorithm: Algorithm = RING

    def __post_init__(self) -> None:
        if self.size < 2:
            raise FieldError("nodes", f"must be at least 2, not {self.size!r}")
        if not 0 <= self.place < self.size:
            raise FieldError("rank", f"must be from 0 to {self.size - 1}, not {self.place!r}")
        if self.way not in (1, -1):
            raise FieldError("direction", f"must be 1 or -1, not {self.way!r}")
        if self.collective not in PROGRAM_ENTRY:
            known = ", ".join(kind.value for kind in PROGRAM_ENTRY)
            raise FieldError("collective", f"must be one of {known}, not {self.collective.value}")

    def ports(self, peer: Peer) -> tuple[int, int]:
        """The port to a peer, and the one from nodes for which this node is that peer."""
        ahead = peer == Neighbour(self.way)
        return (self.to_port, self.from_port) if ahead else (self.from_port, self.to_port)


def phase_program(phases: Sequence[RingPhase], *, copies: Sequence[int] = ()) -> FsmProgram:
    """Program of one node that does phases one after the other, on its data in place.

    All nodes have the same phases, with places, blocks and ports of their own. In the first phase,
    the runs that begin with blocks *copies* are copied to the next partition.

    Raises
    ------
    ValueError
        If an algorithm needs more than FSMs can do.
    """
    codes = [
        _compile(each.algorithm, each.collective, Group(shape=(each.size,), way=each.way))
        for each in phases
    ]
    sends: list[list[Instruction]] = []
    receives: list[Instruction] = []
    starts: list[PhaseStart] = []
    widths = [len(each.blocks[0]) for each in phases]
    fresh = [
        np.bincount(code.firsts[:, 0], minlength=each.size) * width
        for code, each, width in zip(codes, phases, widths)
    ]
    begin = sum(int(sends[each.place]) for sends, each in zip(fresh, phases)) + len(phases)
    begin += len(copies)
    sent_to: Counter[int] = Counter()  # phases that have sent through a port
    for number, (phase, code, width) in enumerate(zip(phases, codes, widths)):
        ports = [phase.ports(peer) for peer in code.peers]
        # First receive of the phase at each peer, which differs from this node in its own SENDs of
        # the phase alone.
        group = Group(shape=(phase.size,))
        bases = [
            begin + len(receives)
            + int(fresh[number][peer.ranks(group)[phase.place]] - fresh[number][phase.place])
            for peer in code.peers
        ]
        readies = {port: sent_to[port] for port, _ in ports}
        if max(readies.values()) >= _MOST_READIES:
            raise FieldError(
                "phases", f"must send through a port in at most {_MOST_READIES} phases, not more"
            )
        sent_to.update(readies.keys())
        count = int(code.received[phase.place])
        made, passed = _receives(phase, code, ports, readies, bases, number % 2)
        from_ports = frozenset(port for _, port in ports)
        starts.append(
            PhaseStart(
                receives=count * width, sends=int(fresh[number][phase.place]) + passed,
                ready_ports=from_ports, run=phase.run, from_ports=from_ports,
            )
        )
        receives += made
        mine = code.firsts[code.firsts[:, 0] == phase.place]
        sends.append(
            [
                Instruction(
                    op=Opcode.SEND, block=block, port=ports[first.peer][0],
                    peer_step=bases[first.peer] + first.peer_step * width + place,
                    contributions=phase.operands, readies=readies[ports[first.peer][0]],
                    odd=number % 2,
                )
                for first in map(_Sent._make, mine.tolist())
                for place, block in enumerate(phase.blocks[first.block])
            ]
        )
    starts = _told_ahead(phases, starts)
    starts[0] = replace(starts[0], sends=starts[0].sends + len(copies))
    spine: list[Instruction | PhaseStart] = [*sends[0], *_copies(copies)]
    for start, own in zip(starts[1:], sends[1:]):
        spine += [start, *own]
    spine.append(Instruction(op=Opcode.END))
    assert len(spine) == begin
    return FsmProgram(instructions=(*spine, *receives), first=starts[0])


def _copies(blocks: Sequence[int]) -> list[Instruction]:
    return [Instruction(op=Opcode.COPY, block=block) for block in blocks]


def copying_program(blocks: Sequence[int], *, run: int) -> FsmProgram:
    """Program of a phase in which nothing happens but that the runs beginning with *blocks* are
    copied to the next partition."""
    code = (*_copies(blocks), Instruction(op=Opcode.END))
    start = PhaseStart(receives=0, sends=len(blocks), ready_ports=frozenset(), run=run)
    return FsmProgram(instructions=code, first=start)


def _told_ahead(phases: Sequence[RingPhase], starts: Sequence[PhaseStart]) -> list[PhaseStart]:
    """The same phases with READY a phase earlier where packets may come so early.

    Those of an all-gather may: they replace data, which have left before such a packet can exist.
    An operand of a reduction may not. Nor may a port be told twice at once.
    """
    told = list(starts)
    for number in range(1, len(phases)):
        before, start = told[number - 1], starts[number]
        runs, rest = divmod(start.run, before.run)
        if (
            phases[number].collective is CollectiveKind.ALL_GATHER
            and not rest and runs <= (_MOST_AHEAD if number > 1 else 1)
            and not before.from_ports & start.from_ports
        ):
            told[number - 1] = replace(
                before, ready_ports=before.ready_ports | start.ready_ports, ahead=runs
            )
            told[number] = replace(start, ready_ports=frozenset())
    return told


def _receives(
    phase: RingPhase,
    code: "_Code",
    ports: Sequence[tuple[int, int]],
    readies: Mapping[int, int],
    bases: Sequence[int],
    odd: int,
) -> tuple[list[Instruction], int]:
    """Receive instructions of a phase of even or *odd* number, and how many of them send."""
    made = []
    sends = 0
    width = len(phase.blocks[0])
    for row in code.receives[phase.place, : code.received[phase.place]].tolist():
        each = _Received._make(row)
        onward = bool(each.op & _SEND)
        port = ports[each.peer][0] if onward else 0
        sends += onward * width
        made += [
            Instruction(
                op=Opcode(each.op),
                block=block,
                port=port,
                peer_step=bases[each.peer] + each.peer_step * width + place if onward else 0,
                contributions=each.contributions * phase.operands,
                arriving=(each.contributions - (each.op & _REDUCE)) * phase.operands,
                readies=readies[port] if onward else 0,
                odd=odd,
            )
            for place, block in enumerate(phase.blocks[each.block])
        ]
    return made, sends


def ring_program(
    collective: CollectiveKind,
    *,
    rank: int,
    nodes: int,
    direction: int,
    to_port: int,
    from_port: int,
    algorithm: Algorithm = RING,
    order: Sequence[int] | None = None,
) -> FsmProgram:
    """Program of one rank of a ring of engines.

    Parameters
    ----------
    collective, algorithm
        As for `RingPhase`.
    rank, nodes : int
        Place of this node in the ring, and size of the ring, at least 2.
    direction : int
        +1 if data travels to higher ranks, -1 if to lower ones.
    to_port, from_port : int
        Links to the next and from the previous node in this direction.
    order : sequence of int or None
        Number of the block that belongs to each place of the ring; None: that of the place.

    Raises
    ------
    ValueError
        If the algorithm needs more than FSMs can do.
    """
    blocks = range(nodes) if order is None else order
    return phase_program(
        [
            RingPhase(
                collective=collective, place=rank, size=nodes, way=direction, to_port=to_port,
                from_port=from_port, blocks=tuple((block,) for block in blocks),
                algorithm=algorithm,
            )
        ]
    )


def program_words(
    programs: Mapping[CollectiveKind, FsmProgram],
    *,
    block_beats: Mapping[CollectiveKind, int] | None = None,
) -> dict[int, int]:
    """Program store of one FSM, address to word: its programs one behind the other. With partitions
    by phase, *block_beats* are the most of a block."""
    words: dict[int, int] = {}
    phased = block_beats is not None
    entry = TABLE_WORDS << phased
    for collective, program in programs.items():
        words[PROGRAM_ENTRY[collective]] = program.table_entry(entry)
        if block_beats is not None:
            place = TABLE_WORDS + PROGRAM_ENTRY[collective]
            words[place] = program.placement(block_beats[collective])
        for offset, instruction in enumerate(program.instructions):
            words[entry + offset] = instruction.encode()
        entry = _behind(entry, len(program.instructions))
    return words


def loaded_programs(
    config: AceConfig, lengths: Mapping[CollectiveKind, int], wanted: CollectiveKind
) -> list[CollectiveKind]:
    """Collectives whose programs, of these *lengths*, go into a program store: each that fits
    behind those before it.

    Raises
    ------
    ValueError
        If the *wanted* one has more steps than a packet can name, or does not fit.
    """
    steps = 1 << config.format.step
    entry, loaded = TABLE_WORDS << config.phased, []
    for collective, length in lengths.items():
        if length <= steps and entry + length <= config.program_words:
            loaded.append(collective)
            entry = _behind(entry, length)
        elif collective is wanted and length > steps:
            raise FieldError(
                "nodes", f"must be few enough for the {steps} steps that a packet can name; "
                f"{collective.value} needs {length}"
            )
        elif collective is wanted:
            raise FieldError(
                "nodes", f"must be few enough for {config.program_words} program words; up to "
                f"{collective.value} these need {entry + length}"
            )
    return loaded


def _behind(entry: int, length: int) -> int:
    """First word of the program behind one of *length* instructions at word *entry*."""
    return entry + -(-length // ENTRY_WORDS) * ENTRY_WORDS


def phase_length(collective: CollectiveKind, *, size: int, runs: int) -> int:
    """Instructions of a phase on a ring of *size* nodes whose parts have so many *runs*, without
    the end of the phase."""
    rounds = 2 if collective is CollectiveKind.ALL_REDUCE else 1
    return runs * (1 + rounds * (size - 1))


# ---- From messages to instructions, of all ranks at once.


class _Sent(NamedTuple):
    """A SEND; ``peer_step`` counts the receives of the peer."""

    rank: int
    block: int
    peer: int
    peer_step: int


class _Received(NamedTuple):
    """A receive instruction; ``peer_step`` counts the receives of the peer."""

    op: int
    block: int
    peer: int
    peer_step: int
    contributions: int


class _Code(NamedTuple):
    """Programs without ports.

    ``firsts``: (SENDs, fields of _Sent); ``receives``: (ranks, most receives, fields of
    _Received), of which each rank has ``received``. ``peers``: those that ``peer`` numbers.
    """

    firsts: NDArray[np.int16]
    receives: NDArray[np.int16]
    received: NDArray[np.int64]
    peers: tuple[Peer, ...]


@lru_cache(maxsize=16)
def _compile(algorithm: Algorithm, kind: CollectiveKind, group: Group) -> _Code:
    """Every block that arrives becomes an instruction; every send is part of the instruction that
    has brought the block, or a SEND if it is the rank's own."""
    rounds = algorithm.rounds(kind, group)
    peers = tuple(dict.fromkeys(peer for each in rounds for peer in each.peers))
    name = f"{algorithm.name} {kind.value}"
    for peer in peers:
        if not isinstance(peer, Neighbour) or abs(peer.way) != 1:
            raise FieldError(
                "peers", f"of {name} must be neighbours for an FSM program, not {peer}"
            )
    size = group.size
    has = held_at_start(kind, size)
    carried = np.full(has.shape, -1)  # the receive that has brought a block last
    operands = has.astype(np.int64)
    received = np.zeros(size, np.int64)
    most = int(sum(len(each.peers) * each.count(group) * each.times for each in rounds))
    code = np.zeros((size, most, len(_Received._fields)), np.int16)
    op, to, peer_step, contributions = (code[..., n] for n in (0, 2, 3, 4))
    firsts = []
    for now in messages(rounds, group):
        # By peer, not by source: so that programs do not depend on where the numbers begin.
        turn = np.argsort(now.number, kind="stable")
        source, target, block = now.source[turn], now.target[turn], now.block[turn]
        step = received[target] + (0 if now.alone else places_among_equals(target))
        incoming = operands[source, block]
        _refuse(incoming == 0, source, f"{name}: rank %d sends what it does not have")
        way = np.array([peers.index(each) for each in now.peers])[now.number[turn]]
        by = carried[source, block]
        own = by < 0
        if own.any():
            firsts.append(np.stack([part[own] for part in (source, block, way, step)], axis=1))
        source, onward = source[~own], by[~own]
        twice = op[source, onward] & _SEND > 0
        if not now.alone:
            twice |= places_among_equals(source * most + onward) > 0
        _refuse(twice, source, f"{name}: rank %d sends a packet on twice, an FSM can once")
        op[source, onward] |= _SEND
        to[source, onward], peer_step[source, onward] = way[~own], step[~own]
        if now.reduce:
            again = carried[target, block] >= 0
            if not now.alone:
                again |= places_among_equals(target * has.shape[1] + block) > 0
            _refuse(again, target, f"{name}: rank %d adds a second packet, an FSM can add one")
            incoming = incoming + operands[target, block]
        operands[target, block] = incoming
        carried[target, block] = step
        # Ranks that receive several at once count the last of them.
        received[target] = np.maximum(received[target], step + 1)
        code[target, step, 1] = block
        op[target, step] = _RECEIVE | now.reduce * _REDUCE
        contributions[target, step] = incoming
    kept = np.eye(size, dtype=bool) if kind is CollectiveKind.REDUCE_SCATTER else True
    rank, block = np.nonzero((carried >= 0) & kept)
    op[rank, carried[rank, block]] |= _STORE
    silent = (op & (_STORE | _SEND) == 0) & (np.arange(most) < received[:, None])
    _refuse(silent.any(axis=1), np.arange(size), f"{name}: rank %d drops a packet")
    sends = np.concatenate(firsts)
    return _Code(sends.astype(np.int16), code, received, peers)


def _refuse(wrong: NDArray[np.bool_], ranks: NDArray[np.int64], text: str) -> None:
    if wrong.any():
        raise ValueError(text % ranks[wrong][0])
