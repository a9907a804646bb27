# SPDX-License-Identifier: Apache-2.0
"""Configurations whose size is estimated: ranges of parameters, and what logic grows with."""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hw.common.sram import SRAMBank

__all__ = ["Space", "bits"]


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
    memories
        Numbers of equal SRAM banks of a configuration, with such a bank each.
    free
        Parameters that say what is where, and hardly change the number of cells.
    """

    choices: Mapping[str, Sequence[Any]]
    counts: Callable[[Any], Mapping[str, float]]
    sizes: Callable[[Any], Mapping[str, float]]
    memories: "Callable[[Any], Iterable[tuple[int, SRAMBank]]]"
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


def bits(value: float) -> float:
    """Width of a number up to *value*, as a smooth quantity."""
    return math.log2(max(1, value)) + 1
