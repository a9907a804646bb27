"""Figures of the FPGA-based AI smart NIC (2022): ``foldwire reproduce smartnic``."""

import sys
from collections.abc import Sequence

from experiments.figures import smartnic_area, smartnic_checks, smartnic_training
from experiments.reproduce import reproduce

__all__ = ["FIGURES", "main"]

PAPER = "FPGA-based AI Smart NICs for Scalable Distributed AI Training Systems"
FIGURES = {
    "checks": smartnic_checks.checks,
    "fig2a": smartnic_training.fig2a,
    "fig2b": smartnic_training.fig2b,
    "fig4a": smartnic_training.fig4a,
    "fig4b": smartnic_training.fig4b,
    "model": smartnic_training.model,
    "table1": smartnic_area.table1,
}


def main(argv: Sequence[str]) -> int:
    """Run the figures named in *argv*, all of them if none is."""
    return reproduce("smartnic", f"{PAPER} (2022)", FIGURES, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
