"""An all-reduce beside ordinary traffic on a DGX-2, with waves and without, cycle by cycle.

The system of ``python -m bench switch_tables``. Every endpoint also sends packets to others, chosen
at random, which take a given share of the time of its links. Printed are the bandwidth of the
all-reduce and the mean latency of the ordinary packets: without waves, when an endpoint has as many
blocks under way as it can, and with as many waves as are best without background. Latency is from
the first flit on the endpoint's link to delivery; how long a packet waited before that is printed
apart. Buffers of links hold what our links need for their rate, or so much that they never hold an
injection back, as the published switches' may; the latter are judged.

No value is published for this: the paper has the latency of an all-reduce's own packets. The
verdict says that waves shorten the way of ordinary packets beside push and pull, at every load. No
operand and no ordinary packet is lost, comes twice or goes astray: else the run would end.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from bench.dgx2 import DMA, ENDPOINTS, MEMORY_END, SWITCH, surroundings
from bench.result import result
from bench.switch_tables import BUFFERS, SIZE_BYTES, TABLES, WAVES, Outcome, run
from foldwire.console import say, step
from sim.cycles.switch.background import PATTERNS, Background
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.model import AllReduceJob, SwitchModel, Transit

LOADS = (0.0, 0.1, 0.3, 0.5)
DEPTHS = (BUFFERS[0], BUFFERS[-1])  # packets of each class at a link
ALONE_CYCLES = 20_000


def main(argv: Sequence[str]) -> int:
    """Push and pull with background loads of 0 to 50 %, or those of the options."""
    parser = argparse.ArgumentParser(prog="python -m bench switch_background", description=__doc__)
    parser.add_argument("--bytes", type=int, default=SIZE_BYTES, help="of the vector")
    parser.add_argument("--loads", type=float, nargs="*", default=list(LOADS),
                        help="shares of links' time")
    parser.add_argument("--waves", type=int, nargs="*", default=list(WAVES),
                        help="under way, of which the best are taken")
    parser.add_argument("--pattern", choices=PATTERNS, default=PATTERNS[0])
    parser.add_argument("--seed", type=int, default=1,
                        help="of memories' latencies and of the background (default: 1)")
    options = parser.parse_args(list(argv))
    size, waves, loads = options.bytes, sorted(set(options.waves)), sorted(set(options.loads))
    if size < 4 or size % 4 or size > MEMORY_END:
        parser.error(f"--bytes must be a multiple of 4 up to {MEMORY_END}, not {size}")
    if not waves or waves[0] < 1 or waves[-1] > 32:
        parser.error(f"--waves must be from 1 to 32, not {waves}")
    if not loads or not 0 <= loads[0] <= loads[-1] <= 1 or not loads[-1]:
        parser.error(f"--loads must be from 0 to 1, with one above 0, not {loads}")

    traffic = {
        load: Background(load=load, pattern=options.pattern, seed=options.seed) for load in loads
    }
    say(f"{size} bytes on {ENDPOINTS} endpoints, otherwise as `python -m bench switch_tables`; "
        f"background: {options.pattern}")
    _print_alone(traffic, options.seed)
    drops: dict[str, list[float]] = {mode: [] for mode in TABLES}
    kept: dict[str, float] = {}
    for mode, depth in product(TABLES, DEPTHS):
        outcomes = _measure(mode, depth, size, traffic, waves, options.seed)
        if depth == DEPTHS[-1]:
            drops[mode] = [_drop(*pair) for load, pair in outcomes.items() if load]
            kept[mode] = 100 * outcomes[loads[-1]][1].gbs / outcomes[loads[0]][1].gbs
    result(
        "switch_background",
        loads=len(loads),
        push_drop_pct=min(drops["push"]),
        pull_drop_pct=min(drops["pull"]),
        push_kept_pct=kept["push"],
        pull_kept_pct=kept["pull"],
        verdict="ok" if min(*drops["push"], *drops["pull"]) > 0 else "short",
    )
    return 0


def _print_alone(traffic: dict[float, Background], seed: int) -> None:
    """Latency of the background with nothing beside it: an all-reduce comes later."""
    job, given = AllReduceJob(elements=1), [[ALONE_CYCLES]] * ENDPOINTS
    for (load, background), depth in product(traffic.items(), DEPTHS):
        around = replace(surroundings(seed, acknowledged=True), buffer_packets=depth)
        model = SwitchModel(
            SWITCH, DMA, Fabric.dgx_2(), around, [job], given, background=background
        )
        model.run()
        if found := model.ordinary():
            say(f"{100 * load:3.0f} % alone, buffers of {depth}: {_latency(found)}")


def _measure(
    mode: str, depth: int, size: int, traffic: dict[float, Background], numbers: Sequence[int],
    seed: int,
) -> dict[float, tuple[Outcome, Outcome]]:
    """By load, without waves and with the best number of them."""

    def outcome(waves: int | None, background: Background | None) -> Outcome:
        return run(mode, size, entries=TABLES[mode], seed=seed, waves=waves, buffers=depth,
                   background=background)

    with step(f"{mode}, buffers of {depth}: {len(numbers)} numbers of waves"):
        best = max(numbers, key=lambda waves: outcome(waves, None).gbs)
    say(f"{mode}, {depth} packets of a class in a buffer, {best} waves are best\n"
        "load  waves    GB/s partials  ordinary packets: number, cycles, buffers, before")
    found = {}
    for load, background in traffic.items():
        with step(f"{mode}, {100 * load:.0f} %"):
            found[load] = outcome(None, background), outcome(best, background)
        for waves, each in zip(("none", best), found[load]):
            say(f"{100 * load:3.0f} % {waves:>5} {each.gbs:7.2f} {each.partials:8}  "
                f"{_latency(each.ordinary)}")
        if load:
            say(f"      less by {_drop(*found[load]):.1f} %")
    return found


def _latency(found: Transit | None) -> str:
    if found is None:
        return "none"
    return f"{found.packets:7} {found.travel:7.0f} {found.held:7.0f} {found.queued:7.0f}"


def _drop(without: Outcome, with_waves: Outcome) -> float:
    """By how many percent waves shorten the way of ordinary packets."""
    assert without.ordinary is not None and with_waves.ordinary is not None
    return 100 * (1 - with_waves.ordinary.travel / without.ordinary.travel)
