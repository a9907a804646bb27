# SPDX-License-Identifier: Apache-2.0
"""Figures of in-switch reductions (Klenk et al., ISCA 2020): ``foldwire reproduce klenk``."""

import sys

from experiments.figures import (
    klenk_bandwidth,
    klenk_ethernet,
    klenk_packets,
    klenk_training,
)
from experiments.reproduce import Paper

__all__ = ["PAPER", "main"]

PAPER = Paper(
    "klenk",
    "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor Collectives",
    "ISCA 2020",
    (
        klenk_bandwidth.checks, klenk_training.fig1, klenk_bandwidth.fig7, klenk_packets.fig8,
        klenk_packets.fig9, klenk_bandwidth.fig10, klenk_packets.fig10_packets,
        klenk_training.fig11, klenk_ethernet.fig11_ethernet, klenk_training.megatron,
    ),
)
main = PAPER.main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
