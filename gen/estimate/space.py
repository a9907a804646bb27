"""Designs whose size is estimated: parameters, their ranges, and the numbers that logic grows
with."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations_with_replacement
from typing import Any

__all__ = ["SPACES", "Space"]


@dataclass(frozen=True, kw_only=True)
class Space:
    """Configurations of a design for which its model holds.

    Parameters
    ----------
    choices
        Values of each parameter, of which configurations are drawn; others keep their defaults.
    counts
        Numbers of equal parts, such as ports, of a configuration.
    sizes
        What the parts grow with, such as widths.
    least
        Share of the draws that has the smaller half of each parameter's choices alone, which are
        synthesised sooner.
    free
        Parameters that say what is where, and hardly change the number of cells.
    """

    choices: Mapping[str, Sequence[Any]]
    counts: Callable[[Any], Mapping[str, float]]
    sizes: Callable[[Any], Mapping[str, float]]
    least: float = 0.7
    free: frozenset[str] = frozenset()

    def draw(self, rng: random.Random, config: type) -> Any:
        """A configuration at random that the class *config* takes."""
        for _ in range(10_000):
            small = rng.random() < self.least
            drawn = {
                name: rng.choice(values[: (len(values) + 1) // 2] if small else values)
                for name, values in self.choices.items()
            }
            try:
                return config(**drawn)
            except ValueError:
                continue
        raise RuntimeError(f"no {config.__name__} of 10 000 drawn ones is valid")

    def terms(self, config: Any) -> dict[str, float]:
        """Products of up to two counts and a size: what a model is a sum of."""
        counts = {"": 1.0, **self.counts(config)}
        sizes = {"": 1.0, **self.sizes(config)}
        found = {}
        for one, other in combinations_with_replacement(counts, 2):
            for size, value in sizes.items():
                name = " ".join(filter(None, (one, other, size))) or "1"
                found[name] = counts[one] * counts[other] * value
        return found

    def outside(self, config: Any) -> list[str]:
        """Parameters of *config* that are beyond the range of their choices."""
        beyond = []
        for each in fields(config):
            value, values = getattr(config, each.name), self.choices.get(each.name, (each.default,))
            numbers = isinstance(value, int) and not isinstance(value, bool)
            within = min(values) <= value <= max(values) if numbers else value in values
            if each.name not in self.free and not within:
                beyond.append(each.name)
        return beyond


def _bits(value: float) -> float:
    return math.log2(max(1, value)) + 1


SPACES: dict[str, Space] = {
    "ace": Space(
        choices={
            "ports": (2, 3, 4, 6, 8),
            "bus_bytes": (16, 32, 64),
            "packet_bytes": (64, 128, 256),
            "sram_bytes": tuple(1 << n for n in range(14, 23)),
            "banks": (1, 2, 4, 8, 16),
            "bank_ports": ("1r1w", "1rw"),
            "alus": (1, 2, 3, 4, 6),
            "alu_stages": (3, 2, 4),
            "fsms": (1, 2, 4, 8, 16),
            "contexts": (1, 2, 4, 8),
            "program_words": (128, 256, 1024),
            "memory_ports": (1, 2, 4),
            "rx_packets": (16, 32, 64, 128, 256),
            "tx_packets": (4, 8, 16),
            "max_nodes": (8, 16, 64),
            "address_bits": (32, 40),
            "commands": (2, 4),
            "partitions": ("slot", "phase"),
            "phases": (0, 1, 2, 3, 4),
        },
        counts=lambda c: {
            "ports": c.ports, "fsms": c.fsms, "contexts": c.contexts, "banks": c.banks,
            "alus": c.alus, "memory_ports": c.memory_ports, "commands": c.commands,
            "phases": c.phases,
        },
        sizes=lambda c: {
            "bus": c.bus_bytes, "stages": c.alu_stages * c.bus_bytes,
            "address": c.address_bits, "tx": c.tx_packets * _bits(c.packet_bytes),
            "rows": _bits(c.sram_bytes / c.bus_bytes), "nodes": _bits(c.max_nodes),
            "rx": _bits(c.rx_packets),
        },
        free=frozenset({"interleave", "phase_fsms", "partition_bytes", "partition_slots"}),
    ),
    "smartnic": Space(
        choices={
            "bus_bytes": (32, 64),
            "engines": (1, 2, 4),
            "alu_stages": (2, 3, 4, 5),
            "block_beats": (64, 128, 256, 512),
            "frame_beats": (16, 32, 64),
            "compressed_frame_beats": (8, 16),
            "receive_beats": (256, 512, 1024),
            "credit_beats": (32, 64, 128),
            "input_beats": (64, 128, 256),
            "output_beats": (32, 64),
            "max_burst": (8, 16),
            "outstanding_bursts": (8, 16, 32),
            "address_bits": (32, 48, 64),
            "descriptors": (2, 4, 8, 16),
            "ethernet": (True, False),
            "codec": ("none", "bfp16"),
        },
        counts=lambda c: {
            "engines": c.engines, "codec": float(c.codec != "none"),
            "ethernet": float(c.ethernet), "descriptors": c.descriptors,
            "bursts": c.outstanding_bursts,
        },
        sizes=lambda c: {
            "bus": c.bus_bytes, "stages": c.alu_stages * c.bus_bytes,
            "address": c.address_bits, "block": _bits(c.block_beats),
            "receive": _bits(c.receive_beats),
        },
    ),
    "switch": Space(
        choices={
            "ports": (3, 4, 6, 8, 12, 16),
            "entries": (1, 2, 4),
            "alu_stages": (2, 3, 4),
            "buffer_packets": (2, 4, 8),
            "credits": (2, 4, 8),
            "queue_packets": (1, 2, 3),
            "regions": (1, 2, 4),
            "homes": (4, 8, 16),
            "endpoints": (8, 16),
            "timeout_bits": (10, 16),
            "half": (False, True),
        },
        counts=lambda c: {
            "ports": c.ports, "entries": c.entries, "regions": c.regions, "homes": c.homes,
            "half": float(c.half), "endpoints": c.endpoints,
        },
        sizes=lambda c: {
            "stages": c.alu_stages, "buffers": _bits(c.buffer_packets),
            "queue": c.queue_packets, "timeout": c.timeout_bits,
        },
    ),
    "switch-dma": Space(
        choices={
            "links": (1, 2, 3, 4, 6),
            "waves": (4, 8, 16),
            "wave_blocks": (2, 4, 8, 16),
            "read_ahead": (2, 4, 8, 16),
            "descriptors": (4, 8, 16),
            "regions": (1, 2, 4),
            "buffer_packets": (2, 4, 8),
            "credits": (2, 4, 8),
            "endpoints": (8, 16),
            "max_burst": (4, 8, 16),
            "outstanding_bursts": (4, 8, 16, 32),
            "address_bits": (32, 48, 64),
        },
        counts=lambda c: {
            "links": c.links, "waves": c.waves, "blocks": c.waves * c.wave_blocks,
            "regions": c.regions, "descriptors": c.descriptors, "bursts": c.outstanding_bursts,
        },
        sizes=lambda c: {
            "address": c.address_bits, "read_ahead": c.read_ahead,
            "buffers": _bits(c.buffer_packets), "endpoints": _bits(c.endpoints),
        },
    ),
}
"""By name of the design."""
