# SPDX-License-Identifier: Apache-2.0
"""Published synthesis tables of three papers: ``foldwire reproduce tables``."""

import sys

from experiments.figures import smartnic_area, synthesis_tables
from experiments.reproduce import Paper

__all__ = ["PAPER", "main"]

PAPER = Paper(
    "tables",
    "Synthesis tables of ACE, the smart NIC and in-network reductions",
    "2020 to 2022",
    (
        synthesis_tables.ace_published, synthesis_tables.ace_improved, smartnic_area.table1,
        smartnic_area.at_400g, synthesis_tables.in_switch,
    ),
)
main = PAPER.main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
