# SPDX-License-Identifier: Apache-2.0
"""Registers and an interrupt by which engines show their links with retry to software."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data

from hw.common.engine_registers import EngineRegisters, counter_registers
from hw.common.register_map import Field, Register
from hw.link.retry_link import RETRY_COUNTS, RETRY_STATUS

__all__ = ["LINK_INTERRUPT", "LINK_STATUS", "port_registers", "show_links", "status_fields"]

LINK_STATUS = data.StructLayout(dict.fromkeys(RETRY_STATUS, 1))
"""Status that an end of a link with retry gives its engine: see `RetryLink`."""

LINK_INTERRUPT = {"link": "A link has failed, works again, or has a peer that was reset."}

_COUNTED = {
    "resent": "Frames that each link has sent again.",
    "damaged": "Frames that came damaged by each link.",
    "repeated": "Frames that came again by each link.",
}
assert _COUNTED.keys() == RETRY_COUNTS.keys()


def status_fields() -> list[Field]:
    """Fields of the status register of each link."""
    return [
        Field("up", 1, "The link works: packets are sent."),
        Field("failed", 1, "One end does not hear the other. What was sent is kept, and goes on "
              "when the link works again."),
    ]


def port_registers(ports: int) -> list[Register]:
    """The counters of an engine with so many links."""
    counters = {f"port_{name}": ("count", doc) for name, doc in _COUNTED.items()}
    return counter_registers(counters, count=ports)


def show_links(m: Module, registers: EngineRegisters, links: Any, *, shown: Any) -> Value:
    """Join *links*, each of `LINK_STATUS`, to the registers *shown*, which have `status_fields`,
    and to the counters; the event of `LINK_INTERRUPT`."""
    events = []
    for k, link in enumerate(links):
        status = shown[k].value
        m.d.comb += [status.up.eq(link.up), status.failed.eq(link.failed)]
        for name in RETRY_COUNTS:
            registers.count(getattr(registers, f"port_{name}")[k], link[name])
        before = Signal(name=f"failed_{k}")
        event = Signal(name=f"link_event_{k}")
        m.d.sync += [
            before.eq(link.failed), event.eq((link.failed != before) | link.restarted),
        ]
        events.append(event)
    return Cat(events).any()
