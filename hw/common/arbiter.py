# SPDX-License-Identifier: Apache-2.0
"""Fair choice among requesters, and among streams that share one way on."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require, require_int
from hw.common.select import any_below, lowest, marked

__all__ = [
    "AgeArbiter", "RoundRobinArbiter", "StreamArbiter", "behind", "granted", "in_turn",
]


_FEW = 8
"""Requesters up to which each is compared with each other one."""


def in_turn(requests: Value, preferred: Value) -> Value:
    """The first of *requests*, a bit for each, of which the *preferred* ones, those of the highest
    numbers, go before the others.

    No carry, and no search that comes first. A few are compared one by one, and only requests,
    which come late, pass all levels; of many, both that may go are looked for at once.
    """
    if len(requests) <= _FEW:
        lower = [(1 << k) - 1 for k in range(len(requests))]
        return Cat(
            request & ~(requests & Mux(first, preferred & below, preferred | below)).any()
            for request, first, below in zip(requests, preferred, lower)
        )
    wants = requests & preferred
    return Mux(wants.any(), lowest(wants), lowest(requests))


def behind(requests: Value, preferred: Value) -> Value:
    """A bit for each of *requests*: whether its number is above that of the one `in_turn`. Made
    like a grant and not of one: what is behind a grant makes mappers let it be late."""
    wants = requests & preferred
    return Mux(wants.any(), any_below(wants), any_below(requests))


class RoundRobinArbiter(wiring.Component):
    """Grants one of *n* requesters in the same cycle, each in its turn.

    ``grant`` is combinational: one-hot when there is a request, else zero. While ``advance`` is low
    the order of preference stays as it is (the grant may still move if requests change). A cycle
    with ``advance`` high makes the requester that is granted in it the last in the order, so one
    that keeps requesting is granted within *n* such cycles.

    Parameters
    ----------
    n : int
        Number of requesters, at least 1.
    late : bool
        Grants are used cycles later, if at all: ``served`` says whose.

    Members
    -------
    requests : ``In(n)``
        Who wants to be granted.
    grant : ``Out(n)``
        Who is.
    advance : ``In(1)``
        The grant is used in this cycle; with *late*, an earlier one is. May come late in the cycle.
    served : ``In(n)``, only with *late*
        One-hot: this requester is the last in the order from the next cycle on; with ``advance``.
    """

    requests: Signal
    grant: Signal
    advance: Signal
    served: Signal

    def __init__(self, n: int, *, late: bool = False) -> None:
        self._n = require_int("RoundRobinArbiter n", n)
        self._late = late
        super().__init__(
            {
                "requests": In(self._n),
                "grant": Out(self._n),
                "advance": In(1),
                **({"served": In(self._n)} if late else {}),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        preferred = Signal(self._n)  # the requesters after the one granted last
        requests = self.requests
        m.d.comb += self.grant.eq(in_turn(requests, preferred))
        if self._late:
            with m.If(self.advance):
                m.d.sync += preferred.eq(any_below(self.served))
        else:
            few = self._n <= _FEW
            with m.If(self.advance & requests.any()):
                m.d.sync += preferred.eq(
                    any_below(self.grant) if few else behind(requests, preferred)
                )
        return m


def granted(
    m: Module, name: str, requests: Value, *, advance: Value, served: Value | None = None
) -> Value:
    """Grants of a `RoundRobinArbiter` called *name*, a late one if *served* says whose were used.
    A requester alone needs none."""
    if len(requests) == 1:
        return requests
    m.submodules[name] = turns = RoundRobinArbiter(len(requests), late=served is not None)
    m.d.comb += [turns.requests.eq(requests), turns.advance.eq(advance)]
    if served is not None:
        m.d.comb += turns.served.eq(served)
    return turns.grant


class AgeArbiter(wiring.Component):
    """Grants the one of *n* requesters that was renewed longest ago.

    ``grant`` is combinational: one-hot when there is a request, else zero. Before any is renewed,
    lower numbers are older. Those that are *preferred* go before all others.

    Parameters
    ----------
    n : int
        Number of requesters, at least 1.

    Members
    -------
    requests : ``In(n)``
        Who wants to be granted.
    preferred : ``In(n)``
        Who goes first.
    grant : ``Out(n)``
        Who is.
    renew : ``In(n)``
        One-hot or zero: this one is the youngest from the next cycle on.
    """

    requests: Signal
    preferred: Signal
    grant: Signal
    renew: Signal

    def __init__(self, n: int) -> None:
        self._n = require_int("AgeArbiter n", n)
        told = dict.fromkeys(("requests", "preferred", "renew"), In(self._n))
        super().__init__({**told, "grant": Out(self._n)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        older = {}  # of each pair, whether the first one is older
        for i in range(self._n):
            for j in range(i + 1, self._n):
                older[i, j] = Signal(name=f"older_{i}_{j}", init=1)
                with m.If(self.renew[i]):
                    m.d.sync += older[i, j].eq(0)
                with m.Elif(self.renew[j]):
                    m.d.sync += older[i, j].eq(1)
        m.submodules.first = first = _Unbeaten(self._n)
        m.d.comb += [first.requests.eq(self.requests), self.grant.eq(first.grant)]
        for i in range(self._n):
            for j in range(self._n):
                if j != i:
                    is_older = older[j, i] if j < i else ~older[i, j]
                    mine, other = self.preferred[i], self.preferred[j]
                    m.d.comb += first.before[i][j].eq(Mux(mine == other, is_older, other))
        return m


class _Unbeaten(wiring.Component):
    """Grants the one of *n* requesters that no other one goes before; ``before`` has, for each, a
    bit for each other one that would.

    A block of its own, mapped for nothing else, as requests come later than who goes before whom.
    """

    requests: Signal
    before: Any
    grant: Signal

    def __init__(self, n: int) -> None:
        super().__init__({"requests": In(n), "before": In(n).array(n), "grant": Out(n)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.grant.eq(
            Cat(
                request & ~(self.requests & before).any()
                for request, before in zip(self.requests, self.before)
            )
        )
        return m


class StreamArbiter(wiring.Component):
    """Merges *n* streams into one, fairly, beat by beat or packet by packet.

    ``o`` is a register. Latency is 1 cycle; throughput is 1 beat per cycle with no bubble between
    inputs. An input stalls while another one is chosen or while ``o`` is stalled; ``o.ready`` acts
    on ``i[k].ready`` in the same cycle.

    Parameters
    ----------
    shape : shape-like
        Shape of the payload.
    n : int
        Number of inputs, at least 1.
    last : str or None
        Name of the one-bit payload field that ends a packet. If given, an input that was chosen
        stays chosen until such a beat has passed.
    always_ready : bool
        Nothing stalls ``o``: no level of logic between a grant and ``i[k].ready``.

    Members
    -------
    i : ``In(stream.Signature(shape)).array(n)``
        Streams to merge.
    o : ``Out(stream.Signature(shape, always_ready=always_ready))``
        All their beats, those of one input in their order.
    """

    i: Any
    o: stream.Interface

    def __init__(
        self, shape: Any, n: int, *, last: str | None = None, always_ready: bool = False
    ) -> None:
        self._n = require_int("StreamArbiter n", n)
        require(
            last is None or (isinstance(shape, data.Layout) and last in dict(shape)),
            "StreamArbiter last",
            f"the name of a field of {shape!r}",
            last,
        )
        self._last = last
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(self._n),
                "o": Out(stream.Signature(shape, always_ready=always_ready)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        requests = Cat(port.valid for port in self.i)
        chosen = Signal(self._n)
        free = Signal()
        arrives = Signal()
        within, owner = Signal(), Signal(self._n)
        packets = self._last is not None
        grant = granted(m, "turns", requests, advance=free & ~within if packets else free)
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            chosen.eq(Mux(within, owner, grant) if packets else grant),
        ]
        beats = [Value.cast(port.payload) for port in self.i]
        beat = Signal.like(self.o.payload)
        m.d.comb += [
            Value.cast(beat).eq(marked(chosen, beats)),
            arrives.eq(
                (chosen & requests).any() if self._n <= _FEW
                else Mux(within, (owner & requests).any(), requests.any())
            ),
            Cat(port.ready for port in self.i).eq(Mux(free, chosen, 0)),
        ]
        with m.If(free):
            m.d.sync += self.o.valid.eq(arrives)
            with m.If(arrives):
                m.d.sync += self.o.payload.eq(beat)
                if self._last is not None:
                    m.d.sync += [within.eq(~beat[self._last]), owner.eq(chosen)]
        return m
