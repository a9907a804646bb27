# SPDX-License-Identifier: Apache-2.0
"""Bytes per cycle of a smart NIC at its host and network ports, with and without compression."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.options import bench_parser
from bench.result import result
from hw.smartnic.config import SmartNicConfig, preset
from sim.collectives.golden import nic_all_reduce
from sim.hosts.surroundings import Surroundings
from sim.rtl.smartnic.ring import NicRing

NODES = (4, 6)
ROUNDS = 16
LATENCY_CYCLES = 250  # 1 us at 250 MHz
BUCKET_CYCLES = 64
TARGET = 95.0


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Shares of the bus width in use on the slowest node, in steady state."""

    host_read: float
    host_written: float
    net: float
    payload: float
    cycles: int
    exact: bool


def main(argv: Sequence[str]) -> int:
    """Run an all-reduce per ring and kind of payload; results are compared bit for bit."""
    parser = bench_parser("nic_line_rate", __doc__, seed="the data", preset=("NIC", "40g"))
    options = parser.parse_args(argv)
    config = preset(options.preset)
    print(
        f"all-reduce of {ROUNDS} rounds of {config.block_beats}-beat blocks; NIC {options.preset}: "
        f"{config.bus_bytes}-byte buses to host (each way) and network (each way), "
        f"{config.frame_beats}-beat frames, codec {config.codec}; {LATENCY_CYCLES} cycles from "
        f"port to port"
    )
    print(
        "nodes payload  host read  host written  network  of it payload  limit    of limit  "
        "whole run  cycles   exact"
    )
    worst = {"plain": 100.0, "bfp": 100.0}
    payload = {"plain": 100.0, "bfp": 100.0}
    exact = True
    for nodes in NODES:
        for kind in worst:
            rates = _measure(config, nodes, compress=kind == "bfp", seed=options.seed)
            limit, demand = _limit(config, nodes, compress=kind == "bfp")
            used = rates.net if limit == "network" else min(rates.host_read, rates.host_written)
            worst[kind] = min(worst[kind], 100 * used)
            payload[kind] = min(payload[kind], 100 * rates.payload)
            exact &= rates.exact
            print(
                f"{nodes:5} {kind:7} {rates.host_read:10.2%} {rates.host_written:13.2%} "
                f"{rates.net:8.2%} {rates.payload:14.2%}  {limit:7} {used:9.2%} "
                f"{demand / rates.cycles:10.2%} {rates.cycles:7}   {'yes' if rates.exact else 'NO'}"
            )
    print(
        "Shares of bytes per cycle over the bus width, on the slowest node, between 10 % and 90 % "
        "of its bytes.\nA round of N blocks crosses the host port N times each way and the network "
        "2 (N - 1) times, compressed or not:\nthe port with more to do is the limit. Whole run: "
        "cycles that the limiting port needs over all cycles, first block and last included."
    )
    met = exact and min(worst.values()) >= TARGET
    result(
        "nic_line_rate",
        pct_plain=worst["plain"],
        pct_bfp=worst["bfp"],
        net_payload_pct_plain=payload["plain"],
        net_payload_pct_bfp=payload["bfp"],
        target_pct=TARGET,
        exact=exact,
        verdict="ok" if met else "short",
    )
    return 0


def _limit(config: SmartNicConfig, nodes: int, *, compress: bool) -> tuple[str, float]:
    """The port that needs the most cycles for the vector, and how many."""
    host = ROUNDS * nodes * config.block_beats
    fmt = config.codec_format
    ratio = fmt.ratio if compress and fmt is not None else 1.0
    frames = 1 + 1 / config.frame_beats
    network = ROUNDS * 2 * (nodes - 1) * config.block_beats / ratio * frames
    return ("network", network) if network > host else ("host", host)


def _measure(config: SmartNicConfig, nodes: int, *, compress: bool, seed: int) -> Rates:
    elements = ROUNDS * nodes * config.block_beats * config.lanes
    settings = Surroundings(
        nodes=nodes, latency_cycles=LATENCY_CYCLES, write_latency_cycles=10,
        memory_bytes=2 * 4 * elements,
    )
    ring = NicRing(config, settings, record_beats=True, bucket_cycles=BUCKET_CYCLES)
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(nodes)]
    outputs = ring.all_reduce(arrays, compress=compress)
    golden = nic_all_reduce(arrays, config, compress=compress).view(np.uint32)
    reads, writes, net, payload = [], [], [], []
    for rank in range(nodes):
        memory = ring.system.memory_activity(rank, 0)
        reads.append(_steady(memory.read_bytes_per_bucket, config.bus_bytes))
        writes.append(_steady(memory.written_bytes_per_bucket, config.bus_bytes))
        # Credits go the other way, on the same port of the NIC.
        onward, back = (ring.system.link_activity(rank, port) for port in (0, 1))
        cycles = np.concatenate([onward.beat_cycles, back.beat_cycles])
        cycles.sort()
        low, high = cycles[len(cycles) // 10], cycles[len(cycles) * 9 // 10]
        net.append(np.count_nonzero((cycles >= low) & (cycles < high)) / (high - low))
        frames = ring.read(ring.system.nodes[rank], "frames_sent", 0)["count"]
        payload.append((onward.beats - frames) / len(cycles))
    busy = [ring.read(node, "busy", 0)["count"] for node in ring.system.nodes]
    return Rates(
        host_read=min(reads),
        host_written=min(writes),
        net=min(net),
        payload=min(payload),
        cycles=max(busy),
        exact=all(np.array_equal(output.view(np.uint32), golden) for output in outputs),
    )


def _steady(bytes_per_bucket: np.ndarray, bus_bytes: int) -> float:
    """Share of the bus in use between 10 % and 90 % of the bytes."""
    so_far = np.cumsum(bytes_per_bucket)
    low, high = np.searchsorted(so_far, [0.1 * so_far[-1], 0.9 * so_far[-1]])
    moved = so_far[high] - so_far[low]
    return float(moved / ((high - low) * BUCKET_CYCLES * bus_bytes))
