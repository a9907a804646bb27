# SPDX-License-Identifier: Apache-2.0
"""Interfaces between the parts of the switch."""

from typing import Any

from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hw.common.signature import ParametricSignature
from hw.link.packet import FLIT_BITS
from hw.switch.formats import FLIT_LANES
from hw.switch.packet import CLASSES, HEADER, beats_of

__all__ = [
    "LINK_FLIT",
    "LOAD_HEADER",
    "OF_REGION",
    "OPERAND_FLIT",
    "TAKEN",
    "AskedSignature",
    "LinkSignature",
    "StoreSignature",
    "operand_beat",
]

LINK_FLIT = data.StructLayout({"data": FLIT_BITS, "start": 1})
"""A flit on the wire; ``start`` marks headers."""

_ASIDE = {
    "expected": HEADER["count"].shape,  # operands that make the answer of this switch
    "first": 1,  # this is the first switch: the load waits for an entry
    "back": 1,  # it goes back to its requester, too
}
LOAD_HEADER = data.StructLayout(
    {
        field: width
        for name, place in HEADER
        for field, width in (
            {**_ASIDE, "unused": place.width - data.StructLayout(_ASIDE).size}
            if name == "crc"
            else {name: place.shape}
        ).items()
    }
)
"""The header of a LOAD inside a switch: with fields from its ingress in the place of the CRC,
which belongs to a link."""

assert LOAD_HEADER.size == FLIT_BITS


def operand_beat(lanes: int) -> data.StructLayout:
    """A beat of an operand of *lanes* words, and how many operands make its region's results
    (looked at in headers)."""
    return data.StructLayout({"flit": beats_of(lanes), "expected": HEADER["count"].width})


OPERAND_FLIT = operand_beat(FLIT_LANES)
"""The same where a beat is a flit."""

OF_REGION = data.StructLayout({"valid": 1, "region": HEADER["region"].width})
"""An event, and the region of what it concerns."""

TAKEN = data.StructLayout(
    {
        "valid": 1,
        "pull": 1,  # for a load; ``destination`` is its requester
        **{name: HEADER[name].shape
           for name in ("region", "address", "tag", "destination", "source", "count")},
    }
)
"""An operand, or a sum of ``count`` of them, that becomes part of a sum."""


class AskedSignature(ParametricSignature):
    """Counting of credits anew at the receiver of a link; the other side is `Recount`.

    Members
    -------
    count, counted : ``Out(1)``
        High for one cycle for a packet of that kind, a question or an answer, that has come.
    nonce : ``Out(8)``
        Its number; valid with either.
    both : ``Out(1)``
        The question asks this end to count its own credits, too; valid with `count`.
    mute : ``In(1)``
        Give no credits; always valid.
    regrant : ``In(1)``
        High in the last cycle of `mute`: credits are due for all the room that there is.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                **dict.fromkeys(("count", "counted", "both"), Out(1)),
                "nonce": Out(HEADER["tag"].shape),
                **dict.fromkeys(("mute", "regrant"), In(1)),
            }
        )


class LinkSignature(ParametricSignature):
    """A link seen from the switch: a flit per cycle and direction, and credits per class.

    Nothing is ready or not: a packet is sent only with a credit of its class, which is room for a
    whole packet in the buffer at the other end.

    Members
    -------
    rx : ``In(stream.Signature(LINK_FLIT, always_ready=True))``
        Flits from the other end.
    rx_credit : ``Out(CLASSES)``
        Credits given back for packets received: one per bit and cycle, by class.
    tx : ``Out(stream.Signature(LINK_FLIT, always_ready=True))``
        Flits to the other end.
    tx_credit : ``In(CLASSES)``
        Credits given back for packets sent.
    """

    def __init__(self) -> None:
        flits: Any = stream.Signature(LINK_FLIT, always_ready=True)
        super().__init__(
            {
                "rx": In(flits),
                "rx_credit": Out(CLASSES),
                "tx": Out(flits),
                "tx_credit": In(CLASSES),
            }
        )


class StoreSignature(ParametricSignature):
    """Writing of packets into a buffer of *channels* that sends to *outputs*, seen from the writer.

    A packet is begun only with room in its channel, and only when the one before has ended. One
    that is begun anew without ``commit`` is forgotten. A header without data is committed at once.

    Members
    -------
    valid : ``Out(1)``
        A flit is written.
    data : ``Out(FLIT_BITS)``
        The flit.
    first : ``Out(1)``
        It is a header, and begins a packet.
    commit : ``Out(1)``
        It is the last flit: the packet may be sent.
    channel : ``Out(range(channels))``
        Channel of the packet; valid with each flit.
    targets : ``Out(range(outputs))`` with *unicast*, else ``Out(outputs)``
        The output that the packet is for, or a set of outputs; valid with ``commit``.
    room : ``In(channels)``
        Channels that have room for a packet.
    row : ``Out(range(rows))``, only with *rows*
        Row by which the packet can be discarded; valid with ``commit``.
    lasting : ``Out(1)``, only with *rows*
        It cannot be discarded; valid with ``commit``.
    """

    def __init__(
        self, *, channels: int, outputs: int, rows: int = 0, unicast: bool = False
    ) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "data": Out(FLIT_BITS),
                "first": Out(1),
                "commit": Out(1),
                "channel": Out(range(max(2, channels))),
                "targets": Out(range(outputs) if unicast else outputs),
                "room": In(channels),
                **({"row": Out(range(rows)), "lasting": Out(1)} if rows else {}),
            },
            channels=channels,
            outputs=outputs,
            rows=rows,
            unicast=unicast,
        )
