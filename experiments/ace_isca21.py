# SPDX-License-Identifier: Apache-2.0
"""Figures and tables of ACE (ISCA 2021): ``foldwire reproduce ace-isca21``."""

import sys

from experiments.figure import Lost, not_reproduced
from experiments.figures import (
    isca21_analysis,
    isca21_bandwidth,
    isca21_cycles,
    isca21_design,
    isca21_training,
    numbers,
)
from experiments.reproduce import Paper

__all__ = ["PAPER", "main", "measured"]

measured = not_reproduced(
    "Fig. 4 and section III",
    Lost(what="Fig. 4: NCCL beside GEMMs and embedding lookups", reason="8 V100, NVSwitch"),
    Lost(what="section III: DLRM replay, all-reduce of 16 MB", reason="GPU servers"),
    Lost(what="section III: Megatron-LM with and without overlap", reason="GPU servers"),
)

PAPER = Paper(
    "ace-isca21",
    "Enabling Compute-Communication Overlap in Distributed Deep Learning Training Platforms",
    "ISCA 2021",
    (
        measured, isca21_analysis.table2, numbers.numbers, isca21_analysis.traffic,
        isca21_bandwidth.traffic_simulated, isca21_analysis.ceiling, isca21_bandwidth.fig5,
        isca21_cycles.fig5_cycles, isca21_bandwidth.fig6, isca21_design.fig9a,
        isca21_cycles.fig9a_cycles, isca21_design.fig9b,
        isca21_cycles.fig9b_cycles, isca21_design.fig10,
        isca21_training.fig11, isca21_training.fig12,
    ),
)
main = PAPER.main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
