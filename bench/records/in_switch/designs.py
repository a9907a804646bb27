# SPDX-License-Identifier: Apache-2.0
"""Designs of switches that reduce and their endpoints on which a change is looked for."""

from dataclasses import replace

from bench.mutation.plain import Components, Plain
from hw.link.retry_frame import RetryConfig
from hw.switch.config import preset as switch_preset
from hw.switch.reduction_unit import ReductionUnit
from hw.switch.retry import PacketRetry, RetrySwitch, RetrySwitchConfig
from hw.switch.switch import Switch
from hw.switch_dma.config import preset as switch_dma_preset
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.fixed_point import FixedToFloat, FloatToFixed
from hw.switch_dma.retry import RetrySwitchDma, RetrySwitchDmaConfig

__all__ = ["DESIGNS"]

# Little memory and few ports: both cost proofs time.
_SWITCH = replace(
    switch_preset("test"), entries=1, payload_flits=2, alu_stages=0, buffer_packets=1, credits=1,
    homes=1, endpoints=4, timeout_bits=4,
)
_RETRY = RetryConfig(slots=2, timeout_cycles=16, tries=2)


def _retry() -> Components:
    yield Plain(PacketRetry(payload_flits=2, credits=1, config=_RETRY))


def _retry_packets() -> Components:
    yield from _retry()
    yield RetrySwitch(RetrySwitchConfig(switch=_SWITCH, retry=_RETRY))
    yield RetrySwitchDma(RetrySwitchDmaConfig(dma=switch_dma_preset("test"), retry=_RETRY))


def _reduction_unit() -> Components:
    yield ReductionUnit(entries=2, payload_flits=2, alu_stages=1, queue_packets=2, timeout_bits=4)
    yield ReductionUnit(entries=3, payload_flits=4, alu_stages=0, queue_packets=1, timeout_bits=4)


def _switch() -> Components:
    yield Switch(_SWITCH)
    yield Switch(replace(_SWITCH, half=True, bfp=True, payload_flits=8))


def _switch_dma() -> Components:
    yield SwitchDma(switch_dma_preset("test"))


def _switch_dma_options() -> Components:
    yield from _switch_dma()
    yield SwitchDma(
        replace(switch_dma_preset("test"), fixed_point=True, parts=True, half=True, bfp=True)
    )
    yield SwitchDma(replace(switch_dma_preset("test"), regions=2))


def _fixed_point() -> Components:
    yield Plain(FloatToFixed(1))
    yield Plain(FixedToFloat(1))
    yield SwitchDma(replace(switch_dma_preset("test"), fixed_point=True))


DESIGNS = {
    "retry": _retry,
    "all-reduce": _switch_dma,
    "reduction unit": _reduction_unit,
    "switch": _switch,
    "switch dma": _switch_dma_options,
    "fixed point": _fixed_point,
    "retry of packets": _retry_packets,
}
