"""Figures of ASTRA-SIM (ISPASS 2020): ``foldwire reproduce astra-sim``."""

import sys
from collections.abc import Sequence

from experiments.figures import astra_topologies, astra_training, astra_volume
from experiments.reproduce import reproduce

__all__ = ["FIGURES", "main"]

PAPER = "ASTRA-SIM: Enabling SW/HW Co-Design Exploration for Distributed DL Training Platforms"
FIGURES = {
    "volume": astra_volume.volume,
    "fig9": astra_topologies.fig9,
    "fig10": astra_topologies.fig10,
    "fig11": astra_topologies.fig11,
    "fig12": astra_topologies.fig12,
    "fig13": astra_training.fig13,
    "fig14": astra_training.fig14,
    "fig17": astra_training.fig17,
    "fig18": astra_training.fig18,
}


def main(argv: Sequence[str]) -> int:
    """Run the figures named in *argv*, all of them if none is."""
    return reproduce("astra-sim", f"{PAPER} (ISPASS 2020)", FIGURES, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
