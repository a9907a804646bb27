"""Parts of switches that reduce, and of their endpoints, in a small configuration."""

from dataclasses import replace

from hw.link.retry_frame import RetryConfig
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

__all__ = ["PARTS", "WHOLE"]

_SWITCH = switch_preset("test")
_DMA = SwitchDmaConfig(
    payload_flits=2, alu_stages=1, buffer_packets=1, credits=1, waves=2, wave_blocks=2,
    read_ahead=1, endpoints=2, max_burst=2, outstanding_bursts=1, address_bits=24, descriptors=2,
)
_MODES = replace(_DMA, fixed_point=True, parts=True)
_FORMATS = replace(_DMA, half=True)
_REGIONS = replace(_DMA, regions=2)
_FOR_ALL = replace(_DMA, multicast_partials=True)
_RETRY = RetryConfig(slots=2, timeout_cycles=16, tries=2, keepalive_cycles=16)

PARTS = {
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

WHOLE = {
    "ReductionPort": lambda: ReductionPort(_SWITCH, port=0),
    "Switch": lambda: Switch(_SWITCH),
    "Switch, oldest first": lambda: Switch(replace(_SWITCH, age_bits=3)),
    "Lane": lambda: Lane(_DMA, link=0),
    "Lane, partials for all": lambda: Lane(_FOR_ALL, link=0),
    "SwitchDma": lambda: SwitchDma(_DMA),
    "SwitchDma, two regions": lambda: SwitchDma(_REGIONS),
    "PacketRetry": lambda: PacketRetry(payload_flits=2, credits=1, config=_RETRY),
    "RetrySwitch": lambda: RetrySwitch(RetrySwitchConfig(switch=_SWITCH, retry=_RETRY)),
    "RetrySwitchDma": lambda: RetrySwitchDma(RetrySwitchDmaConfig(dma=_DMA, retry=_RETRY)),
}
