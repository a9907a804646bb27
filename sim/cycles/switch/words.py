# SPDX-License-Identifier: Apache-2.0
"""Headers as the cycle model has them, packed into integers, and turns."""

from hw.switch.packet import Kind
from sim.native.mark import compiled

__all__ = [
    "ALONE", "KIND_BITS", "LOAD", "MESSAGE", "ORDINARY", "PARTIAL", "PUSH", "RESPONSE", "RESULT",
    "STORE", "SUBTOTAL", "after", "alike", "count_of", "first_of", "header", "home_of", "kind_of",
    "number_of", "region_of",
]

PUSH, PARTIAL, RESULT, SUBTOTAL, LOAD, RESPONSE = (
    Kind[name].value for name in ("PUSH", "PARTIAL", "RESULT", "SUBTOTAL", "LOAD", "RESPONSE")
)

ALONE = 0b1001
"""A packet without data in the class of partials, and for one endpoint as they are. Switches have
no such kind; it stands for the flags and acknowledgements of software."""

ORDINARY = 0b10000
STORE, MESSAGE = PUSH | ORDINARY, PARTIAL | ORDINARY
"""Packets with data that take part in no reduction, in the class of operands and in that of
partials. Switches have no such kinds either; like partials they are for one endpoint, as they are.
"""

KIND_BITS = 5
_REGION, _HOME, _COUNT, _NUMBER = KIND_BITS, 11, 19, 28


@compiled
def header(kind, region, home, count, number):
    """Header of a packet of *kind*: region, home endpoint or requester, operands in it or asked
    for, number of the block."""
    return kind | region << _REGION | home << _HOME | count << _COUNT | number << _NUMBER


@compiled
def kind_of(word):
    """A `Kind` (or one of those above), of which the low two bits are the class."""
    return word & (1 << KIND_BITS) - 1


@compiled
def region_of(word):
    """Multicast region."""
    return word >> _REGION & 63


@compiled
def home_of(word):
    """Home endpoint, once a switch has found it; requester."""
    return word >> _HOME & 255


@compiled
def count_of(word):
    """Operands in the packet."""
    return word >> _COUNT & 511


@compiled
def number_of(word):
    """Number of the block on its link, in its region."""
    return word >> _NUMBER


@compiled
def alike(word, other):
    """True if two operands belong to one sum."""
    return (word ^ other) & ~(511 << _COUNT) == 0


@compiled
def first_of(requests, preferred):
    """The request that is granted, as by `RoundRobinArbiter`; -1 without a request."""
    if requests == 0:
        return -1
    candidates = requests & preferred
    if candidates == 0:
        candidates = requests
    number = 0
    while candidates & 1 == 0:
        candidates >>= 1
        number += 1
    return number


@compiled
def after(number):
    """Mask of the requests that are preferred from now on: those behind *number*."""
    return -(2 << number)
