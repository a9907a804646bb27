"""Models of cells: sums of products of parameters, as stored beside this file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gen.estimate.space import Space

__all__ = ["FITTED", "KINDS", "Estimate", "Model", "estimate"]

KINDS = {"lut": "xcup", "ff": "xcup", "gates": "generic"}
"""Kind of cell -> target that it is counted for."""
FITTED = Path(__file__).with_name("fitted.json")


@dataclass(frozen=True, kw_only=True)
class Model:
    """Cells of one kind of one design.

    Parameters
    ----------
    weights
        Cells for each unit of a term of the design's space.
    error_pct
        Worst deviation from the syntheses that it was not fitted to, in percent.
    """

    weights: Mapping[str, float]
    error_pct: float = 0.0

    def cells(self, terms: Mapping[str, float]) -> float:
        """Number of cells."""
        return sum(weight * terms[name] for name, weight in self.weights.items())


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Cells of a configuration by kind (``lut``, ``ff``, ``gates``), the worst error of each in
    percent, and the parameters that are outside the range of the model."""

    cells: Mapping[str, int]
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
    terms = space.terms(config)
    return Estimate(
        cells={kind: round(model.cells(terms)) for kind, model in known[design].items()},
        error_pct={kind: model.error_pct for kind, model in known[design].items()},
        outside=space.outside(config),
    )


def stored(fitted: Mapping[str, Mapping[str, Model]], note: str) -> str:
    """Text of the file of models."""
    models = {
        design: {kind: asdict(model) for kind, model in kinds.items()}
        for design, kinds in fitted.items()
    }
    return json.dumps({"note": note, "models": models}, indent=1, sort_keys=True) + "\n"
