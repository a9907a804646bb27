# SPDX-License-Identifier: Apache-2.0
"""Cases of a long bench in several processes; those of an interrupted run are not run again."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from bench._kept import Kept

__all__ = ["outcomes"]


def outcomes(
    kept: Kept, cases: Sequence[Any], run: Callable[[Any], dict[str, Any]], processes: int,
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each case with the result of *run*.

    Parameters
    ----------
    kept:
        Store of the results; each is written as soon as it is known.
    cases:
        Arguments of *run*; the `repr` of each must identify it.
    run:
        Returns a dict that can be written as JSON; the time that it took is added as ``seconds``.
    processes:
        Number of worker processes.
    """
    parts = [hashlib.sha256(repr(case).encode()).hexdigest()[:16] for case in cases]
    before = [kept.get(part, says=False) for part in parts]
    if any(before):
        count = sum(found is not None for found in before)
        print(f"{count} of {len(cases)} are those of a run that was interrupted", flush=True)
    for case, found in zip(cases, before):
        if found is not None:
            yield case, found
    left = [(case, part) for case, part, found in zip(cases, parts, before) if found is None]
    if not left:
        return
    with ProcessPoolExecutor(processes) as pool:
        timed = pool.map(_timed, [run] * len(left), [case for case, _ in left])
        for (case, part), found in zip(left, timed):
            kept.put(part, found)
            yield case, found


def _timed(run: Callable[[Any], dict[str, Any]], case: Any) -> dict[str, Any]:
    begin = time.monotonic()
    found = run(case)
    return {**found, "seconds": time.monotonic() - begin}
