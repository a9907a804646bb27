# SPDX-License-Identifier: Apache-2.0
"""An all-reduce beside ordinary traffic on a DGX-2, with waves and without, cycle by cycle.

The system of ``python -m bench switch_tables``. Every endpoint also sends packets to others, chosen
at random, which take a given share of the time of its links: in the class of operands and loads, as
plain stores where requests have one class, or in that of partials and answers, as messages of
software have it here. Printed are the bandwidth of the all-reduce and the mean latency of the
ordinary packets: without waves, when an endpoint has as many blocks under way as it can, and with
as many waves as are best without background. Latency is from the first flit on the endpoint's link
to delivery; how long a packet waited before that is printed apart. Buffers of links hold what our
links need for their rate, or so much that they never hold an injection back, as the published
switches' may.

No value is published for this: the paper has the latency of an all-reduce's own packets. The
result's drops are those of stores with the large buffers, at the load where waves help least. The
verdict says that every operand and every ordinary packet came once and where it was to go; else the
run would end.
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import product

from bench.dgx2 import DMA, ENDPOINTS, MEMORY_END, SWITCH, surroundings
from bench.result import result
from bench.switch_tables import BUFFERS, TABLES, WAVES, Outcome, run
from foldwire.console import say, step
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.model import AllReduceJob, SwitchModel, Transit
from sim.endpoint.background import KINDS, PATTERNS, Background
from sim.units import MIB

SIZE_BYTES = 4 * MIB
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

    none = [Background(load=0.0)] if not loads[0] else []
    traffic = none + [
        Background(load=load, pattern=options.pattern, kind=kind, seed=options.seed)
        for kind, load in product(KINDS, loads)
        if load
    ]
    say(f"{size} bytes on {ENDPOINTS} endpoints, otherwise as `python -m bench switch_tables`; "
        f"background: {options.pattern}")
    for background in traffic:
        _print_alone(background, options.seed)
    values: dict[str, float] = {}
    for mode, depth in product(TABLES, DEPTHS):
        outcomes = _measure(mode, depth, size, traffic, waves, options.seed)
        stores = {each.load: outcomes[each] for each in traffic if each.kind == "store"}
        values[f"{mode}_drop_pct"] = min(_drop(*pair) for pair in stores.values())
        values[f"{mode}_none_gbs"] = stores[loads[-1]][0].gbs
        values[f"{mode}_waves_gbs"] = stores[loads[-1]][1].gbs
    result("switch_background", loads=len(loads), load=loads[-1], **values, verdict="ok")
    return 0


def _print_alone(background: Background, seed: int) -> None:
    """Print the latency of the background alone, before an all-reduce begins."""
    job, given = AllReduceJob(elements=1), [[ALONE_CYCLES]] * ENDPOINTS
    around = surroundings(seed, acknowledged=True)
    model = SwitchModel(SWITCH, DMA, Fabric.dgx_2(), around, [job], given, background=background)
    model.run()
    if found := model.ordinary():
        say(f"{_named(background)} alone: {_latency(found)}")


def _named(background: Background) -> str:
    return f"{background.kind if background.load else '':7} {100 * background.load:3.0f} %"


def _measure(
    mode: str, depth: int, size: int, traffic: Sequence[Background], numbers: Sequence[int],
    seed: int,
) -> Mapping[Background, tuple[Outcome, Outcome]]:
    """Outcomes without waves and with the best number of them, by background."""

    def outcome(waves: int | None, background: Background | None) -> Outcome:
        return run(mode, size, entries=TABLES[mode], seed=seed, waves=waves, buffers=depth,
                   background=background)

    with step(f"{mode}, buffers of {depth}: {len(numbers)} numbers of waves"):
        best = max(numbers, key=lambda waves: outcome(waves, None).gbs)
    say(f"{mode}, {depth} packets of a class in a buffer, {best} waves are best\n"
        "background    waves    GB/s partials  ordinary packets: number, cycles, buffers, before")
    found = {}
    for background in traffic:
        with step(f"{mode}, {_named(background)}"):
            found[background] = outcome(None, background), outcome(best, background)
        for waves, each in zip(("none", best), found[background]):
            say(f"{_named(background)} {waves:>6} {each.gbs:7.2f} {each.partials:8}  "
                f"{_latency(each.ordinary)}")
        if background.load:
            say(f"              latency less by {_drop(*found[background]):.1f} %")
    return found


def _latency(found: Transit | None) -> str:
    if found is None:
        return "none"
    return f"{found.packets:7} {found.travel:7.0f} {found.held:7.0f} {found.queued:7.0f}"


def _drop(without: Outcome, with_waves: Outcome) -> float:
    """Percent by which waves shorten the latency of ordinary packets."""
    assert without.ordinary is not None and with_waves.ordinary is not None
    return 100 * (1 - with_waves.ordinary.travel / without.ordinary.travel)
