"""From ``[workload]`` to a job: text files, generators, single collectives."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from sim.compute.model import ComputeModel, Roofline, SystolicArray
from sim.compute.resources import Accelerator, ComputeResources
from sim.config_reader import TomlReader
from sim.endpoint.kinds import Npu
from sim.system.config import Description
from sim.workload.astra_text import SHIPPED, Workload
from sim.workload.astra_text import read as read_text_workload
from sim.workload.astra_text import shipped as shipped_workload
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind
from sim.workload.model import model_job
from sim.workload.training import training_job

__all__ = ["build_job"]

GENERATORS = ("resnet50", "gnmt", "dlrm", "transformer", "mlp")
COMPUTE = {"roofline": Roofline, "systolic": SystolicArray}
# What a description states elsewhere: [topology], [run], [endpoint].
NOT_OPTIONS = ("workload", "shape", "passes", "overlap")

Model = Callable[[ComputeResources], ComputeModel]


def build_job(description: Description, shape: tuple[int, ...]) -> Job:
    """The job of *description* on logical dimensions of sizes *shape*.

    Raises
    ------
    ConfigError
        With the place of the option that is wrong.
    """
    section = description.workload
    if section.collective is not None:
        return _collective_job(description, section.collective)
    if section.generator is not None:
        return _generated_job(description, section.generator, shape)
    return _text_job(description, shape)


def _collective_job(description: Description, name: str) -> Job:
    """One collective, issued ``passes`` times one after the other."""
    reader, options = description.reader, description.workload.options
    kinds = [kind.value for kind in CollectiveKind]
    if name not in kinds:
        raise reader.error(
            "workload", "collective", f"must be one of {', '.join(kinds)}, not {name!r}"
        )
    values = reader.values(
        CollectiveCall, "workload", options, without=("kind",), beside=["collective"]
    )
    if "size_bytes" not in values:
        raise reader.error("workload", "size_bytes", "is missing")
    values["kind"] = CollectiveKind(name)
    call = reader.construct(CollectiveCall, "workload", values)
    for dimension in call.dimensions or ():
        if not 0 <= dimension < len(description.dimensions):
            what = f"must be from 0 to {len(description.dimensions) - 1}, not {dimension}"
            raise reader.error("workload", "dimensions", what)
    builder = GraphBuilder()
    last = None
    for iteration in range(description.run.passes):
        last = builder.add(
            name, TaskKind.COLLECTIVE, (last,), call=call, size_bytes=call.size_bytes,
            iteration=iteration,
        )  # fmt: skip
    return Job(name=name, graphs=(builder.graph(),))


def _text_job(description: Description, shape: tuple[int, ...]) -> Job:
    """A text workload; its computations take as long as the endpoint leaves compute units."""
    reader, section = description.reader, description.workload
    workload: Workload
    if section.shipped is not None:
        if section.shipped not in SHIPPED:
            what = f"must be one of {', '.join(SHIPPED)}, not {section.shipped!r}"
            raise reader.error("workload", "shipped", what)
        workload = shipped_workload(section.shipped)
    else:
        assert section.file is not None
        workload = read_text_workload(description.folder / section.file)
    values = reader.values(
        training_job, "workload", section.options, without=NOT_OPTIONS, beside=["file", "shipped"]
    )
    share = description.endpoint.share().compute
    values["compute_scale"] = values.get("compute_scale", 1.0) / share
    made = partial(
        training_job,
        workload,
        shape=shape,
        passes=description.run.passes,
        overlap=description.endpoint.overlaps,
    )
    return reader.construct(made, "workload", values)


def _generated_job(description: Description, name: str, shape: tuple[int, ...]) -> Job:
    """A model from its hyperparameters, timed by ``[workload.compute]``.

    ``preset`` names a set of hyperparameters; ``side`` is what DLRM's side thread has.
    """
    reader = description.reader
    if name not in GENERATORS:
        what = f"must be one of {', '.join(GENERATORS)}, not {name!r}"
        raise reader.error("workload", "generator", what)
    module = import_module(f"sim.workload.generate.{name}")
    own = dict(description.workload.options)
    compute, side = own.pop("compute", {}), own.pop("side", None)
    preset: Mapping[str, Any] = {}
    presets: Mapping[str, Mapping[str, Any]] = getattr(module, "PRESETS", {})
    if (chosen := own.pop("preset", None)) is not None:
        if chosen not in presets:
            there = ", ".join(presets) or "absent for this generator"
            raise reader.error("workload", "preset", f"must be one of {there}, not {chosen!r}")
        preset = presets[chosen]
    beside = ["generator", "preset", "compute", "side"]
    values = dict(preset) | reader.values(module.generate, "workload", own, beside=beside)
    table = reader.construct(module.generate, "workload", values)
    accelerator, model = _compute(description, compute)
    aside = None if side is None else _side(reader, accelerator, model, side)
    made = partial(
        model_job,
        table,
        model(_left(description, accelerator)),
        shape=shape,
        passes=description.run.passes,
        overlap=description.endpoint.overlaps,
    )
    return reader.construct(made, "workload", {"side": aside})


def _compute(description: Description, table: Any) -> tuple[Accelerator, Model]:
    reader = description.reader
    section = "workload.compute"
    if not isinstance(table, Mapping):
        raise reader.error("workload", "compute", f"must be a table, not {table!r}")
    own = dict(table)
    kind = reader.convert(section, "kind", own.pop("kind", "roofline"), str)
    if kind not in COMPUTE:
        raise reader.error(section, "kind", f"must be one of {', '.join(COMPUTE)}, not {kind!r}")
    flops = reader.convert(section, "flops_per_s", own.pop("flops_per_s", 120e12), float)
    npu = getattr(description.endpoint, "npu", Npu())
    accelerator = reader.construct(
        Accelerator,
        section,
        {
            "units": npu.cores,
            "flops_per_s": flops,
            "memory_bytes_per_s": npu.memory_bytes_per_s,
        },
    )
    beside = ["kind", "flops_per_s"]
    values = reader.values(COMPUTE[kind], section, own, without=("resources",), beside=beside)

    def model(resources: ComputeResources) -> ComputeModel:
        made: ComputeModel = reader.construct(
            COMPUTE[kind], section, {**values, "resources": resources}
        )
        return made

    return accelerator, model


def _left(description: Description, accelerator: Accelerator) -> ComputeResources:
    share = description.endpoint.share()
    if not share.memory_bytes_per_s > 0:
        what = "must leave some of endpoint.npu.memory_bytes_per_s to training"
        raise description.reader.error("endpoint", "memory_bytes_per_s", what)
    return accelerator.part(
        units=share.compute * accelerator.units, memory_bytes_per_s=share.memory_bytes_per_s
    )


def _side(reader: TomlReader, accelerator: Accelerator, model: Model, table: Any) -> ComputeModel:
    if not isinstance(table, Mapping):
        raise reader.error("workload", "side", f"must be a table, not {table!r}")
    section = "workload.side"
    values = reader.values(accelerator.part, section, table)
    return model(reader.construct(accelerator.part, section, values))
