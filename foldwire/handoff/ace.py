# SPDX-License-Identifier: Apache-2.0
"""Hand-off of ACE: how software drives it, and a bench of two engines on a ring."""

from collections.abc import Iterator, Mapping
from typing import Any

from amaranth.hdl import Shape

from foldwire.catalog import Design
from foldwire.handoff.frames import ACE_FIELDS, header_table
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
    TABLE_WORDS,
    Opcode,
)
from hw.ace.registers import CAUSES, INTERRUPTS
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.collectives.ace_program import PROGRAM_ENTRY, AceProgram
from sim.collectives.fsm_program import Instruction, decode
from sim.rtl.ace import writes
from sim.rtl.writes import Write
from sim.workload.graph import CollectiveKind

__all__ = ["HANDOFF", "PAIR"]

_RECIPES = """\
## Recipe: how a vector is cut

A chunk is one block of each node; chunk *n* goes to FSM *n* modulo `fsms`. With *L* elements in a
beat (`shape.bus_bytes` / 4), *N* nodes and *F* FSMs in use, all nodes write the same

- `stride`: `elements` / *N*, rounded up to a multiple of *L*. Node *r* owns the elements from
  *r* `stride` on; the last nodes may own fewer, or none;
- `block`: a multiple of *L*, at most a slot / *N* (`slot_elements`, or that of the smallest
  partition), so that one of each node fits. Best are whole packets, and `stride` / *F* where that
  is less, so that all FSMs have chunks. Any other gives the same result, but for the order of
  additions.

150 elements on 2 nodes with beats of 4, packets of 16 and one FSM: `stride` 76, `block` 80. With
`command.contiguous` (programs of a torus) a chunk is *N* blocks one behind the other in the vector,
and `stride` is *N* `block`.

| | `command.load_all` | `command.store_all` | `source_low` | `destination_low` |
|---|---|---|---|---|
| all-reduce | 1 | 1 | the vector | the vector |
| reduce-scatter | 1 | 0 | the vector | what the node owns |
| all-gather | 0 | 1 | what the node owns | the vector |

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

Any epoch will do that no node has at that time, as when all add 1 modulo 8: when all nodes are
idle, nothing of before is on the way, so epochs may come again after that. A node that was reset
has epoch 0. Names of commands, `command.collective`, count modulo 256 on all nodes alike; they go
on after an abort.

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
    return [set_up, _program_format(design), start]


def _more(design: Design) -> list[str]:
    return [table("Why a result is not valid", ("field of `completion`", ""), CAUSES.items())]


def _program_format(design: Design) -> str:
    def rows(fields: Mapping[str, tuple[Any, str]]) -> list[str]:
        lines, lsb = ["| bits | field | |", "|---|---|---|"], 0
        for name, (shape, doc) in fields.items():
            width = Shape.cast(shape).width
            lines.append(f"| {lsb + width - 1}:{lsb} | `{name}` | {doc} |")
            lsb += width
        return lines

    config = _config(design)
    codes = [f"| `{code.value:#06b}` | `{code.name}` |" for code in Opcode]
    places = [f"| {place} | {kind.value} |" for kind, place in PROGRAM_ENTRY.items()]
    phased = [
        "", (f"Words {TABLE_WORDS} to {2 * TABLE_WORDS - 1} say where the results of each program "
             "go:"), "", *rows(PLACEMENT_FIELDS),
    ] if config.phased else []
    return "\n".join([
        "## Programs", "",
        ("Each FSM has a program store of 64-bit words, written through `program_address`, "
        "`program_low` and `program_high`. Its first words are the table of programs, one word "
        "each; `command.program` is an index into it. The programs that set-up writes are"),
        "", "| entry | collective |", "|---|---|", *places, "",
        f"A word of the table; a program begins at a multiple of {ENTRY_WORDS} words:", "",
        *rows(PROGRAM_ENTRY_FIELDS), *phased, "",
        ("An instruction. Those that start by themselves (`SEND`) come first and are executed in "
        "order up to `END`; the others are executed for the packet that names them."), "",
        *rows(INSTRUCTION_FIELDS), "",
        "`PHASE`, which opens the next phase once all of this one has come and left:", "",
        *rows(PHASE_FIELDS), "", "| code | `op` |", "|---|---|", *codes, "",
        "Bit 0 of a code reduces, bit 1 stores, bit 2 sends, bit 3 waits for a packet.",
        "", _RULE, *([_COPIES] if config.phased else []), "", *_listing(config),
    ])


_RULE = """\
### The program of a ring of *N* nodes

Steps count from 0. Node *r* sends through port *t* to the next node of its direction and receives
through port *f*; *w* is 1 if the next one is *r* + 1, and -1 if it is *r* - 1, modulo *N*. Which
FSMs go which way is free, but the same on all nodes. Where port 0 leads to *r* + 1 and port 1 to
*r* - 1, *t* is 0 and *f* is 1 for *w* = 1, and the reverse for -1.

| step | all-reduce | reduce-scatter | all-gather |
|---|---|---|---|
| 0 | `SEND` | `SEND` | `SEND` |
| 1 | `END` | `END` | `END` |
| 1 + *k*, *k* from 1 to *N* - 2 | `RECV_REDUCE_SEND` | `RECV_REDUCE_SEND` | `RECV_COPY_SEND` |
| *N* (*k* = *N* - 1) | `RECV_REDUCE_COPY_SEND` | `RECV_REDUCE_COPY`, last | `RECV`, last |
| 1 + *k*, *k* from *N* to 2 *N* - 3 | `RECV_COPY_SEND` | | |
| 2 *N* - 1 (*k* = 2 *N* - 2) | `RECV`, last | | |

With *k* = 0 for the `SEND`:

- `block` is *r* - *w* (*k* + 1) modulo *N*; in an all-gather *r* - *w* *k*;
- `port` is *t* and `peer_step` 2 + *k* for all that send, else 0;
- `arriving` is *k*, `contributions` *k* + 1, both at most *N*; in an all-gather both are 1, but
  `arriving` of the `SEND` is 0;
- `readies` and `odd` are 0.

The word of the table has `last` = number of the last step, `receives` and `sends` both 2 *N* - 2,
or *N* - 1 of the other two, `ready_ports` = 1 << *f*, `run` = 1. A program may be left out if it
does not fit the store: its word of the table is then 0."""

_COPIES = """\

FSMs of the first phase have these programs. Those of later phases have nothing to do for a ring
but to pass on all blocks: `COPY` of block 0, `END`; in the table `last` 1, `receives` 0, `sends` 1,
`ready_ports` 0 and `run` *N*. That is for all-reduces; `first` of the words behind the table is 0
and `beats` the beats of the smallest slot / *N*."""

_EXAMPLE_NODES, _EXAMPLE_RANK = 3, 1


def _listing(config: AceConfig) -> Iterator[str]:
    """All words of the stores of a node in a small ring, those of one FSM of each kind."""
    if config.ports < 2:
        return
    program = AceProgram(config=config, nodes=_EXAMPLE_NODES, queues=config.first_fsms)
    kinds: dict[int, list[int]] = {}
    for fsm in program.fsms:
        kinds.setdefault(program.kind(fsm), []).append(fsm)
    yield (f"### All words: rank {_EXAMPLE_RANK} of {_EXAMPLE_NODES} nodes, {config.first_fsms} "
           "FSMs in use")
    entries = {place: kind.value for kind, place in PROGRAM_ENTRY.items()}
    for fsms in kinds.values():
        whose = f"FSM{'s' * (len(fsms) > 1)} {', '.join(map(str, fsms))}"
        yield from ("", f"{whose}; words that are not here are 0:", "",
                    "| word | | |", "|---|---|---|")
        for place, word in sorted(program.words(fsms[0], rank=_EXAMPLE_RANK).items()):
            if place < TABLE_WORDS:
                text = f"table: {entries[place]}"
            elif config.phased and place < 2 * TABLE_WORDS:
                text = f"results of {entries[place - TABLE_WORDS]}"
            else:
                found = decode(word)
                text = found.op.name + (
                    f", {found.text(1)}" if isinstance(found, Instruction) else ""
                )
            yield f"| {place} | `{word:#018x}` | {text.rstrip(', ')} |"


def _packets(design: Design) -> str:
    text = (
        "A packet is a header flit and `length` bytes of payload; flits are 16 bytes, packed "
        "without gaps into beats of `tdata`. Bit *n* of `tkeep` says that flit *n* of the beat "
        "exists, bit *n* of `tuser` that it is a header. `credit` is high for a cycle for each "
        "packet of kind DATA or READY that the receiver has freed; a sender begins with "
        f"{_config(design).rx_packets} credits."
    )
    return header_table("Packets", text, _config(design).format.layout, ACE_FIELDS)


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
    constants=_constants, packets=_packets,
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
