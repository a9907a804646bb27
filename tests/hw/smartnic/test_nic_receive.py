# SPDX-License-Identifier: Apache-2.0
"""Reception of good and bad frames, mixed at random: what is bad is dropped whole."""

import random
from dataclasses import replace

import pytest
from amaranth.lib import data

from hw.common.testing import simulate
from hw.smartnic.config import preset
from hw.smartnic.layouts import ETHERTYPE, VERSION, FrameKind, HeaderLayout
from hw.smartnic.receive import Receive, Verdict

CONFIG = replace(preset("test"), codec="none")
HERE, NEXT, PREVIOUS = 0x111111111111, 0x222222222222, 0x333333333333
EPOCH = 5
CAUSES = list(dict(Verdict.as_shape()))


def word(**fields):
    """A header as a number."""
    shape = data.StructLayout({name: f.shape for name, f in HeaderLayout.as_shape()})
    base = {
        "destination": HERE,
        "source": PREVIOUS,
        "ethertype": ETHERTYPE >> 8 | (ETHERTYPE & 0xFF) << 8,
        "version": VERSION,
        "kind": FrameKind.REDUCE,
        "epoch": EPOCH,
    }
    return shape.const({**base, **fields}).as_value().value


class Peer:
    """Makes frames, and knows what becomes of each and what must come out."""

    def __init__(self, rng):
        self.rng = rng
        self.sequence = [0, 0]
        self.delivered = [[], []]
        self.verdicts = []
        self.beats = []

    def frame(self):
        rng = self.rng
        flow = rng.randrange(2)
        kind = FrameKind(flow + 1)
        count = rng.randrange(1, CONFIG.frame_beats + 1)
        block_end = rng.randrange(2)
        payload = [rng.getrandbits(256) for _ in range(count)]
        fields = {
            "kind": kind,
            "block_end": block_end,
            "payload_bytes": 32 * count,
            "sequence": self.sequence[flow],
        }
        keep, error, header = (1 << 32) - 1, 0, None
        verdict = rng.choice(["accepted"] * 6 + CAUSES)
        if verdict in ("accepted", "overflow"):
            verdict = "accepted"
            self.sequence[flow] += 1
            last = [0] * (count - 1) + [block_end]
            self.delivered[flow] += list(zip(payload, last))
        elif verdict == "control":
            kind = rng.choice([FrameKind.CREDIT, FrameKind.ABORT, FrameKind.RECALL])
            sender = PREVIOUS if kind is FrameKind.ABORT else NEXT
            sequence = rng.choice([77, self.sequence[flow]])
            fields |= {"kind": kind, "source": sender, "sequence": sequence}
            if rng.randrange(2):  # header alone
                payload.clear()
                fields["payload_bytes"] = 0
        elif verdict == "foreign":
            fields |= rng.choice(
                [
                    {"destination": HERE ^ 1 << rng.randrange(48)},
                    {"source": NEXT},
                    {"ethertype": 0x0008},
                    {"version": VERSION - 1},
                ]
            )
            header = rng.choice([None, None, rng.getrandbits(256)])
        elif verdict == "stale":
            fields["epoch"] = EPOCH + rng.choice([-1, 1, 100])
            if rng.randrange(2):
                payload.clear()
                fields |= {"kind": FrameKind.CREDIT, "source": NEXT, "payload_bytes": 0}
        elif verdict == "length":
            fault = rng.randrange(4)
            if fault == 0:
                fields["payload_bytes"] += rng.choice([-32, 32, 1, -1])
            elif fault == 1:
                keep >>= rng.randrange(1, 32)
            elif fault == 2:
                error = 1
            else:
                # One beat too many as often as many more.
                surplus = rng.choice([1, rng.randrange(2, 40)])
                payload += [0] * (CONFIG.frame_beats + surplus - count)
                fields["payload_bytes"] = rng.choice([32 * count, 32 * len(payload)])
        elif verdict == "repeated":
            fields["sequence"] = (self.sequence[flow] - rng.randrange(1, 9)) % 65536
        elif verdict == "gap":
            fields["sequence"] = (self.sequence[flow] + rng.randrange(1, 9)) % 65536
        words = [word(**fields) if header is None else header, *payload]
        for index, each in enumerate(words):
            final = index == len(words) - 1
            full = (1 << 32) - 1
            beat = {
                "data": each,
                "keep": keep if final else full,
                "last": int(final),
                "error": error if final else 0,
            }
            self.beats.append(beat)
        self.verdicts.append(verdict)


@pytest.mark.parametrize("seed", range(4))
def test_frames_are_delivered_whole_or_not_at_all(seed):
    rng = random.Random(seed)
    peer = Peer(rng)
    for _ in range(150):
        peer.frame()
    dut = Receive(CONFIG)
    seen = []

    async def send(ctx):
        for port, value in (
            (dut.here, HERE),
            (dut.following, NEXT),
            (dut.preceding, PREVIOUS),
            (dut.epoch, EPOCH),
        ):
            ctx.set(port, value)
        for beat in peer.beats:
            while rng.random() < 0.2:
                ctx.set(dut.net.valid, 0)
                await ctx.tick()
            ctx.set(dut.net.payload, beat)
            ctx.set(dut.net.valid, 1)
            await ctx.tick()
        ctx.set(dut.net.valid, 0)
        await ctx.tick().repeat(20)

    def take(port, expected):
        async def run(ctx):
            for want, last in expected:
                ctx.set(port.ready, 1)  # the sender of this test knows no credits
                (got,) = await ctx.tick().sample(port.payload).until(port.valid)
                assert (got.data, got.last) == (want, last)
            for _ in range(30):
                _, _, valid = await ctx.tick().sample(port.valid)
                assert not valid

        return run

    async def watch(ctx):
        async for _, _, verdict in ctx.tick().sample(dut.verdict):
            seen.extend(cause for cause in CAUSES if getattr(verdict, cause))

    simulate(
        dut,
        send,
        take(dut.reduce, peer.delivered[0]),
        take(dut.gather, peer.delivered[1]),
        checks=[watch],
    )

    assert seen == peer.verdicts
    assert set(seen) == set(CAUSES) - {"overflow"}


def test_a_sender_without_regard_for_credits_is_told_apart():
    dut = Receive(CONFIG)
    frames = CONFIG.receive_beats // CONFIG.frame_beats
    seen = []

    async def send(ctx):
        for port, value in (
            (dut.here, HERE),
            (dut.following, NEXT),
            (dut.preceding, PREVIOUS),
            (dut.epoch, EPOCH),
        ):
            ctx.set(port, value)
        ctx.set(dut.net.valid, 1)
        for number in range(frames + 1):
            header = word(payload_bytes=32 * CONFIG.frame_beats, sequence=number)
            for index in range(CONFIG.frame_beats + 1):
                final = index == CONFIG.frame_beats
                beat = {"data": header if index == 0 else number, "keep": -1, "last": final}
                ctx.set(dut.net.payload, {**beat, "error": 0})
                await ctx.tick()
        ctx.set(dut.net.valid, 0)
        await ctx.tick().repeat(5)
        ctx.set(dut.reduce.ready, 1)
        for number in range(frames):
            for _ in range(CONFIG.frame_beats):
                (got,) = await ctx.tick().sample(dut.reduce.p.data).until(dut.reduce.valid)
                assert got == number
        await ctx.tick().repeat(5)
        assert not ctx.get(dut.reduce.valid)

    async def watch(ctx):
        async for _, _, verdict in ctx.tick().sample(dut.verdict):
            seen.extend(cause for cause in CAUSES if getattr(verdict, cause))

    simulate(dut, send, checks=[watch])

    assert seen == ["accepted"] * frames + ["overflow"]


@pytest.mark.parametrize("flushed", [2, 3, 4])
def test_a_frame_of_which_a_flush_took_beats_is_stale(flushed):
    """Epoch and number are those of what comes behind the flush. Beats are looked at a cycle after
    they came."""
    dut = Receive(CONFIG)
    count = 4
    seen = []

    async def send(ctx):
        for port, value in (
            (dut.here, HERE), (dut.following, NEXT), (dut.preceding, PREVIOUS), (dut.epoch, EPOCH),
        ):
            ctx.set(port, value)
        ctx.set(dut.net.valid, 1)
        for frame in range(2):
            header = word(payload_bytes=32 * count, sequence=0)
            for index in range(count + 1):
                ctx.set(dut.flush, frame == 0 and index < flushed)
                beat = {"data": index or header, "keep": -1, "last": index == count, "error": 0}
                ctx.set(dut.net.payload, beat)
                await ctx.tick()
        ctx.set(dut.net.valid, 0)
        await ctx.tick().repeat(20)

    async def take(ctx):
        ctx.set(dut.reduce.ready, 1)
        for index in range(1, count + 1):
            (got,) = await ctx.tick().sample(dut.reduce.p.data).until(dut.reduce.valid)
            assert got == index
        for _ in range(20):
            _, _, valid = await ctx.tick().sample(dut.reduce.valid)
            assert not valid

    async def watch(ctx):
        async for _, _, verdict in ctx.tick().sample(dut.verdict):
            seen.extend(cause for cause in CAUSES if getattr(verdict, cause))

    simulate(dut, send, take, checks=[watch])

    assert seen == ["stale", "accepted"]
