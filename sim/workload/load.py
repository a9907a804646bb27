# SPDX-License-Identifier: Apache-2.0
"""One door to all workloads: a source and options in, a job out."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from math import prod
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from gen.arguments import typed
from sim.fields import FieldError, check, check_type
from sim.workload.astra_text import SHIPPED, read, shipped
from sim.workload.chakra_job import chakra_job, read_traces
from sim.workload.compute_model import ComputeModel, Roofline
from sim.workload.generate import dlrm, gnmt, mlp, resnet50, transformer
from sim.workload.graph import Job
from sim.workload.groups import read_groups
from sim.workload.model import ModelTable, model_job
from sim.workload.resources import Accelerator
from sim.workload.training import training_job

__all__ = ["GENERATORS", "load_workload", "model"]

Generator = Callable[..., ModelTable | transformer.Transformer]
"""A function of its parameters, or their record, which makes the table."""

GENERATORS: Mapping[str, tuple[Generator, Mapping[str, Mapping[str, Any]]]] = {
    "resnet50": (resnet50.generate, {}),
    "gnmt": (gnmt.generate, {}),
    "dlrm": (dlrm.generate, dlrm.PRESETS),
    "transformer": (transformer.Transformer, transformer.PRESETS),
    "mlp": (mlp.generate, {}),
}
"""Generators and their presets, by the name that follows ``model:``."""

PLAIN = (bool, int, float, str)

# Missing in the headerless files; the language models leave open how many NPUs share a model.
MISSING_HEADERS: Mapping[str, Mapping[str, Any]] = {
    "libra-resnet50": {"parallelism": "DATA"},
    "libra-dlrm": {"parallelism": "HYBRID_DLRM", "last_bottom": 7},
}


@typed("source", "shape")
def load_workload(
    source: str | Path,
    *,
    shape: Sequence[int],
    compute: ComputeModel | None = None,
    side: ComputeModel | None = None,
    **options: Any,
) -> Job:
    """The job of *source* on a topology of *shape*.

    | source | what it is | options |
    |---|---|---|
    | ``"model:NAME"`` | a generator of :data:`GENERATORS` | ``passes``, ``overlap``, ``preset``, \
and the parameters of the generator |
    | a name of ``astra_text.SHIPPED`` | a bundled text workload | those of \
``training_job`` |
    | a file ``*.txt`` | a text workload | those of ``training_job`` |
    | a file ``*.et`` or a prefix of ``*.0.et`` ... | execution traces | ``groups`` (JSON file), \
``memory_bytes_per_s``, ``memory_latency_s`` |

    Parameters
    ----------
    compute
        Times generated models (default: roofline of ISCA 2021's NPU, whole) and the computations
        of traces that state operations. Text workloads hold times.
    side
        Resources of DLRM's side thread, for ``"model:dlrm"``.

    Raises
    ------
    ValueError
        Naming the source or option, its value and what is allowed.
    """
    named = isinstance(source, str | Path)
    check_type("source", source, "the name of a workload, or a path", named)
    sizes = isinstance(shape, Sequence) and not isinstance(shape, str | bytes)
    sizes = sizes and all(isinstance(size, int) for size in shape)
    check_type("shape", shape, "a sequence of integers, such as network.shape", sizes)
    text = str(source)
    if text.startswith("model:"):
        of_loop = [name for name in ("passes", "overlap") if name in options]
        loop: dict[str, Any] = {name: options.pop(name) for name in of_loop}
        _check_options(text, loop, model_job)
        table = model(text.removeprefix("model:"), **options)
        if side is not None and table.name != "dlrm":
            raise FieldError("side", f"does not apply to {text}; it is for model:dlrm")
        timed = compute or Roofline(resources=Accelerator().left())
        return model_job(table, timed, shape=shape, side=side, **loop)
    if side is not None:
        raise FieldError("side", f"does not apply to {text}; it is for model:dlrm")
    if text in SHIPPED:
        _refuse_compute(compute, text)
        merged = {**MISSING_HEADERS.get(text, {}), **options}
        _check_options(text, merged, training_job)
        return training_job(shipped(text), shape=shape, **merged)
    path = Path(source)
    check("source", source, "the name of a workload, or a path", bool(path.name))
    if path.suffix == ".txt":
        _refuse_compute(compute, text)
        _check_options(text, options, training_job)
        return training_job(read(path), shape=shape, **options)
    if path.suffix == ".et" or path.with_name(f"{path.name}.0.et").is_file():
        _check_options(text, options, chakra_job)
        if options.get("groups") is not None:
            options["groups"] = read_groups(options["groups"], npus=prod(shape))
        traces = read_traces(path, npus=prod(shape))
        return chakra_job(traces, shape=shape, compute=compute, **{"name": path.stem, **options})
    raise FieldError(
        "source",
        f"must be model:NAME, a text workload *.txt, an execution trace *.et, the prefix of "
        f"traces *.0.et, or one of {', '.join(SHIPPED)}, not {text!r}"
    )


def model(name: str, *, preset: str | None = None, **options: Any) -> ModelTable:
    """The table of a generated model; *options* replace those of the preset."""
    if name not in GENERATORS:
        raise FieldError("model", f"must be one of {', '.join(GENERATORS)}, not {name!r}")
    generate, presets = GENERATORS[name]
    if preset is not None and preset not in presets:
        raise FieldError(
            "preset", f"of model {name!r} must be one of {', '.join(presets) or '(none)'}, "
            f"not {preset!r}"
        )
    _check_options(f"model:{name}", options, generate)
    made = generate(**{**(presets[preset] if preset else {}), **options})
    return made if isinstance(made, ModelTable) else made.table()


def _refuse_compute(compute: ComputeModel | None, source: str) -> None:
    if compute is not None:
        raise FieldError("compute", f"does not apply to {source}, which holds times")


def _check_options(source: str, options: Mapping[str, Any], taker: Callable[..., object]) -> None:
    allowed = {
        name: parameter.annotation
        for name, parameter in signature(taker).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in ("shape", "compute")
    }
    for name, value in options.items():
        if name not in allowed:
            raise FieldError(
                "option", f"of {source} must be one of {', '.join(allowed)}, not {name!r}"
            )
        union = isinstance(allowed[name], UnionType)
        expected = get_args(allowed[name]) if union else (allowed[name],)
        plain = [each for each in expected if each in PLAIN]
        if value is None and type(None) in expected:
            continue
        if plain and not any(_is(value, each) for each in plain):
            names = " or ".join(each.__name__ for each in plain)
            raise FieldError(name, f"must be of type {names}, not {value!r}")


def _is(value: object, expected: type) -> bool:
    if isinstance(value, bool):  # an int to Python, but not to us
        return expected is bool
    return isinstance(value, (int, float) if expected is float else expected)
