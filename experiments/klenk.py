"""Figures of in-switch reductions (Klenk et al., ISCA 2020): ``foldwire reproduce klenk``."""

import sys
from collections.abc import Sequence

from experiments.figures import klenk_bandwidth, klenk_training
from experiments.reproduce import reproduce

__all__ = ["FIGURES", "main"]

PAPER = "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor Collectives"
FIGURES = {
    "checks": klenk_bandwidth.checks,
    "fig1": klenk_training.fig1,
    "fig7": klenk_bandwidth.fig7,
    "fig8": klenk_bandwidth.fig8,
    "fig9": klenk_bandwidth.fig9,
    "fig10": klenk_bandwidth.fig10,
    "fig11": klenk_training.fig11,
    "megatron": klenk_training.megatron,
}


def main(argv: Sequence[str]) -> int:
    """Run the figures named in *argv*, all of them if none is."""
    return reproduce("klenk", f"{PAPER} (ISCA 2020)", FIGURES, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
