# SPDX-License-Identifier: Apache-2.0
"""RTL nodes among model nodes: both run window by window and exchange timestamped tokens."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sim.cycles.model import CycleModel
from sim.fields import FieldError
from sim.hosts.command import Command
from sim.hosts.script import Step
from sim.hosts.surroundings import Surroundings
from sim.rtl.driver import EngineDriver
from sim.rtl.harness.library import TOKEN
from sim.rtl.harness.system import MAX_WINDOW_CYCLES, Node

__all__ = ["ExchangePort", "MixedExchange", "PayloadError", "Vectors", "beat_tokens"]

Vectors = Sequence[Sequence[NDArray[Any]]]
"""For each command, a vector per rank."""

_BEAT_BYTES = 128  # in a token, whatever the width of the bus


class PayloadError(RuntimeError):
    """An engine sent a packet that differs from the golden model."""


class ExchangePort(ABC):
    """A port of an RTL node whose other end is a model.

    Parameters
    ----------
    node, port : int
        In the system.
    away, back : int
        Latencies of the link from the node and to it.
    """

    def __init__(self, node: int, port: int, *, away: int, back: int) -> None:
        self.node, self.port = node, port
        self.away, self.back = away, back

    @abstractmethod
    def outward(self, tokens: NDArray[np.void]) -> int:
        """Give tokens that the engine sent to the model; return the number of packets compared.

        Raises
        ------
        PayloadError
            If one of them is not the golden one.
        """

    @abstractmethod
    def inward(self, before: int) -> NDArray[np.void]:
        """Tokens that the model sent before a cycle, with the cycles of their arrival."""


def beat_tokens(rows: Sequence[tuple[int, int, int, int, bytes]]) -> NDArray[np.void]:
    """Tokens from rows of (cycle of arrival, keep, user, credit, data)."""
    tokens = np.zeros(len(rows), TOKEN)
    for number, (cycle, keep, user, credit, data) in enumerate(rows):
        beat = np.frombuffer(data.ljust(_BEAT_BYTES, b"\0"), np.uint8)
        tokens[number] = cycle, keep, user, credit, 0, beat
    return tokens


class MixedExchange(ABC):
    """A ring of which some ranks are compiled engines and the others models.

    Parameters
    ----------
    config, ring, commands, scripts, inputs
        As in ``sim.runs.scripts``.
    rtl : sequence of int
        Ranks that are engines, and other parts in RTL (`EngineRules.count`).
    window_cycles : int or None
    trace : bool
        The model keeps every beat.
    options
        For the engines: those of the driver.

    Members
    -------
    cluster : EngineDriver
        The engines; ``nodes`` has its nodes by rank.
    model : CycleModel
    begin : int
        Cycle in which all scripts start.
    packets : int
        Packets of engines that were compared.
    """

    driver: ClassVar[type[EngineDriver]]
    model_kind: ClassVar[Callable[..., CycleModel]]

    def __init__(
        self,
        config: Any,
        ring: Surroundings,
        commands: Sequence[Command],
        scripts: Sequence[Sequence[Step]],
        inputs: Vectors,
        *,
        rtl: Sequence[int],
        window_cycles: int | None = None,
        trace: bool = False,
        **options: Any,
    ) -> None:
        latency, _ = ring.latencies
        window = min(latency, MAX_WINDOW_CYCLES) if window_cycles is None else window_cycles
        if not 1 <= window <= latency:
            raise FieldError(
                "window_cycles", f"must be from 1 to the {latency} cycles of a link, not {window!r}"
            )
        ranks, count = sorted(set(rtl)), self.driver.count(config, ring)
        if not ranks or not 0 <= ranks[0] <= ranks[-1] < count:
            raise FieldError(
                "rtl", f"must name ranks from 0 to {count - 1}, at least one, not {rtl!r}"
            )
        if len(ranks) == count:
            raise FieldError("rtl", "must leave at least one rank to the model")
        self._window = window
        self.cluster = self.driver(config, ring, ranks=ranks, window_cycles=window, **options)
        self.nodes: dict[int, Node] = dict(zip(ranks, self.cluster.system.nodes, strict=True))
        self.begin = self.cluster.system.cycle
        self.packets = 0
        self.model = self.model_kind(
            config, ring, commands, scripts,
            external=ranks, start_cycle=self.begin, trace=trace,
        )
        self._ports = self.ports(config, ring, commands, inputs)

    @abstractmethod
    def ports(
        self, config: Any, ring: Surroundings, commands: Sequence[Command], inputs: Vectors
    ) -> list[ExchangePort]:
        """The ports of the engines that lead to ranks of the model."""

    @abstractmethod
    def sort(self) -> None:
        """Hand the packets, beats and credits that the model has sent to the ports."""

    def run(self, max_cycles: int) -> float:
        """Run until all scripts have ended; returns the wall time in seconds."""
        began = time.perf_counter()
        now = self.begin
        # Hosts of RTL get their scripts with the first window.
        while now == self.begin or not (
            self.model.done and all(node.done for node in self.nodes.values())
        ):
            if now - self.begin >= max_cycles:
                raise RuntimeError(f"the scripts have not ended after {max_cycles} cycles")
            end = now + self._window
            self.cluster.system.advance(end)
            self.model.run(end)
            self._trade(now, end)
            now = end
        return time.perf_counter() - began

    def _trade(self, begin: int, end: int) -> None:
        """Pass the tokens that each side sent in a window to the other one."""
        system = self.cluster.system
        for port in self._ports:
            sent = system.arrivals(port.node, port.port, begin + port.away, end + port.away)
            self.packets += port.outward(sent)
        self.sort()
        for port in self._ports:
            # Only tokens that arrive soon enough for the wires to hold them.
            tokens = port.inward(end + port.back)
            if len(tokens):
                system.deliver(port.node, port.port, tokens)
