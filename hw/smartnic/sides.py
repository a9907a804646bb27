# SPDX-License-Identifier: Apache-2.0
"""Common bases of the blocks on each side of a NIC: towards the host, towards the network."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import COUNT_BITS, EPOCH_BITS, item_layout

__all__ = ["HostSide", "NetworkSide"]


class HostSide(wiring.Component):
    """Base of `Fetch` and `Store`: items, each a block of a vector, and half a memory port.

    Parameters
    ----------
    config : SmartNicConfig
    bus : signature
        That half.
    **members
        Of this block alone.

    Members
    -------
    item : ``In(stream.Signature(item_layout(config)))``
        Blocks to transfer.
    bus : ``Out(bus)``
        Half of a memory port.
    flush : ``In(1)``
        Forget everything. Hold until `busy` is low.
    busy : ``Out(1)``
        A transfer is under way.
    """

    item: stream.Interface
    bus: Any
    flush: Signal
    busy: Signal

    def __init__(
        self, config: SmartNicConfig, *, bus: wiring.Signature, **members: Any
    ) -> None:
        self._config = config
        item = In(stream.Signature(item_layout(config)))
        common = {"bus": Out(bus), "flush": In(1), "busy": Out(1)}
        super().__init__({"item": item, **members, **common})

    def _block_layout(self, **more: Any) -> data.StructLayout:
        """A block whose beats are to be moved, with what must be known of its first one: whether it
        lies in memory, and whether it is the only one."""
        beats = range(self._config.block_beats + 1)
        return data.StructLayout({"beats": beats, "valid": beats, "some": 1, "single": 1, **more})

    def _enter(self, m: Module, block: Any) -> None:
        """Describe the present item as such a block."""
        item = self.item.p
        m.d.comb += [
            block.beats.eq(item.beats),
            block.valid.eq(item.valid),
            block.some.eq(item.some),
            block.single.eq(item.beats == 1),
        ]

    def _walk(self, m: Module, block: Any, moved: Signal) -> tuple[Signal, Value, Value]:
        """Count the beats of a *block* as they are *moved*. Returns how many have passed, whether
        the next one lies in memory, and whether it is the last; no comparison is in their way."""
        passed = Signal(range(self._config.block_beats))
        inside, present, final = Signal(), Signal(), Signal()
        here, ends = Mux(inside, present, block.some), Mux(inside, final, block.single)
        with m.If(moved):
            m.d.sync += [
                passed.eq(Mux(ends, 0, passed + 1)),
                inside.eq(~ends),
                present.eq(passed + 1 < block.valid),
                final.eq(passed + 2 == block.beats),
            ]
        with m.If(self.flush):
            m.d.sync += [passed.eq(0), inside.eq(0)]
        return passed, here, ends


class NetworkSide(wiring.Component):
    """Base of `Transmit` and `Receive`: two flows, an AXI4-Stream of frames, counts of beats.

    Parameters
    ----------
    config : SmartNicConfig
    flow : In or Out
        Direction of the flows and of the counts.
    wire : StructLayout
        Of a beat of a flow.
    **members
        Of this block alone, ``net`` among them.

    Members
    -------
    reduce, gather : ``flow(stream.Signature(wire))``
        The two flows.
    freed : ``flow(16).array(2)``
        Running count of beats taken from the receive buffer of each flow, here.
    peer_freed : ``flow(16).array(2)``
        The next node's, as last heard.
    here, following, preceding : ``In(48)``
        Ethernet addresses; present with ``config.ethernet`` only.
    epoch : ``In(32)``
        Epoch of frames, while flushing the one after it.
    flush : ``In(1)``
        Forget everything, counts included.
    idle : ``Out(1)``
        Nothing is held.
    """

    reduce: stream.Interface
    gather: stream.Interface
    net: stream.Interface
    freed: Any
    peer_freed: Any
    here: Signal
    following: Signal
    preceding: Signal
    contract: stream.Interface
    epoch: Signal
    flush: Signal
    idle: Signal

    def __init__(
        self, config: SmartNicConfig, *, flow: Any, wire: data.StructLayout, **members: Any
    ) -> None:
        self._config = config
        addresses = ("here", "following", "preceding") if config.ethernet else ()
        super().__init__(
            {
                **dict.fromkeys(("reduce", "gather"), flow(stream.Signature(wire))),
                **dict.fromkeys(("freed", "peer_freed"), flow(COUNT_BITS).array(2)),
                **dict.fromkeys(addresses, In(48)),
                "epoch": In(EPOCH_BITS),
                "flush": In(1),
                "idle": Out(1),
                **members,
            }
        )
