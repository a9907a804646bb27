# SPDX-License-Identifier: Apache-2.0
"""Latencies of the smart NIC's event endpoint, on its cycle model."""

from collections.abc import Callable, Mapping

from hw.smartnic.config import preset
from sim.cycles.measure import LINK, POLL, READ, SCRIPT, WRITE, measured_ring
from sim.cycles.smartnic.model import NicModel
from sim.hosts.command import Command

__all__ = ["MEASURES"]


def _way(*, compress: bool = False) -> dict[str, int]:
    """Latencies of a block in a ring of three: sent first, as a sum, as a result, and gathered."""
    config = preset("100g")
    beats = config.granule
    command = Command(
        elements=3 * beats * config.lanes, compress=compress, destination=1 << 15
    )
    model = NicModel(config, measured_ring(), [command], [SCRIPT] * 3, trace=True)
    model.run()
    own, summed, result, gathered = model.link_activity(0, 0).beat_cycles[::2].tolist()
    frame = 2  # a header, and a beat
    way = frame + LINK + beats
    adder = config.alu_stages
    sums = summed - own - way - adder
    begun = own - READ - beats - adder
    ended = int(model.completions()[0, 0]) - gathered - way - WRITE
    return {
        "nic_host": begun + ended + POLL,
        "nic_sum": sums,
        "nic_result": result - summed - way - adder - sums - beats,
        "nic_gather": gathered - result - way,
    }


def _burst() -> int:
    """Overhead of a burst, by memories so slow that outstanding bursts bound the reads."""
    config, latency = preset("test"), 500

    def cycles(beats: int) -> int:
        command = Command(elements=2 * beats * config.lanes, destination=1 << 21)
        ring = measured_ring(nodes=2, read_latency_cycles=latency)
        model = NicModel(config, ring, [command], [SCRIPT] * 2)
        model.run()
        return int(model.completions().max())

    more = (cycles(1024) - cycles(512)) / (2 * 512)  # for a beat; both nodes' beats are read
    return round(more * config.max_burst * config.outstanding_bursts) - latency - config.max_burst


def _ways() -> dict[str, int]:
    plain, codec = _way(), _way(compress=True)
    return {**plain, "nic_codec": codec["nic_sum"] - plain["nic_sum"]}


MEASURES: Mapping[str, Callable[[], Mapping[str, int]]] = {
    "the way through a NIC": _ways,
    "reads of a NIC": lambda: {"nic_burst": _burst()},
}
