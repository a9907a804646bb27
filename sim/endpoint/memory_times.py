# SPDX-License-Identifier: Apache-2.0
"""Latency and bandwidth of the memory behind an engine."""

from dataclasses import dataclass

from sim.units import seconds_to_cycles

__all__ = ["MemoryTimes"]


@dataclass(frozen=True, kw_only=True)
class MemoryTimes:
    """Latency of the memory behind an engine, in cycles of the engine, and its bandwidth, of reads
    and of writes each; None: that of the ports.

    The defaults are parameters of the surroundings, no measurements, and those of the engines'
    rings: memory on the same package as ACE, host memory behind a bus for the NIC.
    """

    read_cycles: int = 50
    write_cycles: int = 4
    bandwidth_bytes_per_s: float | None = None

    def pace(self, ports_bytes_per_s: float) -> float:
        """Beats of a port in a cycle, each way, where the ports can move so much together."""
        if self.bandwidth_bytes_per_s is None:
            return 1.0
        return min(1.0, self.bandwidth_bytes_per_s / ports_bytes_per_s)

    @classmethod
    def of(
        cls,
        read_s: float | None,
        write_s: float | None,
        *,
        clock_hz: float,
        default: "MemoryTimes",
        bandwidth_bytes_per_s: float | None = None,
    ) -> "MemoryTimes":
        """From latencies in seconds; None for the default."""
        return cls(
            read_cycles=(
                default.read_cycles if read_s is None else seconds_to_cycles(read_s, clock_hz)
            ),
            write_cycles=(
                default.write_cycles if write_s is None else seconds_to_cycles(write_s, clock_hz)
            ),
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        )
