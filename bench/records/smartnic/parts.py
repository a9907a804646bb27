"""Parts of the smart NIC in a small configuration."""

from amaranth.lib import data

from hw.common.all_reduce import AllReduceOutcomes
from hw.smartnic.abort import AbortControl, PortSync
from hw.smartnic.config import preset
from hw.smartnic.control import Control, Planner
from hw.smartnic.engine import RingEngine
from hw.smartnic.fetch import Fetch
from hw.smartnic.gather_path import GatherPath
from hw.smartnic.nic import SmartNic
from hw.smartnic.receive import Receive
from hw.smartnic.receive import ReceiveBuffer as NicReceiveBuffer
from hw.smartnic.reduce_path import ReducePath as NicReducePath
from hw.smartnic.registers import CommandError as NicError
from hw.smartnic.registers import register_map as nic_registers
from hw.smartnic.sequencer import BlockSequencer
from hw.smartnic.store import Store
from hw.smartnic.transmit import FrameBuilder, Transmit
from hw.smartnic.wire_codec import WireDecoder, WireEncoder

__all__ = ["PARTS", "WHOLE"]

_NIC = preset("test")

PARTS = {
    "AllReduceOutcomes": lambda: AllReduceOutcomes(
        nic_registers(_NIC), failed=data.StructLayout({"read": 1, "write": 1}), errors=NicError,
        depth=2,
    ),
    "PortSync": lambda: PortSync(),
    "AbortControl": lambda: AbortControl(_NIC),
    "Planner": lambda: Planner(_NIC),
    "Control": lambda: Control(_NIC),
    "BlockSequencer": lambda: BlockSequencer(_NIC, engine=0, gather=False),
    "BlockSequencer, gather": lambda: BlockSequencer(_NIC, engine=0, gather=True),
    "Fetch": lambda: Fetch(_NIC),
    "Store": lambda: Store(_NIC),
    "FrameBuilder": lambda: FrameBuilder(_NIC),
    "Transmit": lambda: Transmit(_NIC),
    "NicReceiveBuffer": lambda: NicReceiveBuffer(8, 8),
    "Receive": lambda: Receive(_NIC),
    "NicReducePath": lambda: NicReducePath(_NIC),
    "GatherPath": lambda: GatherPath(_NIC),
    "WireEncoder": lambda: WireEncoder(_NIC),
    "WireDecoder": lambda: WireDecoder(_NIC),
}

WHOLE = {
    "RingEngine": lambda: RingEngine(_NIC),
    "SmartNic": lambda: SmartNic(_NIC),
}
