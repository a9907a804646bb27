# SPDX-License-Identifier: Apache-2.0
"""Control and status registers of the switch."""

from amaranth.utils import bits_for

from hw.common.engine_registers import counter_registers, identity_register, shape_register
from hw.common.register_map import Field, Register, RegisterMap
from hw.link.retry_registers import LINK_INTERRUPT, port_registers, status_fields
from hw.switch.config import SwitchConfig
from hw.switch.ingress import DROPS
from hw.switch.packet import HEADER

__all__ = ["COUNTERS", "INTERRUPTS", "SWITCH_ID", "register_map"]

SWITCH_ID = 0x5C17

SHAPE = {
    "ports": (5, "Links."),
    "entries": (6, "Entries of the table of a port."),
    "payload_flits": (5, "Flits of data in a packet."),
    "buffer_packets": (7, "Credits per class."),
}

PORT = {
    "disable": "Out of service: what is for this link, or comes by it, is dropped.",
    "resync": "Each write of 1 has credits counted anew, in both directions.",
}

_AT_ONCE = 8  # events of a kind at a port in a cycle, at most

INTERRUPTS = {
    "dropped": "A packet was dropped; the counters say why.",
    "fault": "A register access was answered with an error.",
}

COUNTERS = {
    "completed": "Entries that got all of their operands: results, and answers to loads.",
    "evicted": "Entries that gave way to another address, incomplete.",
    "expired": "Entries given up, incomplete, since no operand came for one to two periods.",
    "stalled": "Loads that waited for an entry, at the first switch.",
    "bypassed": "Loads that went on without an entry, at a later switch.",
    "passed": "Responses that found no entry and went on as they came.",
    **{f"dropped_{name}": f"Packets dropped: {why}." for name, why in DROPS.items()},
    "dropped_excess": "Operands dropped: more than the region expects, or none in the packet.",
    "dropped_mismatch": "Operands dropped: another operation or epoch than their entry has.",
    "dropped_duplicate": "Loads dropped: requester, address and tag are those of an entry.",
    "purged": "Packets and entries discarded: of an epoch that has ended, of a region that was "
    "purged, or for links out of service alone.",
}
"""Registers with a count since reset, over all ports."""


def register_map(c: SwitchConfig) -> RegisterMap:
    """Registers of a switch of configuration *c*."""
    interrupts = {**INTERRUPTS, **(LINK_INTERRUPT if c.retry else {})}
    causes = [Field(name, 1, doc) for name, doc in interrupts.items()]
    endpoint = (c.endpoints - 1).bit_length()
    return RegisterMap(
        "the switch",
        [
            identity_register(SWITCH_ID),
            shape_register("the switch", SHAPE, c.describe()),
            Register(
                "status",
                "ro",
                [Field("idle", 1, "Nothing is held or on its way.", init=1)],
                "State of the switch.",
            ),
            Register(
                "held",
                "ro",
                [Field("regions", c.regions, "Regions, as a mask.")],
                "Of which packets or entries are held. Their rows cannot be written.",
            ),
            Register(
                "purge",
                "wo",
                [Field("regions", c.regions, "Regions, as a mask.")],
                "Discard what is held of them. Always taken. Nothing else is taken from a link "
                "then until a notice comes by it.",
            ),
            Register(
                "port_control",
                "rw",
                [Field(name, 1, doc) for name, doc in PORT.items()],
                "Of each link. Always taken.",
                count=c.ports,
                strobed=True,
            ),
            Register(
                "port_status",
                "ro",
                [
                    Field("counting", 1, "Credits are being counted anew."),
                    Field("credits_home", 1, "What is behind the link holds no packet.", init=1),
                    *(status_fields() if c.retry else ()),
                ],
                "Of each link.",
                count=c.ports,
            ),
            Register("interrupt", "w1c", causes, "Pending interrupts."),
            Register("interrupt_enable", "rw", causes, "Those that raise `irq`."),
            Register(
                "timeout",
                "rw",
                [Field("cycles", c.timeout_bits, "Length of a period; 0 for never.")],
                "An entry without an operand for one to two periods is sent on as a partial.",
            ),
            Register(
                "region",
                "rw",
                [
                    Field("valid", 1, "There is such a region."),
                    Field("expected", HEADER["count"].width, "Operands that make a result."),
                ],
                "Multicast regions, by number. Refused while the region is in `held`.",
                count=c.regions,
                guarded=True,
            ),
            Register(
                "targets",
                "rw",
                [Field("ports", c.ports, "Links that lead to members, as a mask.")],
                "Of each region. Refused while it is in `held`.",
                count=c.regions,
                guarded=True,
            ),
            Register(
                "behind",
                "rw",
                [Field("members", HEADER["count"].width, "Members that the link leads to.")],
                f"{c.ports} rows for each region, one per link. "
                "Refused while it is in `held`.",
                count=c.regions * c.ports,
                guarded=True,
            ),
            Register(
                "home",
                "rw",
                [Field("endpoint", endpoint, "Home of the addresses of this row.")],
                f"{c.homes} rows for each region: row `address / {c.payload_flits} % {c.homes}`. "
                "Refused while it is in `held`.",
                count=c.regions * c.homes,
                guarded=True,
            ),
            Register(
                "route",
                "rw",
                [
                    Field("valid", 1, "There is such an endpoint."),
                    Field("local", 1, "It is at this switch, which reduces what is homed there."),
                    Field("port", (c.ports - 1).bit_length(), "Link that leads to it."),
                ],
                "Of each endpoint. Refused while any region is in `held`.",
                count=c.endpoints,
                guarded=True,
            ),
            *counter_registers(
                {name: ("count", doc) for name, doc in COUNTERS.items()},
                bits=dict.fromkeys(COUNTERS, bits_for(_AT_ONCE * c.ports)),
            ),
            *(port_registers(c.ports) if c.retry else ()),
        ],
    )
