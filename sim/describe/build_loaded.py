# SPDX-License-Identifier: Apache-2.0
"""Turns ``[workload]`` into a job: text files, traces and generated models."""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any

from sim.describe.reader import TomlReader
from sim.describe.sections import Description
from sim.endpoint.kinds import Npu
from sim.fields import not_one_of
from sim.workload.astra_text import SHIPPED
from sim.workload.chakra_job import chakra_job
from sim.workload.compute_model import ComputeModel, Roofline, SystolicArray
from sim.workload.graph import Job
from sim.workload.load import GENERATORS, load_workload
from sim.workload.resources import Accelerator, ComputeResources
from sim.workload.training import training_job

__all__ = ["loaded_job"]

COMPUTE = {"roofline": Roofline, "systolic": SystolicArray}
# Options that a description states elsewhere: [topology], [run], [endpoint].
NOT_OPTIONS = ("workload", "traces", "name", "shape", "passes", "overlap", "compute", "groups")

Model = Callable[[ComputeResources], ComputeModel]


def loaded_job(description: Description, shape: tuple[int, ...]) -> Job:
    """A text workload, an execution trace or a generated model.

    Text workloads state times, which grow as the endpoint leaves less of the compute units. Models
    are timed by ``[workload.compute]`` with what is left, and so are the operations of traces if
    that table is there.
    """
    reader, section, endpoint = description.reader, description.workload, description.endpoint
    key, name = section.source
    own = dict(section.options)
    tables = {each: own.pop(each) for each in ("compute", "side") if each in own}
    fixed: dict[str, Any] = {"passes": description.run.passes, "overlap": endpoint.overlaps}
    taker: Callable[..., Any] = training_job
    timed = False
    if key == "generator":
        if name not in GENERATORS:
            models = [model for model, (_, presets) in GENERATORS.items() if name in presets]
            if models:
                what = f"must be {models[0]!r}, with preset = {name!r}, not {name!r}"
            else:
                what = not_one_of(name, GENERATORS)
            raise reader.error("workload", key, what)
        taker, timed, source = GENERATORS[name][0], True, f"model:{name}"
    elif key == "shipped":
        if name not in SHIPPED:
            what = not_one_of(name, SHIPPED)
            raise reader.error("workload", key, what)
        source = name
    else:
        source = str(description.folder / name)
        if not source.endswith(".txt"):
            taker, timed, fixed = chakra_job, "compute" in tables, {}
    beside = [key, "preset", "compute", "side"] if key == "generator" else [key, "compute"]
    preset = {}
    if key == "generator" and "preset" in own:
        preset = {"preset": reader.convert("workload", "preset", own.pop("preset"), str)}
    if "groups" in own:
        fixed["groups"] = description.folder / reader.convert(
            "workload", "groups", own.pop("groups"), str
        )
    values = reader.values(taker, "workload", own, without=NOT_OPTIONS, beside=beside) | preset
    if taker is training_job:
        if not endpoint.share().compute > 0:
            raise reader.error("endpoint", "cores", "leaves no core to training")
        values["compute_scale"] = values.get("compute_scale", 1.0) / endpoint.share().compute
    if timed:
        accelerator, model = _compute(description, tables.get("compute", {}))
        fixed["compute"] = model(_left(description, accelerator))
        if "side" in tables:
            fixed["side"] = _side(reader, accelerator, model, tables["side"])
    elif tables:
        what = "must be absent where the workload states times"
        raise reader.error("workload", min(tables), what)
    names = [*signature(taker).parameters, "preset", "side"]
    made = partial(load_workload, source, shape=shape, **fixed)
    return reader.construct(made, "workload", values, names=names)


def _compute(description: Description, table: Any) -> tuple[Accelerator, Model]:
    reader = description.reader
    section = "workload.compute"
    if not isinstance(table, Mapping):
        raise reader.error("workload", "compute", f"must be a table, not {table!r}")
    own = dict(table)
    kind = reader.convert(section, "kind", own.pop("kind", "roofline"), str)
    if kind not in COMPUTE:
        raise reader.error(section, "kind", not_one_of(kind, COMPUTE))
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
