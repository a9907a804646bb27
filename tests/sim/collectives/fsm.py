# SPDX-License-Identifier: Apache-2.0
"""Executes FSM programs as texts: ranks that exchange blocks over ports, in any order."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hw.ace.isa import Opcode
from sim.collectives.fsm_program import FsmProgram, Instruction, PhaseStart

__all__ = ["NEXT", "PREVIOUS", "Link", "Rank", "run_programs"]

NEXT, PREVIOUS = 0, 1
Link = Callable[[int, int], tuple[int, int]]
"""The other end of a link: rank and port, from rank and port."""


class Rank:
    """One rank: its blocks, in place. A packet is a run of blocks.

    ``add``: of what has arrived and the rank's own. A packet that is not passed on when it arrives
    is parked: it takes the place of its block, and is sent later as the block is then.
    """

    def __init__(
        self, program: FsmProgram, data: dict[int, Any], add: Callable[[Any, Any], Any]
    ) -> None:
        self.program, self.data, self.add = program, data, add
        self.at = 0
        self.executed: set[int] = set()
        # By parity of the phase.
        self.receives_left, self.sends_left = [program.first.receives, 0], [program.first.sends, 0]
        self.readies: Counter[int] = Counter()  # of the peers, by port
        self.parked: list[int] = []  # steps

    @property
    def here(self) -> Instruction | PhaseStart:
        """The instruction that is next."""
        return self.program.instructions[self.at]

    def granted(self, step: int) -> bool:
        instruction = self.program.instructions[step]
        assert isinstance(instruction, Instruction)
        return self.readies[instruction.port] > instruction.readies

    def run(self, step: int) -> range:
        """Blocks of an instruction."""
        instruction = self.program.instructions[step]
        assert isinstance(instruction, Instruction)  # packets do not name the ends of phases
        return range(instruction.block, instruction.block + self.program.run_of(step))

    @property
    def phase(self) -> int:
        """Number of the phase that it is in."""
        return self.program.phase_of[self.at]

    @property
    def settled(self) -> bool:
        """Every packet of the phase has come and gone."""
        return self.receives_left[self.phase % 2] == self.sends_left[self.phase % 2] == 0

    def count(self, left: list[int], step: int) -> None:
        """Count a packet: one of its phase, or of the next one if that was told ahead."""
        odd = self.program.instructions[step].odd
        left[odd] -= 1
        phases = self.program.phases
        if odd == self.phase % 2:
            assert left[odd] >= 0
        else:
            following = phases[self.phase + 1]
            assert phases[self.phase].ahead * phases[self.phase].run == following.run
            most = following.receives if left is self.receives_left else following.sends
            assert -most <= left[odd] < 0

    def open(self, start: PhaseStart) -> None:
        """Begin the next phase."""
        self.at += 1
        self.receives_left[self.phase % 2] += start.receives
        self.sends_left[self.phase % 2] += start.sends

    @property
    def able(self) -> bool:
        """The next instruction can be done."""
        if isinstance(self.here, PhaseStart):
            return self.settled
        return self.here.op is Opcode.SEND and self.granted(self.at)

    def send(self, step: int) -> tuple[Any, ...]:
        """The packet of an instruction: port, step, blocks, contributions, values."""
        self.count(self.sends_left, step)
        instruction = self.program.instructions[step]
        assert isinstance(instruction, Instruction)
        run = self.run(step)
        return (
            instruction.port, instruction.peer_step, run, instruction.contributions,
            [self.data[block] for block in run],
        )

    def receive(
        self, step: int, blocks: range, contributions: int, values: list[Any], *, now: bool
    ) -> Any:
        """Do the receive instruction *step*; the packet that it sends, if *now* it can."""
        assert step not in self.executed
        self.executed.add(step)
        self.count(self.receives_left, step)
        instruction = self.program.instructions[step]
        assert isinstance(instruction, Instruction)
        reduces, stores, sends, receives = (instruction.op.value >> bit & 1 for bit in range(4))
        assert receives
        assert self.run(step) == blocks
        assert instruction.arriving == contributions
        before = [self.data.get(block) for block in blocks]
        if reduces:
            values = [self.add(value, own) for value, own in zip(values, before, strict=True)]
        self.data |= zip(blocks, values, strict=True)
        if not sends:
            return None
        if not (now and self.granted(step)):
            self.parked.append(step)
            return None
        packet = self.send(step)
        if not stores:
            self.data |= zip(blocks, before, strict=True)
        return packet


def _ring(size: int) -> Link:
    def link(rank: int, port: int) -> tuple[int, int]:
        step = 1 if port == NEXT else -1
        return (rank + step) % size, PREVIOUS if port == NEXT else NEXT

    return link


def run_programs(ranks: Sequence[Rank], rng: Random, link: Link | None = None) -> None:
    """Do one thing that can be done after the other, at random, until there is none; packets and
    READYs of a link arrive in order."""
    link = link or _ring(len(ranks))
    links: dict[tuple[int, int], list[Any]] = {}

    def put(rank: int, port: int, packet: Any) -> None:
        links.setdefault(link(rank, port), []).append(packet)

    for number, rank in enumerate(ranks):
        for port in rank.program.first.ready_ports:
            put(number, port, None)
    while True:
        acts: list[tuple[Any, ...]] = [("link", end) for end, queue in links.items() if queue]
        for number, rank in enumerate(ranks):
            if rank.able:
                acts.append(("spine", number))
            acts += [("parked", number, i) for i in rank.parked if rank.granted(i)]
        if not acts:
            break
        kind, *where = rng.choice(acts)
        if kind == "link":
            (number, port), = where
            rank, packet = ranks[number], links[number, port].pop(0)
            if packet is None:
                rank.readies[port] += 1
                continue
            onward = rank.receive(*packet, now=rng.random() < 0.5)
            if onward is not None:
                put(number, onward[0], onward[1:])
            continue
        number = where[0]
        rank = ranks[number]
        if kind == "parked":
            rank.parked.remove(where[1])
            port, *packet = rank.send(where[1])
            put(number, port, packet)
        elif isinstance(here := rank.here, PhaseStart):
            rank.open(here)
            for port in here.ready_ports:
                put(number, port, None)
        else:
            rank.at += 1
            port, *packet = rank.send(rank.at - 1)
            put(number, port, packet)
    for rank in ranks:
        assert rank.here.op is Opcode.END
        assert rank.settled
        assert not rank.parked
