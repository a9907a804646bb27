# SPDX-License-Identifier: Apache-2.0
"""Ordinary traffic between endpoints, beside reductions: its load, kind and pattern."""

from dataclasses import dataclass
from numbers import Real

from sim.fields import FieldError

__all__ = ["KINDS", "PATTERNS", "Background"]

PATTERNS = ("uniform", "permutation")
KINDS = ("store", "message")


@dataclass(frozen=True, kw_only=True)
class Background:
    """Load, pattern and kind of ordinary traffic.

    Parameters
    ----------
    load : float
        Share of the time of every endpoint link, from 0 (none) to 1, that is offered packets: of
        `SwitchSystem.packet_cycles` each, with their headers and, where links carry them,
        acknowledgements.
    pattern : str
        ``uniform``: each packet goes to any other endpoint; ``permutation``: all packets of an
        endpoint go to the same one, and each endpoint receives those of one other.
    kind : str
        ``message``: in the class of partials and answers, as messages of software; ``store``: in
        that of operands and loads, as plain stores where there are two classes, of requests and
        responses.
    seed : int
        Draws times and destinations.
    """

    load: float
    pattern: str = "uniform"
    kind: str = "message"
    seed: int = 1

    def __post_init__(self) -> None:
        known = isinstance(self.load, Real) and not isinstance(self.load, bool)
        if not known or not 0 <= self.load <= 1:
            raise FieldError("load", f"must be from 0 to 1, not {self.load!r}")
        whole = isinstance(self.seed, int) and not isinstance(self.seed, bool)
        if not whole or not 0 <= self.seed < 1 << 63:
            raise FieldError(
                "seed", f"must be a whole number from 0 to 2^63 - 1, not {self.seed!r}"
            )
        for name, allowed in (("pattern", PATTERNS), ("kind", KINDS)):
            if (value := getattr(self, name)) not in allowed:
                raise FieldError(name, f"must be one of {', '.join(allowed)}, not {value!r}")
