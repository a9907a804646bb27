# SPDX-License-Identifier: Apache-2.0
"""Systems drawn by a seed keep to their bounds, repeat, fold, and slow down only for a reason.

Every system is run as drawn and then varied: again, unfolded, with the ideal endpoint, with links
and memories twice as fast, with links of more latency. What its endpoints add, read and write is
compared with what the collectives need, and with what its units can do. Every fourth also runs
collectives of all NPUs beside those of groups. Violations are counted.
"""

import copy
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bench._conserved import above_rates, wrong_sums
from bench._endpoints import in_network, limits
from bench._groups import group_violations, with_groups
from bench.options import bench_parser
from bench.result import result
from sim.collectives.plan import BY_DIMENSION
from sim.describe.changes import changed
from sim.endpoint.kinds import KINDS
from sim.limits.bounds import BoundViolation
from sim.run import Run, run
from sim.workload.graph import CollectiveKind

__all__ = ["CHECKS", "SYSTEMS", "draw", "main", "violations"]

SYSTEMS = 300
IDEAL, FASTER, LATENCY = 1.01, 1.05, 0.99
CHECKS = ("bound", "repeat", "fold", "data", "sums", "rates", "ideal", "bandwidth", "memory",
          "latency", "groups", "failed")
SHOWN = {"sums": "sums_wrong", "rates": "rates_above"}
"""Keys of checks in the result that have other names."""
MOST_BYTES, MOST_PACKET_BYTES = 1 << 27, 1 << 22
"""Limits over all nodes together, so that a run takes well below a second."""
LEAST_BYTES = 64
SWITCHED = ("switch", "hierarchical_all_to_all", "dgx2", "fat_tree")
"""Topologies with switches, which may reduce."""

Description = dict[str, Any]
Violation = tuple[str, str]
"""The check that failed, and its finding."""


def main(argv: Sequence[str]) -> int:
    """``--seed N`` (1), ``--systems N`` (300), ``--only N``: one system, printed."""
    parser = bench_parser("random_systems", __doc__, seed="the systems")
    parser.add_argument("--systems", type=int, default=SYSTEMS)
    parser.add_argument("--only", type=int, metavar="N", help="the N-th system alone")
    options = parser.parse_args(argv)
    begin, seen, kinds = time.process_time(), Counter[str](), Counter[str]()
    chosen = range(options.systems) if options.only is None else [options.only]
    for number in chosen:
        system = draw(options.seed, number)
        kinds.update(_kinds(system))
        if options.only is not None:
            print(system)
        found = violations(system)
        if with_groups(number):
            found += _of_groups(system, options.seed, number)
        for check, what in found:
            seen[check] += 1
            print(f"system {number}: {check}: {what}\n  {_shown(system)}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    print(f"{time.process_time() - begin:.0f} s of CPU")
    result(
        "random_systems",
        systems=len(chosen),
        violations=sum(seen.values()),
        **{SHOWN.get(check, check): seen[check] for check in CHECKS},
        seed=options.seed,
        verdict="ok" if not seen else "short",
    )
    return 0


# ---- What is drawn.


def draw(seed: int, number: int, *, most_bytes: int = MOST_BYTES) -> Description:
    """Draw the *number*-th system of a seed; of four, one has packets and one trains."""
    rng = random.Random(f"{seed} {number}")
    packets = number % 4 == 1
    topology, dimensions = _topology(rng)
    nodes = math.prod(dimensions)
    kind = _endpoint(rng, packets, switches=topology["kind"] in SWITCHED)
    system: Description = {
        "topology": topology,
        "endpoint": {"kind": kind},
        "algorithm": {
            "style": rng.choice(["multi_colour", "multi_colour", *BY_DIMENSION]),
            "all_to_all_span": rng.choice(["dimensions", "all"]),
        },
        "scheduler": {
            "policy": rng.choice(["lifo", "fifo"]),
            "chunk_bytes": 1 << rng.randint(14, 18),
            "concurrency": rng.choice([1, 2, 4, 8, 8, 8, 16, 32]),
        },
        "run": {"passes": 1, "check": True},
    }
    if packets:
        system["network"] = {
            "granularity": "packet",
            "packet_bytes": rng.choice([128, 256, 512, 1024]),
            "flit_bytes": rng.choice([32, 64, 128]),
            "vcs_per_vnet": rng.choice([2, 4, 50]),
            "buffers_per_vc": rng.choice([16, 64, 5000]),
        }
    most = min(most_bytes, MOST_PACKET_BYTES if packets else most_bytes) // nodes
    if number // 4 % 4 == 1:
        widths = [_size(rng, 16, max(32, min(2048, math.isqrt(most // 4)))) for _ in range(4)]
        system["workload"] = {
            "generator": "mlp",
            "sizes": widths,
            "batch": 1 << rng.randint(0, 6),
        }
    else:
        few = limits(kind)
        collective = (rng.choice(list(CollectiveKind)) if few is None else few.COLLECTIVES[0]).value
        if collective == "all_gather":
            most //= nodes
        size = 4 * nodes * max(1, _size(rng, LEAST_BYTES, max(most, LEAST_BYTES)) // (4 * nodes))
        system["workload"] = {"collective": collective, "size_bytes": size}
        system["run"]["data"] = True
    return system


def _topology(rng: random.Random) -> tuple[Description, list[int]]:
    """A named topology of 2 to 512 nodes with its links, and its sizes."""
    kind = rng.choice(
        ["ring", "torus", "torus", "hierarchical_torus", "switch", "fully_connected",
         "hierarchical_all_to_all", "dgx2", "fat_tree"]
    )
    shapes: Mapping[str, Callable[[], list[int]]] = {
        "ring": lambda: [_size(rng, 2, 64)],
        "torus": lambda: [rng.randint(2, 8) for _ in range(rng.randint(2, 3))],
        "hierarchical_torus": lambda: [rng.randint(2, 4), rng.randint(2, 8), rng.randint(2, 8)],
        "switch": lambda: [_size(rng, 2, 64)],
        "fully_connected": lambda: [_size(rng, 2, 16)],
        "hierarchical_all_to_all": lambda: [rng.randint(2, 4), rng.randint(2, 16)],
        "dgx2": lambda: [16],
        "fat_tree": lambda: [8 * rng.randint(2, 6)],
    }
    shape = shapes[kind]()
    topology: Description = {"kind": kind, "shape": shape}
    if rng.random() < 0.7:
        topology["bandwidth_bytes_per_s"] = rng.choice([5e9, 12.5e9, 25e9, 50e9, 100e9])
    topology["latency_s"] = rng.choice([50e-9, 200e-9, 400e-9, 1e-6])
    return topology, shape


def _endpoint(rng: random.Random, packets: bool, switches: bool) -> str:
    """The name of an endpoint that descriptions accept on such a network."""
    kinds = [each for each in KINDS if not (packets and getattr(KINDS[each], "format", None))]
    while in_network(kind := rng.choice(kinds)) and (packets or not switches):
        pass
    return kind


def _size(rng: random.Random, least: int, most: int) -> int:
    """A whole number, log-uniform between the bounds."""
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


def _kinds(system: Description) -> Iterator[str]:
    yield "of packets" if "network" in system else "of messages"
    yield "training" if "generator" in system["workload"] else system["workload"]["collective"]


# ---- What must not happen.


def _of_groups(system: Description, seed: int, number: int) -> list[Violation]:
    try:
        return [("groups", what) for what in group_violations(system, seed, number)]
    except (ValueError, RuntimeError) as error:
        return [("failed", f"groups: {error}")]


def violations(system: Description) -> list[Violation]:
    """Violations of a system and its variations; empty if there are none."""
    try:
        base = run(system)
    except (ValueError, RuntimeError) as error:
        return [("failed", str(error))]
    found = list(_alone(system, base))
    for check, changes, least, most in _variations(system, base):
        try:
            other = run(_varied(system, changes))
        except (ValueError, RuntimeError) as error:
            found.append(("failed", f"{check}: {error}"))
            continue
        ratio = other.time_s / base.time_s if base.time_s else 1.0
        if not least <= ratio <= most:
            found.append((check, f"{base.time_s * 1e6:.3f} us, then {ratio:.4f} times that"))
    return found


def _alone(system: Description, base: Run) -> Iterator[Violation]:
    """Check bound, data, sums, rates, repetition and folding."""
    try:
        _ = base.limits
    except BoundViolation as error:
        yield "bound", str(error)
    if base.data is not None and not base.data.exact:
        yield "data", f"{base.data.wrong} results differ from numpy's"
    for check, found in (("sums", wrong_sums(base)), ("rates", above_rates(base))):
        for what in found:
            yield check, what
    again = run(system)
    if _trace(again) != _trace(base) or again.record.events != base.record.events:
        yield "repeat", f"{base.time_s} s, then {again.time_s} s"
    if base.record.folded:
        whole = run(_varied(system, {"run.fold": "off"})).record
        ends = {tuple(row) for row in whole.task_end_fs.tolist()}
        if ends != {tuple(base.record.task_end_fs[0].tolist())}:
            yield "fold", f"{base.record.end_fs} fs folded, {whole.end_fs} fs in full"


def _variations(system: Description, base: Run) -> Iterator[tuple[str, Description, float, float]]:
    """Name, changes, and the least and largest ratio of the run time to that of *base*."""
    topology, endpoint = system["topology"], base.description.endpoint
    twice = [2 * each.bandwidth_bytes_per_s for each in base.description.dimensions]
    changes = {f"dimension.{i}.bandwidth_bytes_per_s": rate for i, rate in enumerate(twice)}
    yield "bandwidth", changes, 0.0, FASTER
    yield "latency", {"topology.latency_s": 2 * topology["latency_s"]}, LATENCY, math.inf
    memory: Description = {}
    for name in ("memory_bytes_per_s", "host_bytes_per_s"):
        if hasattr(endpoint, name):
            memory[f"endpoint.{name}"] = 2 * getattr(endpoint, name)
    if hasattr(endpoint, "npu"):
        memory["endpoint.npu.memory_bytes_per_s"] = 2 * endpoint.npu.memory_bytes_per_s
    yield "memory", memory, 0.0, FASTER
    if base.description.kind != "ideal":
        yield "ideal", _ideal(base), 0.0, IDEAL


def _ideal(base: Run) -> Description:
    """The changes that make an endpoint the ideal one for the same job on the same network."""
    endpoint = base.description.endpoint
    # Without overlap the loop fuses the collectives of the weight gradients.
    same: Description = {"overlaps": endpoint.overlaps}
    if in_network(base.description.kind):
        # Switches that reduce are another algorithm: the ideal has no memory latency.
        return {"endpoint": {"kind": base.description.kind, "memory_latency_s": 0.0, **same}}
    if hasattr(endpoint, "message_bytes"):
        # Keep the size of messages: finer ones are not always faster.
        same["message_bytes"] = endpoint.message_bytes
    changes: Description = {"endpoint": {"kind": "ideal", **same}}
    if base.record.wire_factor != 1:
        # Compare compression with an ideal endpoint on links that are faster by its ratio.
        for index, each in enumerate(base.description.dimensions):
            faster = each.bandwidth_bytes_per_s / base.record.wire_factor
            changes[f"dimension.{index}.bandwidth_bytes_per_s"] = faster
    return changes


def _varied(system: Description, changes: Description) -> Description:
    varied = copy.deepcopy(system)
    for key, value in changes.items():
        changed(varied, key, value)
    varied["run"]["data"] = False
    return varied


def _trace(made: Run) -> list[list[int]]:
    ends: list[list[int]] = made.record.task_end_fs.tolist()
    return [*ends, made.record.link_bytes.tolist(), made.record.link_busy_fs.tolist()]


def _shown(system: Description) -> str:
    parts = {name: system[name] for name in system if name != "run"}
    return "; ".join(f"{name} {value}" for name, value in parts.items())
