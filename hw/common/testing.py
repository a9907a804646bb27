# SPDX-License-Identifier: Apache-2.0
"""Helpers for the Amaranth simulator: put and get beats, stall at random, check the protocol."""

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from amaranth.lib import stream, wiring
from amaranth.sim import Simulator

__all__ = [
    "check_stream",
    "random_stalls",
    "simulate",
    "sink",
    "source",
    "stream_put",
]

Process = Callable[[Any], Awaitable[None]]


def random_stalls(seed: int, chance: float) -> Iterator[bool]:
    """Endless sequence that is true (stall in this cycle) with probability *chance*."""
    rng = random.Random(seed)
    while True:
        yield rng.random() < chance


async def stream_put(ctx: Any, port: stream.Interface, payload: Any) -> None:
    """Offer *payload* at an input stream of the design until it is taken."""
    ctx.set(port.payload, payload)
    ctx.set(port.valid, 1)
    await ctx.tick().until(port.ready)
    ctx.set(port.valid, 0)


def source(port: stream.Interface, beats: Iterable[Any], stalls: Iterator[bool]) -> Process:
    """Process that offers *beats* one after another and pauses where *stalls* says so.

    A beat once offered stays offered until it is taken, and no decision depends on ``ready``.
    """

    async def run(ctx: Any) -> None:
        for payload in beats:
            while next(stalls):
                await ctx.tick()
            await stream_put(ctx, port, payload)

    return run


def sink(
    port: stream.Interface, expected: Sequence[Any], stalls: Iterator[bool], *, extra: int = 20
) -> Process:
    """Process that takes beats, compares them with *expected*, then sees that nothing follows.

    ``ready`` is raised and lowered where *stalls* says so, whether or not a beat is offered. After
    the last expected beat, *extra* cycles must pass without another.
    """

    async def run(ctx: Any) -> None:
        for index, want in enumerate(expected):
            while True:
                ctx.set(port.ready, not next(stalls))
                _, _, taken, got = await ctx.tick().sample(port.valid & port.ready, port.payload)
                if taken:
                    break
            assert got == want, f"beat {index}: got {got!r}, expected {want!r}"
        ctx.set(port.ready, 1)
        for _ in range(extra):
            _, _, valid, got = await ctx.tick().sample(port.valid, port.payload)
            assert not valid, f"unexpected beat {got!r} after {len(expected)} beats"

    return run


def check_stream(port: stream.Interface, name: str = "stream") -> Process:
    """Background process that sees that a beat, once offered, stays the same until it is taken."""

    async def run(ctx: Any) -> None:
        stalled = None
        async for _, reset, valid, ready, payload in ctx.tick().sample(
            port.valid, port.ready, port.payload
        ):
            if reset:
                stalled = None
                continue
            if stalled is not None:
                assert valid, f"{name}: valid fell before the beat {stalled!r} was taken"
                assert payload == stalled, f"{name}: {stalled!r} became {payload!r} while stalled"
            stalled = payload if valid and not ready else None

    return run


def simulate(
    design: wiring.Component,
    *testbenches: Process,
    checks: Iterable[Process] = (),
    deadline: int = 20_000,
) -> None:
    """Run *testbenches* on *design* until all have ended, with *checks* in the background.

    Raises ``AssertionError`` if they have not ended after *deadline* cycles.
    """

    async def watchdog(ctx: Any) -> None:
        cycles = 0
        async for _ in ctx.tick():
            cycles += 1
            assert cycles < deadline, f"not finished after {deadline} cycles"

    simulator = Simulator(design)
    simulator.add_clock(1e-9)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    for process in (watchdog, *checks):
        simulator.add_process(process)
    simulator.run()
