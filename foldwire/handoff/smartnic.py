# SPDX-License-Identifier: Apache-2.0
"""Hand-off of the smart NIC: how software drives it, and a bench of two on a ring."""

from collections.abc import Iterator, Mapping
from typing import Any

from foldwire.catalog import Design
from foldwire.handoff.frames import NIC_FIELDS, header_table
from foldwire.handoff.pair import Pair, pair_bench, pair_set_up
from foldwire.handoff.part import Handoff, HandoffBench
from foldwire.handoff.words import PATIENCE
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import HeaderLayout
from hw.smartnic.registers import INTERRUPTS
from sim.rtl.smartnic import writes
from sim.rtl.writes import Write

__all__ = ["HANDOFF", "PAIR"]

_RECIPES = """\
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


class _Pair(Pair):
    def links(self, config: SmartNicConfig) -> list[tuple[str, str]]:
        return [(f"net_{n}", f"net_{n}") for n in range(config.engines)]

    def memory_ports(self, config: SmartNicConfig) -> int:
        return config.engines

    def set_up(
        self, config: SmartNicConfig, registers: RegisterMap, rank: int, *, nodes: int,
        memory_bytes: int,
    ) -> Iterator[Write]:
        return writes.set_up_writes(
            registers, config, rank=rank, nodes=nodes, memory_bytes=memory_bytes,
            watchdog_cycles=PATIENCE,
        )

    def start(
        self, config: SmartNicConfig, registers: RegisterMap, op: ReduceOp, elements: int, *,
        name: int, source: int, destination: int, nodes: int,
    ) -> Iterator[Write]:
        return writes.start_writes(
            registers, elements=elements, tag=name, source=source, destination=destination, op=op
        )


PAIR = _Pair()


def _config(design: Design) -> SmartNicConfig:
    values: dict[str, Any] = design.parameters
    return SmartNicConfig(**values)


def _bench(design: Design, manifest: Mapping[str, Any]) -> HandoffBench:
    return pair_bench(design, _config(design), PAIR, manifest)


def _set_up(design: Design) -> list[str]:
    return list(pair_set_up(design, _config(design), PAIR))


def _packets(design: Design) -> str:
    text = (
        "A frame on `net_n` is a header of 32 bytes and payload, `tlast` at its end. Fields other "
        "than addresses and EtherType are little-endian; those that a frame has no use for are 0."
    )
    layout: Any = HeaderLayout  # whose `as_shape` has no types
    return header_table("Frames", text, layout.as_shape(), NIC_FIELDS)


HANDOFF = Handoff(
    bench=_bench, recipes=_RECIPES, interrupts=INTERRUPTS, set_up=_set_up, packets=_packets,
    driver="smartnic.c",
)
