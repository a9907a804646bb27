# SPDX-License-Identifier: Apache-2.0
"""Turns ``[workload]`` into a job: a single collective here, all others in `build_loaded`."""

from sim.describe.sections import Description
from sim.fields import not_one_of
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

__all__ = ["build_job"]


def build_job(description: Description, shape: tuple[int, ...]) -> Job:
    """The job of *description* on logical dimensions of sizes *shape*.

    Raises
    ------
    ConfigError
        With the place of the option that is wrong.
    """
    section = description.workload
    if section.collective is not None:
        return _collective_job(description, section.collective, len(shape))
    # Readers and generators take longer to load than a small run.
    from sim.describe.build_loaded import loaded_job

    return loaded_job(description, shape)


def _collective_job(description: Description, name: str, dimensions: int) -> Job:
    """One collective over some of *dimensions* logical ones, issued ``passes`` times one after the
    other."""
    reader, options = description.reader, description.workload.options
    kinds = [kind.value for kind in CollectiveKind]
    if name not in kinds:
        raise reader.error("workload", "collective", not_one_of(name, kinds))
    values = reader.values(
        CollectiveCall, "workload", options, without=("kind",), beside=["collective"]
    )
    if "size_bytes" not in values:
        raise reader.error("workload", "size_bytes", "is missing")
    if values["size_bytes"] < 1:
        what = f"must be at least 1, not {values['size_bytes']}"
        raise reader.error("workload", "size_bytes", what)
    values["kind"] = CollectiveKind(name)
    call = reader.construct(CollectiveCall, "workload", values)
    for dimension in call.dimensions or ():
        if not 0 <= dimension < dimensions:
            what = f"must be from 0 to {dimensions - 1}, not {dimension}"
            raise reader.error("workload", "dimensions", what)
    builder = GraphBuilder()
    last = None
    for iteration in range(description.run.passes):
        last = builder.add(
            name, TaskKind.COLLECTIVE, (last,), call=call, size_bytes=call.size_bytes,
            iteration=iteration,
        )
    return Job(name=name, graphs=(builder.graph(),))
