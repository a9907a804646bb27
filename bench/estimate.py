# SPDX-License-Identifier: Apache-2.0
"""Cells of drawn configurations, estimated from their parameters, beside their syntheses.

With ``--fit`` the models are fitted anew and stored first. Configurations that are compared are
drawn from other seeds than those of the fit. Structures and syntheses are kept by content.
"""

import random
import time
from collections.abc import Mapping, Sequence
from itertools import cycle, islice

from bench._cells_fit import Sample, drawn, fit, mapped, synthesised
from bench.options import bench_parser
from bench.result import result
from foldwire.catalog import build
from foldwire.console import print_table
from gen.cache import announce
from gen.estimate.model import FITTED, KINDS, estimate, models, stored
from gen.table import Column, Table
from gen.yosys import yosys_version
from sim.engines import registry
from sim.engines.engine import Blueprint

__all__ = ["main"]

DRAWN, FIRST_SEED = 12, 10_000
TARGET_PCT = {"ff": 5.0, "lut": 15.0, "gates": 15.0}
TARGET_S = 1.0


SMALL = {"test", "1-link"}
KNOWN = SMALL | {"isca21"}
"""Presets whose blocks' syntheses cells are fitted to; the small ones are mapped to gates as well.
"""


def _presets(design: str, blueprint: Blueprint) -> list[Sample]:
    """Presets of a *design* that are synthesised, under the names of their top modules."""
    assert blueprint.space is not None
    return [
        synthesised(
            design, blueprint.space, build(design, preset, {}).top, config, blueprint.component,
            tuple(KINDS) if preset in SMALL else ("lut", "ff"),
        )
        for preset, config in blueprint.presets.items() if preset in KNOWN
    ]


def _fit(blueprints: Mapping[str, Blueprint]) -> None:
    """Fit the models of designs by name, store them and print their errors."""
    found = []
    for name, each in blueprints.items():
        assert each.space is not None
        found += [
            *_presets(name, each), *drawn(name, each.space, each.config, each.component)
        ]
    fitted = fit(found)
    FITTED.write_text(stored(fitted, f"Yosys {yosys_version()}"), encoding="utf-8")
    models.cache_clear()
    table = Table(
        "Fitted models",
        [Column("design"), Column("cells"), Column("blocks"), Column("terms"), Column("error_pct")],
    )
    for name, kinds in fitted.items():
        for kind, model in kinds.items():
            terms = sum(map(len, model.blocks.values()))
            table.add(name, kind, len(model.blocks), terms, model.error_pct)
    print_table(table)


def main(argv: Sequence[str]) -> int:
    """Compare estimates with syntheses; with ``--fit`` fit the models first."""
    parser = bench_parser("estimate", __doc__)
    parser.add_argument("--fit", action="store_true", help="fit the models and store them")
    options = parser.parse_args(argv)
    blueprints = {
        name: each for record in registry.records() for name, each in record.blueprints.items()
        if each.space is not None
    }
    spaces = {name: each.space for name, each in blueprints.items() if each.space is not None}
    if options.fit:
        _fit(blueprints)
    table = Table(
        "Estimated and synthesised",
        [
            Column("design"), Column("seed"),
            *(Column(f"{kind}{of}") for kind in KINDS for of in ("", "_synth", "_pct")),
            Column("bram"), Column("bram_synth"),
        ],
    )
    worst = dict.fromkeys(KINDS, 0.0)
    slowest, bram_wrong = 0.0, 0
    for number, name in enumerate(islice(cycle(spaces), DRAWN)):
        announce(f"{name}, {number + 1} of {DRAWN}")
        blueprint, seed = blueprints[name], FIRST_SEED + number
        config = spaces[name].draw(random.Random(seed), blueprint.config)
        began = time.process_time()
        guess = estimate(name, config, spaces[name])
        slowest = max(slowest, time.process_time() - began)
        cells = mapped(blueprint.component(config), name.replace("-", "_"))
        row: list[float] = []
        for kind in KINDS:
            apart = 100 * (guess.cells[kind] / cells[kind] - 1)
            worst[kind] = max(worst[kind], abs(apart))
            row += [guess.cells[kind], cells[kind], apart]
        bram_wrong += guess.cells["bram"] != cells["bram"]
        table.add(name, seed, *row, guess.cells["bram"], cells["bram"])
    print_table(table)
    ok = all(worst[kind] <= most for kind, most in TARGET_PCT.items()) and slowest <= TARGET_S
    ok = ok and not bram_wrong
    result(
        "estimate",
        drawn=DRAWN,
        engines=len(spaces),
        **{f"{kind}_worst_pct": each for kind, each in worst.items()},
        bram_wrong=bram_wrong,
        seconds=slowest,
        **{f"target_{kind}_pct": each for kind, each in TARGET_PCT.items()},
        verdict="ok" if ok else "short",
    )
    return 0
