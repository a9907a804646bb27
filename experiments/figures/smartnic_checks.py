# SPDX-License-Identifier: Apache-2.0
"""Smart NIC: the hard checks of its format and of its trace formula."""

import numpy as np

from experiments.figure import Assumption, Context, Figure, derived
from experiments.targets import Exactly, Near
from hw.bfp.format import preset
from sim.analytic.smartnic import LayerTime, trace_s

__all__ = ["checks"]

VALUES, SEED = 1 << 18, 1
HAND_MADE = {
    "bound by communication": (
        ((1, 4, 0.5, 7), (2, 5, 0.25, 8), (3, 6, 0.125, 9)),
        "6 + 6 + 9 + 8 + 7 + 0.5",
        36.5,
    ),
    "bound by computation": (
        ((1, 4, 0.5, 0.25), (2, 5, 0.25, 0.25), (3, 6, 0.125, 0.25)),
        "6 + 6 + 5 + (0.125 + 4) + 0.25 + 0.5",
        21.875,
    ),
    "mixed": (
        ((1, 1, 8, 2), (1, 1, 4, 7), (1, 6, 2, 3), (1, 1, 1, 5)),
        "4 + 1 + 6 + 3 + 7 + 4 + 8",
        33,
    ),
}


def checks(context: Context) -> Figure:
    """H6: ratio and round trip. H7: hand-made traces of forward, backward, update, all-reduce."""
    fmt = preset("bfp16")
    blocks = fmt.encode(_any_floats())
    once, twice = fmt.pack(blocks), fmt.pack(fmt.encode(fmt.decode(blocks)))
    changed = int(np.sum(np.frombuffer(once, np.uint8) != np.frombuffer(twice, np.uint8)))
    rows = [
        derived(
            "compression ratio of BFP16 (printed with two decimals)",
            fmt.ratio, Near(3.76, absolute=0.005), check="H6",
        ),
        derived(
            f"bytes of {len(once)} that change when {VALUES // fmt.elements} blocks of any "
            "floats are decoded and encoded again",
            changed, Exactly(0), check="H6",
        ),
    ]
    for name, (layers, sum_, by_hand) in HAND_MADE.items():
        trace = [
            LayerTime(forward_s=f, backward_s=b, update_s=u, all_reduce_s=a)
            for f, b, u, a in layers
        ]
        rows.append(
            derived(
                f"T_total of a trace {name}: {sum_}",
                trace_s(trace), Exactly(by_hand), unit="s", check="H7",
            )
        )
    return Figure(
        title="Checks of the format and of the trace formula",
        rows=rows,
        assumptions=(
            Assumption("8-bit shared exponent, sign and 7 bits for each of 16 numbers", "stated"),
            Assumption("the order of the training trace", "stated"),
        ),
    )


def _any_floats() -> np.ndarray:
    """Real-looking numbers of many sizes, and bit patterns of all kinds, non-finite ones too."""
    rng = np.random.default_rng(SEED)
    real = rng.standard_normal(VALUES // 2) * 2.0 ** rng.integers(-140, 120, VALUES // 2)
    bits = rng.integers(0, 1 << 32, VALUES // 2, dtype=np.uint32)
    return np.concatenate([real.astype(np.float32), bits.view(np.float32)])
