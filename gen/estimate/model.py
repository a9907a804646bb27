# SPDX-License-Identifier: Apache-2.0
"""Models of cells: for each block a sum of products of parameters, as stored beside this file."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gen.estimate.space import Space
from gen.mapping.memory import blocks_of, macros_in
from gen.mapping.targets import TARGETS
from gen.table import Table

__all__ = ["FITTED", "KINDS", "TARGET_OF", "Estimate", "Model", "counted", "estimate", "term"]

KINDS = {"lut": "xcup", "ff": "xcup", "gates": "generic"}
"""Kind of cell -> target that it is counted for."""
TARGET_OF = {**KINDS, "bram": "xcup"}
"""The same, and what is counted without a model: block RAMs, those of SRAM included."""
FITTED = Path(__file__).with_name("fitted.json")


@dataclass(frozen=True, kw_only=True)
class Model:
    """Cells of one kind of one design.

    Parameters
    ----------
    blocks
        Place of a block in the design -> cells for each unit of a term: of a product of factors of
        the design's space, named with spaces between.
    error_pct
        Worst deviation, in percent, from samples that were left out of a fit.
    """

    blocks: Mapping[str, Mapping[str, float]]
    error_pct: float = 0.0

    def cells(self, factors: Mapping[str, float]) -> dict[str, float]:
        """Number of cells of each block."""
        return {
            place: sum(weight * term(name, factors) for name, weight in weights.items())
            for place, weights in self.blocks.items()
        }


def term(name: str, factors: Mapping[str, float]) -> float:
    """The product of those *factors* that *name* lists; of none it is ``1``."""
    return math.prod(factors[each] for each in name.split()) if name != "1" else 1.0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Cells of a configuration.

    Members
    -------
    cells
        By kind: ``lut``, ``ff``, ``gates``, and ``bram``, the number of block RAMs of the device of
        its target that SRAM takes, which is counted, not fitted.
    blocks
        The fitted ones by kind and place of a block.
    error_pct
        Worst error of each kind in percent.
    outside
        Parameters that are outside the range of the model.
    """

    cells: Mapping[str, int]
    blocks: Mapping[str, Mapping[str, int]]
    error_pct: Mapping[str, float]
    outside: list[str] = field(default_factory=list)


@cache
def models() -> Mapping[str, Mapping[str, Model]]:
    """Stored models by design and kind of cell."""
    stored = json.loads(FITTED.read_text(encoding="utf-8"))["models"]
    return {
        design: {kind: Model(**each) for kind, each in kinds.items()}
        for design, kinds in stored.items()
    }


def estimate(design: str, config: Any, space: Space) -> Estimate:
    """Cells of *design* with *config*; *space* is the one that its model was fitted in.

    Raises
    ------
    ValueError
        If there is no model of the design.
    """
    known = models()
    if design not in known:
        raise ValueError(f"design must be one of {', '.join(known)}, not {design!r}")
    factors = space.factors(config)
    found = {kind: model.cells(factors) for kind, model in known[design].items()}
    return Estimate(
        cells={
            **{kind: round(sum(blocks.values())) for kind, blocks in found.items()},
            "bram": _block_rams(space, config),
        },
        blocks={
            kind: {place: round(cells) for place, cells in blocks.items()}
            for kind, blocks in found.items()
        },
        error_pct={kind: model.error_pct for kind, model in known[design].items()},
        outside=space.outside(config),
    )


def counted(cells: Table, name: str, kind: str) -> int:
    """Cells of a *kind* in the synthesis of the design *name* for its target in `TARGET_OF`."""
    return sum(
        int(cells.value(name, column))
        for column in ((kind, "sram_blocks") if kind == "bram" else (kind,))
    )


def _block_rams(space: Space, config: Any) -> int:
    device = TARGETS[TARGET_OF["bram"]].device
    assert device is not None
    banks: Counter[str] = Counter()
    for count, bank in space.memories(config):
        banks[bank.macro_name] += count
    return sum(blocks_of(macro, device.memory) * count for macro, count in macros_in(banks))


def stored(fitted: Mapping[str, Mapping[str, Model]], note: str) -> str:
    """Text of the file of models."""
    models = {
        design: {kind: asdict(model) for kind, model in kinds.items()}
        for design, kinds in fitted.items()
    }
    return json.dumps({"note": note, "models": models}, indent=1, sort_keys=True) + "\n"
