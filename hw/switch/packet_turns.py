# SPDX-License-Identifier: Apache-2.0
"""Turns of several streams of packets, known in the cycle before."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value

__all__ = ["PacketTurns", "packet_turns"]


@dataclass(frozen=True, kw_only=True)
class PacketTurns:
    """Whose turn it is.

    Members
    -------
    owner:
        One-hot, from a register.
    passes:
        Streams of which a flit that is shown may pass: one-hot or none.
    shown:
        The owner shows such a flit.
    changes, grant:
        The turn goes to another one, one-hot, from the next cycle on.
    """

    owner: Signal
    passes: Value
    shown: Value
    changes: Value
    grant: Signal


def packet_turns(
    m: Module, valid: Value, may: Value, *, ready: Value, last: Value,
    shown: Value | None = None, within: Signal | None = None,
) -> PacketTurns:
    """Let streams of packets take turns; each has a bit in *valid*: it shows a flit.

    The stream whose turn it is keeps it while no other one waits. One that waits has it from the
    end of a packet on, or, if there is none, a cycle after it came: packets follow each other
    without a gap, but a stream may begin a cycle late. While it waits others begin as many packets
    as there are streams at most, and so they do if it may begin only whenever they do, as streams
    that share room may.

    Parameters
    ----------
    may:
        Streams that may begin a packet; not to fall while *ready* is low.
    ready:
        A flit that is shown passes.
    last:
        It is the last one of its packet.
    shown, within:
        Signals for these members, if they have names already.
    """
    n = len(valid)
    owner = Signal(n, init=1, name="owner")
    within = Signal(name="within") if within is None else within
    shown = Signal(name="shown") if shown is None else shown
    passes = owner & (may | within.replicate(n))
    m.d.comb += shown.eq((valid & passes).any())
    # Those that might have begun when another one did: the turn is theirs at its end, even if it
    # has taken the room that was there for all.
    passed_over = Signal(n, name="passed_over")
    with m.If(shown & ready & ~within):
        m.d.sync += passed_over.eq(valid & may & ~owner)
    # Whether a flit moves comes last, and only chooses.
    grant = Signal(n, name="grant")
    others = may & ~owner
    others_behind = (may | passed_over) & ~owner
    m.d.comb += grant.eq(
        Mux(shown, _next(valid, others_behind, owner), _next(valid, others, owner))
    )
    with m.If(shown & ready):
        m.d.sync += within.eq(~last)
    changes = Mux(
        shown, ready & last & (valid & others_behind).any(), ~within & (valid & others).any()
    )
    with m.If(changes):
        m.d.sync += owner.eq(grant)
    return PacketTurns(owner=owner, passes=passes, shown=shown, changes=changes, grant=grant)


def _next(valid: Value, may: Value, owner: Signal) -> Value:
    """The first of those that are *valid* and *may* in the order after the *owner*, one-hot. Only
    what is valid comes late."""
    n = len(valid)
    # Those that go before each one.
    before = [
        Cat(
            Cat(owner[j] for j in range(n) if (i - j - 1) % n < (k - j - 1) % n).any()
            for i in range(n)
        )
        for k in range(n)
    ]
    return Cat(valid[k] & may[k] & ~(valid & (may & before[k])).any() for k in range(n))
