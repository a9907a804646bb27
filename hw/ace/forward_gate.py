# SPDX-License-Identifier: Apache-2.0
"""Gives the forward queue of a link to one receive unit at a time."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.receive_unit import ForwardSignature
from hw.common.arbiter import RoundRobinArbiter
from hw.common.count import stepped
from hw.common.select import marked
from hw.link.transmit import PacketQueueSignature

__all__ = ["ForwardGate"]


class ForwardGate(wiring.Component):
    """Arbiter in front of the forward queue of one transmit port.

    A receive unit that has packets in flight to this queue may claim room for more; another one
    only when there are none, so packets do not mix. A claim is granted only with room for a whole
    packet.

    Timing: a grant answers in the same cycle, one claim per cycle; beats and headers are written a
    cycle after they come.

    Members
    -------
    client : ``In(ForwardSignature).array(ports)``
        The receive unit of each port.
    queue : ``Out(PacketQueueSignature)``
        The forward queue.
    """

    client: list

    def __init__(self, config: AceConfig) -> None:
        self._config = config
        super().__init__(
            {
                "client": In(ForwardSignature(config)).array(config.ports),
                "queue": Out(PacketQueueSignature(config.format, bus_bytes=config.bus_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.turns = turns = RoundRobinArbiter(c.ports, late=True)
        # A claim comes late, so it is a register before anything is made of it.
        claimed = Signal(c.ports)
        before = Signal(range(c.tx_packets + 1))  # in flight, without the one just claimed
        owner = Signal(c.ports)  # of those
        none = Signal()
        may_claim = Signal(c.ports)
        m.d.sync += claimed.eq(Cat(client.claim for client in self.client))
        m.d.comb += [
            none.eq((before == 0) & ~claimed.any()),
            may_claim.eq(claimed | Mux(claimed.any(), 0, owner) | none.replicate(c.ports)),
            turns.requests.eq(
                Mux(
                    self.queue.spare | (self.queue.room & ~claimed.any()),
                    Cat(client.want for client in self.client) & may_claim,
                    0,
                )
            ),
            # Whoever has just claimed is the only one that may claim now.
            turns.served.eq(claimed), turns.advance.eq(claimed.any()),
            self.queue.reserve.eq(claimed.any()),
        ]
        # All packets in flight are the owner's, who is known before they come.
        packets = [client.packets for client in self.client]
        m.d.comb += Cat(client.grant for client in self.client).eq(turns.grant)
        # SRAM decides late on a beat that is stored, too.
        m.d.sync += [
            self.queue.data.valid.eq(Cat(each.data.valid for each in packets).any()),
            self.queue.data.payload.eq(marked(owner, (each.data.payload for each in packets))),
            self.queue.header.valid.eq(Cat(each.header.valid for each in packets).any()),
            Value.cast(self.queue.header.p).eq(
                marked(owner, (Value.cast(each.header.p) for each in packets))
            ),
        ]
        m.d.sync += before.eq(
            stepped(before, up=claimed.any(), down=self.queue.header.valid)
        )
        with m.If(claimed.any()):
            m.d.sync += owner.eq(claimed)
        return m
