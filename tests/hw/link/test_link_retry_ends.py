# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Both ends of a link with retry, on wires that are good but for one or two flits: every run.

A proof under whatever wires reaches no third frame (`test_link_retry_proofs`). Here the fault, or
the two, may be of any kind and meet any flit, from reset until many frames are through; all these
runs of the RTL are made. What a fault does is told at the wire and at the frames that go in and
come out, so nothing here depends on what the ends say to each other.
"""

from dataclasses import replace
from functools import cache
from itertools import combinations, product

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen.compile import compile_model
from hw.link import retry_link
from hw.link.retry_link import RetryLink
from hw.link.retry_sender import RetrySender
from tests.hw.link.test_link_retry_proofs import (
    CONFIG,
    FORMAT,
    NUMBERS,
    HastySender,
    LinkOfTooMany,
    ReceiverOfTooMany,
    delivers,
    frame_of,
)

PATIENT = replace(CONFIG, timeout_cycles=16, tries=3)
"""Longer than a round trip: nothing is repeated unless something was lost."""
FAULTS = ("lose", "mark", "damage", "again")
PLACES = 32
"""Flits of each direction that a fault may meet: SYNC and its answer, frames, acknowledgements."""
CYCLES = 400
"""Of a run: a time-out for either fault, and all frames are through."""
FRAMES = 12
"""Delivered in every run, each once and in order; at least four of them after the last fault."""


class Ends(wiring.Component):
    """Two ends, a writer that always has the next frame, a reader, and wires with faults.

    Members
    -------
    wire, place, fault : ``In``
        Of two faults, on which wire, of which flit, of which kind (0: none).
    pause : ``In(1)``
        The reader stalls in every other cycle.
    wrong : ``Out(1)``
        A frame was delivered that was not the next one, whole; or a link has failed.
    delivered, after : ``Out(8)``
        Frames delivered; and since the last fault.
    resent : ``Out(8)``
        Frames that were repeated.
    met : ``Out(2)``
        Faults that met a flit.
    """

    def __init__(self, ends):
        self.ends = ends
        inputs = {f"{name}_{k}": In(width) for k in range(2)
                  for name, width in (("wire", 1), ("place", 8), ("fault", 3))}
        super().__init__({
            **inputs, "pause": In(1), "wrong": Out(1), "met": Out(2),
            **dict.fromkeys(("delivered", "after", "resent"), Out(8)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.near, m.submodules.far = near, far = self.ends
        hits = [self._wire(m, near, far, 0), self._wire(m, far, near, 1)]
        number, due = Signal(range(NUMBERS)), Signal(range(NUMBERS))
        inside, odd = Signal(), Signal()
        frame = near.frame
        m.d.comb += [
            frame.fresh.eq(1),
            frame.commit.eq(frame.room),
            frame.write.eq(frame.commit & number[0]),
            frame.data.eq(number),
            frame.content.eq(frame_of(number)),
            far.o.ready.eq(~self.pause | odd),
        ]
        m.d.sync += [number.eq(number + frame.commit), odd.eq(~odd)]
        bad = delivers(m, far.o, due, inside)
        arrives = far.o.valid & far.o.ready & far.o.p.last
        with m.If(bad | near.failed | far.failed):
            m.d.sync += self.wrong.eq(1)
        m.d.sync += [
            self.delivered.eq(self.delivered + arrives),
            self.after.eq(self.after + arrives),
            self.resent.eq(self.resent + near.resent),
            self.met.eq(self.met + hits[0] + hits[1]),
        ]
        with m.If(Cat(*hits).any()):
            m.d.sync += self.after.eq(0)
        return m

    def _wire(self, m, sender, receiver, k):
        """Join the two; returns whether a flit met a fault."""
        bits = len(sender.tx.p.as_value())
        held, twice = Signal(bits, name=f"held_{k}"), Signal(name=f"twice_{k}")
        flit = Signal(sender.tx.p.shape(), name=f"flit_{k}")
        count = Signal(8, name=f"count_{k}")
        kind = Signal(3, name=f"kind_{k}")
        comes = sender.tx.valid & ~twice
        for n in range(2):
            here = (getattr(self, f"wire_{n}") == k) & (getattr(self, f"place_{n}") == count)
            with m.If(comes & here):
                m.d.comb += kind.eq(getattr(self, f"fault_{n}"))
        lose, mark, damage, again = (kind == n for n in range(1, 5))
        m.d.comb += [
            sender.tx.ready.eq(~twice),
            flit.eq(sender.tx.p),
            receiver.rx.valid.eq(twice | (comes & ~lose)),
            receiver.rx.p.start.eq(flit.start ^ mark),
            receiver.rx.p.data.eq(Cat(flit.data[:-1], flit.data[-1] ^ damage)),
        ]
        with m.If(twice):
            m.d.comb += flit.eq(held)
        m.d.sync += [twice.eq(again), held.eq(sender.tx.p.as_value()), count.eq(count + comes)]
        return kind != 0


@cache
def model(kind):
    """The compiled ends, with a planted bug unless *kind* is None."""
    with pytest.MonkeyPatch.context() as patch:
        link = RetryLink
        if kind is LinkOfTooMany:
            link = kind
        elif kind is not None:
            half = "RetrySender" if issubclass(kind, RetrySender) else "RetryReceiver"
            patch.setattr(retry_link, half, kind)
        ends = [link(FORMAT, PATIENT) for _ in range(2)]
        name = "retry_ends" + ("" if kind is None else f"_{kind.__name__.lower()}")
        return compile_model(Ends(ends), name=name)


def run(faults, *, pause=0, kind=None):
    """What became of it: the outputs at the end."""
    with model(kind).instance() as instance:
        instance.set("pause", pause)
        for n, (wire, place, fault) in enumerate(faults):
            instance.set(f"wire_{n}", wire)
            instance.set(f"place_{n}", place)
            instance.set(f"fault_{n}", 1 + FAULTS.index(fault))
        instance.cycle(CYCLES)
        return {name: instance.get(name)
                for name in ("wrong", "met", "delivered", "after", "resent")}


def good(found):
    return not found["wrong"] and found["delivered"] >= FRAMES and found["after"] >= 4


SINGLE = list(product(range(2), range(1, PLACES), FAULTS))
PAIRS = list(combinations(SINGLE, 2))
LOST = [pair for pair in PAIRS if {fault for _, _, fault in pair} == {"lose"}]


def test_without_faults_nothing_is_repeated():
    found = run([])
    assert good(found) and not found["met"] and not found["resent"]


@pytest.mark.parametrize("pause", [0, 1])
def test_frames_arrive_once_and_in_order_whatever_flit_meets_a_fault(pause):
    found = {fault: run([fault], pause=pause) for fault in SINGLE}

    assert not [fault for fault, each in found.items() if not good(each)]
    assert all(each["met"] == 1 for each in found.values()), "no such flit"
    # What the proof must reach: a repetition, and frames before and behind it.
    repeated = [each for each in found.values() if each["resent"]]
    assert len(repeated) > PLACES


@pytest.mark.parametrize("pairs", [
    pytest.param(LOST, id="lost"), pytest.param(PAIRS, id="any", marks=pytest.mark.full),
])
def test_frames_arrive_once_and_in_order_whatever_two_flits_meet_faults(pairs):
    found = [run(pair) for pair in pairs]

    assert not [pair for pair, each in zip(pairs, found) if not good(each)]
    assert sum(each["met"] == 2 for each in found) > 0.9 * len(pairs)
    assert max(each["resent"] for each in found) > 1


@pytest.mark.parametrize("kind", [LinkOfTooMany, ReceiverOfTooMany, HastySender])
def test_a_planted_bug_is_found(kind):
    assert any(run([fault], kind=kind)["wrong"] for fault in SINGLE)
