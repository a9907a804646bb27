# SPDX-License-Identifier: Apache-2.0
"""Register writes that program switches, and that make an endpoint a member and give it commands.

The driver of the compiled models, or a test bench with a register bus, performs them in order.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig

__all__ = [
    "FieldWrite",
    "command_writes",
    "member_writes",
    "region_writes",
    "route_writes",
    "unplugged_writes",
    "withdrawal",
]

FieldWrite = tuple[str, int | None, dict[str, Any]]
"""Name of a register, its index if it is one of several, and its fields."""

_WORD = 0xFFFF_FFFF


def region_writes(
    config: SwitchConfig,
    region: int,
    *,
    expected: int,
    ports: Sequence[int],
    behind: Callable[[int], int],
    homes: Sequence[int],
) -> Iterator[FieldWrite]:
    """Set up a region at one switch.

    Parameters
    ----------
    expected : int
        Number of members.
    ports : sequence of int
        Ports of the switch that belong to the region's tree.
    behind : callable
        Members that the link at a port leads to.
    homes : sequence of int
        Endpoints that are the homes of successive blocks.
    """
    yield "region", region, {"valid": 1, "expected": expected}
    yield "targets", region, {"ports": sum(1 << p for p in ports)}
    for p in ports:
        yield "behind", region * config.ports + p, {"members": behind(p)}
    for row in range(config.homes):
        yield "home", region * config.homes + row, {"endpoint": homes[row % len(homes)]}


def withdrawal(region: int) -> FieldWrite:
    """Remove a region."""
    return "region", region, {"valid": 0, "expected": 0}


def route_writes(ports: Sequence[int | None], local: Sequence[bool]) -> Iterator[FieldWrite]:
    """Set the port of one switch that leads to each endpoint (None: none); *local*: it is there."""
    for endpoint, (port, here) in enumerate(zip(ports, local, strict=True)):
        if port is not None:
            yield "route", endpoint, {"valid": 1, "local": int(here), "port": port}


def unplugged_writes(config: SwitchConfig, used: Container[int]) -> Iterator[FieldWrite]:
    """Take ports of one switch without a cable, all but those *used*, out of service: packets that
    a row sends there by mistake are dropped, instead of waiting for credits and blocking others."""
    for port in range(config.ports):
        if port not in used:
            yield "port_control", port, {"disable": 1}


def member_writes(
    registers: RegisterMap,
    endpoint: int,
    *,
    members: int,
    region: int = 0,
    row: int = 0,
    own: int = 0,
    watchdog: int = 0,
    tries: int = 0,
    abort: int = 1,
) -> Iterator[FieldWrite]:
    """Set up an endpoint as *row*-th of a region, before it joins. *own*: loads ask for the own
    operand, too; after *watchdog* cycles without progress, unless 0, and as many *tries* more, it
    may *abort*. Every interrupt that *registers* have is enabled."""
    yield "node", row, {"endpoint": endpoint, "members": members, "region": region}
    yield "pull", None, {"own": own}
    yield "watchdog", None, {"cycles": watchdog, "tries": tries, "abort": abort}
    causes = (field.name for field in registers.registers["interrupt_enable"].fields)
    yield "interrupt_enable", None, dict.fromkeys(causes, 1)


def command_writes(
    op: ReduceOp, elements: int, *, source: int, destination: int, **fields: Any
) -> Iterator[FieldWrite]:
    """Start an all-reduce. *fields* are the command's, and ``begin`` and ``end`` of a ``part``."""
    for name, value in (("source", source), ("destination", destination)):
        yield f"{name}_low", None, {"value": value & _WORD}
        yield f"{name}_high", None, {"value": value >> 32}
    yield "elements", None, {"value": elements}
    part = {name: fields.pop(name, 0) for name in ("begin", "end")}
    if fields.get("part"):
        for name, value in part.items():
            yield f"part_{name}", None, {"value": value}
    yield "command", None, {"op": op, **fields}
