# SPDX-License-Identifier: Apache-2.0
"""ASTRA-SIM, Figs. 10 and 11: bytes that a node sends, by shape and by algorithm."""

from experiments.figure import Assumption, Context, Figure, Row
from experiments.targets import Exactly
from sim.analytic.traffic import sent_per_byte

__all__ = ["volume"]

SHAPES = {(1, 64, 1): 126 / 64, (1, 8, 8): 28 / 8, (4, 4, 4): 36 / 8}


def volume(context: Context) -> Figure:
    """Per byte of payload; the enhanced algorithm divides what leaves a package by its size."""
    rows = [
        Row(
            setting=f"{'x'.join(map(str, shape))}, baseline, bytes sent per byte",
            ours=float(sent_per_byte(shape, "baseline")),
            target=Exactly(published),
            identity=True,
            check="H1",
        )
        for shape, published in SHAPES.items()
    ]
    for shape in [(4, 4, 4), (2, 4, 8)]:
        between = [
            float(sent_per_byte(shape, algorithm, dimensions=(1, 2)))
            for algorithm in ("baseline", "enhanced")
        ]
        rows.append(
            Row(
                setting=f"{'x'.join(map(str, shape))}, between packages, baseline over enhanced",
                ours=between[0] / between[1],
                target=Exactly(shape[0]),
                identity=True,
                check="H2",
            )
        )
    return Figure(
        title="Bytes sent (closed form)",
        rows=rows,
        assumptions=(Assumption("the algorithms of section V", "stated"),),
    )
