# SPDX-License-Identifier: Apache-2.0
"""Fit the models of cells to syntheses; the command is ``python -m bench estimate --fit``.

Two steps, since a synthesis takes minutes and the structure of a design seconds. Cells of a block
are first a sum of bits of its operators, as blocks of a few configurations that are synthesised
have them; flip-flops are counted. Then, of many more configurations, the cells of each block are a
sum of products of parameters. What was found is kept by content, so that an interrupted fit goes
on where it was.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from amaranth.lib import wiring
from numpy.typing import NDArray

from gen.cache import announce
from gen.estimate.model import KINDS, TARGET_OF, Model, counted
from gen.estimate.space import Space
from gen.estimate.structure import structure
from gen.mapping.blocks import map_blocks
from gen.mapping.netlist import netlist_of
from gen.mapping.targets import TARGETS
from gen.synth import synthesize

__all__ = [
    "Sample", "Technology", "drawn", "fit", "fit_sum", "mapped", "synthesised", "technology",
]

PLAIN, MIXED = 16, 12
"""Configurations of each design whose structure is looked at: drawn like those that are compared,
and with small and large parameters mixed."""
SMALLEST_SHARE = 0.01
"""Blocks that are less than this of every sample count as a part of what they are in."""
MOST_TERMS, FOLDS = 7, 6
NEAR_BEST = 1.1
"""Fewer terms are taken if what they leave is at most so much more than the least."""
FACTORS_OF_PART = 2
"""Most factors of a term beside those that say how many instances there are."""
DISCOUNT, DISCOUNT_OF_STEP = 0.97, 0.9
"""Worth of a term with one more factor, or one more step: of two that explain as much, the simpler
one is right more often."""
OPERATORS = (
    "ff", "mux", "bitwise", "reduce", "equal", "arithmetic", "shift", "multiply", "memory",
)
GROUPS = {"lut": OPERATORS, "ff": ("ff",), "gates": OPERATORS}
"""Groups of bits that cells of a kind are a sum of."""
LEAST_CELLS = 50
"""Cells that are as good as none where errors of blocks are weighed."""
FAMILIAR = 0.002
"""Share of its design from which on a block's own syntheses say more of it than those of others."""

Matrix = NDArray[np.float64]
Component = Callable[[Any], wiring.Component]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A configuration: its factors, and by place of a block bits of operators, the number of
    instances and, of a synthesis, cells of each kind."""

    design: str
    factors: Mapping[str, float]
    bits: Mapping[str, Mapping[str, int]]
    instances: Mapping[str, int]
    cells: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Technology:
    """Cells of a kind of a block, from its bits.

    Members
    -------
    weights:
        Cells for each bit of a group, in all designs.
    ratios:
        Factor of a block of a design.
    """

    weights: Mapping[str, float]
    ratios: Mapping[tuple[str, str], float]

    def cells(self, sample: Sample) -> dict[str, float]:
        """Cells of each block; of one that was never synthesised by the factor of the design."""
        usual = self.ratios.get((sample.design, "*"), 1.0)
        return {
            place: self.ratios.get((sample.design, place), usual) * _weighed(bits, self.weights)
            for place, bits in sample.bits.items()
        }


def _weighed(bits: Mapping[str, int], weights: Mapping[str, float]) -> float:
    return sum(weight * bits.get(group, 0) for group, weight in weights.items())


def mapped(component: wiring.Component, name: str) -> dict[str, int]:
    """Cells of *component* by kind, from syntheses that are kept."""
    tables = {
        target: synthesize(component, name=name, target=target)
        for target in dict.fromkeys(TARGET_OF.values())
    }
    return {kind: counted(tables[target], name, kind) for kind, target in TARGET_OF.items()}


def technology(samples: Sequence[Sample], kind: str) -> Technology:
    """Cells of a *kind* from bits, as the *samples* that were synthesised have them."""
    from scipy.optimize import nnls

    rows = [
        (each.design, place, [bits.get(group, 0) for group in GROUPS[kind]],
         each.cells[kind].get(place, 0))
        for each in samples if kind in each.cells for place, bits in each.bits.items()
    ]
    bits = np.array([row[2] for row in rows], float)
    cells = np.array([row[3] for row in rows], float)
    weighting = 1 / np.sqrt(cells + LEAST_CELLS)
    weights, _ = nnls(bits * weighting[:, None], cells * weighting)
    found: Counter[tuple[str, str]] = Counter()
    guessed: Counter[tuple[str, str]] = Counter()
    for (design, place, _, true), guess in zip(rows, bits @ weights, strict=True):
        for key in ((design, place), (design, "*")):
            found[key] += true
            guessed[key] += guess
    ratios: dict[tuple[str, str], float] = {}
    for (design, place), guess in guessed.items():
        usual = found[design, "*"] / guessed[design, "*"]
        # As if there were some cells more, with the factor of the design.
        more = 0.0 if place == "*" else FAMILIAR * guessed[design, "*"]
        if guess + more > 0:
            ratios[design, place] = (found[design, place] + more * usual) / (guess + more)
    return Technology(
        weights=dict(zip(GROUPS[kind], weights.tolist(), strict=True)), ratios=ratios
    )


def fit_sum(terms: Matrix, cells: Matrix, whole: Matrix, worth: Matrix) -> Matrix:
    """Weights of columns of *terms*, none negative and few above 0, whose sum is near *cells*.

    There are as many as leave the least error to samples that are left out, relative to the *whole*
    of each. They join one by one, that first which explains most of what is left, by the *worth* of
    each.
    """
    scaled, wanted = terms / whole[:, None], cells / whole
    parts = np.arange(len(cells)) % FOLDS
    errors = np.zeros(MOST_TERMS)
    for part in range(FOLDS):
        paths = _join(scaled[parts != part], wanted[parts != part], worth, MOST_TERMS)
        left = [scaled[parts == part] @ each - wanted[parts == part] for each in paths]
        errors += [float(each @ each) for each in left]
    number = int((errors <= NEAR_BEST * errors.min()).argmax()) + 1
    return _join(scaled, wanted, worth, number)[-1]


def _join(scaled: Matrix, wanted: Matrix, worth: Matrix, most: int) -> list[Matrix]:
    """Weights with one term, with two, and so on."""
    from scipy.optimize import nnls

    lengths = np.linalg.norm(scaled, axis=0)
    useful = lengths > 1e-12
    new = scaled / np.where(useful, lengths, 1)  # what each has that no chosen one has
    chosen: list[int] = []
    weights = np.zeros(scaled.shape[1])
    found = []
    for _ in range(most):
        left = wanted - scaled @ weights
        news = np.linalg.norm(new, axis=0)
        gain = np.where(useful & (news > 1e-3), worth * (new.T @ left) / np.maximum(news, 1e-3), -1)
        gain[chosen] = -1
        best = int(gain.argmax())
        if gain[best] > 1e-9:
            chosen.append(best)
            direction = new[:, best] / news[best]
            new = new - np.outer(direction, direction @ new)
            weights = np.zeros(scaled.shape[1])
            weights[chosen] = nnls(scaled[:, chosen] / lengths[chosen], wanted)[0]
            weights[chosen] /= lengths[chosen]
        found.append(weights)
    return found


def drawn(design: str, space: Space, config: type, component: Component) -> list[Sample]:
    """Configurations of a *design* at random, with their structure."""
    found = []
    for seed in range(PLAIN + MIXED):
        announce(f"structure of {design}, {seed + 1} of {PLAIN + MIXED}")
        each = space.draw(random.Random(seed), config, mixed=seed >= PLAIN)
        found.append(synthesised(design, space, design.replace("-", "_"), each, component, ()))
    return found


def synthesised(
    design: str, space: Space, name: str, config: Any, component: Component, kinds: Sequence[str]
) -> Sample:
    """A configuration with its structure and its cells of some *kinds*; *name* is that of the top
    module."""
    shape = structure(component(config), name)
    cells: dict[str, dict[str, int]] = {}
    if kinds:
        netlist = netlist_of(component(config), name=name)
    for kind in kinds:
        flow = TARGETS[TARGET_OF[kind]]
        pattern = re.compile(flow.columns[kind.upper() if kind != "gates" else kind])
        own = {
            module: {kind: sum(n for cell, n in block.cells.items() if pattern.fullmatch(cell))}
            for module, block in map_blocks(netlist.blocks, flow).items()
        }
        cells[kind] = {place: sums[kind] for place, sums in shape.at_places(own).items()}
    return Sample(
        design=design, factors=space.factors(config), bits=shape.at_places(shape.blocks),
        instances=Counter(place for places in shape.places.values() for place in places),
        cells=cells,
    )


def fit(
    found: Sequence[Sample], kinds: Iterable[str] = tuple(KINDS)
) -> dict[str, dict[str, Model]]:
    """Models of all designs in *found* and of *kinds* of cells."""
    fitted: dict[str, dict[str, Model]] = {}
    for kind in kinds:
        known = technology(found, kind)
        for design in dict.fromkeys(each.design for each in found):
            announce(f"fitting {kind} of {design}")
            mine = [each for each in found if each.design == design]
            blocks = [known.cells(each) for each in mine]
            parts = np.arange(len(mine)) % FOLDS
            apart = [0.0]
            for part in range(min(FOLDS, len(mine))):
                model = Model(blocks=_fit_blocks(
                    *_those(mine, blocks, [n for n in range(len(mine)) if parts[n] != part])
                ))
                apart += [
                    abs(sum(model.cells(each.factors).values()) / sum(cells.values()) - 1)
                    for each, cells in zip(*_those(
                        mine, blocks, [n for n in range(len(mine)) if parts[n] == part]
                    ), strict=True)
                ]
            fitted.setdefault(design, {})[kind] = Model(
                blocks=_fit_blocks(mine, blocks), error_pct=100 * max(apart)
            )
    return fitted


def _those(
    samples: Sequence[Sample], blocks: Sequence[Mapping[str, float]], numbers: Iterable[int]
) -> tuple[list[Sample], list[Mapping[str, float]]]:
    chosen = list(numbers)
    return [samples[n] for n in chosen], [blocks[n] for n in chosen]


def _fit_blocks(
    samples: Sequence[Sample], blocks: Sequence[Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Weights of terms of each block that is not small, from cells of *blocks* in each sample."""
    whole = np.array([sum(each.values()) for each in blocks])
    names = list(samples[0].factors)
    products = _products(names, FACTORS_OF_PART + 1)
    values = _columns(samples, products)
    of_part = [n for n, name in enumerate(products) if len(name.split()) <= FACTORS_OF_PART]
    smooth = [
        n for n, name in enumerate(products)
        if len(name.split()) <= FACTORS_OF_PART or not _steps(name)
    ]
    found = {}
    for place, cells in _large(blocks).items():
        number = np.array([each.instances.get(place, 0) for each in samples], float)
        copies = _proportional(values, number)
        if copies is None:  # nothing says how many there are: that is among the factors
            base, columns = "1", smooth
            terms = values[:, smooth]
        else:
            base, columns = products[copies], of_part
            terms = values[:, [copies]] * values[:, of_part]
        worth = np.array([_worth(products[n]) for n in columns])
        weights = fit_sum(terms, cells, whole, worth)
        found[place] = {
            _product(base, products[n]): float(weight)
            for n, weight in zip(columns, weights, strict=True) if weight > 0
        }
    return found


def _products(names: Sequence[str], most: int) -> list[str]:
    """Names of the products of up to *most* factors, those of fewest first."""
    return ["1"] + [
        " ".join(each) for number in range(1, most + 1)
        for each in combinations_with_replacement(names, number)
    ]


def _columns(samples: Sequence[Sample], products: Sequence[str]) -> Matrix:
    """Values of *products* in the *samples*, each from that of one factor less."""
    values = {"1": np.ones(len(samples))}
    for name in products[1:]:
        before, _, last = name.rpartition(" ")
        values[name] = values[before or "1"] * [each.factors[last] for each in samples]
    return np.array(list(values.values())).T


def _steps(product: str) -> int:
    """Number of factors of a term that are steps."""
    return product.count(">") + product.count("<")


def _worth(product: str) -> float:
    """Worth of a term in a choice."""
    return float(DISCOUNT ** len(product.split()) * DISCOUNT_OF_STEP ** _steps(product))


def _product(one: str, other: str) -> str:
    """Name of the product of two products."""
    return " ".join(each for each in (one, other) if each != "1") or "1"


def _proportional(values: Matrix, number: Matrix) -> int | None:
    """The first column of *values* that a *number* is a constant times."""
    there = number > 0
    if not there.any():
        return None
    ratios = values[there] / number[there, None]
    same = np.ptp(ratios, axis=0) <= 1e-9 * ratios.max(axis=0)
    fits = same & (values[there] > 0).all(axis=0) & (values[~there] == 0).all(axis=0)
    return int(fits.argmax()) if fits.any() else None


def _large(blocks: Sequence[Mapping[str, float]]) -> dict[str, Matrix]:
    """Cells in each sample of the places that are not small; small ones are added to theirs."""
    places = {place for each in blocks for place in each} | {""}
    cells = {place: np.array([each.get(place, 0.0) for each in blocks]) for place in places}
    least = SMALLEST_SHARE * sum(cells.values())
    for place in sorted(places - {""}, key=lambda place: (-place.count("."), place)):
        if (cells[place] < least).all():
            above = place.rpartition(".")[0]
            cells.setdefault(above, np.zeros(len(blocks)))
            cells[above] = cells[above] + cells.pop(place)
    return cells
