"""Switches and endpoints over wires that lose, repeat and damage frames: exact all the same."""

from dataclasses import replace

import pytest

from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.switch.config import preset as switch_preset
from hw.switch.packet import Format
from hw.switch_dma.config import preset
from tb.link.lossy import Faults
from tb.switch_dma.fabric import AllReduce, flat, join, two_levels

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True)
RETRY = RetryConfig(slots=8, timeout_cycles=100, tries=30)


@pytest.mark.parametrize("mode, make, members, elements, probability", [
    ("push", flat, 4, 701, 0.0), ("push", flat, 4, 701, 0.05), ("push", flat, 3, 65, 0.15),
    ("push", two_levels, 8, 200, 0.05), ("pull", flat, 4, 701, 0.05),
    ("pull", two_levels, 8, 200, 0.05),
])
def test_all_reduces_are_exact(mode, make, members, elements, probability):
    exact(SWITCH, DMA, Format.WORDS, mode, make, members, elements, probability)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("format", [Format.FP16, Format.BFP])
def test_shorter_packets_have_shorter_frames(format, mode):
    short = {"half": True, "bfp": True}
    exact(replace(SWITCH, **short), replace(DMA, **short), format, mode, flat, 4, 701, 0.05)


def exact(switch, dma, format, mode, make, members, elements, probability):
    faults = Faults.all(probability)
    system = join(make(switch, dma, members, stalls=0.1, retry=RETRY, faults=faults, mode=mode))

    first = AllReduce(system, ReduceOp.SUM_F32, elements, seed=members, format=format)
    first.start()
    system.settle(quiet=700)
    first.check()

    assert not any(system.links("failed"))
    assert all(count > 3 for count in faults.met.values()) or not probability
    for status in system.ask("status"):
        assert status["outstanding"] == 0 and status["idle"] == 1
    for switch in system.switches:
        assert switch.read("status")["idle"]
        assert not any(name.startswith("dropped") for name in switch.counters())
