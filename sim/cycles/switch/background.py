# SPDX-License-Identifier: Apache-2.0
"""Ordinary traffic between endpoints, beside reductions.

Every link of an endpoint is offered packets at random times, as many as a *load* asks for, for one
other endpoint each. They wait there for as long as it takes: the network never holds up a source.
They travel as partials do, to one endpoint, in one of two classes. Their receiver takes them at
once, but packets of their class on the same link may be in front of them.
"""

from typing import TYPE_CHECKING

import numpy as np

from sim.cycles.stalls import stall_key, threshold
from sim.cycles.switch.words import MESSAGE, STORE
from sim.endpoint.background import Background

if TYPE_CHECKING:
    from sim.cycles.switch.state import SwitchState

__all__ = ["prepare"]

_KINDS = {"store": STORE, "message": MESSAGE}
_WHEN, _WHERE = 0, 1  # channels that are drawn from


def prepare(s: "SwitchState", given: Background, packet_cycles: int) -> None:
    """Set up packets from the first simulated cycle on; each takes *packet_cycles* of a link."""
    c, source = s.c[0], s.source
    endpoint, link = s.lane["endpoint"], s.lane["link"]
    c["ordinary_kind"] = _KINDS[given.kind]
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
