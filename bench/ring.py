# SPDX-License-Identifier: Apache-2.0
"""Share of link cycles that carry a beat in an RTL ring all-reduce, for short and long links."""

from collections.abc import Sequence

import numpy as np

from bench.options import bench_parser
from bench.result import result
from hw.ace.config import preset
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing

NODES = 4
BYTES = 1 << 20
LATENCIES = (1, 90, 500)
TARGET_UTILISATION = 0.95
TARGET_PAYLOAD = 0.94


def main(argv: Sequence[str]) -> int:
    """Run the all-reduce once per latency; every result is compared with numpy bit for bit."""
    parser = bench_parser("ring", __doc__, seed="the data", preset=("engine", "ring"))
    options = parser.parse_args(argv)
    config = preset(options.preset)

    print(
        f"{NODES}-node bidirectional ring all-reduce of {BYTES} bytes; engine {options.preset}: "
        f"{config.ports} ports, {config.bus_bytes}-byte bus, {config.banks} banks "
        f"of {config.sram_bytes // config.banks >> 10} KiB ({config.bank_ports}: "
        f"{config.banks * config.bank_ports.count('1')} bank ports), "
        f"{config.memory_ports} memory ports, "
        f"{config.fsms} FSMs x {config.contexts} contexts, {config.rx_packets} receive packets"
    )
    print(
        "latency  node port   first    last   window   beats  utilisation  payload share  "
        "parked  cycles"
    )
    rng = np.random.default_rng(options.seed)
    arrays = [rng.standard_normal(BYTES // 4).astype(np.float32) for _ in range(NODES)]
    worst, payload, window = 1.0, 1.0, 0
    exact = True
    for latency in LATENCIES:
        settings = Surroundings(nodes=NODES, latency_cycles=latency, memory_bytes=4 * BYTES)
        cluster = AceRing(config, settings, record_beats=True)
        begin = cluster.system.cycle
        outputs = cluster.all_reduce(arrays)
        golden = cluster.golden(arrays).view(np.uint32)
        exact &= all(np.array_equal(output.view(np.uint32), golden) for output in outputs)
        assert cluster.last_run is not None
        for number, node in enumerate(cluster.system.nodes):
            for port in range(config.ports):
                activity = cluster.system.link_activity(number, port)
                if not activity.beats:
                    continue
                steady = activity.steady_state(since_cycle=begin)
                share = steady.payload_flits / (steady.beats * config.flits)
                if steady.beat_share < worst:
                    worst, window = steady.beat_share, steady.cycles
                payload = min(payload, share)
                print(
                    f"{latency:7}  {number:4} {port:4} {steady.first_cycle - begin:7} "
                    f"{steady.first_cycle + steady.cycles - begin:7} {steady.cycles:8} "
                    f"{steady.beats:7}  {steady.beat_share:10.2%}  {share:12.3%}  "
                    f"{cluster.read(node, 'parked', port)['count']:7} {cluster.last_run.cycles:7}"
                )
    print(
        "window: cycles between 10 % and 90 % of a port's bytes; utilisation: those with a beat; "
        "payload share: payload bytes over beats x bus width."
    )
    print(f"results equal numpy's in ring order, bit for bit: {'yes' if exact else 'NO'}")
    met = exact and worst >= TARGET_UTILISATION and payload >= TARGET_PAYLOAD
    result(
        "ring",
        utilisation_worst=worst,
        payload_share=payload,
        window_cycles=window,
        target_utilisation=TARGET_UTILISATION,
        target_payload=TARGET_PAYLOAD,
        exact=exact,
        verdict="ok" if met else "short",
    )
    return 0
