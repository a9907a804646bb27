# SPDX-License-Identifier: Apache-2.0
"""Compiled components of the switch, driven cycle by cycle, and packets for them."""

import random
from collections import deque

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.switch.packet import Kind, decode, encode
from tb.switch.endpoint import payload

PAYLOAD_FLITS = 8
FLIT = (1 << 128) - 1
FIRST, LAST = 1 << 128, 1 << 129


def packet(words, lanes=4, **fields):
    """The beats of a packet of *lanes* words each as the switch has them inside, first and last
    marked; flits are such of 4."""
    header = encode({"kind": Kind.PUSH, **fields})
    data, parts = payload(words), lanes // 4
    beats = [header, *(sum(flit << 128 * k for k, flit in enumerate(data[at : at + parts]))
                       for at in range(0, len(data), parts))]
    beats[0] |= 1 << 32 * lanes
    beats[-1] |= 2 << 32 * lanes
    return beats


def packets_of(flits, lanes=4):
    """Header fields (checksum not looked at) and payload flits of whole packets, in order, from
    beats of *lanes* words."""
    packets = []
    for flit in (flit for beat in flits for flit in _flits_of(beat, lanes)):
        if flit & FIRST:
            body = flit & ((1 << 120) - 1)
            header = next(
                found for check in range(256) if (found := decode(body | check << 120)) is not None
            )
            packets.append((header, []))
        else:
            packets[-1][1].append(flit & FLIT)
        if flit & LAST:
            packets[-1] = (packets[-1][0], tuple(packets[-1][1]))
    assert all(isinstance(body, tuple) for _, body in packets), "a packet has no end"
    return packets


def _flits_of(beat, lanes):
    """The flits of a beat: a header, or all of its words."""
    marks = beat >> 32 * lanes
    parts = 1 if marks & 1 else lanes // 4
    flits = [beat >> 128 * k & FLIT for k in range(parts)]
    flits[0] |= FIRST * (marks & 1)
    flits[-1] |= LAST * (marks >> 1)
    return flits


class Bench:
    """An instance of a compiled model whose streams are offered and taken at random.

    All outputs must depend on registers only. Beats that are offered stay until they are taken, and
    so must those of the model.

    Parameters
    ----------
    model : CompiledModel
    sources : mapping of str to list of int
        Beats for each input stream.
    sinks : sequence of str
        Output streams.
    gaps, stalls : float
        Chance that a source pauses, or a sink is not ready, in a cycle.
    """

    def __init__(self, model, sources, sinks, *, gaps=0.0, stalls=0.0, seed=0):
        self.instance = model.instance()
        self.rng = random.Random(seed)
        self.waiting = {name: deque(beats) for name, beats in sources.items()}
        self.accepted = {name: [] for name in sources}  # cycles
        self.taken = {name: [] for name in sinks}
        self.cycles_taken = {name: [] for name in sinks}
        self.gaps = gaps
        self.stalls = dict.fromkeys(sinks, stalls)
        self.offered = dict.fromkeys(sources, False)
        self.stuck = dict.fromkeys(sinks)
        self.counts = {}
        self.cycle = 0

    def step(self, events=()):
        """One cycle; pulses of the outputs named in *events* are counted."""
        get, put = self.instance.get, self.instance.set
        moved = []
        for name, beats in self.waiting.items():
            if not self.offered[name] and beats and self.rng.random() >= self.gaps:
                self.offered[name] = True
                put(f"{name}_payload", beats[0])
            put(f"{name}_valid", self.offered[name])
            if self.offered[name] and get(f"{name}_ready"):
                moved.append(name)
        for name in self.taken:
            ready = self.rng.random() >= self.stalls[name]
            put(f"{name}_ready", ready)
            shown = get(f"{name}_payload") if get(f"{name}_valid") else None
            if self.stuck[name] is not None:
                assert shown == self.stuck[name], f"{name} changed while it was stalled"
            self.stuck[name] = None if ready else shown
            if ready and shown is not None:
                self.taken[name].append(shown)
                self.cycles_taken[name].append(self.cycle)
        for name in moved:
            self.waiting[name].popleft()
            self.accepted[name].append(self.cycle)
            self.offered[name] = False
        for name in events:
            self.counts[name] = self.counts.get(name, 0) + get(name)
        self.instance.cycle()
        self.cycle += 1

    def run(self, *, events=(), quiet=200, deadline=200_000):
        """Until all beats are accepted and nothing has moved for *quiet* cycles."""
        last = self.cycle
        before = None
        while self.cycle - last < quiet:
            assert self.cycle < deadline, f"not finished: {self.progress()}"
            self.step(events)
            now = self.progress()
            if now != before:
                last, before = self.cycle, now
        assert not any(self.waiting.values()), f"stuck: {self.progress()}"

    def progress(self):
        """Beats that have moved, by stream."""
        return {name: len(beats) for name, beats in (self.accepted | self.taken).items()}


class PassingALU(wiring.Component):
    """Stands for the adders: what is not reduced passes, and nothing is claimed of sums."""

    def __init__(self, lanes, *, stages, keeps=False):
        assert stages == 0
        super().__init__({"i_valid": In(1), "op": In(2), "keep": In(1), "a": In(32 * lanes),
                          "b": In(32 * lanes), "o_valid": Out(1), "o": Out(32 * lanes)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(Mux(self.keep, 0, self.a) | self.b)
        return m
