# SPDX-License-Identifier: Apache-2.0
"""Reader and writer of the text workloads of ASTRA-sim 1.0.

A file is a line with the parallelism and its options, a line with the number of layers, and one row
per layer: name, a reserved integer, then compute cycles, collective and bytes for each of forward
pass, input gradient and weight gradient, and the cycles of the update that follows the collective.
A thirteenth column gives the layer its own parallelism under HYBRID_CUSTOMIZED. Fields are
separated by blanks or tabs, in any number. Later collections by the same authors drop the first two
lines; that is accepted too. Anything else is an error with file, line, field and what is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sim.fields import FieldError
from sim.opened import opening
from sim.workload.graph import CollectiveKind

__all__ = [
    "Layer",
    "TrainingPass",
    "Workload",
    "WorkloadError",
    "parse",
    "read",
    "render",
    "shipped",
]

PARALLELISMS = (
    "DATA",
    "MODEL",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "HYBRID_DLRM",
    "HYBRID_DLRM_ENHANCED",
    "HYBRID_TRANSFORMER",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD",
    "HYBRID_CUSTOMIZED",
    "DISTRIBUTED_INFERENCE",
    "MICRO",
)
SHIPPED = {
    "resnet50": "astra-sim-1.0/Resnet50_DataParallel.txt",
    "dlrm": "astra-sim-1.0/DLRM_HybridParallel.txt",
    "transformer": "astra-sim-1.0/Transformer_HybridParallel.txt",
    "transformer-recompute": "astra-sim-1.0/Transformer_HybridParallel_Fwd_In_Bckwd.txt",
    "mlp-data-model": "astra-sim-1.0/MLP_HybridParallel_Data_Model.txt",
    "mlp-model-data": "astra-sim-1.0/MLP_HybridParallel_Model_Data.txt",
    "mlp-model": "astra-sim-1.0/MLP_ModelParallel.txt",
    "mlp-customized": "astra-sim-1.0/sample_per_layer_parallel_HybridCustomized.txt",
    "micro-all-reduce": "astra-sim-1.0/microAllReduce.txt",
    "micro-all-to-all": "astra-sim-1.0/microAllToAll.txt",
    "libra-resnet50": "libra/ResNet_50.txt",
    "libra-dlrm": "libra/DLRM.txt",
    "libra-gpt3": "libra/GPT_3.txt",
    "libra-turing-nlg": "libra/Turing_NLG.txt",
    "libra-msft-1t": "libra/MSFT_1T.txt",
}
DATA = Path(__file__).parent / "data"
LARGEST_FILE = 256 << 20
LARGEST_NUMBER = 2**63 - 1
OPTIONS = {
    "HYBRID_TRANSFORMER": ("model_parallel_NPU_group",),
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": (
        "model_parallel_NPU_group",
        "checkpoints",
        "checkpoint_initiates",
    ),
    "HYBRID_DLRM": ("",),
    "HYBRID_DLRM_ENHANCED": ("",),
}
PASSES = ("forward", "input gradient", "weight gradient")


class WorkloadError(ValueError):
    """A workload file states something without meaning; the text starts with file and line."""


COLLECTIVES = {
    "NONE": None,
    "ALLREDUCE": CollectiveKind.ALL_REDUCE,
    "ALLTOALL": CollectiveKind.ALL_TO_ALL,
    "ALLGATHER": CollectiveKind.ALL_GATHER,
    "REDUCESCATTER": CollectiveKind.REDUCE_SCATTER,
}
"""Collective of a layer after a pass, by the word used in the file."""
_WORDS = {kind: word for word, kind in COLLECTIVES.items()}


@dataclass(frozen=True, kw_only=True)
class TrainingPass:
    """Compute of one layer in one pass, and the collective that it starts."""

    compute_cycles: int
    collective: CollectiveKind | None
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One row. `update_cycles` is the whole update after the weight gradient's collective."""

    name: str
    forward: TrainingPass
    input_gradient: TrainingPass
    weight_gradient: TrainingPass
    update_cycles: int
    parallelism: str | None = None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A training job: its layers in forward order.

    `options` holds the numbers that follow the parallelism, by their label; numbers without a label
    are under the empty string.
    """

    name: str
    layers: tuple[Layer, ...]
    parallelism: str | None = None
    options: dict[str, tuple[int, ...]] = field(default_factory=dict)


def read(path: str | Path) -> Workload:
    """Read the workload in the file *path*, of at most 256 MiB."""
    path = opening(path)
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise WorkloadError(f"{path}: has {size} bytes, more than the {LARGEST_FILE} allowed")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path}: cannot be read: {error}") from error
    return parse(text, name=path.stem, source=str(path))


def shipped(name: str) -> Workload:
    """A workload that comes with the package; ``data/ORIGIN.md`` says where it comes from."""
    if name not in SHIPPED:
        raise FieldError("name", f"must be one of {', '.join(SHIPPED)}, not {name!r}")
    text = (DATA / SHIPPED[name]).read_text(encoding="utf-8")
    return parse(text, name=name, source=SHIPPED[name])


def parse(text: str, *, name: str, source: str) -> Workload:
    """Parse *text*; *source* names the file in errors."""
    lines = [
        _Line(source, number, line.split())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    if not lines:
        raise WorkloadError(f"{source}: no layers; the file is empty")
    if _is_row(lines[0]):
        return Workload(name=name, layers=tuple(_layer(line) for line in lines))

    parallelism, options = _header(lines[0])
    if len(lines) < 2:
        raise WorkloadError(f"{source}: the second line, with the number of layers, is missing")
    declared = lines[1].integer(0, "number of layers")
    if len(lines[1].fields) > 1:
        raise lines[1].error(f"number of layers is followed by {lines[1].fields[1]!r}")
    if declared == 0:
        raise lines[1].error("number of layers must be at least 1")
    rows = lines[2:]
    if declared != len(rows):
        raise lines[1].error(f"number of layers is {declared}, but {len(rows)} rows follow")
    _check_options(lines[0], parallelism, options, declared)
    for row in rows:
        if parallelism == "HYBRID_CUSTOMIZED" and len(row.fields) == 12:
            raise row.error("HYBRID_CUSTOMIZED needs a 13th column, the layer's parallelism")
    layers = tuple(_layer(line) for line in rows)
    return Workload(name=name, layers=layers, parallelism=parallelism, options=options)


def render(workload: Workload) -> str:
    """*workload* as the text that :func:`parse` reads back, without a header if it has none."""
    lines = []
    if workload.parallelism is not None:
        words = [workload.parallelism]
        for label, numbers in workload.options.items():
            words += [f"{label}:"] if label else []
            words += [str(number) for number in numbers]
        lines += [" ".join(words), str(len(workload.layers))]
    for layer in workload.layers:
        if not layer.name or layer.name.split() != [layer.name]:
            raise ValueError(f"layer name must be one word to be written, not {layer.name!r}")
        fields: list[object] = [layer.name, -1]
        for each in (layer.forward, layer.input_gradient, layer.weight_gradient):
            fields += [each.compute_cycles, _WORDS[each.collective], each.size_bytes]
        fields.append(layer.update_cycles)
        fields += [layer.parallelism] if layer.parallelism else []
        lines.append("\t".join(map(str, fields)))
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Line:
    source: str
    number: int
    fields: Sequence[str]

    def error(self, what: str) -> WorkloadError:
        return WorkloadError(f"{self.source}:{self.number}: {what}")

    def integer(self, column: int, what: str) -> int:
        text = self.fields[column]
        if not (text.isascii() and text.isdigit()):
            raise self.error(f"{what} must be a non-negative integer, not {_short(text)}")
        # Length first: turning a gigantic text into a number takes quadratic time.
        if len(text) > 1000 or int(text) > LARGEST_NUMBER:
            raise self.error(f"{what} must be at most {LARGEST_NUMBER}, not {_short(text)}")
        return int(text)

    def one_of(self, column: int, what: str, allowed: Sequence[str]) -> str:
        text = self.fields[column]
        if text not in allowed:
            raise self.error(f"{what} must be one of {', '.join(allowed)}, not {_short(text)}")
        return text


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _is_row(line: _Line) -> bool:
    # With enough options a header has as many fields as a row.
    return len(line.fields) in (12, 13) and line.fields[0] not in PARALLELISMS


def _header(line: _Line) -> tuple[str, dict[str, tuple[int, ...]]]:
    parallelism = line.one_of(0, "parallelism", PARALLELISMS)
    options: dict[str, tuple[int, ...]] = {}
    label = ""
    for column, word in enumerate(line.fields[1:], start=1):
        if word.endswith(":"):
            label = word.removesuffix(":")
            options[label] = ()
        else:
            options[label] = (*options.get(label, ()), line.integer(column, label or "option"))
    return parallelism, options


def _check_options(
    line: _Line, parallelism: str, options: dict[str, tuple[int, ...]], layers: int
) -> None:
    allowed = OPTIONS.get(parallelism, ())
    for label in options:
        if label not in allowed:
            names = (
                ", ".join(name or "a number without a label" for name in allowed) or "no options"
            )
            raise line.error(f"{parallelism} takes {names}, not {label or 'a number'!r}")
    for label in allowed:
        numbers = options.get(label)
        if numbers is None:
            raise line.error(f"{parallelism} needs {label or 'the last bottom layer'}")
        if label in ("checkpoints", "checkpoint_initiates"):
            if not numbers or len(numbers) != numbers[0] + 1:
                raise line.error(f"{label} must be a count and as many layers, not {numbers}")
            if any(number >= layers for number in numbers[1:]):
                raise line.error(f"{label} must name layers 0 .. {layers - 1}, not {numbers[1:]}")
        elif len(numbers) != 1:
            raise line.error(f"{label or 'last bottom layer'} must be one number, not {numbers}")
    if parallelism in ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED"):
        (last_bottom,) = options[""]
        if not 1 <= last_bottom < layers - 1:
            raise line.error(f"last bottom layer must be 1 .. {layers - 2}, not {last_bottom}")
    elif "model_parallel_NPU_group" in options and options["model_parallel_NPU_group"] == (0,):
        raise line.error("model_parallel_NPU_group must be at least 1, not 0")


def _layer(line: _Line) -> Layer:
    reserved = line.fields[1] if len(line.fields) > 1 else ""
    if len(line.fields) not in (12, 13):
        raise line.error(f"a layer has 12 or 13 columns, not {len(line.fields)}")
    if not (reserved.isascii() and reserved.removeprefix("-").isdigit()):
        raise line.error(f"reserved column must be an integer, not {_short(reserved)}")
    passes = [_pass(line, 2 + 3 * index, what) for index, what in enumerate(PASSES)]
    own = line.one_of(12, "parallelism", PARALLELISMS) if len(line.fields) == 13 else None
    return Layer(
        name=line.fields[0],
        forward=passes[0],
        input_gradient=passes[1],
        weight_gradient=passes[2],
        update_cycles=line.integer(11, "update cycles"),
        parallelism=own,
    )


def _pass(line: _Line, column: int, what: str) -> TrainingPass:
    compute = line.integer(column, f"{what} cycles")
    word = line.one_of(column + 1, f"{what} collective", list(COLLECTIVES))
    size = line.integer(column + 2, f"{what} bytes")
    if (word == "NONE") != (size == 0):
        raise line.error(f"{what} collective is {word}, but its size is {size} bytes")
    return TrainingPass(compute_cycles=compute, collective=COLLECTIVES[word], size_bytes=size)
