# SPDX-License-Identifier: Apache-2.0
"""Figures and tables of ACE version 1 (arXiv 2007.00156v1): ``foldwire reproduce ace-v1``."""

import sys

from experiments.figure import Lost, not_reproduced
from experiments.figures import v1_collectives, v1_cores, v1_cycles, v1_training
from experiments.reproduce import Paper

__all__ = ["PAPER", "main", "measured"]

measured = not_reproduced(
    "Table 3, Figs. 3 and 4",
    Lost(
        what="Table 3: all-reduces of ResNet-50 over cores",
        reason="32 dual-socket Skylake nodes with Omni-Path",
    ),
    Lost(what="Fig. 3: NCCL beside STREAM", reason="DGX-1"),
    Lost(what="Fig. 4: MLSL beside STREAM and convolutions", reason="Skylake servers"),
)

PAPER = Paper(
    "ace-v1",
    "Efficient Communication Acceleration for Next-Gen Scale-up Deep Learning Training Platforms",
    "2020",
    (
        measured, v1_cores.fig5, v1_collectives.fig9, v1_cycles.fig9_cycles,
        v1_collectives.fig10, v1_collectives.fig11, v1_collectives.fig12, v1_collectives.fig13,
        v1_training.fig14, v1_training.fig15, v1_training.fig16, v1_training.fig17,
    ),
)
main = PAPER.main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
