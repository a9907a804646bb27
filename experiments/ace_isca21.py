"""Figures and tables of ACE (ISCA 2021): ``foldwire reproduce ace-isca21``."""

import sys
from collections.abc import Sequence

from experiments.figure import Context, Figure, Lost
from experiments.figures import (
    isca21_analysis,
    isca21_bandwidth,
    isca21_design,
    isca21_training,
    numbers,
)
from experiments.reproduce import reproduce

__all__ = ["FIGURES", "main", "measured"]

PAPER = "Enabling Compute-Communication Overlap in Distributed Deep Learning Training Platforms"


def measured(context: Context) -> Figure:
    """What was measured on hardware that is not here."""
    return Figure(
        title="Fig. 4 and section III: measured on hardware, not reproduced",
        lost=[
            Lost(what="Fig. 4: NCCL beside GEMMs and embedding lookups", reason="8 V100, NVSwitch"),
            Lost(what="section III: DLRM replay, all-reduce of 16 MB", reason="GPU servers"),
            Lost(what="section III: Megatron-LM with and without overlap", reason="GPU servers"),
        ],
    )


FIGURES = {
    "measured": measured,
    "table2": isca21_analysis.table2,
    "numbers": numbers.numbers,
    "traffic": isca21_analysis.traffic,
    "traffic-simulated": isca21_bandwidth.traffic_simulated,
    "ceiling": isca21_analysis.ceiling,
    "fig5": isca21_bandwidth.fig5,
    "fig6": isca21_bandwidth.fig6,
    "fig9a": isca21_design.fig9a,
    "fig9b": isca21_design.fig9b,
    "fig10": isca21_design.fig10,
    "fig11": isca21_training.fig11,
    "fig12": isca21_training.fig12,
}


def main(argv: Sequence[str]) -> int:
    """Run the figures named in *argv*, all of them if none is."""
    return reproduce("ace-isca21", f"{PAPER} (ISCA 2021)", FIGURES, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
