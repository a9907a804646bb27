"""The programmer's manual of an engine: how software drives it, then every register.

Sequences of writes are those that the drivers make, tables of causes and errors those of the
register map; registers and fields that the prose names must exist.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from amaranth.hdl import Shape

from foldwire.catalog import Design
from foldwire.handoff.pair import example_writes
from foldwire.handoff.switch import set_up_writes
from foldwire.handoff.switch_dma import example_writes as endpoint_writes
from hw.ace.isa import INSTRUCTION_FIELDS, PROGRAM_ENTRY_FIELDS, Opcode
from hw.ace.registers import CAUSES
from hw.ace.registers import INTERRUPTS as ACE_INTERRUPTS
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.smartnic.registers import INTERRUPTS as NIC_INTERRUPTS
from hw.switch.config import SwitchConfig
from hw.switch.registers import INTERRUPTS as SWITCH_INTERRUPTS
from hw.switch_dma.registers import INTERRUPTS as ENDPOINT_INTERRUPTS
from sim.collectives.fsm_program import PROGRAM_ENTRY

__all__ = ["manual"]

_ACE_RECIPES = """\
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
"""

_NIC_RECIPES = """\
## Recipe: wait for the end of an all-reduce

Wait for `irq`, or read `interrupt` until a bit is set; write the bits back to clear them.
Then read `completion` until `completion.valid` is 0: each read with `completion.valid` set is the
record of one command (`completion.tag`); write `completion_taken` to go on to the next. The result
is valid if `completion.read`, `completion.write` and `completion.error` are 0. Commands without a
record were given up if `interrupt.aborted` is set. `completed.count` is the number of all-reduces
that are over.

## Recipe: abort and recover

A NIC aborts by itself when a frame is lost or ranks disagree, and with `watchdog.abort` after
`watchdog.cycles` without progress; software writes `control` with `control.abort` set, on any one
node. All nodes give up what is queued. Then

1. on every node, read `status` until `status.idle` is set;
2. read `abort`: `abort.cause`, and `abort.rank` at which it began;
3. clear `interrupt.aborted` on every node: until then commands are refused;
4. start anew. What the destinations hold of what was given up is undefined.

A node that was reset alone is set up again, and aborts once: the others give up what they had
begun with it, and all are in step.
"""

_MEMBERS = 4
"""Members of the network in the manuals of switch and endpoint; every switch has enough links."""

_SWITCH_RECIPES = """\
## Recipe: start

Endpoints push as soon as the switch is programmed; there is nothing to start. The tables are
written while `status.idle` is set. All switches of a network need the same `home` rows, a `route`
to every home, and `targets` that make a tree; `route.local` is set where the endpoint is at this
switch, which then reduces for it.

## Recipe: sums that stay incomplete

With `timeout` other than 0, as set-up has it, a sum without an operand for one to two periods
leaves for its home endpoint as a partial, which adds what else it gets. With 0 it stays in the
table until another address needs the entry, and what an abort left in it too: do not use that with
endpoints that abort. `completed`, `evicted` and `expired` count what left.

## Recipe: something was dropped

`interrupt.dropped` is set; the counters of dropped packets say why. Write the bit back to clear it.
What was dropped leaves its sum incomplete for ever: endpoints find out by waiting.
"""

_ENDPOINT_RECIPES = """\
## Recipe: wait for the end of an all-reduce

Wait for `irq`, or read `interrupt` until a bit is set; write the bits back to clear them.
Then read `completion` until `completion.valid` is 0: each read with `completion.valid` set is the
record of one command (`completion.tag`); write `completion_taken` to go on to the next. The result
is valid if `completion.read`, `completion.write` and `completion.error` are 0. Commands without a
record were given up if `interrupt.aborted` is set. `completed.count` is the number of all-reduces
that are over.

## Recipe: abort and recover

An endpoint aborts by itself when members disagree, and with `watchdog.abort` after
`watchdog.cycles` without progress, `watchdog.tries` times more; software writes `control` with
`control.abort` set, on any one endpoint. All members give up what is queued. Then, on every one,

1. read `abort`: `abort.cause`, and `abort.endpoint` at which it began;
2. clear `interrupt.aborted`: until then commands are refused;
3. read `status` until `status.ready` is set: all members are in `epoch`;
4. start anew. What the destinations hold of what was given up is undefined.

An endpoint that was reset alone is set up again; when it joins, the others abort once. The
time-out of the switches must not be 0, so that operands of what was given up leave their tables.

## Recipe: something was dropped

`interrupt.dropped` is set; for each link there are counters that say why. What was dropped leaves
its all-reduce incomplete: it ends by the watchdog, which set-up has set.
"""


_PARTS_RECIPE = """
## Recipe: all-gather, broadcast, reduce-scatter

Write `part_begin` and `part_end`, each member its own, before `command` with `command.part`: SEND
for an all-gather, or a broadcast, in which all but the root have no part; STORE for a
reduce-scatter. The parts of all members cover the vector once. Addresses and
`elements` are those of the whole vector.
"""

_FIXED_POINT_RECIPE = """
## Recipe: the same bits in every run

FP32 sums of `command.op` SUM_F32 depend on what comes first. With `command.fixed` set they do not:

1. on every member, find the largest exponent field (bits 30 to 23) of the vector;
2. find the largest of all members, at least 1, for example by an all-reduce of one element;
3. give the command with it in `command.exponent`, the same on all members.

A number with a larger exponent, an infinity or a NaN is found when it is read: `invalid.read` is
set on all members, and `outside` counts on the one that had it.
"""


def manual(design: Design, engine: str) -> str:
    """The manual as Markdown.

    Raises
    ------
    ValueError
        The text names a register or field that the engine does not have.
    """
    registers = design.registers
    assert registers is not None
    recipes, causes = {
        "ace": (_ACE_RECIPES, ACE_INTERRUPTS),
        "smartnic": (_NIC_RECIPES, NIC_INTERRUPTS),
        "switch": (_SWITCH_RECIPES, SWITCH_INTERRUPTS),
        "switch-dma": (_ENDPOINT_RECIPES, ENDPOINT_INTERRUPTS),
    }[engine]
    if design.parameters.get("fixed_point"):
        recipes += _FIXED_POINT_RECIPE
    if design.parameters.get("parts"):
        recipes += _PARTS_RECIPE
    _check_names(recipes, registers)
    parts = [
        f"# Programmer's manual of {design.top}",
        "Generated with the Verilog beside it; offsets and names are those of the C header.",
        _table("Configuration", ("parameter", "value"), design.parameters.items()),
        *_set_up(design, engine),
        recipes.rstrip(),
        _table("Interrupts", ("bit of `interrupt`", "meaning"), causes.items()),
    ]
    if engine == "ace":
        parts.append(_table("Why a result is not valid", ("field of `completion`", ""),
                            CAUSES.items()))
    document = re.sub("^#", "##", registers.markdown(), flags=re.MULTILINE)
    return "\n\n".join([*parts, document])


def _set_up(design: Design, engine: str) -> list[str]:
    if engine == "switch":
        return _switch_set_up(design)
    return _endpoint_set_up(design) if engine == "switch-dma" else _engine_set_up(design, engine)


def _engine_set_up(design: Design, engine: str) -> list[str]:
    registers = design.registers
    assert registers is not None
    set_up, start = example_writes(design, engine, registers)
    return [
        "## Recipe: set up\n\nAfter reset, on every node, before the first command of any. The "
        "words are those of rank 0 of 2 nodes. `watchdog` must be longer than a node may come "
        "late: then `interrupt.stalled` is set.\n\n" + _writes(_placed(set_up, registers)),
        *([_program_format()] if engine == "ace" else []),
        "## Recipe: start\n\nOn all nodes, in the same order. The words are those of an "
        "all-reduce of 150 integers. A command that cannot be done is refused: "
        "`interrupt.refused`, and `refusal` says why.\n\n" + _writes(_placed(start, registers)),
    ]


def _switch_set_up(design: Design) -> list[str]:
    registers = design.registers
    assert registers is not None
    values: dict[str, Any] = design.parameters
    writes = [
        (registers.offset(name, index), name if index is None else f"{name}[{index}]", word)
        for (name, index), word in set_up_writes(
            SwitchConfig(**values), registers, _MEMBERS
        )
    ]
    return [
        "## Recipe: set up\n\nAfter reset, before anything is pushed or loaded. The words are "
        f"those of one switch alone: endpoints 0 to {_MEMBERS - 1} at the links of these "
        "numbers, all of them members of region 0. `timeout` is for sums that stay incomplete, "
        "`behind` for pull alone: how many members the link leads to.\n\n" + _writes(writes)
    ]


def _endpoint_set_up(design: Design) -> list[str]:
    registers = design.registers
    assert registers is not None
    set_up, start = endpoint_writes(registers, _MEMBERS)
    pull = registers.registers["command"].pack(op=ReduceOp.SUM_I32, pull=1)
    return [
        "## Recipe: set up\n\nAfter reset, on every endpoint, once all switches are programmed. "
        f"The words are those of endpoint 1, one of {_MEMBERS} members of region 0, as the "
        "switch's manual has them; other endpoints have their number in `node.endpoint`. "
        "`watchdog` must be longer than twice the time-out of the switches, and than a member may "
        "come late: then its all-reduce is given up on all members, and `interrupt.stalled` and "
        "`interrupt.aborted` are set. Then read `status` until `status.ready` is set: all members "
        "have joined.\n\n" + _writes(_placed(set_up, registers)),
        "## Recipe: start\n\nOn all members, in the same order. The words are those of an "
        "all-reduce of 150 integers by push; by pull, `command` is "
        f"`{pull:#x}`. A command that cannot be done is refused: "
        "`interrupt.refused`, and `refusal` says why.\n\n" + _writes(_placed(start, registers)),
    ]


def _check_names(text: str, registers: RegisterMap) -> None:
    for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", text):
        register, _, field = name.partition(".")
        if register == "irq":
            continue
        known = registers.registers.get(register)
        if known is None or (field and field not in {each.name for each in known.fields}):
            raise ValueError(f"the manual names `{name}`, which {registers.name} does not have")


def _table(title: str, heads: tuple[str, str], rows: Iterable[tuple[str, object]]) -> str:
    lines = [f"## {title}", "", f"| {heads[0]} | {heads[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {value} |" for name, value in rows)])


def _placed(
    writes: list[tuple[str, int]], registers: RegisterMap
) -> list[tuple[int, str, int]]:
    return [(registers.offset(name), name, word) for name, word in writes]


def _writes(writes: list[tuple[int, str, int]]) -> str:
    lines = ["| offset | register | word |", "|---|---|---|"]
    shown = 0
    for offset, name, word in writes:
        if name.startswith("program_"):
            shown += 1
            if shown == 4:
                lines.append("| ... | and so on for the other words of the programs | |")
            if shown > 3:
                continue
        lines.append(f"| `{offset:#06x}` | `{name}` | `{word:#x}` |")
    return "\n".join(lines)


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
