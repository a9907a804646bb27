"""Hand-off of ACE: how software drives it, and a bench of two engines on a ring."""

from collections.abc import Iterator, Mapping
from typing import Any

from amaranth.hdl import Shape

from foldwire.catalog import Design
from foldwire.handoff.pair import Pair, pair_bench, pair_set_up
from foldwire.handoff.part import Handoff, HandoffBench
from foldwire.handoff.sections import table
from foldwire.handoff.words import PATIENCE
from hw.ace.config import AceConfig
from hw.ace.isa import (
    ENTRY_WORDS,
    INSTRUCTION_FIELDS,
    PHASE_FIELDS,
    PLACEMENT_FIELDS,
    PROGRAM_ENTRY_FIELDS,
    Opcode,
)
from hw.ace.registers import CAUSES, INTERRUPTS
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.collectives.ace_program import PROGRAM_ENTRY, AceProgram
from sim.rtl.ace import writes
from sim.rtl.writes import Write
from sim.workload.graph import CollectiveKind

__all__ = ["HANDOFF", "PAIR"]

_RECIPES = """\
## Recipe: wait for the end of a collective

Wait for `irq`, or read `interrupt` until `interrupt.done` or `interrupt.failed` is set; write the
bits back to clear them. Then read `completion` until `completion.valid` is 0: each read with
`completion.valid` set is the record of one command (`completion.collective`); write
`completion_taken` to go on to the next. The result is valid if every field between
`completion.valid` and `completion.collective` is 0.

## Recipe: abort and recover

After `completion.disagreement` or `completion.lost`, or when `interrupt.stalled` tells that a
collective stands still, or to give up what runs:

1. on every node, write `control` with `control.abort` set and the same new `control.epoch`, other
   than `status.epoch` is now;
2. on every node, read `status` until `status.idle` is set and `status.aborting` is not;
3. take all records of `completion` and clear `interrupt`;
4. start anew. Programs, `node` and the other settings are as they were.

A node that was reset alone is set up again and joins by the same steps on all nodes. To notice a
node that never starts, `watchdog.cycles` must be more cycles than a healthy collective is ever
still.

## Recipe: what does it wait for?

While `status.stalled` is set, before the abort: for each FSM in use and each of its contexts
(`shape.contexts`), write `inspect`, then read `inspected`. If `inspected.used` is set,
`inspected_chunk` is the chunk that is there. It waits

- for memory, if `inspected.loaded` is not set or `inspected.storing` is;
- for peers to take packets: on the links that `inspected.held_ports` names;
- otherwise, while `inspected.instructions` is set, in the instruction `inspected_step.step` from
  the word `inspected_step.entry` of the program store on: a `SEND` for READYs of the peer on its
  port (`inspected_readies`), the end of a phase for packets;
- for packets that have still to arrive and to leave: `inspected_arriving`, `inspected_leaving`.
"""


class _Pair(Pair):
    def links(self, config: AceConfig) -> list[tuple[str, str]]:
        return [("link_0", "link_1"), ("link_1", "link_0")]

    def memory_ports(self, config: AceConfig) -> int:
        return config.memory_ports

    def set_up(
        self, config: AceConfig, registers: RegisterMap, rank: int, *, nodes: int,
        memory_bytes: int,
    ) -> Iterator[Write]:
        program = AceProgram(config=config, nodes=nodes, queues=config.fsms)
        return writes.set_up_writes(
            registers, program, rank=rank, memory_bytes=memory_bytes, watchdog_cycles=PATIENCE
        )

    def start(
        self, config: AceConfig, registers: RegisterMap, op: ReduceOp, elements: int, *,
        name: int, source: int, destination: int, nodes: int,
    ) -> Iterator[Write]:
        program = AceProgram(config=config, nodes=nodes, queues=config.fsms)
        kind = CollectiveKind.ALL_REDUCE
        return writes.start_writes(
            registers, kind, program.settings(elements, collective=kind), name=name,
            source=source, destination=destination, op=op,
        )


PAIR = _Pair()


def _config(design: Design) -> AceConfig:
    values: dict[str, Any] = design.parameters
    return AceConfig(**values)


def _bench(design: Design, manifest: Mapping[str, Any]) -> HandoffBench | None:
    """None for an engine without a second link to join."""
    config = _config(design)
    return None if config.ports < 2 else pair_bench(design, config, PAIR, manifest)


def _set_up(design: Design) -> list[str]:
    config = _config(design)
    set_up, start = pair_set_up(design, None if config.ports < 2 else config, PAIR)
    return [set_up, _program_format(), start]


def _more(design: Design) -> list[str]:
    return [table("Why a result is not valid", ("field of `completion`", ""), CAUSES.items())]


def _program_format() -> str:
    def rows(fields: Mapping[str, tuple[Any, str]]) -> list[str]:
        lines, lsb = ["| bits | field | |", "|---|---|---|"], 0
        for name, (shape, doc) in fields.items():
            width = Shape.cast(shape).width
            lines.append(f"| {lsb + width - 1}:{lsb} | `{name}` | {doc} |")
            lsb += width
        return lines

    codes = [f"| `{code.value:#06b}` | `{code.name}` |" for code in Opcode]
    places = [f"| {place} | {kind.value} |" for kind, place in PROGRAM_ENTRY.items()]
    return "\n".join([
        "## Programs", "",
        ("Each FSM has a program store of 64-bit words, written through `program_address`, "
        "`program_low` and `program_high`. Its first words are the table of programs, one word "
        "each; `command.program` is an index into it. The programs that set-up writes above are"),
        "", "| entry | collective |", "|---|---|", *places, "",
        "A word of the table:", "", *rows(PROGRAM_ENTRY_FIELDS), "",
        ("An instruction. Those that start by themselves (`SEND`) come first and are executed in "
        "order up to `END`; the others are executed for the packet that names them."), "",
        *rows(INSTRUCTION_FIELDS), "", "| code | `op` |", "|---|---|", *codes, "",
        "Bit 0 of a code reduces, bit 1 stores, bit 2 sends, bit 3 waits for a packet.",
    ])


def _constants(design: Design) -> dict[str, int]:
    config = _config(design)
    least = min(config.partition_beats) if config.phased else config.slot_beats
    return {"slot_beats": least, "entry_words": ENTRY_WORDS}


_LAYOUTS: dict[str, Mapping[str, tuple[Any, str]]] = {
    "instruction": INSTRUCTION_FIELDS, "phase": PHASE_FIELDS,
    "program_entry": PROGRAM_ENTRY_FIELDS, "placement": PLACEMENT_FIELDS,
}

HANDOFF = Handoff(
    bench=_bench, recipes=_RECIPES, interrupts=INTERRUPTS, set_up=_set_up, more=_more,
    constants=_constants,
    codes={
        "opcode": {each.name: each.value for each in Opcode},
        "program": {kind.name: place for kind, place in PROGRAM_ENTRY.items()},
    },
    layouts={
        name: {field: Shape.cast(shape).width for field, (shape, _) in fields.items()}
        for name, fields in _LAYOUTS.items()
    },
    driver="ace.c",
)
