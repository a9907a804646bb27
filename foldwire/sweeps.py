# SPDX-License-Identifier: Apache-2.0
"""Sweeps from Python, as ``foldwire sweep`` runs them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foldwire.version import __version__
from gen.arguments import typed
from gen.folder import check_writable
from gen.table import Table
from sim.describe.loaded import load_files
from sim.fields import check_type
from sim.results.metrics import METRICS
from sim.sweep.engine import run_sweep
from sim.sweep.spec import parse_document, read
from sim.sweep.training import RUNNER

__all__ = ["sweep"]


@typed("description", "folder", least={"workers": 1}, most={"workers": 1 << 12})
def sweep(
    description: Mapping[str, Any] | str | Path,
    folder: Path | str,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    retry: bool = False,
    load: Sequence[Path | str] = (),
) -> Table:
    """Run a sweep, given as a file or as the contents of one, and return its table.

    Finished points are kept in *folder*; the same call resumes from there.

    Parameters
    ----------
    description
        ``base`` (a description, or the path of one), ``grid`` and ``zip``; see `sim.sweep.spec`.
    workers, scheduler, retry
        As in :func:`run_sweep`.
    load
        Python files that register algorithms, endpoints or engines, as with ``--load``.

    Raises
    ------
    ConfigError
        The sweep is wrong. Errors of single points are in the column ``error``.
    """
    given = isinstance(description, Mapping | str | Path)
    check_type("description", description, "the path of a file, or a mapping", given)
    check_type("folder", folder, "a path", isinstance(folder, str | Path))
    files = [Path(each) for each in load]
    load_files(files)
    if isinstance(description, Mapping):
        spec = parse_document(description, metrics=METRICS)
    else:
        spec = read(description, metrics=METRICS)
    check_writable(Path(folder))
    return run_sweep(
        spec, Path(folder), runner=RUNNER, version=__version__, workers=workers,
        scheduler=scheduler, retry=retry, load=files,
    ).table
