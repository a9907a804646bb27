# SPDX-License-Identifier: Apache-2.0
"""Ports of a design, and what travels on its links, as sections of the manual."""

from collections.abc import Mapping
from enum import EnumMeta
from typing import Any

from amaranth.lib import data

from foldwire.catalog import Design
from gen.rtlil import component_ports

__all__ = ["ACE_FIELDS", "NIC_FIELDS", "SWITCH_FIELDS", "header_table", "ports_table"]

_BUSES = {"awlen": "AXI4", "awaddr": "AXI4-Lite", "tlast": "AXI4-Stream", "tdata": "stream",
          "payload": "stream"}
"""Kind of the bus that has such a signal, the first one that does."""


def ports_table(design: Design) -> str:
    """All ports but clock and reset, those of a bus in one row."""
    ports = component_ports(design.component)
    buses: dict[str, str] = {}
    for signal, kind in _BUSES.items():
        for port in ports:
            if port.name.endswith(f"_{signal}"):
                buses.setdefault(port.name.removesuffix(f"_{signal}"), kind)
    rows: dict[str, list[str]] = {}
    for port in ports:
        bus = port.name.rpartition("_")[0]
        way = "in" if port.is_input else "out"
        signal = port.name.removeprefix(f"{bus}_") if bus in buses else port.name
        rows.setdefault(bus if bus in buses else port.name, []).append(
            f"`{signal}` {way}" + (f" {port.width}" if port.width > 1 else "")
        )
    lines = [
        "## Ports", "",
        ("Clock `clk`; reset `rst`, synchronous, active while high (`rst_n`, while low, if the "
         "Verilog was made so). A row for each bus; a number is that of the bits, if there are "
         "several."), "",
        "| bus or port | | signals |", "|---|---|---|",
    ]
    for name, signals in rows.items():
        lines.append(f"| `{name}` | {buses.get(name, '')} | {', '.join(signals)} |")
    return "\n".join(lines)


def header_table(
    title: str, text: str, layout: data.StructLayout, meanings: Mapping[str, str]
) -> str:
    """Fields of a header from bit 0 upwards; codes of a field that is an enumeration.

    Raises
    ------
    KeyError
        A field has no meaning.
    """
    lines = [f"## {title}", "", text, "", "| bits | field | |", "|---|---|---|"]
    for name, field in layout:
        if not field.width:
            continue
        shape: Any = field.shape
        codes = ""
        if isinstance(shape, EnumMeta):
            members: Any = shape
            codes = f" ({', '.join(f'{each.value} = {each.name}' for each in members)})"
        last = field.offset + field.width - 1
        bits = f"{last}:{field.offset}" if field.width > 1 else f"{last}"
        lines.append(f"| {bits} | `{name}` | {meanings[name]}{codes} |")
    return "\n".join(lines)


_CRC = (
    "CRC-8 of the bits before it, polynomial x^8 + x^2 + x + 1, bits fed and given lowest first, "
    "beginning with all ones"
)

ACE_FIELDS = {
    "offload": "1", "kind": "what the receiver is to do", "op": "reduction, as in `command`",
    "collective": "name of the collective, as in `command`",
    "chunk": "chunk of the collective", "phase": "0", "fsm": "FSM that has the context",
    "context": "context at the receiver that has the chunk; of READY: at the sender",
    "epoch": "as of the last abort; packets of another one are dropped",
    "poison": "the payload is not valid: what it was made from could not be read",
    "sequence": "number of the packet on its link, modulo 256",
    "digest": "0", "step": "receive instruction that the packet is for; of READY: digest of the "
    "command, low bits", "offset": "number of the packet in its run; of READY: digest, high bits",
    "length": "bytes of payload that follow", "source": "rank of the sender, modulo 1024",
    "destination": "0",
    "contributions": "operands in the payload, modulo 1024", "reserved": "0", "checksum": _CRC,
}
NIC_FIELDS = {
    "destination": "Ethernet address, first byte lowest", "source": "Ethernet address",
    "ethertype": "0x88B5, first byte on the wire 0x88", "version": "2",
    "kind": "kind of the frame", "block_end": "the frame ends a block",
    "start": "first frame of an all-reduce: `detail` to `rank` are what ranks must agree on; of an "
    "abort: the sender has just come to the epoch",
    "poison": "the block that it ends depends on a read that a memory refused",
    "wanted": "of an abort: the sender waits to hear of the same epoch",
    "op": "reduction, as in `command`",
    "payload_bytes": "after the header, padding of short frames included",
    "sequence": "number of the data frame of this flow", "epoch": "aborts so far",
    "detail": "elements; of credits: beats freed so far of the reducing flow (low half) and of the "
    "gathering flow; of an abort: its cause",
    "tag": "name of the command",
    "coding": "digest of the configuration, and of the codec if payload is compressed",
    "last_rank": "last rank of the ring",
    "rank": "of the sender; of an abort: where it began",
}
SWITCH_FIELDS = {
    "offload": "1", "kind": "kind of the packet", "op": "reduction", "format": "of the numbers",
    "region": "multicast region", "address": "first flit of data from the start of the region on",
    "tag": "of a load, chosen by its requester",
    "source": "endpoint that sent it; of a PARTIAL or RESULT of a switch the home endpoint, of a "
    "RESPONSE of a switch the sender of the first operand in it",
    "destination": "home endpoint, from the switch on that found it; requester",
    "count": "operands in the data; that a LOAD asks for",
    "epoch": "operands of different epochs are not reduced with each other",
    "poison": "the data is not valid: an operand could not be read", "sequence": "0",
    "acknowledge": "0", "crc": "0", "checksum": _CRC,
}
