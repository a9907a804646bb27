# SPDX-License-Identifier: Apache-2.0
"""Register writes and packets for the bench of the switch, and for its manual."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from foldwire.catalog import Design
from foldwire.handoff.packets import link_about, packet, packet_section
from foldwire.handoff.part import Handoff, HandoffBench
from foldwire.handoff.sections import writes_table
from foldwire.handoff.words import words
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig
from hw.switch.packet import HEADER, Kind
from hw.switch.registers import INTERRUPTS
from sim.rtl.switch.writes import region_writes, route_writes

__all__ = ["HANDOFF", "MANUAL_MEMBERS", "set_up_writes", "switch_data"]

MANUAL_MEMBERS = 4
"""Members of the network that the manuals of switch and endpoint program."""

_BATCHES = (ReduceOp.SUM_I32, ReduceOp.MAX_F32, ReduceOp.SUM_F32, ReduceOp.MIN_F32)
_SEED = 1
_PERIOD = 10_000
"""Period of the time-out in cycles; an incomplete sum is evicted after one to two periods."""
_NOWHERE = (1 << HEADER["region"].width) - 1
"""A region that no switch has: there are 16 at most."""

_Write = tuple[tuple[str, int | None], int]
"""Name of a register, which element of it if it is an array, and the word."""


def _members(config: SwitchConfig) -> int:
    return min(config.ports, config.endpoints)


def set_up_writes(
    config: SwitchConfig, registers: RegisterMap, count: int | None = None
) -> list[_Write]:
    """Writes that set up one switch alone: endpoint *k* at link *k*, as many as possible or
    *count*, members of region 0."""
    members = range(_members(config) if count is None else count)
    causes = (field.name for field in registers.registers["interrupt_enable"].fields)
    fields = [
        ("timeout", None, {"cycles": min(_PERIOD, (1 << config.timeout_bits) - 1)}),
        *region_writes(config, 0, expected=len(members), ports=members, behind=lambda port: 1,
                       homes=members),
        *route_writes(members, [True for _ in members]),
        ("interrupt_enable", None, dict.fromkeys(causes, 1)),
    ]
    return [
        ((name, index), registers.registers[name].pack(**values)) for name, index, values in fields
    ]


def _batch(config: SwitchConfig, op: ReduceOp, number: int, rng: Any) -> dict[str, Any]:
    """Operands and results of as many addresses as the reduction tables hold, at most 4 per home.

    Values are integers so small that binary32 adds them without rounding, in any order.
    """
    members = _members(config)
    homes = min(members, config.homes)
    sent: list[list[list[int]]] = [[] for _ in range(config.ports)]
    expected: list[list[list[int]]] = [[] for _ in range(config.ports)]
    blocks = [turn * config.homes + home for turn in range(min(config.entries, 4))
              for home in range(homes)]
    kind = np.int32 if op is ReduceOp.SUM_I32 else np.float32
    for block in blocks:
        shape = members, config.payload_bytes // 4
        operands = rng.integers(-(1 << 12), 1 << 12, shape).astype(kind)
        fold = {ReduceOp.MAX_F32: operands.max, ReduceOp.MIN_F32: operands.min}
        result = fold.get(op, operands.sum)(axis=0).astype(kind)
        address = (number * config.homes * 4 + block) * config.payload_flits
        home = block % config.homes % members
        where = {"op": op.value, "region": 0, "address": address}
        for k, words_ in enumerate(operands):
            header = {"kind": Kind.PUSH, "source": k, "count": 1, **where}
            sent[k].append(packet(header, words_))
        header = {"kind": Kind.RESULT, "source": home, "destination": home, "count": members}
        for k in range(members):
            expected[k].append(packet({**header, **where}, result))
    return {"send": sent, "expect": expected}


def switch_data(design: Design) -> dict[str, Any]:
    """Data for `bench/cocotb_switch.py`."""
    registers = design.registers
    assert registers is not None
    values: dict[str, Any] = design.parameters
    config = SwitchConfig(**values)
    rng = np.random.default_rng(_SEED)
    batches = [_batch(config, op, number, rng) for number, op in enumerate(_BATCHES)]
    wrong = _batch(config, ReduceOp.SUM_I32, len(batches), rng)
    zeros = np.zeros(config.payload_bytes // 4, np.int32)
    sound = {"kind": Kind.PUSH, "op": ReduceOp.SUM_I32.value, "count": 1}
    wrong["send"][0].append(packet({**sound, "region": _NOWHERE}, zeros))
    wrong["send"][1].append(packet({**sound, "address": 1}, zeros))
    results = sum(len(batch["expect"][0]) for batch in batches)
    status = registers.registers["status"].pack(idle=1)
    dropped = registers.registers["interrupt"].pack(dropped=1)
    at = registers.offset
    return {
        "ports": config.ports,
        "link": link_about(config),
        "set_up": [(at(*name), word) for name, word in set_up_writes(config, registers)],
        "batches": batches,
        "after_batches": words(registers, [
            ("completed", results), ("evicted", 0), ("interrupt", 0), ("status", status),
        ]),
        "wrong": wrong,
        "after_wrong": words(registers, [
            ("dropped_region", 1), ("dropped_alignment", 1), ("interrupt", dropped),
        ]),
        "acknowledge": (at("interrupt"), dropped),
    }


# ---- The manual.


_RECIPES = """\
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


def _set_up(design: Design) -> list[str]:
    registers = design.registers
    assert registers is not None
    values: dict[str, Any] = design.parameters
    writes = [
        (registers.offset(name, index), name if index is None else f"{name}[{index}]", word)
        for (name, index), word in set_up_writes(
            SwitchConfig(**values), registers, MANUAL_MEMBERS
        )
    ]
    return [
        "## Recipe: set up\n\nAfter reset, before anything is pushed or loaded. The words are "
        f"those of one switch alone: endpoints 0 to {MANUAL_MEMBERS - 1} at the links of these "
        "numbers, all of them members of region 0. `timeout` is for sums that stay incomplete, "
        "`behind` for pull alone: how many members the link leads to.\n\n" + writes_table(writes)
    ]


def _bench(design: Design, manifest: Mapping[str, Any]) -> HandoffBench:
    return HandoffBench(module="cocotb_switch", data=switch_data(design))


HANDOFF = Handoff(
    bench=_bench, recipes=_RECIPES, interrupts=INTERRUPTS, set_up=_set_up,
    packets=packet_section, driver="switch.c",
)
