"""Executes FSM programs as texts: ranks that exchange blocks over ports, in any order."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hw.ace.isa import Opcode
from sim.collectives.fsm_program import FsmProgram

__all__ = ["NEXT", "PREVIOUS", "Rank", "run_programs"]

NEXT, PREVIOUS = 0, 1


class Rank:
    """One rank. ``source`` and ``result``: blocks by number; ``add``: of what has arrived and the
    rank's own."""

    def __init__(
        self,
        program: FsmProgram,
        source: dict[int, Any],
        result: dict[int, Any],
        add: Callable[[Any, Any], Any],
    ) -> None:
        self.program, self.source, self.result, self.add = program, source, result, add
        self.executed: set[int] = set()
        self.receives = self.sends = 0
        self.outbox: list[tuple[int, int, int, int, Any]] = []
        for instruction in program.instructions:
            if instruction.op is Opcode.END:
                break
            assert instruction.op is Opcode.SEND
            held = self.result if instruction.from_result else self.source
            self._send(instruction, held[instruction.block])

    def _send(self, instruction: Any, value: Any) -> None:
        self.sends += 1
        self.outbox.append(
            (
                instruction.port,
                instruction.peer_step,
                instruction.block,
                instruction.contributions,
                value,
            )
        )

    def receive(self, port: int, step: int, block: int, contributions: int, value: Any) -> None:
        assert port in self.program.ready_ports
        assert step not in self.executed
        self.executed.add(step)
        self.receives += 1
        instruction = self.program.instructions[step]
        reduces, stores, sends, receives = (instruction.op.value >> bit & 1 for bit in range(4))
        assert receives
        assert instruction.block == block
        assert instruction.contributions == contributions + reduces
        if reduces:
            value = self.add(value, self.source[block])
        if stores:
            self.result[block] = value
        if sends:
            self._send(instruction, value)


def run_programs(ranks: Sequence[Rank], rng: Random) -> None:
    """Deliver packets in random order until none is left; port NEXT leads to the next rank."""
    flying: list[tuple[int, Any]] = []
    while True:
        for number, rank in enumerate(ranks):
            flying += [(number, packet) for packet in rank.outbox]
            rank.outbox = []
        if not flying:
            break
        sender, (port, *packet) = flying.pop(rng.randrange(len(flying)))
        step = 1 if port == NEXT else -1
        arriving = PREVIOUS if port == NEXT else NEXT
        ranks[(sender + step) % len(ranks)].receive(arriving, *packet)
    for rank in ranks:
        assert rank.receives == rank.program.receives
        assert rank.sends == rank.program.sends
