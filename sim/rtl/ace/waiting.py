# SPDX-License-Identifier: Apache-2.0
"""The contexts of an engine that is stalled, as its registers show them, in words."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hw.ace.isa import Opcode
from hw.ace.registers import INSPECTED
from sim.collectives.ace_program import AceProgram
from sim.collectives.fsm_program import (
    PROGRAM_ENTRY,
    FsmProgram,
    Instruction,
    PhaseStart,
    decode,
)
from sim.rtl.driver import EngineDriver
from sim.rtl.harness.host import Node

__all__ = ["Waiting", "waiting"]

@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A context that has a chunk, and what it waits for.

    Parameters
    ----------
    rank, fsm, context : int
        Where it is.
    collective, chunk : int
        What is there; collectives are named modulo 256.
    step : int or None
        Instruction that it is at; None before its program has begun, and after it.
    instruction : str
        That instruction, as `FsmProgram.listing` has it.
    awaited : tuple of str
        What it waits for; what holds it up first.
    progress : tuple of int
        Less is worse: chunks that were admitted before, and of these the one that has come less
        far. Those after it may wait for nothing but its end.
    """

    rank: int
    fsm: int
    context: int
    collective: int
    chunk: int
    step: int | None
    instruction: str
    awaited: tuple[str, ...]
    progress: tuple[int, ...]

    def __str__(self) -> str:
        at = "" if self.step is None else f", step {self.step} {self.instruction}".rstrip()
        return (
            f"rank {self.rank}, FSM {self.fsm}, context {self.context}, chunk {self.chunk} of "
            f"collective {self.collective}{at}: waits for {', '.join(self.awaited)}"
        )


_SHOWN = (*INSPECTED, "inspected_chunk", "inspected_readies")
_REREAD_CYCLES = 16
"""More than the program store takes to show a word while packets stand still."""


def waiting(
    driver: EngineDriver, node: Node, program: AceProgram, *, collectives: int
) -> list[Waiting]:
    """All contexts of a node's engine that have a chunk, the worst first; *collectives* were
    started so far."""
    every = range(program.config.contexts)
    contexts = [(fsm, context) for fsm in program.fsms for context in every]
    seen = _inspect(driver, node, contexts)
    words = _words(driver, node, {
        place: each["entry"] + each["step"] for place, each in seen.items() if each["live"]
    })
    found = []
    for (fsm, context), each in seen.items():
        step, text, awaited = None, "", _not_live(each)
        if each["live"]:
            code = _loaded(program, node.number, fsm, each)
            step = each["step"]
            text, awaited = _at(each, words[fsm, context], code)
        age = (collectives - each["collective"]) % 256
        far = each["live"] + 2 * each["storing"]
        found.append(Waiting(
            rank=node.number, fsm=fsm, context=context, collective=each["collective"],
            chunk=each["chunk"], step=step, instruction=text, awaited=awaited,
            progress=(-age, each["chunk"], program.config.phase_of(fsm)[0], far, step or 0),
        ))
    return sorted(found, key=lambda each: each.progress)


_LOAD, _STORE = "its load from memory", "its store to memory"
_START, _TURN = "its FSM to look its program up", "its turn in the FSM"


def _not_live(seen: Mapping[str, int]) -> tuple[str, ...]:
    """Name what a context waits for before and after its program."""
    return (_STORE if seen["storing"] else _START if seen["loaded"] else _LOAD,)


def _inspect(
    driver: EngineDriver, node: Node, contexts: list[tuple[int, int]]
) -> dict[tuple[int, int], dict[str, int]]:
    """Fields of the registers that show a context, of those that have a chunk."""
    registers = driver.registers
    asked = {}
    for fsm, context in contexts:
        driver.write(node, "inspect", fsm=fsm, context=context)
        asked[fsm, context] = {name: node.read(registers.offset(name)) for name in _SHOWN}
    driver.system.run(drain=False)
    found = {}
    for place, tickets in asked.items():
        fields: dict[str, int] = {}
        for name, ticket in tickets.items():
            fields |= registers.registers[name].unpack(ticket.value)
        if fields["used"]:
            found[place] = fields
    return found


def _words(
    driver: EngineDriver, node: Node, places: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], int]:
    """Words of the program stores: FSM and context to address, and to what is there."""
    halves = [driver.registers.offset(f"program_word_{half}") for half in ("low", "high")]
    asked = {}
    for (fsm, context), address in places.items():
        driver.write(node, "program_address", word=address, fsm=fsm)
        node.delay(_REREAD_CYCLES)
        asked[fsm, context] = [node.read(half) for half in halves]
    driver.system.run(drain=False)
    return {place: low.value | high.value << 32 for place, (low, high) in asked.items()}


def _loaded(
    program: AceProgram, rank: int, fsm: int, seen: Mapping[str, int]
) -> FsmProgram | None:
    """The program of a context if it is one that the driver has loaded; software may write any."""
    for kind in program.loaded(program.kind(fsm)):
        code = program.code(kind, fsm=fsm, rank=rank)
        entry = code.table_entry(seen["entry"])
        if entry == program.words(fsm, rank=rank).get(PROGRAM_ENTRY[kind]):
            return code
    return None


def _at(
    seen: Mapping[str, int], word: int, program: FsmProgram | None
) -> tuple[str, tuple[str, ...]]:
    """The instruction that a live context is at, and what it waits for."""
    try:
        instruction = decode(word)
    except ValueError:
        return f"(word {word:#018x})", tuple(_awaited(seen, None, None)) or (_TURN,)
    step = seen["step"]
    code = () if program is None else program.instructions
    known = program if step < len(code) and code[step].encode() == word else None
    if isinstance(instruction, PhaseStart):
        operands = str(instruction)
    else:
        operands = instruction.text(1 if known is None else known.run_of(step))
    text = f"{instruction.op.name} {operands}".rstrip()
    over = _STORE if instruction.op is Opcode.END else _TURN
    return text, tuple(_awaited(seen, instruction, known)) or (over,)


def _awaited(
    seen: Mapping[str, int], instruction: Instruction | PhaseStart | None,
    program: FsmProgram | None,
) -> Iterator[str]:
    """Name what a live context waits for, as far as *program*, what it was loaded with, tells."""
    if held := [port for port in range(8) if seen["held_ports"] >> port & 1]:
        yield f"the link of {_ports(held)} to take its packet"
    if isinstance(instruction, Instruction) and instruction.op is Opcode.SEND:
        # Packets that go on have no READY of their own: they go where SENDs of the phase went.
        if seen.get(f"port_{instruction.port}", 0) <= instruction.readies:
            number = f" {instruction.readies + 1}" if instruction.readies else ""
            yield f"READY{number} of the peer on port {instruction.port}"
        elif not held:
            yield _TURN
    if untold := [port for port in range(8) if seen["ready_ports"] >> port & 1]:
        yield f"its own READY to leave through {_ports(untold)}"
    if seen["arriving"]:
        ports: Iterable[int] = ()
        if program is not None:
            ports = program.phases[program.phase_of[seen["step"]]].from_ports
        where = f" through {_ports(ports)}" if ports else ""
        yield f"{_packets(seen['arriving'])} to arrive{where}"
    if seen["leaving"]:
        yield f"{_packets(seen['leaving'])} to leave"


def _packets(count: int) -> str:
    return f"{count} packet{'s' if count > 1 else ''}"


def _ports(ports: Iterable[int]) -> str:
    numbers = sorted(ports)
    return f"port{'s' if numbers[1:] else ''} {', '.join(map(str, numbers))}"
