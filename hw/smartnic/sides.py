"""Common bases of the blocks on each side of a NIC: towards the host, towards the network."""

from typing import Any

from amaranth.hdl import Signal
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
