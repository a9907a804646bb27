# SPDX-License-Identifier: Apache-2.0
"""Parts of switches that reduce, and of their endpoints, in a small configuration."""

from dataclasses import replace

from hw.link.retry_frame import RetryConfig
from hw.switch import (
    config as switch_config,
)
from hw.switch import (
    epochs,
    ingress,
    oldest_first,
    output_port,
    packet,
    packet_queue,
    port_columns,
    recode,
    recount,
    reduction_port,
    reduction_unit,
    requests,
    send_buffer,
    sharing,
    stop_detector,
    switch,
    tally,
)
from hw.switch import (
    retry as switch_retry,
)
from hw.switch_dma import (
    config,
    control,
    dma,
    fixed_point,
    fork,
    home,
    lane,
    loads,
    membership,
    operands,
    packet_merge,
    receive,
    results,
    transmit,
    waves,
)
from hw.switch_dma import (
    retry as dma_retry,
)

__all__ = ["PARTS", "WHOLE"]

_SWITCH = switch_config.preset("test")
_DMA = config.SwitchDmaConfig(
    payload_flits=2, alu_stages=1, buffer_packets=1, credits=1, waves=2, wave_blocks=2,
    read_ahead=1, endpoints=2, max_burst=2, outstanding_bursts=1, address_bits=24, descriptors=2,
)
_MODES = replace(_DMA, fixed_point=True, parts=True)
_FORMATS = replace(_DMA, half=True)
_REGIONS = replace(_DMA, regions=2)
_FOR_ALL = replace(_DMA, multicast_partials=True)
_RETRY = RetryConfig(slots=2, timeout_cycles=16, tries=2, keepalive_cycles=16)

PARTS = {
    "PacketQueue": lambda: packet_queue.PacketQueue(packets=2, flits=2),
    "Sharing": lambda: sharing.Sharing(),
    "SendBuffer": lambda: send_buffer.SendBuffer(
        channels=2, outputs=2, packets=2, flits=2, passing=(1,)
    ),
    "OutputPort": lambda: output_port.OutputPort(senders=2, classes=2, credits=2, flits=2),
    "SendBuffer, ages": lambda: send_buffer.SendBuffer(
        channels=1, outputs=2, packets=2, flits=2, ages=2
    ),
    "SendBuffer, unicast": lambda: send_buffer.SendBuffer(
        channels=2, outputs=3, packets=2, flits=2, passing=(1,), unicast=True
    ),
    "PortColumns": lambda: port_columns.PortColumns(ports=2, others=2),
    "PortColumns, two groups": lambda: port_columns.PortColumns(ports=18, others=0),
    "Reachable": lambda: send_buffer.Reachable(3),
    "Requests": lambda: requests.Requests(inputs=[[(0,)], [(1,), (0, 1)]], classes=2, parts=2),
    "OldestFirst": lambda: oldest_first.OldestFirst(3, most=2),
    "SendBuffer, three lengths": lambda: send_buffer.SendBuffer(
        channels=1, outputs=2, packets=2, flits=4, short=(3,)
    ),
    "OutputPort, three lengths": lambda: output_port.OutputPort(
        senders=2, classes=1, credits=2, flits=4, short=(3,)
    ),
    "CompressPackets": lambda: recode.CompressPackets(payload_flits=2, half=True, bfp=False),
    "CompressPackets, blocks": lambda: recode.CompressPackets(
        payload_flits=4, half=False, bfp=True, aside=2
    ),
    "CompressPackets, 8 lanes": lambda: recode.CompressPackets(
        payload_flits=4, half=True, bfp=False, lanes=8
    ),
    "ExpandPackets": lambda: recode.ExpandPackets(payload_flits=2, half=True, bfp=False),
    "ExpandPackets, blocks": lambda: recode.ExpandPackets(payload_flits=4, half=False, bfp=True),
    "ExpandPackets, 8 lanes": lambda: recode.ExpandPackets(
        payload_flits=4, half=True, bfp=False, lanes=8
    ),
    "EpochTracker": lambda: epochs.EpochTracker(_SWITCH),
    "Recount": lambda: recount.Recount(guard=2, retry=8),
    "SendBuffer, discards": lambda: send_buffer.SendBuffer(
        channels=2, outputs=2, packets=2, flits=2, passing=(1,), rows=2, kills=True
    ),
    "StopDetector": lambda: stop_detector.StopDetector(classes=2, patience=8, pause=2),
    "Tally": lambda: tally.Tally(parts=3, kinds=2),
    "Ingress": lambda: ingress.Ingress(_SWITCH, port=0),
    "Ingress, formats": lambda: ingress.Ingress(replace(_SWITCH, half=True, bfp=True), port=0),
    "ReductionUnit": lambda: reduction_unit.ReductionUnit(entries=2, payload_flits=2, alu_stages=1),
    "ReductionUnit, formats": lambda: reduction_unit.ReductionUnit(
        entries=2, payload_flits=2, alu_stages=1, formats=True
    ),
    "ReductionUnit, 8 lanes": lambda: reduction_unit.ReductionUnit(
        entries=2, payload_flits=4, alu_stages=3, formats=True, lanes=8
    ),
    "ReductionUnit, partials for all": lambda: reduction_unit.ReductionUnit(
        entries=2, payload_flits=2, alu_stages=1, multicast_partials=True
    ),
    "Ingress, partials for all": lambda: ingress.Ingress(
        replace(_SWITCH, multicast_partials=True), port=0
    ),
    "WaveControl": lambda: waves.WaveControl(_DMA),
    "ResultFork": lambda: fork.ResultFork(),
    "PacketMerge": lambda: packet_merge.PacketMerge(2),
    "DmaTransmit": lambda: transmit.Transmit(
        _DMA, classes=(packet.Traffic.REQUEST, packet.Traffic.RESULT), lasting=1, dropped=(0,)
    ),
    "DmaReceive": lambda: receive.Receive(_DMA, link=0),
    "HomeStore": lambda: home.HomeStore(_DMA),
    "Operands": lambda: operands.Operands(_DMA, link=0),
    "Results": lambda: results.Results(_DMA, link=0),
    "Loads": lambda: loads.Loads(_DMA, link=0),
    "Membership": lambda: membership.Membership(_DMA),
    "DmaControl": lambda: control.Control(_DMA),
    "FloatToFixed": lambda: fixed_point.FloatToFixed(1),
    "FixedToFloat": lambda: fixed_point.FixedToFloat(1),
    "Operands, all modes": lambda: operands.Operands(_MODES, link=0),
    "Results, all modes": lambda: results.Results(_MODES, link=0),
    "DmaControl, all modes": lambda: control.Control(_MODES),
    "DmaReceive, formats": lambda: receive.Receive(_FORMATS, link=0),
    "HomeStore, formats": lambda: home.HomeStore(_FORMATS),
    "Operands, formats": lambda: operands.Operands(_FORMATS, link=0),
    "Results, formats": lambda: results.Results(_FORMATS, link=0),
    "DmaControl, formats": lambda: control.Control(_FORMATS),
    "DmaReceive, partials for all": lambda: receive.Receive(_FOR_ALL, link=0),
    "HomeStore, partials for all": lambda: home.HomeStore(_FOR_ALL),
    "Results, partials for all": lambda: results.Results(_FOR_ALL, link=0),
    "WaveControl, two regions": lambda: waves.WaveControl(_REGIONS),
    "DmaReceive, two regions": lambda: receive.Receive(_REGIONS, link=0),
    "HomeStore, two regions": lambda: home.HomeStore(_REGIONS),
    "Results, two regions": lambda: results.Results(_REGIONS, link=0),
    "Loads, two regions": lambda: loads.Loads(_REGIONS, link=0),
    "DmaControl, two regions": lambda: control.Control(_REGIONS),
}

WHOLE = {
    "ReductionPort": lambda: reduction_port.ReductionPort(_SWITCH, port=0),
    "Switch": lambda: switch.Switch(_SWITCH),
    "Switch, oldest first": lambda: switch.Switch(replace(_SWITCH, age_bits=3)),
    "Lane": lambda: lane.Lane(_DMA, link=0),
    "Lane, partials for all": lambda: lane.Lane(_FOR_ALL, link=0),
    "SwitchDma": lambda: dma.SwitchDma(_DMA),
    "SwitchDma, two regions": lambda: dma.SwitchDma(_REGIONS),
    "PacketRetry": lambda: switch_retry.PacketRetry(payload_flits=2, credits=1, config=_RETRY),
    "RetrySwitch": lambda: switch_retry.RetrySwitch(
        switch_retry.RetrySwitchConfig(switch=_SWITCH, retry=_RETRY)
    ),
    "RetrySwitchDma": lambda: dma_retry.RetrySwitchDma(
        dma_retry.RetrySwitchDmaConfig(dma=_DMA, retry=_RETRY)
    ),
}
