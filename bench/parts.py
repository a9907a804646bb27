"""Every component of `hw` in a small configuration, for proofs and measurements."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pkgutil import walk_packages

from amaranth.lib import data, wiring

import hw
from hw.ace.alu_pool import ALUPool
from hw.ace.command_table import CommandTable
from hw.ace.completions import CompletionQueue
from hw.ace.config import preset as ace_preset
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
from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.decoder import BlockDecoder
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import BlockFormat
from hw.bfp.gearbox import Gearbox, Packer, Unpacker
from hw.bfp.generator import Generator
from hw.bfp.steps import Count, Expand, Place, Round, Split
from hw.common.all_reduce import AllReduceOutcomes
from hw.common.arbiter import RoundRobinArbiter, StreamArbiter
from hw.common.axi import BurstSplitter
from hw.common.axi_read import AXI4Reader
from hw.common.axi_write import AXI4Writer
from hw.common.fifo import StreamFIFO
from hw.common.idle import IdleDetector
from hw.common.records import RecordQueue
from hw.common.registers import RegisterFile
from hw.common.skid import SkidBuffer
from hw.common.sram import SRAMBank
from hw.common.watchdog import Watchdog
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU, ReduceLane
from hw.fp.convert import BFLOAT16, FPNarrow, FPWiden
from hw.fp.formats import BINARY16
from hw.fp.minmax import FPMinMax
from hw.link.packer import LinkPacker
from hw.link.packet import PacketFormat
from hw.link.receive import ReceiveBuffer as LinkReceiveBuffer
from hw.link.retry_beats import BeatRetry
from hw.link.retry_frame import RetryConfig, RetryFormat
from hw.link.retry_link import RetryLink
from hw.link.retry_receiver import RetryReceiver
from hw.link.retry_sender import RetrySender
from hw.link.retry_session import RetrySession
from hw.link.retry_store import FrameStore
from hw.link.transmit import TransmitPort
from hw.smartnic.abort import AbortControl, PortSync
from hw.smartnic.config import preset as nic_preset
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
from hw.switch.config import preset as switch_preset
from hw.switch.epochs import EpochTracker
from hw.switch.ingress import Ingress
from hw.switch.oldest_first import OldestFirst
from hw.switch.output_port import OutputPort
from hw.switch.packet import Traffic
from hw.switch.packet_queue import PacketQueue
from hw.switch.port_columns import PortColumns
from hw.switch.recode import CompressPackets, ExpandPackets
from hw.switch.recount import Recount
from hw.switch.reduction_port import ReductionPort
from hw.switch.reduction_unit import ReductionUnit
from hw.switch.retry import PacketRetry, RetrySwitch, RetrySwitchConfig
from hw.switch.send_buffer import SendBuffer
from hw.switch.sharing import Sharing
from hw.switch.stop_detector import StopDetector
from hw.switch.switch import Switch
from hw.switch.tally import Tally
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.control import Control as DmaControl
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.fixed_point import FixedToFloat, FloatToFixed
from hw.switch_dma.home import HomeStore
from hw.switch_dma.lane import Lane
from hw.switch_dma.loads import Loads
from hw.switch_dma.membership import Membership
from hw.switch_dma.operands import Operands
from hw.switch_dma.receive import Receive as DmaReceive
from hw.switch_dma.results import Results
from hw.switch_dma.retry import RetrySwitchDma, RetrySwitchDmaConfig
from hw.switch_dma.transmit import Transmit as DmaTransmit
from hw.switch_dma.waves import WaveControl

__all__ = ["LIBRARY", "PARTS", "WHOLE", "component_classes"]

_ACE = ace_preset("test")
_NIC = nic_preset("test")
_SWITCH = switch_preset("test")
_DMA = SwitchDmaConfig(
    payload_flits=2, alu_stages=1, buffer_packets=1, credits=1, waves=2, wave_blocks=2,
    read_ahead=1, endpoints=2, max_burst=2, outstanding_bursts=1, address_bits=24, descriptors=2,
)
_MODES = replace(_DMA, fixed_point=True, parts=True)
_FORMATS = replace(_DMA, half=True)
_REGIONS = replace(_DMA, regions=2)
_FOR_ALL = replace(_DMA, multicast_partials=True)
_BLOCKS = BlockFormat(elements=4, exponent_bits=5, mantissa_bits=3)
_PACKETS = PacketFormat(payload_bytes=32)
_FRAMES = RetryFormat(width=57, flits=2, content=18, sequence=2, classes=1, credit=1, session=3)
_RETRY = RetryConfig(slots=2, timeout_cycles=16, tries=2, keepalive_cycles=16)
_PACKET = data.StructLayout({"last": 1, "data": 4})
_BUS = {"addr_width": 16, "data_width": 32, "max_burst": 4}

Make = Callable[[], wiring.Component]

LIBRARY: dict[str, Make] = {
    "SkidBuffer": lambda: SkidBuffer(4),
    "SkidBuffer, wide": lambda: SkidBuffer(17),
    "StreamFIFO": lambda: StreamFIFO(5, 3),
    "StreamFIFO, 1 beat": lambda: StreamFIFO(5, 1),
    "StreamFIFO, 2 beats": lambda: StreamFIFO(5, 2),
    "StreamFIFO, block memory": lambda: StreamFIFO(5, 4, memory=True),
    "RoundRobinArbiter": lambda: RoundRobinArbiter(3),
    "RoundRobinArbiter, one": lambda: RoundRobinArbiter(1),
    "StreamArbiter": lambda: StreamArbiter(4, 3),
    "StreamArbiter, packets": lambda: StreamArbiter(_PACKET, 2, last="last"),
    "IdleDetector": lambda: IdleDetector(3),
    "IdleDetector, one cycle": lambda: IdleDetector(1),
    "Watchdog": lambda: Watchdog(5),
    "Watchdog, tries": lambda: Watchdog(5, tries_bits=2),
    "SRAMBank": lambda: SRAMBank(depth=4, width=6),
    "SRAMBank, one port": lambda: SRAMBank(depth=4, width=6, ports="1rw", granularity=3),
}
"""The blocks that everything else is made of; proved in less than a second each."""

PARTS: dict[str, Make] = {
    **LIBRARY,
    "BurstSplitter": lambda: BurstSplitter(**_BUS),
    "AXI4Reader": lambda: AXI4Reader(**_BUS, outstanding=2),
    "AXI4Writer": lambda: AXI4Writer(**_BUS, outstanding=2),
    "RegisterFile": lambda: RegisterFile(register_map(_ACE)),
    "FPAdder": lambda: FPAdder(fmt=BINARY16, stages=3),
    "FPAdder, combinational": lambda: FPAdder(fmt=BINARY16, stages=0),
    "FPMinMax": lambda: FPMinMax(fmt=BINARY16),
    "FPNarrow": lambda: FPNarrow(BINARY16),
    "FPNarrow, bfloat16": lambda: FPNarrow(BFLOAT16),
    "FPWiden": lambda: FPWiden(BINARY16),
    "FPWiden, bfloat16": lambda: FPWiden(BFLOAT16),
    "ReduceLane": lambda: ReduceLane(stages=2),
    "ReduceALU": lambda: ReduceALU(2, stages=1),
    "LinkPacker": lambda: LinkPacker(2, flit_bits=8),
    "LinkReceiveBuffer": lambda: LinkReceiveBuffer(_PACKETS, bus_bytes=16, packets=4),
    "TransmitPort": lambda: TransmitPort(_PACKETS, bus_bytes=16, packets=4, credits=4),
    "FrameStore": lambda: FrameStore(slots=2, flits=2, width=8, header=6,
                                     length=lambda header: header[:2]),
    "RetrySender": lambda: RetrySender(_FRAMES, _RETRY),
    "RetryReceiver": lambda: RetryReceiver(_FRAMES, _RETRY),
    "RetrySession": lambda: RetrySession(_FRAMES, _RETRY),
    "Split": lambda: Split(_BLOCKS),
    "Place": lambda: Place(_BLOCKS),
    "Round": lambda: Round(_BLOCKS),
    "Count": lambda: Count(_BLOCKS),
    "Expand": lambda: Expand(_BLOCKS),
    "Generator": lambda: Generator(2),
    "BlockEncoder": lambda: BlockEncoder(_BLOCKS, lanes=2),
    "BlockDecoder": lambda: BlockDecoder(_BLOCKS, lanes=2),
    "Gearbox": lambda: Gearbox(i_width=24, o_width=32, whole=False),
    "Packer": lambda: Packer(_BLOCKS, lanes=4, bus_bits=32),
    "Unpacker": lambda: Unpacker(_BLOCKS, lanes=4, bus_bits=32),
    "Compressor": lambda: Compressor(_BLOCKS, lanes=4, bus_bits=32),
    "Decompressor": lambda: Decompressor(_BLOCKS, lanes=4, bus_bits=32),
    "BankedSRAM": lambda: BankedSRAM(
        depth=8, width=8, banks=2, bank_ports="1r1w", readers=2, writers=2
    ),
    "SendUnit": lambda: SendUnit(_ACE),
    "BlockWalker": lambda: BlockWalker(_ACE),
    "ForwardGate": lambda: ForwardGate(_ACE),
    "PacketOutcome": lambda: PacketOutcome(_ACE),
    "RecordQueue": lambda: RecordQueue(_PACKET, 3),
    "AllReduceOutcomes": lambda: AllReduceOutcomes(
        nic_registers(_NIC), failed=data.StructLayout({"read": 1, "write": 1}), errors=NicError,
        depth=2,
    ),
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
    "PhaseFSM": lambda: PhaseFSM(_ACE),
    "Port": lambda: Port(_ACE),
    "PacketQueue": lambda: PacketQueue(packets=2, flits=2),
    "Sharing": lambda: Sharing(),
    "SendBuffer": lambda: SendBuffer(channels=2, outputs=2, packets=2, flits=2, passing=(1,)),
    "OutputPort": lambda: OutputPort(senders=2, classes=2, credits=2, flits=2),
    "SendBuffer, ages": lambda: SendBuffer(channels=1, outputs=2, packets=2, flits=2, ages=2),
    "SendBuffer, unicast": lambda: SendBuffer(
        channels=2, outputs=3, packets=2, flits=2, passing=(1,), unicast=True
    ),
    "PortColumns": lambda: PortColumns(ports=2, others=2),
    "PortColumns, two groups": lambda: PortColumns(ports=18, others=0),
    "OldestFirst": lambda: OldestFirst(3, most=2),
    "SendBuffer, three lengths": lambda: SendBuffer(
        channels=1, outputs=2, packets=2, flits=4, short=(3,)
    ),
    "OutputPort, three lengths": lambda: OutputPort(
        senders=2, classes=1, credits=2, flits=4, short=(3,)
    ),
    "CompressPackets": lambda: CompressPackets(payload_flits=2, half=True, bfp=False),
    "CompressPackets, blocks": lambda: CompressPackets(
        payload_flits=4, half=False, bfp=True, aside=2
    ),
    "CompressPackets, 8 lanes": lambda: CompressPackets(
        payload_flits=4, half=True, bfp=False, lanes=8
    ),
    "ExpandPackets": lambda: ExpandPackets(payload_flits=2, half=True, bfp=False),
    "ExpandPackets, blocks": lambda: ExpandPackets(payload_flits=4, half=False, bfp=True),
    "ExpandPackets, 8 lanes": lambda: ExpandPackets(
        payload_flits=4, half=True, bfp=False, lanes=8
    ),
    "EpochTracker": lambda: EpochTracker(_SWITCH),
    "Recount": lambda: Recount(guard=2, retry=8),
    "SendBuffer, discards": lambda: SendBuffer(
        channels=2, outputs=2, packets=2, flits=2, passing=(1,), rows=2, kills=True
    ),
    "StopDetector": lambda: StopDetector(classes=2, patience=8, pause=2),
    "Tally": lambda: Tally(parts=3, kinds=2),
    "Ingress": lambda: Ingress(_SWITCH, port=0),
    "Ingress, formats": lambda: Ingress(replace(_SWITCH, half=True, bfp=True), port=0),
    "ReductionUnit": lambda: ReductionUnit(entries=2, payload_flits=2, alu_stages=1),
    "ReductionUnit, formats": lambda: ReductionUnit(
        entries=2, payload_flits=2, alu_stages=1, formats=True
    ),
    "ReductionUnit, 8 lanes": lambda: ReductionUnit(
        entries=2, payload_flits=4, alu_stages=3, formats=True, lanes=8
    ),
    "ReductionUnit, partials for all": lambda: ReductionUnit(
        entries=2, payload_flits=2, alu_stages=1, multicast_partials=True
    ),
    "Ingress, partials for all": lambda: Ingress(
        replace(_SWITCH, multicast_partials=True), port=0
    ),
    "WaveControl": lambda: WaveControl(_DMA),
    "DmaTransmit": lambda: DmaTransmit(
        _DMA, classes=(Traffic.REQUEST, Traffic.RESULT), lasting=1
    ),
    "DmaReceive": lambda: DmaReceive(_DMA, link=0),
    "HomeStore": lambda: HomeStore(_DMA),
    "Operands": lambda: Operands(_DMA, link=0),
    "Results": lambda: Results(_DMA, link=0),
    "Loads": lambda: Loads(_DMA, link=0),
    "Membership": lambda: Membership(_DMA),
    "DmaControl": lambda: DmaControl(_DMA),
    "FloatToFixed": lambda: FloatToFixed(1),
    "FixedToFloat": lambda: FixedToFloat(1),
    "Operands, all modes": lambda: Operands(_MODES, link=0),
    "Results, all modes": lambda: Results(_MODES, link=0),
    "DmaControl, all modes": lambda: DmaControl(_MODES),
    "DmaReceive, formats": lambda: DmaReceive(_FORMATS, link=0),
    "HomeStore, formats": lambda: HomeStore(_FORMATS),
    "Operands, formats": lambda: Operands(_FORMATS, link=0),
    "Results, formats": lambda: Results(_FORMATS, link=0),
    "DmaControl, formats": lambda: DmaControl(_FORMATS),
    "DmaReceive, partials for all": lambda: DmaReceive(_FOR_ALL, link=0),
    "HomeStore, partials for all": lambda: HomeStore(_FOR_ALL),
    "Results, partials for all": lambda: Results(_FOR_ALL, link=0),
    "WaveControl, two regions": lambda: WaveControl(_REGIONS),
    "DmaReceive, two regions": lambda: DmaReceive(_REGIONS, link=0),
    "HomeStore, two regions": lambda: HomeStore(_REGIONS),
    "Results, two regions": lambda: Results(_REGIONS, link=0),
    "Loads, two regions": lambda: Loads(_REGIONS, link=0),
    "DmaControl, two regions": lambda: DmaControl(_REGIONS),
}
"""Parts of the engines."""

WHOLE: dict[str, Make] = {
    "RingEngine": lambda: RingEngine(_NIC),
    "SmartNic": lambda: SmartNic(_NIC),
    "AceEngine": lambda: AceEngine(_ACE),
    "ReductionPort": lambda: ReductionPort(_SWITCH, port=0),
    "Switch": lambda: Switch(_SWITCH),
    "Switch, oldest first": lambda: Switch(replace(_SWITCH, age_bits=3)),
    "Lane": lambda: Lane(_DMA, link=0),
    "Lane, partials for all": lambda: Lane(_FOR_ALL, link=0),
    "SwitchDma": lambda: SwitchDma(_DMA),
    "SwitchDma, two regions": lambda: SwitchDma(_REGIONS),
    "RetryLink": lambda: RetryLink(_FRAMES, _RETRY),
    "BeatRetry": lambda: BeatRetry(1, _RETRY),
    "PacketRetry": lambda: PacketRetry(payload_flits=2, credits=1, config=_RETRY),
    "RetryAce": lambda: RetryAce(RetryAceConfig(ace=_ACE, retry=_RETRY)),
    "RetrySwitch": lambda: RetrySwitch(RetrySwitchConfig(switch=_SWITCH, retry=_RETRY)),
    "RetrySwitchDma": lambda: RetrySwitchDma(RetrySwitchDmaConfig(dma=_DMA, retry=_RETRY)),
}
"""Components that are made of others."""


def component_classes() -> Iterator[type[wiring.Component]]:
    """Every component class of `hw`."""
    for found in walk_packages(hw.__path__, "hw."):
        module = import_module(found.name)
        for kind in vars(module).values():
            own = isinstance(kind, type) and kind.__module__ == found.name
            if own and issubclass(kind, wiring.Component):
                yield kind
