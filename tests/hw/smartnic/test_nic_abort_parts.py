# SPDX-License-Identifier: Apache-2.0
"""The parts of an abort by themselves, against what they say of themselves."""

import random

import pytest

from hw.common.testing import simulate
from hw.smartnic import abort
from hw.smartnic.abort import AbortControl, PortSync
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import AbortCause

OWN_RANK = 9
RETRY = 16


def told(heard, epoch, waiting, flushing):
    """What a port asks for: the call, sides to be told, sides still awaited."""
    side = 1 if heard["back"] else 2
    awaited = waiting & side
    call, due = None, 0
    if not heard["valid"]:
        return call, due, waiting
    theirs = heard["epoch"]
    if theirs > epoch and heard["abort"]:
        call = theirs, heard["cause"], heard["rank"]
    elif flushing:
        pass
    elif theirs > epoch:
        call = theirs + 1, AbortCause.RESET, OWN_RANK
    elif theirs < epoch:
        if awaited:
            due = side
        else:
            call = epoch + 1, AbortCause.RESET, OWN_RANK
    else:
        if heard["abort"] and heard["fresh"] and not awaited:
            call = epoch + 1, AbortCause.RESET, OWN_RANK
        if heard["abort"] and heard["wanted"]:
            due = side
        waiting &= ~side
    return call, due, waiting


@pytest.mark.parametrize("seed", range(3))
def test_port_answers_asks_and_waits_as_the_protocol_says(seed, monkeypatch):
    monkeypatch.setattr(abort, "RETRY_CYCLES", RETRY)
    dut = PortSync()
    rng = random.Random(seed)
    seen = set()

    async def run(ctx):
        waiting, ticks, epoch, flushing, tell = 0, 0, 5, False, False
        ctx.set(dut.rank, OWN_RANK)
        for _ in range(4000):
            tell = flushing and rng.random() < 0.3
            flushing = (flushing and not tell) or rng.random() < 0.03
            tell = tell and not flushing
            heard = {
                "valid": int(rng.random() < rng.choice((0.05, 0.5))),
                "epoch": epoch + rng.choice((-1, 0, 0, 0, 1, 300)),
                "cause": rng.choice(list(AbortCause)),
                "rank": rng.randrange(256),
                **{name: rng.randrange(2) for name in ("back", "abort", "wanted", "fresh")},
            }
            ctx.set(dut.heard, heard)
            for port, value in ((dut.epoch, epoch), (dut.flush, flushing), (dut.tell, tell)):
                ctx.set(port, value)
            assert ctx.get(dut.waiting) == waiting
            call, due, after = told(heard, epoch, waiting, flushing)
            if waiting and ticks == RETRY - 1:
                due |= 0 if flushing else waiting
            due |= 3 if tell else 0
            got = ctx.get(dut.call)
            assert got.valid == (call is not None)
            if call is not None:
                assert (got.epoch, got.cause, got.rank) == call
            assert ctx.get(dut.due) == due
            seen.add((call is not None, due))
            ticks = (ticks + 1) % RETRY if waiting and not flushing else 0
            waiting = 3 if flushing else after
            await ctx.tick()

    simulate(dut, run)
    assert len(seen) >= 5


CAUSES = {
    "give_up": AbortCause.SOFTWARE,
    "disagreed": AbortCause.DISAGREEMENT,
    "gap": AbortCause.GAP,
    "overflow": AbortCause.OVERFLOW,
    "stalled": AbortCause.WATCHDOG,
}


def test_an_abort_lasts_until_nothing_is_under_way_and_ends_in_the_latest_epoch():
    dut = AbortControl(SmartNicConfig(engines=2))
    rng = random.Random(5)

    async def run(ctx):
        epoch, cause, origin, flushing, tell = 0, AbortCause.NONE, 0, False, False
        begun, asked = False, []  # in the cycle before
        ctx.set(dut.rank, OWN_RANK)
        for _ in range(4000):
            own = [name for name in CAUSES if rng.random() < 0.02]
            for name in CAUSES:
                ctx.set(getattr(dut, name), name in own)
            calls = []
            for port in dut.call:
                call = {
                    "valid": int(rng.random() < 0.05),
                    "epoch": max(0, epoch + rng.randrange(-1, 9)),
                    "cause": rng.choice(list(AbortCause)),
                    "rank": rng.randrange(256),
                }
                ctx.set(port, call)
                calls += [call] * call["valid"]
            busy = rng.random() < 0.7
            ctx.set(dut.busy, busy)
            assert ctx.get(dut.aborted) == begun
            found = [ctx.get(each) for each in (dut.epoch, dut.flush, dut.tell, dut.origin)]
            assert found == [epoch, flushing, tell, origin]
            assert ctx.get(dut.cause) == cause
            await ctx.tick()
            last = max(asked, key=lambda call: call["epoch"], default={"epoch": 0})
            later, asked = last["epoch"] > epoch, calls
            begun = not flushing and (bool(own) or later)
            tell = flushing and not busy
            if flushing:
                flushing = busy
            elif begun:
                flushing = True
                if own:
                    epoch, origin = epoch + 1, OWN_RANK
                    cause = next(CAUSES[name] for name in CAUSES if name in own)
            if later:
                epoch, cause, origin = last["epoch"], last["cause"], last["rank"]

    simulate(dut, run)
