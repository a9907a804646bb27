# SPDX-License-Identifier: Apache-2.0
"""A NIC with its port of an Ethernet switch, behind the boundary of the co-simulation."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.port import LinkSignature
from hw.ace.retry import join_beats
from hw.common.engine_registers import CSR_SIGNATURE
from hw.common.fifo import StreamFIFO
from hw.link.packet import FLIT_BYTES, link_flits
from hw.link.retry_beats import BeatRetry
from hw.link.retry_frame import RetryConfig
from hw.link.with_retry import WithRetry
from hw.smartnic.config import HEADER_BYTES, SmartNicConfig
from hw.smartnic.layouts import FrameKind, HeaderLayout
from hw.smartnic.nic import SmartNic

__all__ = ["RetryPort", "RetryPortConfig", "SwitchPort", "nic_component"]


class SwitchPort(wiring.Component):
    """One NIC and the part of a non-blocking, output-queued switch that serves it in a ring.

    In a ring a NIC sends to two others only: data to the next, credits to the previous, and to both
    its notices of aborts. So the
    switch falls apart into pieces of which each belongs to one NIC: at the entrance the choice of
    the exit, and at the exit a queue in which frames of both neighbours wait their turn. Between
    them is a link of the co-simulation, whose latency is that of two cables and the switch. The
    queue holds all frames that credits allow in flight; ``rx_tready`` falls should it ever be full,
    which the co-simulation reports.

    Links carry no TLAST, so TUSER tells where frames begin (bit 0) and end (bit 1).

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    csr, irq, idle, mem
        Those of :class:`hw.smartnic.nic.SmartNic`.
    link : ``Out(LinkSignature).array(2 * engines)``
        For engine *e*, link 2 *e* leads to the next node, link 2 *e* + 1 to the previous one.
    """

    csr: Any
    irq: Signal
    idle: Signal
    mem: Any
    link: Any

    def __init__(self, config: SmartNicConfig) -> None:
        self._config = c = config
        super().__init__(
            {
                "csr": In(CSR_SIGNATURE),
                "irq": Out(1),
                "idle": Out(1),
                "mem": Out(c.memory_bus).array(c.engines),
                "link": Out(LinkSignature(flits=c.bus_bytes // FLIT_BYTES)).array(2 * c.engines),
            }
        )

    @staticmethod
    def nic(config: Any) -> Any:
        """The NIC itself; a subclass may have another with the same ports and more."""
        return SmartNic(config)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.nic = nic = self.nic(c)
        connect(m, flipped(self.csr), nic.csr)
        m.d.comb += self.irq.eq(nic.irq)
        quiet = [nic.idle]
        for e in range(c.engines):
            connect(m, nic.mem[e], flipped(self.mem[e]))
            links = self.link[2 * e], self.link[2 * e + 1]
            self._enter(m, nic.net[e], links, e)
            quiet += self._leave(m, nic.net[e], links, e)
        m.d.comb += self.idle.eq(Cat(*quiet).all())
        return m

    def _enter(self, m: Module, net: Any, links: Any, engine: int) -> None:
        start = Signal(name=f"start_{engine}", init=1)
        back_before = Signal(name=f"back_before_{engine}")
        back = Signal(name=f"back_{engine}")
        header = data.View(HeaderLayout, net.tx_tdata[: 8 * HEADER_BYTES])
        kind = header.kind.as_value()
        returned = Cat(kind == each.value for each in (FrameKind.CREDIT, FrameKind.RECALL)).any()
        m.d.comb += back.eq(Mux(start, returned, back_before))
        with m.If(net.tx_tvalid & net.tx_tready):
            m.d.sync += [start.eq(net.tx_tlast), back_before.eq(back)]
        m.d.comb += net.tx_tready.eq(Mux(back, links[1].tx.tready, links[0].tx.tready))
        for link, chosen in (links[0], ~back), (links[1], back):
            m.d.comb += [
                link.tx.tvalid.eq(net.tx_tvalid & chosen),
                link.tx.tdata.eq(net.tx_tdata),
                link.tx.tkeep.eq(-1),
                link.tx.tuser.eq(Cat(start, net.tx_tlast)),
            ]

    def _leave(self, m: Module, net: Any, links: Any, engine: int) -> list[Any]:
        c = self._config
        beat = data.StructLayout({"data": 8 * c.bus_bytes, "last": 1})
        # Each frame of one flow may be a single beat, with a header before it.
        depths = 2 * c.receive_beats, 4 * c.receive_beats + 2 * c.frame_beats
        queues = []
        for name, link, depth in zip(("next", "previous"), links, depths):
            queue = StreamFIFO(beat, depth, memory=True)
            m.submodules[f"from_{name}_{engine}"] = queue
            m.d.comb += [
                queue.i.valid.eq(link.rx.tvalid),
                queue.i.p.data.eq(link.rx.tdata),
                queue.i.p.last.eq(link.rx.tuser[1]),
                link.rx.tready.eq(queue.i.ready),
                link.rx.credit.eq(0),  # the NIC gives credits in packets of its own
            ]
            queues.append(queue.o)
        inside = Signal(name=f"inside_{engine}")  # a frame has begun
        source = Signal(name=f"source_{engine}")
        chosen = Signal(name=f"chosen_{engine}")
        m.d.comb += chosen.eq(Mux(inside, source, ~queues[0].valid))
        valid = Mux(chosen, queues[1].valid, queues[0].valid)
        last = Mux(chosen, queues[1].p.last, queues[0].p.last)
        m.d.comb += [
            net.rx_tvalid.eq(valid),
            net.rx_tdata.eq(Mux(chosen, queues[1].p.data, queues[0].p.data)),
            net.rx_tkeep.eq(-1),
            net.rx_tlast.eq(last),
            queues[0].ready.eq(~chosen),
            queues[1].ready.eq(chosen),
        ]
        with m.If(valid):
            m.d.sync += [inside.eq(~last), source.eq(chosen)]
        return [~queue.valid for queue in queues]


@dataclass(frozen=True, kw_only=True)
class RetryPortConfig:
    """A NIC and its links."""

    nic: SmartNicConfig
    retry: RetryConfig


class RetryPort(WithRetry):
    """`SwitchPort` behind links with retry.

    Parameters
    ----------
    config : RetryPortConfig

    Members
    -------
    csr, irq, mem
        Those of `SwitchPort`.
    link : ``Out(LinkSignature).array(2 * engines)``
        Wires.
    failed, up : ``Out(2 * engines)``
        Links that were given up; links that work.
    resent, damaged, repeated : ``Out(32)``
        Frames of all links that were sent again; that came damaged; that came again.
    idle : ``Out(1)``
        Nothing is held, and all sent frames are acknowledged.
    """

    def __init__(self, config: RetryPortConfig) -> None:
        self._retry = config.retry
        super().__init__("nic", SwitchPort(config.nic), config.nic, trace=True)

    def join(self, m: Module, engine: Any) -> list[BeatRetry]:
        flits = link_flits(self.config.bus_bytes)
        return join_beats(m, engine.link, self.link, flits=flits, config=self._retry)


def nic_component(config: SmartNicConfig | RetryPortConfig) -> SwitchPort | RetryPort:
    """A NIC with its port of the switch, and with links that retry if the configuration has them.

    It is here and not beside its callers: compiled models are kept while this file is unchanged.
    """
    return SwitchPort(config) if isinstance(config, SmartNicConfig) else RetryPort(config)
