# SPDX-License-Identifier: Apache-2.0
"""One run of one description, at whatever level: events, cycle models, RTL, or mixed.

``run`` returns the same type at every level; sweeps, comparisons, traces and figures work on it
and do not know the level.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gen.arguments import typed
from sim.collectives.own import AlgorithmError
from sim.describe.build import build
from sim.describe.changes import apply, changed, with_changes
from sim.describe.endpoints import as_events, with_endpoint
from sim.describe.loaded import LOAD, load_stated
from sim.describe.reader import ConfigError, TomlReader, load_toml, read_text
from sim.describe.sections import Description
from sim.describe.system import describe
from sim.events.record import RunRecord
from sim.fields import FieldError, check_type
from sim.opened import recorded
from sim.results.origin import plain
from sim.runs.result import DataCheck, Run
from sim.workload.host import wait_for_all

__all__ = ["DataCheck", "Run", "run"]


@typed("description", "endpoint", "trace")
def run(
    description: Mapping[str, Any] | str | Path | Description,
    *,
    endpoint: str | None = None,
    trace: bool | None = None,
    source: str | None = None,
    changes: Mapping[str, Any] | None = None,
    report: Callable[[float], None] | None = None,
    load: Sequence[Path | str] = (),
) -> Run:
    """Run the system of *description*: a file, or the contents of such a file as a dictionary.

    Parameters
    ----------
    endpoint
        Kind, or ``kind:level``, in place of the one in the description.
    trace
        Record chunks and transfers for the trace (events); None: as described.
    changes
        Dotted key -> value, in place of the description's: ``{"run.passes": 1}``.
    source
        Name of a dictionary in errors; files that it names are relative to the folder of that path.
    report
        Called now and then, from another thread, with the share of the work that is done (events).
    load
        Python files that register algorithms, endpoints or engines, as with ``--load``: besides
        those that the description names, relative to the working directory.

    Raises
    ------
    ConfigError
        Naming file, line if known, key, value and what is allowed.
    SimulationError
        If the system cannot finish: its nodes wait for each other.
    """
    check_type(
        "description",
        description,
        "the path of a file, or a mapping",
        isinstance(description, Mapping | str | Path | Description),
    )
    check_type("endpoint", endpoint, "KIND or KIND:LEVEL", isinstance(endpoint, str | None))
    check_type("trace", trace, "True, False or None", isinstance(trace, bool | None))
    if not isinstance(description, Description):
        description = _read(description, endpoint, source, changes or {}, load)
    elif endpoint is not None or changes or load:
        name = "changes" if changes else "load" if load else "endpoint"
        raise FieldError(name, "must be None for a description that has been read")
    if description.alternatives:
        return _fastest(description, trace, report)
    if trace is not None and description.level == "events":
        description = _traced(description, trace)
    with recorded() as files:
        system = build(description)
    if (origin := description.origin) is not None and files:
        origin = replace(origin, files={**origin.files, **files})
        description = replace(description, origin=origin)
    if description.host.wait == "all":
        system = replace(system, job=wait_for_all(system.job))
    try:
        if description.level == "events":
            from sim.runs.events import run_events

            done = run_events(description, system, report)
        else:
            # Loads the hardware description language if an engine has to be compiled.
            from sim.runs.engines import run_on_engines

            done = run_on_engines(description, system)
            estimated = replace(done.record, estimate=_estimate(description))
            done = done.with_parts(record=estimated)
        if description.left_out:
            keys = ", ".join(description.left_out)
            done.record.notes.append(f"left out, without meaning for {description.kind}: {keys}")
        return done
    except (ValueError, ArithmeticError) as error:
        if (own := _own_error(error)) is not None:
            raise ConfigError(str(own)) from error
        if isinstance(error, ConfigError):
            raise
        # Parts that are valid by themselves but do not fit together.
        raise ConfigError(f"{description.reader.source}: {error}") from error


def _own_error(error: BaseException) -> AlgorithmError | None:
    """The error of a user's algorithm that *error* comes from: its file is the one to mend."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, AlgorithmError):
        cause = cause.__cause__
    return cause


def _estimate(description: Description) -> RunRecord | None:
    """An event simulation of a system of engines, which says where chunks spend their time; None
    where events do not have such a system."""
    origin, engine = description.origin, description.engine
    if origin is None or engine is None:
        return None
    try:
        document = as_events(origin.document, engine.preset)
        return run(document, source=str(origin.folder / "system")).record
    except (ValueError, RuntimeError):
        return None


def _traced(description: Description, trace: bool) -> Description:
    """The description with ``[run] trace``, or without."""
    origin = description.origin
    if origin is not None:
        document = copy.deepcopy(dict(origin.document))
        changed(document, "run.trace", trace)
        origin = replace(origin, document=document)
    return replace(description, run=replace(description.run, trace=trace), origin=origin)


def _fastest(
    description: Description, trace: bool | None, report: Callable[[float], None] | None
) -> Run:
    """The run of the alternative that takes the shortest time."""
    runs: dict[str, Run] = {}
    for name, each in description.alternatives.items():
        before = len(runs) / len(description.alternatives)

        def part(share: float, before: float = before) -> None:
            assert report is not None
            report(before + share / len(description.alternatives))

        runs[name] = run(each, trace=trace, report=part if report else None)
    taken = min(runs, key=lambda name: runs[name].time_s)
    times = ", ".join(f"{name} {1e6 * each.time_s:.4g} us" for name, each in runs.items())
    found = runs[taken]
    found.record.notes.append(f"algorithm auto: {taken}, the fastest of {times}")
    described = replace(
        found.description, digest=description.digest, origin=description.origin
    )
    return found.with_parts(description=described, algorithm=taken)


def _read(
    given: Mapping[str, Any] | str | Path,
    endpoint: str | None,
    source: str | None,
    changes: Mapping[str, Any],
    load: Sequence[Path | str],
) -> Description:
    if isinstance(given, Mapping):
        reader = TomlReader(source or "system")
        document = copy.deepcopy(dict(given)) if changes or load else dict(given)
        folder = Path(source).parent if source else Path()
    else:
        text = read_text(given)
        document = load_toml(text, source=str(given))
        reader, folder = TomlReader(str(given), text), Path(given).parent
    left_out: tuple[str, ...] = ()
    before = plain(document.get("changes", {}))
    document = dict(with_changes(document, reader))
    if load:
        more = [str(Path(each).absolute()) for each in load]
        document[LOAD] = list(dict.fromkeys([*document.get(LOAD, ()), *more]))
    load_stated(document, reader, folder)
    if endpoint is not None:
        document, left_out = with_endpoint(document, endpoint)
    apply(document, changes, reader)
    made = describe(document, reader=reader, folder=folder)
    assert made.origin is not None
    origin = replace(made.origin, endpoint=endpoint or "", changes={**before, **plain(changes)})
    return replace(made, left_out=left_out, origin=origin)
