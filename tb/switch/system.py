# SPDX-License-Identifier: Apache-2.0
"""Compiled switches with endpoints in Python."""

import random
from collections.abc import Mapping

from gen.configured import compile_configured
from hw.link.packet import FLIT_BYTES
from hw.switch.config import SwitchConfig
from hw.switch.switch import Switch
from sim.cycles.switch.fabric import Fabric
from sim.rtl.exchange import beat_tokens
from sim.rtl.switch.orders import switches_between
from sim.rtl.switch.stepped import SteppedSwitches
from tb.switch.endpoint import START, Endpoint

__all__ = ["System"]


class System(SteppedSwitches):
    """Switches, cables between their ports, endpoints at other ports; one latency for all links.

    Parameters
    ----------
    config : SwitchConfig
    fabric : Fabric
        Of one plane. Its routes are programmed.
    expected : dict of int to int
        Operands per region.
    latency, seed : int
    gaps, stalls : float
        Of every endpoint.
    """

    def __init__(
        self, config: SwitchConfig, fabric: Fabric, *, expected: Mapping[int, int],
        latency: int = 3, seed: int = 1, gaps: float = 0.0, stalls: float = 0.0,
    ) -> None:
        model = compile_configured(Switch, config, name="switch")
        super().__init__(config, model, fabric, latency=latency, seed=seed)
        rng = random.Random(seed)
        self.endpoints = [
            Endpoint(k, config, expected=expected, rng=rng, gaps=gaps, stalls=stalls)
            for k in range(len(fabric.places))
        ]
        self._moved = 0
        self.program(self.route_rows())

    @property
    def quiet_since(self) -> int:
        return max(self._moved, super().quiet_since)

    def path(self, source: int, destination: int) -> list[int]:
        """Switches between two endpoints, the nearest to *destination* first."""
        return switches_between(self.peer, *(self.places[e][0][0] for e in (source, destination)))

    def step(self, cycles: int = 1) -> None:
        end = self.cycle + cycles
        while (begin := self.cycle) < end:
            until = min(end, begin + self.latency)
            for (s, p), (number, _) in self.at.items():
                self._exchange(self.endpoints[number], s, p, range(begin, until))
            super().step(until - begin)

    def _exchange(self, end: Endpoint, s: int, p: int, cycles: range) -> None:
        """Let an endpoint take what arrives in *cycles*, and send."""
        came = {each[0]: each for each in
                self.system.arrivals(s, p, cycles.start, cycles.stop).tolist()}
        sent = []
        for cycle in cycles:
            flit, credit = end.send(), end.freed()
            if cycle in came:
                _, keep, start, paid, _, data = came[cycle]
                if keep:
                    word = int.from_bytes(bytes(data[:FLIT_BYTES]), "little")
                    end.receive(word | START * start)
                end.paid(paid)
            if flit is not None:
                end.sent_at.append(cycle)
            if flit is not None or (cycle in came and keep):
                self._moved = cycle + 1
            if flit is not None or credit:
                start, word = divmod(flit or 0, START)
                sent.append((cycle + self.latency, int(flit is not None), start, credit,
                             word.to_bytes(FLIT_BYTES, "little")))
        if sent:
            self.system.deliver(s, p, beat_tokens(sent))
