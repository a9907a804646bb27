# SPDX-License-Identifier: Apache-2.0
"""Effect of block floating point on the wire on training: the same network, format by format.

Gradients go through the smart NIC's golden all-reduce, in which every hop rounds what it sends, so
losses and accuracies are those of the hardware, bit for bit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gen.table import Column, Table
from hw.smartnic.config import SmartNicConfig, preset
from sim.collectives.golden import nic_all_reduce
from sim.learning.datasets import Dataset
from sim.learning.training import AllReduce, TrainingRun, train

__all__ = [
    "CODECS",
    "FormatResult",
    "error_table",
    "golden_all_reduce",
    "nic_config",
    "study",
    "study_table",
]

CODECS = (
    "none",
    "bfp24",
    "bfp16",
    "bfp16x32",
    "bfp16_truncate",
    "mxint8",
    "bfp14",
    "bfp12",
    "16e8m3",
    "16e8m2",
)
"""From binary32 down to 2 bits per element; `hw.smartnic.config` describes the names."""


@dataclass(frozen=True, kw_only=True)
class FormatResult:
    """One format over several seeds.

    ``losses`` has a row per seed and a column per step. ``diverged``: True if any two workers ever
    held different bits.
    """

    codec: str
    accuracies: tuple[float, ...]
    losses: NDArray[np.float64]
    diverged: bool

    @property
    def accuracy(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.accuracies))

    @property
    def ratio(self) -> float:
        """Bytes of gradients per byte on the wire."""
        fmt = nic_config(self.codec).codec_format
        return 1.0 if fmt is None else fmt.ratio


def nic_config(codec: str, base: str = "40g") -> SmartNicConfig:
    """A preset of the NIC with the codec of that name."""
    return replace(preset(base), codec=codec)


def golden_all_reduce(config: SmartNicConfig) -> AllReduce:
    """The all-reduce of a ring of such NICs, compressed if they have a codec."""
    compress = config.codec_format is not None

    def reduce(vectors: list[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        return [nic_all_reduce(vectors, config, compress=compress)] * len(vectors)

    return reduce


def study(
    load: Callable[..., Dataset],
    codecs: Iterable[str] = CODECS,
    *,
    workers: int = 6,
    steps: int = 120,
    batch: int = 32,
    seeds: Sequence[int] = range(5),
    on_run: Callable[[], None] = lambda: None,
) -> list[FormatResult]:
    """Train with every codec and every seed; a seed decides split, start and batches.

    `load` is one of `sim.learning.datasets.DATA_SETS`; `on_run` is called after every run.
    """
    results = []
    for codec in codecs:
        reduce = golden_all_reduce(nic_config(codec))
        runs: list[TrainingRun] = []
        for seed in seeds:
            data = load(seed=seed)
            runs.append(train(reduce, data, workers=workers, steps=steps, batch=batch, seed=seed))
            on_run()
        results.append(
            FormatResult(
                codec=codec,
                accuracies=tuple(run.accuracy for run in runs),
                losses=np.array([run.losses for run in runs]),
                diverged=any(run.diverged_at is not None for run in runs),
            )
        )
    return results


def study_table(title: str, results: Sequence[FormatResult]) -> Table:
    """One row per format, beside the first one."""
    first = results[0]
    table = Table(
        title,
        (
            Column("format"),
            Column("wire_ratio", "ratio on the wire", ": 1"),
            Column("accuracy_percent", "accuracy", "%"),
            Column("worst_percent", "worst seed", "%"),
            Column("best_percent", "best seed", "%"),
            Column("drop_percent", "drop", "points"),
            Column("worst_drop_percent", "worst drop of a seed", "points"),
            Column("final_loss", digits=4),
            Column("agree", "workers agree"),
        ),
        note="Test accuracy, mean over seeds; a drop is against the first row. Loss: mean of the "
        "last ten steps.",
    )
    for each in results:
        drops = [a - b for a, b in zip(first.accuracies, each.accuracies)]
        table.add(
            "binary32" if each.codec == "none" else each.codec,
            each.ratio,
            100 * each.accuracy,
            100 * min(each.accuracies),
            100 * max(each.accuracies),
            100 * (first.accuracy - each.accuracy),
            100 * max(drops),
            float(each.losses[:, -10:].mean()),
            not each.diverged,
        )
    return table


def error_table(
    vectors: Callable[[int], Sequence[NDArray[np.float32]]],
    codecs: Iterable[str] = CODECS,
    nodes: Sequence[int] = (2, 4, 6, 8, 16, 32),
) -> Table:
    """Error of one all-reduce by the number of nodes: every hop rounds once more.

    `vectors` gives the vectors of so many nodes. The error is the root of the mean square
    distance from the sum in binary64, over the root of the mean square of that sum.
    """
    table = Table(
        "Error of one all-reduce over the size of its result, by the number of nodes",
        (Column("format"), *(Column(f"error_{n}_percent", f"{n}", "%", 4) for n in nodes)),
    )
    for codec in codecs:
        config = nic_config(codec)
        errors = []
        for count in nodes:
            given = list(vectors(count))
            exact = np.sum(given, axis=0, dtype=np.float64)
            got = nic_all_reduce(given, config, compress=config.codec_format is not None)
            errors.append(100 * float(np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2))))
        table.add("binary32" if codec == "none" else codec, *errors)
    return table
