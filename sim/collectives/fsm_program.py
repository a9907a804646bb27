"""Algorithms as programs for ACE's FSMs.

A block that arrives is one receive instruction, which may add, store and send it on once. So an
FSM runs algorithms that send blocks along chains of neighbours: it adds one packet to its own data
of a block, and passes every packet on to one neighbour at most. A ring can be run through in both
directions at once; the second direction is the same program with predecessor and successor
exchanged. The other limits are those of :mod:`hw.ace.isa` (widths of fields) and of the engine
(words of a program store, steps that a packet can name).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import AceConfig
from hw.ace.isa import Opcode, instruction_layout, program_entry_layout
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

__all__ = ["PROGRAM_ENTRY", "FsmProgram", "Instruction", "program_words", "ring_program"]

PROGRAM_ENTRY: Mapping[CollectiveKind, int] = {
    CollectiveKind.ALL_REDUCE: 0,
    CollectiveKind.REDUCE_SCATTER: 1,
    CollectiveKind.ALL_GATHER: 2,
}
"""The collectives of an engine, and the entry of each in the program table."""

_TABLE_WORDS = 16
_REDUCE, _STORE, _SEND, _RECEIVE = 1, 2, 4, 8


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction; see ``hw.ace.isa`` for what the opcodes do."""

    op: Opcode
    block: int = 0
    port: int = 0
    peer_step: int = 0
    contributions: int = 0
    from_result: bool = False

    def encode(self) -> int:
        """The instruction as a 64-bit word."""
        fields: Mapping[str, object] = {
            "op": self.op.value,
            "from_result": int(self.from_result),
            "block": self.block,
            "port": self.port,
            "peer_step": self.peer_step,
            "contributions": self.contributions,
        }
        return _pack(instruction_layout, fields)


@dataclass(frozen=True, kw_only=True)
class FsmProgram:
    """Instructions for one FSM, and the contents of its table entry.

    ``ready_ports`` are the links whose peers send to this program.
    """

    instructions: tuple[Instruction, ...]
    ready_ports: frozenset[int]

    @property
    def receives(self) -> int:
        """Blocks that arrive."""
        return sum(bool(i.op.value & _RECEIVE) for i in self.instructions)

    @property
    def sends(self) -> int:
        """Blocks that are sent, own or forwarded ones."""
        return sum(bool(i.op.value & _SEND) for i in self.instructions)

    def table_entry(self, entry: int) -> int:
        """Word of the program table for a program whose first instruction is at word *entry*."""
        return _pack(
            program_entry_layout,
            {
                "entry": entry,
                "length": len(self.instructions),
                "receives": self.receives,
                "sends": self.sends,
                "ready_ports": sum(1 << port for port in self.ready_ports),
            },
        )


def _pack(layout: object, fields: Mapping[str, object]) -> int:
    word = 0
    for name, value in fields.items():
        field = layout[name]  # type: ignore[index]
        if not 0 <= int(value) < 1 << field.width:  # type: ignore[call-overload]
            raise FieldError(name, f"must fit {field.width} bits, not {value!r}")
        word |= int(value) << field.offset  # type: ignore[call-overload]
    return word


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
    collective : CollectiveKind
    rank, nodes : int
        Place of this node in the ring, and size of the ring, at least 2.
    direction : int
        +1 if data travels to higher ranks, -1 if to lower ones.
    to_port, from_port : int
        Links to the next and from the previous node in this direction.
    algorithm : Algorithm
        One whose members send to neighbours.
    order : sequence of int or None
        Number of the block that belongs to each place of the ring; None: that of the place.

    Raises
    ------
    ValueError
        If the algorithm needs more than FSMs can do.
    """
    blocks = range(nodes) if order is None else order
    if nodes < 2:
        raise FieldError("nodes", f"must be at least 2, not {nodes!r}")
    if not 0 <= rank < nodes:
        raise FieldError("rank", f"must be from 0 to {nodes - 1}, not {rank!r}")
    if direction not in (1, -1):
        raise FieldError("direction", f"must be 1 or -1, not {direction!r}")
    if collective not in PROGRAM_ENTRY:
        known = ", ".join(kind.value for kind in PROGRAM_ENTRY)
        raise FieldError("collective", f"must be one of {known}, not {collective.value}")
    code = _compile(algorithm, collective, Group(shape=(nodes,), way=direction))
    ahead, behind = Neighbour(direction), Neighbour(-direction)
    # By peer: the port to it, and the port from ranks for which this rank is that peer.
    ports: dict[Peer, tuple[int, int]] = {ahead: (to_port, from_port), behind: (from_port, to_port)}
    firsts = [
        Instruction(
            op=Opcode.SEND,
            block=blocks[int(first.block)],
            port=ports[code.peers[first.peer]][0],
            peer_step=int(first.peer_step),
            contributions=1,
            from_result=collective is CollectiveKind.ALL_GATHER,
        )
        for first in map(_Sent._make, code.firsts[code.firsts[:, 0] == rank].tolist())
    ]
    receives = []
    for row in code.receives[rank, : code.received[rank]].tolist():
        each = _Received._make(row)
        sends = each.op & _SEND
        receives.append(
            Instruction(
                op=Opcode(each.op),
                block=blocks[each.block],
                port=ports[code.peers[each.peer]][0] if sends else to_port,
                # Fields that an instruction does not use have always been filled like this.
                peer_step=each.peer_step if sends or not each.op & _REDUCE else nodes + 1,
                contributions=each.contributions,
            )
        )
    return FsmProgram(
        instructions=(*firsts, Instruction(op=Opcode.END), *receives),
        ready_ports=frozenset(ports[peer][1] for peer in code.peers),
    )


def program_words(
    config: AceConfig,
    *,
    rank: int,
    nodes: int,
    direction: int,
    ports: tuple[int, int],
    algorithms: Mapping[CollectiveKind, Algorithm] | None = None,
    order: Sequence[int] | None = None,
) -> dict[int, int]:
    """Program store of one FSM, address to word: all collectives of one direction of the ring.

    Parameters
    ----------
    config : AceConfig
    rank, nodes, direction, order
        As for `ring_program`.
    ports : (next, previous)
        Links to the next and the previous rank.
    algorithms
        Those of the collectives that are not done by the usual ring.

    Raises
    ------
    ValueError
        If the programs do not fit the program store, or have more steps than a packet can name.
    """
    ahead, behind = ports
    to_port, from_port = (ahead, behind) if direction == 1 else (behind, ahead)
    words: dict[int, int] = {}
    entry = _TABLE_WORDS
    for collective, place in PROGRAM_ENTRY.items():
        program = ring_program(
            collective,
            rank=rank,
            nodes=nodes,
            direction=direction,
            to_port=to_port,
            from_port=from_port,
            algorithm=(algorithms or {}).get(collective, RING),
            order=order,
        )
        steps = 1 << config.format.step
        if len(program.instructions) > steps:
            raise FieldError(
                "nodes", f"must be at most {steps // 2}, for {steps} steps that a packet can name, "
                f"not {nodes!r}"
            )
        words[place] = program.table_entry(entry)
        for offset, instruction in enumerate(program.instructions):
            words[entry + offset] = instruction.encode()
        entry += len(program.instructions)
    if entry > config.program_words:
        raise FieldError(
            "nodes", f"must be few enough for {config.program_words} program words, not {nodes!r}, "
            f"which need {entry}"
        )
    return words


# ---- From messages to instructions, of all ranks at once.


class _Sent(NamedTuple):
    """A SEND."""

    rank: int
    block: int
    peer: int
    peer_step: int


class _Received(NamedTuple):
    """A receive instruction."""

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
        source, target, block = now.source, now.target, now.block
        step = received[target] + (0 if now.alone else places_among_equals(target))
        incoming = operands[source, block]
        _refuse(incoming == 0, source, f"{name}: rank %d sends what it does not have")
        way = np.array([peers.index(each) for each in now.peers])[now.number]
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
    # Receives stand behind the SENDs and END of their program.
    sends = np.concatenate(firsts)
    begin = np.bincount(sends[:, 0], minlength=size) + 1
    sends[:, 3] += begin[np.array([peer.ranks(group) for peer in peers])[sends[:, 2], sends[:, 0]]]
    for number, peer in enumerate(peers):
        onwards = (op & _SEND > 0) & (to == number)
        peer_step += np.where(onwards, begin[peer.ranks(group)][:, None], 0).astype(np.int16)
    return _Code(sends.astype(np.int16), code, received, peers)


def _refuse(wrong: NDArray[np.bool_], ranks: NDArray[np.int64], text: str) -> None:
    if wrong.any():
        raise ValueError(text % ranks[wrong][0])
