# SPDX-License-Identifier: Apache-2.0
"""``foldwire machines``: list them, run collectives on them, fit their constants."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from foldwire.console import interruptible, offer, print_table, say, step
from gen.table import Column, Table
from sim.describe.machines import MACHINES, machine
from sim.endpoint.calibrated import Calibration
from sim.machines.fit import fit, read_table
from sim.machines.measure import lines_of, measure, rows_table, sizes_from
from sim.units import GB

__all__ = ["fit_table", "list_machines", "machines_table", "run_table"]


def list_machines() -> None:
    """Print all machines with the sources of their numbers."""
    table = machines_table()
    print_table(table)
    offer(lambda: {"machines": table.records()})


def machines_table() -> Table:
    """All machines with the sources of their numbers."""
    table = Table(
        "Machines",
        [
            Column("machine"),
            Column("what_it_is"),
            Column("ranks"),
            Column("gb_per_s", "GB/s of a rank each way"),
            Column("switches_reduce"),
            Column("source"),
            Column("chosen"),
        ],
        note="Bandwidths by dimension. `foldwire machines NAME` runs collectives on one.",
    )
    for name, each in MACHINES.items():
        rates = " + ".join(f"{rate:g}" for rate in each.gb_per_s)
        reduces = "no" if each.in_switch is None else ", ".join(each.modes)
        table.add(name, each.what, each.nodes, rates, reduces, each.source, each.chosen)
    return table


def run_table(
    name: str,
    collective: str,
    algorithm: str,
    sizes: tuple[int, int, int],
    calibration: Sequence[float],
    nodes: int | None = None,
) -> None:
    """Print a table like that of nccl-tests, with bounds; ``sizes``: first, last, factor."""
    machine(name, nodes)
    share, start, after = calibration
    constants = Calibration(share=share, start=start, step=after)
    with step(f"{collective} on {name}"):
        rows = [
            interruptible(partial(
                measure, name, collective, size, algorithm=algorithm, calibration=constants,
                nodes=nodes,
            ))
            for size in sizes_from(*sizes)
        ]
    for line in lines_of(name, collective, rows, nodes):
        say(line)
    table = rows_table(rows, "algorithm", [row.algorithm for row in rows])
    offer(lambda: {"machine": name, "collective": collective, "rows": table.records()})


def fit_table(
    name: str, collective: str, algorithm: str, path: Path, nodes: int | None = None
) -> None:
    """Print the constants that fit the machine best to a measurement, and the errors of this fit,
    beside those of a straight line."""
    rows = read_table(path)
    with step(f"fitting {len(rows)} rows"):
        found = interruptible(partial(fit, name, collective, algorithm, rows, nodes))
    calibration = found.calibration
    say("[calibration]")
    say(f"share = {calibration.share:.6g}")
    say(f"start = {calibration.start:.6g}")
    say(f"step = {calibration.step:.6g}")
    start_s, slope = found.line
    say(f"# {_errors('this model', found.errors)}")
    say(
        f"# {_errors('a straight line', found.line_errors)}: {start_s * 1e6:.4g} us and "
        f"{1 / slope / GB if slope > 0 else math.inf:.4g} GB/s"
    )


    offer(lambda: {
        "calibration": {name: getattr(calibration, name) for name in ("share", "start", "step")},
        "errors": found.errors.tolist(), "line_errors": found.line_errors.tolist(),
    })


def _errors(what: str, errors: np.ndarray) -> str:
    """Describe errors of the times of all rows, relative to the measured times."""
    worst, mean = 100 * np.abs(errors).max(), 100 * math.sqrt(float(np.mean(errors**2)))
    return f"{what}: worst row {worst:.3g} % from the measured time, root mean square {mean:.3g} %"
