"""Latency of the memory behind an engine."""

from dataclasses import dataclass

from sim.units import seconds_to_cycles

__all__ = ["MemoryTimes"]


@dataclass(frozen=True, kw_only=True)
class MemoryTimes:
    """Latency of the memory behind an engine, in cycles of the engine.

    The defaults are parameters of the surroundings, no measurements, and those of the engines'
    rings: memory on the same package as ACE, host memory behind a bus for the NIC.
    """

    read_cycles: int = 50
    write_cycles: int = 4

    @classmethod
    def of(
        cls,
        read_s: float | None,
        write_s: float | None,
        *,
        clock_hz: float,
        default: "MemoryTimes",
    ) -> "MemoryTimes":
        """From latencies in seconds; None for the default."""
        return cls(
            read_cycles=(
                default.read_cycles if read_s is None else seconds_to_cycles(read_s, clock_hz)
            ),
            write_cycles=(
                default.write_cycles if write_s is None else seconds_to_cycles(write_s, clock_hz)
            ),
        )
