# SPDX-License-Identifier: Apache-2.0
"""A ring of ACE engines joined by delay lines: the design under test of this bench."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.config import AceConfig
from hw.ace.engine import AceEngine
from hw.common.engine_registers import CSR_SIGNATURE

__all__ = ["DelayLine", "EngineGroup"]


class DelayLine(wiring.Component):
    """One direction of a link, and the way back for its credits.

    Beats come out *latency* cycles after they went in. The line cannot be stalled; only its
    entrance can be closed.

    Parameters
    ----------
    flits : int
        Flits per beat.
    latency : int
        Cycles, at least 1.

    Members
    -------
    tvalid, tdata, tkeep, tuser : ``In``, tready : ``Out(1)``
        Entrance.
    o_tvalid, o_tdata, o_tkeep, o_tuser : ``Out``
        Exit.
    credit : ``In(1)``, o_credit : ``Out(1)``
        A credit, from the exit back to the entrance.
    stall : ``In(1)``
        The entrance takes nothing in this cycle.
    damage : ``In(1)``
        Orders the next header to be damaged. Orders do not add up.
    flips : ``In(128)``
        Bits of that header to invert.
    damaging : ``Out(1)``
        Damage is ordered and no header has come along yet.
    """

    tvalid: Signal
    tdata: Any  # an array of flits
    tkeep: Signal
    tuser: Signal
    tready: Signal
    credit: Signal
    o_credit: Signal
    stall: Signal
    damage: Signal
    flips: Signal
    damaging: Signal

    def __init__(self, *, flits: int, latency: int) -> None:
        if latency < 1:
            raise ValueError(f"latency must be at least 1 cycle, not {latency!r}")
        self._latency = latency
        self._beat = data.StructLayout(
            {"tvalid": 1, "tdata": data.ArrayLayout(128, flits), "tkeep": flits, "tuser": flits}
        )
        entrance = {name: In(field.shape) for name, field in self._beat}
        exit = {f"o_{name}": Out(field.shape) for name, field in self._beat}
        super().__init__(
            {
                **entrance,
                **exit,
                "tready": Out(1),
                "credit": In(1),
                "o_credit": Out(1),
                "stall": In(1),
                "damage": In(1),
                "flips": In(128),
                "damaging": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        entering: Any = Signal(self._beat)
        headers = Mux(entering.tvalid, self.tuser, 0)
        first = headers & -headers
        m.d.comb += [
            self.tready.eq(~self.stall),
            entering.tvalid.eq(self.tvalid & self.tready),
            entering.tkeep.eq(self.tkeep),
            entering.tuser.eq(self.tuser),
        ]
        for n, flit in enumerate(self.tdata):
            hit = self.damaging & first[n]
            m.d.comb += entering.tdata[n].eq(flit ^ Mux(hit, self.flips, 0))
        with m.If(self.damage):
            m.d.sync += self.damaging.eq(1)
        with m.Elif(headers.any()):
            m.d.sync += self.damaging.eq(0)

        beat, credit = entering, self.credit
        for n in range(self._latency):
            later_beat = Signal(self._beat, name=f"beat_{n + 1}")
            later_credit = Signal(name=f"credit_{n + 1}")
            m.d.sync += [later_beat.eq(beat), later_credit.eq(credit)]
            beat, credit = later_beat, later_credit
        m.d.comb += self.o_credit.eq(credit)
        for name, _ in self._beat:
            m.d.comb += getattr(self, f"o_{name}").eq(getattr(beat, name))
        return m


class EngineGroup(wiring.Component):
    """Engines in a ring: port 0 of each leads to port 1 of the next.

    Line ``2 * n`` leads from node ``n`` to the next one, line ``2 * n + 1`` from node ``n`` to the
    one before it.

    Parameters
    ----------
    config : AceConfig
        Configuration of every engine, with 2 ports at least; others stay unconnected.
    nodes : int
        At least 2.
    latency : int
        Cycles of every line.

    Members
    -------
    csr : ``In(AXI4LiteSignature(...)).array(nodes)``
    mem : ``Out(AXI4Signature(...)).array(nodes, memory_ports)``
    irq, idle : ``Out(nodes)``
        One bit per node.
    stall, damage : ``In(2 * nodes)``, damaging : ``Out(2 * nodes)``, flips : ``In(128)``
        One bit per line, and the bits to invert on any; see :class:`DelayLine`.
    """

    csr: list
    mem: list
    irq: Signal
    idle: Signal
    stall: Signal
    damage: Signal
    flips: Signal
    damaging: Signal

    def __init__(self, config: AceConfig, *, nodes: int, latency: int) -> None:
        if config.ports < 2:
            raise ValueError(f"config ports must be at least 2 for a ring, not {config.ports!r}")
        if nodes < 2:
            raise ValueError(f"nodes must be at least 2, not {nodes!r}")
        self._config = config
        self._nodes = nodes
        self._latency = latency
        super().__init__(
            {
                "csr": In(CSR_SIGNATURE).array(nodes),
                "mem": Out(config.memory_bus).array(nodes, config.memory_ports),
                "irq": Out(nodes),
                "idle": Out(nodes),
                "stall": In(2 * nodes),
                "damage": In(2 * nodes),
                "flips": In(128),
                "damaging": Out(2 * nodes),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        engines = []
        for n in range(self._nodes):
            m.submodules[f"engine_{n}"] = engine = AceEngine(self._config)
            engines.append(engine)
            connect(m, flipped(self.csr[n]), engine.csr)
            for inner, outer in zip(engine.mem, self.mem[n], strict=True):
                connect(m, inner, flipped(outer))
            m.d.comb += [self.irq[n].eq(engine.irq), self.idle[n].eq(engine.idle)]
        for n, engine in enumerate(engines):
            following = engines[(n + 1) % self._nodes]
            self._join(m, 2 * n, engine.link[0].tx, following.link[1].rx)
            self._join(m, (2 * n + 3) % (2 * self._nodes), following.link[1].tx, engine.link[0].rx)
        return m

    def _join(self, m: Module, line: int, sender: Any, receiver: Any) -> None:
        m.submodules[f"line_{line}"] = delay = DelayLine(
            flits=self._config.flits, latency=self._latency
        )
        for name in ("tvalid", "tdata", "tkeep", "tuser"):
            m.d.comb += [
                getattr(delay, name).eq(getattr(sender, name)),
                getattr(receiver, name).eq(getattr(delay, f"o_{name}")),
            ]
        m.d.comb += [
            sender.tready.eq(delay.tready),
            delay.credit.eq(receiver.credit),
            sender.credit.eq(delay.o_credit),
            delay.stall.eq(self.stall[line]),
            delay.damage.eq(self.damage[line]),
            delay.flips.eq(self.flips),
            self.damaging[line].eq(delay.damaging),
        ]
