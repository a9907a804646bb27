# SPDX-License-Identifier: Apache-2.0
"""Configurations whose size is estimated: ranges of parameters, and what logic grows with."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hw.common.fifo import QueueSize
    from hw.common.sram import BankShape

__all__ = ["Space", "bits"]

FEW = 4
"""Most choices of a parameter each of whose values may be a step."""
MIXED_LEAST = 0.4
"""Share of parameters that take a smaller choice alone where they are mixed."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """Configurations of a design for which its model holds.

    Parameters
    ----------
    choices
        Values of each parameter, of which configurations are drawn; others keep their defaults.
    parts
        Numbers of parts, widths and the like of a configuration: what blocks grow with.
    least
        Share of the draws that has the smaller half of each parameter's choices alone, which are
        synthesised sooner.
    banks
        Numbers of equal SRAM banks of a configuration, with such a bank each; those of queues are
        not among them.
    queues
        Queues that may be large: numbers of equal ones, and their size.
    free
        Parameters that say what is where, and hardly change the number of cells.
    """

    choices: Mapping[str, Sequence[Any]]
    parts: Callable[[Any], Mapping[str, float]]
    banks: "Callable[[Any], Iterable[tuple[int, BankShape]]]"
    queues: "Callable[[Any], Mapping[str, tuple[int, QueueSize]]]"
    least: float = 0.7
    free: frozenset[str] = frozenset()

    def draw(self, rng: random.Random, config: type, *, mixed: bool = False) -> Any:
        """A configuration at random that the class *config* takes.

        Small choices of parameters come together, unless they are *mixed*: what one of them makes
        large others do not, so that a fit can tell them apart.
        """
        for _ in range(10_000):
            small = rng.random() < self.least
            drawn = {}
            for name, values in self.choices.items():
                small = rng.random() < MIXED_LEAST if mixed else small
                drawn[name] = rng.choice(values[: (len(values) + 1) // 2] if small else values)
            try:
                return config(**drawn)
            except ValueError:
                continue
        raise RuntimeError(f"no {config.__name__} of 10 000 drawn ones is valid")

    def memories(self, config: Any) -> "Iterator[tuple[int, BankShape]]":
        """Numbers of equal SRAM banks of *config*, with such a bank each."""
        yield from self.banks(config)
        for count, queue in self.queues(config).values():
            if queue.bank is not None:
                yield count, queue.bank

    def factors(self, config: Any) -> dict[str, float]:
        """Quantities that blocks of *config* grow with: parts, and what no product of them has.

        This is the bits of each queue that is not in a bank, and whether a parameter of few choices
        is above or below a value: blocks may be there, or made in another way, from a value on.
        """
        queued = {
            f"{name}_bits": float(0 if queue.bank else queue.bits)
            for name, (_, queue) in self.queues(config).items()
        }
        steps: dict[str, float] = {}
        for name, values in self.choices.items():
            if len(values) <= FEW and all(type(each) is int for each in values):
                for value in sorted(values)[:-1]:
                    above = getattr(config, name) > value
                    steps |= {f"{name}>{value}": float(above), f"{name}<={value}": float(not above)}
        return {**self.parts(config), **queued, **steps}

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
