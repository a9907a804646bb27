"""Ordinary traffic between endpoints, beside what is reduced.

Every link of an endpoint is offered packets at random times, as many as a *load* asks for, for one
other endpoint each. They wait there for as long as it takes: a source is never held up by the
network. They travel as partials do, to one endpoint, in one of two classes; at their goal nothing
keeps them waiting, but packets of their class on the same link may be in front of them.
"""

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from sim.cycles.stalls import stall_key, threshold
from sim.cycles.switch.words import MESSAGE, STORE

if TYPE_CHECKING:
    from sim.cycles.switch.state import State

__all__ = ["KINDS", "PATTERNS", "Background", "prepare"]

PATTERNS = ("uniform", "permutation")
KINDS = {"store": STORE, "message": MESSAGE}
_WHEN, _WHERE = 0, 1  # channels that are drawn from


@dataclass(frozen=True, kw_only=True)
class Background:
    """How much there is, and where to.

    Parameters
    ----------
    load : float
        Of the time of every link of an endpoint, from 0 (none) to 1: packets of
        `packet_cycles <sim.endpoint.switch_system.SwitchSystem.packet_cycles>` with their headers
        and, where links carry them, acknowledgements.
    pattern : str
        ``uniform``: each packet is for any other endpoint; ``permutation``: all of an endpoint's
        are for the same one, and each endpoint is that of one other.
    kind : str
        ``message``: in the class of partials and answers, as messages of software; ``store``: in
        that of operands and loads, as plain stores where there are two classes, of requests and
        responses.
    seed : int
        Of times and goals.
    """

    load: float
    pattern: str = "uniform"
    kind: str = "message"
    seed: int = 1

    def __post_init__(self) -> None:
        known = isinstance(self.load, Real) and not isinstance(self.load, bool)
        if not known or not 0 <= self.load <= 1:
            raise ValueError(f"load must be from 0 to 1, not {self.load!r}")
        for name, allowed in (("pattern", PATTERNS), ("kind", tuple(KINDS))):
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def prepare(s: "State", given: Background, packet_cycles: int) -> None:
    """Packets from the first cycle on that is simulated; each takes so many cycles of a link."""
    c, source = s.c[0], s.source
    endpoint, link = s.lane["endpoint"], s.lane["link"]
    c["ordinary_kind"] = KINDS[given.kind]
    c["ordinary_below"] = threshold(given.load / packet_cycles)
    c["ordinary_on"] = bool(c["ordinary_below"])
    source["when"] = stall_key(given.seed, endpoint, link, _WHEN)
    source["where"] = stall_key(given.seed, endpoint, link, _WHERE)
    source["partner"] = source["born"] = -1
    if given.pattern == "permutation":
        # A single cycle through all: nobody is its own partner.
        order = np.random.default_rng(given.seed).permutation(len(s.endpoint))
        partner = np.empty_like(order)
        partner[order] = np.roll(order, -1)
        source["partner"] = partner[endpoint]
