# SPDX-License-Identifier: Apache-2.0
"""All-reduces through switches over bad wires."""

from collections.abc import Sequence
from dataclasses import replace

from bench._bad_wires import Reduced
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import preset as dma_preset
from tb.switch_dma.fabric import AllReduce, flat, join, two_levels

__all__ = ["over_bad_wires"]


def over_bad_wires(seed: int, probabilities: Sequence[float]) -> Reduced:
    """Endpoints at one switch and at two levels of them."""
    switch = replace(switch_preset("test"), trace=True)
    dma = replace(dma_preset("test"), trace=True)
    retry = RetryConfig(slots=8, timeout_cycles=100, tries=40)
    systems = ((flat, 4, 1500, "4 endpoints, a switch"),
               (two_levels, 8, 300, "8 endpoints, two levels"))
    for make, members, elements, name in systems:
        for probability in probabilities:
            for number in range(2):
                system = join(make(switch, dma, members, seed=seed + number, stalls=0.1,
                                   retry=retry, faults=probability))
                job = AllReduce(system, ReduceOp.SUM_F32, elements, seed=seed + number)
                job.start()
                system.settle(quiet=700)
                try:
                    job.check()
                except AssertionError:
                    right = False
                else:
                    right = not any(system.links("failed"))
                yield name, probability, sum(system.met().values()), right
