# SPDX-License-Identifier: Apache-2.0
"""Links with retry on wires that lose, repeat and damage frames (RTL): the loss of rate."""

import argparse
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from bench._bad_wires import LATENCY
from bench.records.registered import modules
from bench.result import result
from hw.link.packet import FLIT_BITS
from hw.link.retry_beats import beat_format
from hw.switch.packet import Kind
from tb.link.lossy import Faults
from tb.link.retry import BeatEnd, Link, PacketEnd, numbered_packet, retry_config

FAR = 500
PROBABILITIES = (1e-4, 1e-3, 1e-2)
TARGETS = {1e-4: 3.0, 1e-2: 25.0}
CYCLES = 60_000
PAYLOAD_FLITS, CREDITS = 8, 64
BEAT_FLITS = 4
OVERHEAD_CYCLES = 20
"""Latency of both ends in a round trip, besides the wires and the frames."""


def main(argv: Sequence[str]) -> int:
    """Measure a full link in both directions, then run collectives over bad wires."""
    parser = argparse.ArgumentParser(prog="python -m bench link_retry", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of data and faults (default: 1)")
    parser.add_argument("--cycles", type=int, default=CYCLES,
                        help=f"measured per row (default: {CYCLES})")
    options = parser.parse_args(argv)

    _print_cost()
    lost: dict[float, float] = {}
    correct = runs = 0
    for row in _full_links(options.seed, options.cycles):
        runs += 1
        correct += row["right"]
        if row["latency"] == LATENCY:
            p = row["probability"]
            lost[p] = max(lost.get(p, 0.0), row["lost"])
    print("\nall-reduces, every wire with these faults; results bit for bit those of good wires")
    print("  system                                   faults  struck  exact")
    for engine in modules("wires").values():
        for name, probability, struck, right in engine.over_bad_wires(options.seed, PROBABILITIES):
            runs += 1
            correct += right
            print(f"  {name:40} {probability:7g} {struck:7}  {'yes' if right else 'NO'}")
    met = correct == runs and all(lost[p] <= target for p, target in TARGETS.items())
    result(
        "link_retry",
        runs=runs,
        correct=correct,
        lost_pct_1e4=lost[1e-4],
        lost_pct_1e2=lost[1e-2],
        verdict="ok" if met else "short",
    )
    return 0


def _print_cost() -> None:
    flits = PAYLOAD_FLITS + 1
    beats = beat_format(BEAT_FLITS).flits
    packed = 16 / 17
    print(
        "share of payload in what is sent\n"
        f"  links of the switch, {16 * PAYLOAD_FLITS} bytes a packet: {PAYLOAD_FLITS / flits:.1%}, "
        "as without retry\n"
        f"  packed links of {16 * BEAT_FLITS} bytes a beat, 256 bytes a packet: "
        f"{packed * beats / (beats + 1):.1%} ({packed:.1%} without retry)\n"
    )


def _round_trip(latency: int, flits: int) -> int:
    """Cycles from a frame to its acknowledgement, which waits for a frame to end."""
    return 2 * latency + 2 * flits + OVERHEAD_CYCLES


def _formula(probability: float, latency: int, flits: int) -> float | None:
    """Percent of the rate lost with selective repeat; each kind of fault has *probability*.

    Lost and damaged frames are resent; frames that the wire repeats take link time, too. If the
    resent frame or its NAK is hit, it waits for the timeout and another round trip; that stops the
    link for as long as the retry buffer does not cover it. The buffer must cover two round trips
    even without that, since delivery is one late after the first resend; None if it does not.
    """
    config = retry_config(latency)
    missed, repeated = 2 * probability, probability
    spare = config.slots * flits - 2 * _round_trip(latency, flits)
    if spare < 0:
        return None
    stop = max(0, config.timeout_cycles + _round_trip(latency, flits) - spare)
    per_frame = (1 + repeated) / (1 - missed) + missed * 2 * missed * stop / flits
    return 100 * (1 - 1 / per_frame)


def _go_back(probability: float, latency: int, flits: int) -> float:
    """Percent of the rate lost with go-back-N, if no resent frames are hit."""
    missed = 2 * probability
    under_way = _round_trip(latency, flits) / flits
    return 100 * (1 - 1 / (1 + probability + missed * under_way / (1 - missed)))


# ---- One full link.


def _full_links(seed: int, cycles: int) -> Iterator[dict[str, Any]]:
    print(
        "one link, both directions full; each frame is lost, repeated, damaged with this "
        "probability each;\nrate: body flits of the switch's packets and beats per cycle, the "
        "worse direction"
    )
    print("  link              cycles  frames    faults    rate    lost  formula  go-back-N  "
          "struck  repeated  exact")
    for make, name, flits in ((_packets, "switch", PAYLOAD_FLITS + 1),
                              (_beats, "packed", beat_format(BEAT_FLITS).flits + 1)):
        for latency in (LATENCY, FAR):
            ideal = 0.0
            for probability in (0.0, *PROBABILITIES):
                row = _measure(make, latency, probability, seed, cycles)
                ideal = ideal or row["rate"]
                row["lost"] = max(0.0, 100 * (1 - row["rate"] / ideal))
                formula = _formula(probability, latency, flits)
                beside = "       -" if formula is None else f"{formula:7.2f}%"
                print(
                    f"  {name:16} {latency:7} {flits:7} {probability:9g} {row['rate']:7.4f} "
                    f"{row['lost']:6.2f}% {beside} "
                    f"{_go_back(probability, latency, flits):9.2f}% {row['struck']:7} "
                    f"{row['repeated']:9}  {'yes' if row['right'] else 'NO'}",
                    flush=True,
                )
                yield {**row, "latency": latency, "probability": probability}
    print(f"At {FAR} cycles the frames that an end keeps are about a round trip or less.")


def _measure(
    make: Callable[..., Any], latency: int, probability: float, seed: int, cycles: int
) -> dict[str, Any]:
    rng = random.Random(seed)
    ends, checks = zip(*(make(latency, rng) for _ in range(2)))
    faults = [Faults.all(probability) for _ in ends]
    link = Link(ends, latency=latency, faults=faults, seed=seed)
    link.run(lambda: all(end.up for end in ends))
    warm = 6 * latency + 1000
    moved = [0, 0]
    right = True
    for cycle in range(warm + cycles):
        link.step()
        for k, check in enumerate(checks):
            flits, fine = check(checks[1 - k])
            right &= fine
            if cycle >= warm:
                moved[k] += flits
    return {
        "rate": min(moved) / cycles,
        "right": right and not any(end.failed for end in ends),
        "struck": sum(sum(each.met.values()) for each in faults),
        "repeated": sum(end.counts["resent"] for end in ends),
    }


class _Check:
    """Compares the flits received, in order, with those that the other end has sent."""

    def __init__(self, end: Any, came: list[Any], flits: int) -> None:
        self.end, self.came, self.flits = end, came, flits
        self.sent: deque[Any] = deque()

    def __call__(self, other: "_Check") -> tuple[int, bool]:
        """Number of flits received since the last call; True if they are the next ones sent."""
        fine = all(each == other.sent.popleft() for each in self.came)
        flits = self.flits * len(self.came)
        self.came.clear()
        return flits, fine


def _packets(latency: int, rng: random.Random) -> tuple[PacketEnd, _Check]:
    end = PacketEnd(payload_flits=PAYLOAD_FLITS, credits=CREDITS, config=retry_config(latency),
                    rng=rng)
    check = _Check(end, end.packets, PAYLOAD_FLITS)
    data = numbered_packet(0, flits=PAYLOAD_FLITS, kind=Kind.PUSH, rng=rng)[1:]
    kinds = Kind.PUSH, Kind.PARTIAL, Kind.RESULT  # one for each class of credits

    numbers = count(1)

    def source() -> list[int]:
        number = next(numbers)
        kind = kinds[number % len(kinds)]
        header = numbered_packet(number % (1 << 28), flits=0, kind=kind, rng=rng)[0]
        flits = [header, *(flit ^ number for flit in data)]
        check.sent.append(flits)
        return list(flits)

    end.source = source
    return end, check


def _beats(latency: int, rng: random.Random) -> tuple[BeatEnd, _Check]:
    end = BeatEnd(flits=BEAT_FLITS, config=retry_config(latency), rng=rng)
    check = _Check(end, end.beats, 1)
    data = rng.getrandbits(FLIT_BITS * BEAT_FLITS)
    keep = ((1 << BEAT_FLITS) - 1) << FLIT_BITS * BEAT_FLITS

    numbers = count(1)

    def source() -> int:
        number = next(numbers)
        beat = data ^ number | keep | (number % 16) << (FLIT_BITS + 1) * BEAT_FLITS
        check.sent.append(beat)
        return beat

    end.source = source
    return end, check
