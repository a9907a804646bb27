"""Parts of ACE in a small configuration."""

from hw.ace.alu_pool import ALUPool
from hw.ace.command_table import CommandTable
from hw.ace.completions import CompletionQueue
from hw.ace.config import preset
from hw.ace.contexts import ContextTable
from hw.ace.control import EngineControl
from hw.ace.dispatcher import Dispatcher
from hw.ace.dma import BlockWalker, RxDMA, TxDMA
from hw.ace.engine import AceEngine
from hw.ace.forward_gate import ForwardGate
from hw.ace.lookup import LookupPipeline
from hw.ace.packet_lookup import PacketLookup
from hw.ace.packet_outcome import PacketOutcome
from hw.ace.phase_fsm import PhaseFSM
from hw.ace.port import Port
from hw.ace.ready_table import ReadyTable
from hw.ace.receive_unit import ReceiveUnit
from hw.ace.reduce_path import ReducePath as AceReducePath
from hw.ace.registers import register_map
from hw.ace.retry import RetryAce, RetryAceConfig
from hw.ace.send_generator import SendGenerator
from hw.ace.send_unit import SendUnit
from hw.ace.sram import BankedSRAM
from hw.common.registers import RegisterFile
from hw.link.retry_frame import RetryConfig

__all__ = ["PARTS", "WHOLE"]

_ACE = preset("test")
_RETRY = RetryConfig(slots=2, timeout_cycles=16, tries=2, keepalive_cycles=16)

PARTS = {
    "RegisterFile": lambda: RegisterFile(register_map(_ACE)),
    "BankedSRAM": lambda: BankedSRAM(
        depth=8, width=8, banks=2, bank_ports="1r1w", readers=2, writers=2
    ),
    "SendUnit": lambda: SendUnit(_ACE),
    "BlockWalker": lambda: BlockWalker(_ACE),
    "ForwardGate": lambda: ForwardGate(_ACE),
    "PacketOutcome": lambda: PacketOutcome(_ACE),
    "CompletionQueue": lambda: CompletionQueue(_ACE),
    "EngineControl": lambda: EngineControl(_ACE),
    "CommandTable": lambda: CommandTable(_ACE),
    "PacketLookup": lambda: PacketLookup(_ACE),
    "LookupPipeline": lambda: LookupPipeline(_ACE),
    "ReadyTable": lambda: ReadyTable(_ACE),
    "ContextTable": lambda: ContextTable(_ACE),
    "SendGenerator": lambda: SendGenerator(_ACE),
    "AceReducePath": lambda: AceReducePath(_ACE),
    "ALUPool": lambda: ALUPool(_ACE),
    "TxDMA": lambda: TxDMA(_ACE),
    "RxDMA": lambda: RxDMA(_ACE),
    "ReceiveUnit": lambda: ReceiveUnit(_ACE),
    "Dispatcher": lambda: Dispatcher(_ACE),
    "PhaseFSM": lambda: PhaseFSM(_ACE),
    "Port": lambda: Port(_ACE),
}

WHOLE = {
    "AceEngine": lambda: AceEngine(_ACE),
    "RetryAce": lambda: RetryAce(RetryAceConfig(ace=_ACE, retry=_RETRY)),
}
