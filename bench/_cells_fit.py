# SPDX-License-Identifier: Apache-2.0
"""Fit the models of cells to syntheses; the command is ``python -m bench estimate --fit``.

Two steps, since a synthesis takes minutes and the operators of a design seconds. Cells are first
a sum of bits of operators, of a few configurations that are synthesised; then, of many more, the
bits are a sum of products of parameters. What was found is kept by content, so that an interrupted
fit goes on where it was.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from amaranth.lib import wiring
from numpy.typing import NDArray

from gen.cache import announce
from gen.estimate.model import KINDS, TARGET_OF, Model, counted
from gen.estimate.space import Space
from gen.estimate.structure import structure
from gen.synth import synthesize

__all__ = ["Sample", "drawn", "fit", "fit_sum", "mapped", "synthesised", "technology"]

SAMPLES, MOST_TERMS, FOLDS, ROUNDS = 18, 14, 6, 50
GROUPS = (
    "register", "mux", "bitwise", "reduce", "equal", "arithmetic", "shift", "multiply", "memory",
)

Matrix = NDArray[np.float64]
Component = Callable[[Any], wiring.Component]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A configuration with its operators and those cells that are known from syntheses."""

    design: str
    terms: Mapping[str, float]
    bits: Mapping[str, int]
    cells: Mapping[str, int] = field(default_factory=dict)


def mapped(
    component: wiring.Component, name: str, kinds: Sequence[str] = tuple(TARGET_OF)
) -> dict[str, int]:
    """Cells of *component* by kind, from syntheses that are kept."""
    tables = {
        target: synthesize(component, name=name, target=target)
        for target in dict.fromkeys(TARGET_OF[kind] for kind in kinds)
    }
    return {kind: counted(tables[TARGET_OF[kind]], name, kind) for kind in kinds}


def technology(
    samples: Sequence[Sample], kind: str
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Cells of a *kind* for each bit of an operator, the same for all designs, and a factor for
    each design; from the samples that were synthesised."""
    from scipy.optimize import nnls

    known = [each for each in samples if kind in each.cells]
    bits = np.array([[each.bits.get(group, 0) for group in GROUPS] for each in known], float)
    cells = np.array([each.cells[kind] for each in known], float)
    designs = sorted({each.design for each in known})
    of_design = np.array([designs.index(each.design) for each in known])
    factors = np.ones(len(designs))
    for _ in range(ROUNDS):  # either is a linear fit where the other is known
        weights, _ = nnls(factors[of_design, None] * bits / cells[:, None], np.ones(len(cells)))
        ratios = cells / (bits @ weights)
        factors = np.array([ratios[of_design == n].mean() for n in range(len(designs))])
    return (
        dict(zip(GROUPS, weights.tolist(), strict=True)),
        dict(zip(designs, factors.tolist(), strict=True)),
    )


def fit_sum(terms: Matrix, cells: Matrix, most: int = MOST_TERMS) -> Matrix:
    """Weights of columns of *terms*, none negative and at most *most* above 0, whose sum is near
    *cells*: as many as leave the least error to samples that are left out.

    Terms join one by one, that first which explains most of what is left.
    """
    scaled = terms / cells[:, None]
    scale = scaled.max(axis=0)
    scaled = scaled / np.where(scale > 0, scale, 1)
    parts = np.arange(len(cells)) % FOLDS
    errors = np.zeros(most)
    for part in range(FOLDS):
        paths = _join(scaled[parts != part], most)
        errors += [float(np.abs(scaled[parts == part] @ each - 1).sum()) for each in paths]
    best = _join(scaled, most)[int(errors.argmin())]
    return best / np.where(scale > 0, scale, 1)


def _join(scaled: Matrix, most: int) -> list[Matrix]:
    """Weights with one term, with two, and so on."""
    from scipy.optimize import nnls

    chosen: list[int] = []
    weights = np.zeros(scaled.shape[1])
    found = []
    for _ in range(most):
        left = 1 - scaled @ weights
        gain = scaled.T @ left / np.maximum(np.linalg.norm(scaled, axis=0), 1e-12)
        gain[chosen] = -1
        chosen.append(int(gain.argmax()))
        weights = np.zeros(scaled.shape[1])
        weights[chosen] = nnls(scaled[:, chosen], np.ones(len(scaled)))[0]
        found.append(weights)
    return found


def drawn(design: str, space: Space, config: type, component: Component) -> list[Sample]:
    """Configurations of a *design* at random, with their operators."""
    found = []
    for seed in range(SAMPLES):
        announce(f"operators of {design}, {seed + 1} of {SAMPLES}")
        each = space.draw(random.Random(seed), config)
        bits = structure(component(each), design.replace("-", "_"))
        found.append(Sample(design=design, terms=space.terms(each), bits=bits))
    return found


def synthesised(
    design: str, space: Space, name: str, config: Any, component: Component,
    kinds: Sequence[str],
) -> Sample:
    """A configuration with its operators and its cells of some *kinds*; *name* is that of the top
    module."""
    return Sample(
        design=design, terms=space.terms(config),
        bits=structure(component(config), name), cells=mapped(component(config), name, kinds),
    )


def fit(found: Sequence[Sample]) -> dict[str, dict[str, Model]]:
    """Models of all designs in *found* and of all kinds of cells."""
    fitted: dict[str, dict[str, Model]] = {}
    for kind in KINDS:
        weights, factors = technology(found, kind)
        for design, factor in factors.items():
            mine = [each for each in found if each.design == design]
            names = list(mine[0].terms)
            terms = np.array([[each.terms[name] for name in names] for each in mine])
            cells = factor * np.array(
                [sum(w * each.bits.get(group, 0) for group, w in weights.items()) for each in mine]
            )
            of_terms = fit_sum(terms, cells)
            apart = np.abs(terms @ of_terms / cells - 1)
            fitted.setdefault(design, {})[kind] = Model(
                weights={n: float(w) for n, w in zip(names, of_terms, strict=True) if w > 0},
                error_pct=100 * float(apart.max()),
            )
    return fitted
