# SPDX-License-Identifier: Apache-2.0
"""Small real data sets that scikit-learn ships, split into a part to train on and one to test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gen.arguments import typed
from gen.brief import Brief
from sim.fields import check

__all__ = ["DATA_SETS", "Dataset", "load_digits", "load_tumours"]

Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, repr=False)
class Dataset(Brief):
    """Samples, a row of features each, and their classes 0, 1, ..."""

    train_x: Floats
    train_y: npt.NDArray[np.int64]
    test_x: Floats
    test_y: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"{part}_x"), getattr(self, f"{part}_y")
            check(f"{part}_x", np.shape(x), "a matrix with a row per sample", np.ndim(x) == 2)
            same = np.shape(y) == np.shape(x)[:1]
            check(f"{part}_y", np.shape(y), f"one class per row of {part}_x", same)

    @property
    def features(self) -> int:
        return int(self.train_x.shape[1])

    @property
    def classes(self) -> int:
        return 1 + int(max(self.train_y.max(), self.test_y.max()))


@typed(least={"seed": 0})
def load_digits(*, test_share: float = 0.2, seed: int = 0) -> Dataset:
    """1 797 handwritten digits of 8 x 8 pixels, scaled to 0 .. 1; shuffled and split."""
    images, labels, cut = _shuffled("load_digits", test_share, seed)
    return _split((images / 16).astype(np.float32), labels, cut)


@typed(least={"seed": 0})
def load_tumours(*, test_share: float = 0.2, seed: int = 0) -> Dataset:
    """569 breast tumours of two classes, 30 features standardised by the training part."""
    features, labels, cut = _shuffled("load_breast_cancer", test_share, seed)
    known = features[:cut]
    x = (features - known.mean(axis=0)) / known.std(axis=0)
    return _split(x.astype(np.float32), labels, cut)


def _shuffled(loader: str, test_share: float, seed: int) -> tuple[Any, Any, int]:
    """Samples and classes in a random order, and the number of them to train on."""
    check("test_share", test_share, "above 0 and below 1", 0 < test_share < 1)
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ValueError(
            "the training demo needs scikit-learn; please run: pip install 'foldwire[demo]'"
        ) from error
    x, labels = getattr(datasets, loader)(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    return x[order], labels[order].astype(np.int64), round(len(x) * (1 - test_share))


def _split(x: Floats, y: npt.NDArray[np.int64], cut: int) -> Dataset:
    return Dataset(train_x=x[:cut], train_y=y[:cut], test_x=x[cut:], test_y=y[cut:])


DATA_SETS: dict[str, Callable[..., Dataset]] = {"digits": load_digits, "tumours": load_tumours}
"""Functions that load them, called with a ``seed``."""
