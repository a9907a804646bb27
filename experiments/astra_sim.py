# SPDX-License-Identifier: Apache-2.0
"""Figures of ASTRA-SIM (ISPASS 2020): ``foldwire reproduce astra-sim``."""

import sys

from experiments.figures import astra_topologies, astra_training, astra_volume
from experiments.reproduce import Paper

__all__ = ["PAPER", "main"]

PAPER = Paper(
    "astra-sim",
    "ASTRA-SIM: Enabling SW/HW Co-Design Exploration for Distributed DL Training Platforms",
    "ISPASS 2020",
    (
        astra_volume.volume, astra_topologies.fig9, astra_topologies.fig10,
        astra_topologies.fig11, astra_topologies.fig12, astra_training.fig13,
        astra_training.fig14, astra_training.fig17, astra_training.fig18,
    ),
)
main = PAPER.main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
