# SPDX-License-Identifier: Apache-2.0
"""Figures of the FPGA-based AI smart NIC (2022): ``foldwire reproduce smartnic``."""

import sys

from experiments.figures import smartnic_area, smartnic_checks, smartnic_training
from experiments.reproduce import Paper

__all__ = ["PAPER", "main"]

PAPER = Paper(
    "smartnic",
    "FPGA-based AI Smart NICs for Scalable Distributed AI Training Systems",
    "2022",
    (
        smartnic_checks.checks, smartnic_training.fig2a, smartnic_training.fig2b,
        smartnic_training.fig4a, smartnic_training.fig4b, smartnic_training.model,
        smartnic_area.table1, smartnic_area.at_400g,
    ),
)
main = PAPER.main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
