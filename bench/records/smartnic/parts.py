# SPDX-License-Identifier: Apache-2.0
"""Parts of the smart NIC in a small configuration."""

from amaranth.lib import data

from hw.common.all_reduce import AllReduceOutcomes
from hw.smartnic import (
    abort,
    config,
    control,
    engine,
    fetch,
    gather_path,
    nic,
    receive,
    reduce_path,
    registers,
    sequencer,
    store,
    transmit,
    wire_codec,
)

__all__ = ["PARTS", "WHOLE"]

_NIC = config.preset("test")

PARTS = {
    "AllReduceOutcomes": lambda: AllReduceOutcomes(
        registers.register_map(_NIC), failed=data.StructLayout({"read": 1, "write": 1}),
        errors=registers.CommandError, depth=2,
    ),
    "PortSync": lambda: abort.PortSync(),
    "AbortControl": lambda: abort.AbortControl(_NIC),
    "Planner": lambda: control.Planner(_NIC),
    "Control": lambda: control.Control(_NIC),
    "BlockSequencer": lambda: sequencer.BlockSequencer(_NIC, engine=0, gather=False),
    "BlockSequencer, gather": lambda: sequencer.BlockSequencer(_NIC, engine=0, gather=True),
    "Fetch": lambda: fetch.Fetch(_NIC),
    "Store": lambda: store.Store(_NIC),
    "FrameBuilder": lambda: transmit.FrameBuilder(_NIC),
    "Transmit": lambda: transmit.Transmit(_NIC),
    "NicReceiveBuffer": lambda: receive.ReceiveBuffer(8, 8),
    "Receive": lambda: receive.Receive(_NIC),
    "NicReducePath": lambda: reduce_path.ReducePath(_NIC),
    "GatherPath": lambda: gather_path.GatherPath(_NIC),
    "WireEncoder": lambda: wire_codec.WireEncoder(_NIC),
    "WireDecoder": lambda: wire_codec.WireDecoder(_NIC),
}

WHOLE = {
    "RingEngine": lambda: engine.RingEngine(_NIC),
    "SmartNic": lambda: nic.SmartNic(_NIC),
}
