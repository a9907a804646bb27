"""Reader of the text workloads of ASTRA-sim 1.0.

A file is a line with the parallelism and its options, a line with the number of layers, and one row
per layer: name, a reserved integer, then compute cycles, collective and bytes for each of forward
pass, input gradient and weight gradient, and the cycles of the update that follows the collective.
A thirteenth column may give the layer its own parallelism. Fields are separated by blanks or tabs,
in any number. Later collections by the same authors drop the first two lines; that is accepted too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib.resources import files
from pathlib import Path

__all__ = [
    "Collective",
    "Layer",
    "TrainingPass",
    "Workload",
    "WorkloadError",
    "parse",
    "read",
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
SHIPPED = {"resnet50": "astra-sim-1.0/Resnet50_DataParallel.txt"}
PASSES = ("forward", "input gradient", "weight gradient")


class WorkloadError(ValueError):
    """A workload file says something that has no meaning; the text starts with file and line."""


class Collective(Enum):
    """What a layer communicates after a pass, by the word used in the file."""

    NONE = "NONE"
    ALL_REDUCE = "ALLREDUCE"
    ALL_TO_ALL = "ALLTOALL"
    ALL_GATHER = "ALLGATHER"
    REDUCE_SCATTER = "REDUCESCATTER"


@dataclass(frozen=True, kw_only=True)
class TrainingPass:
    """Compute of one layer in one pass, and the collective that it starts."""

    compute_cycles: int
    collective: Collective
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
    """Read the workload in the file *path*."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path}: cannot be read: {error}") from error
    return parse(text, name=path.stem, source=str(path))


def shipped(name: str) -> Workload:
    """A workload that comes with the package."""
    if name not in SHIPPED:
        raise ValueError(f"name must be one of {', '.join(SHIPPED)}, not {name!r}")
    text = (files("sim.workload") / "data" / SHIPPED[name]).read_text(encoding="utf-8")
    return parse(text, name=name, source=SHIPPED[name])


def parse(text: str, *, name: str, source: str) -> Workload:
    """Parse *text*; *source* is what error messages call the file."""
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
    rows = lines[2:]
    if declared != len(rows):
        raise lines[1].error(f"number of layers is {declared}, but {len(rows)} rows follow")
    layers = tuple(_layer(line) for line in rows)
    return Workload(name=name, layers=layers, parallelism=parallelism, options=options)


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
            raise self.error(f"{what} must be a non-negative integer, not {text!r}")
        return int(text)

    def one_of(self, column: int, what: str, allowed: Sequence[str]) -> str:
        text = self.fields[column]
        if text not in allowed:
            raise self.error(f"{what} must be one of {', '.join(allowed)}, not {text!r}")
        return text


def _is_row(line: _Line) -> bool:
    # The header has at most a keyword and a few options, never the columns of a row.
    return len(line.fields) in (12, 13) and line.fields[2].isdigit()


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


def _layer(line: _Line) -> Layer:
    if len(line.fields) not in (12, 13):
        raise line.error(f"a layer has 12 or 13 columns, not {len(line.fields)}")
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
    words = [collective.value for collective in Collective]
    compute = line.integer(column, f"{what} cycles")
    collective = Collective(line.one_of(column + 1, f"{what} collective", words))
    size = line.integer(column + 2, f"{what} bytes")
    if (collective is Collective.NONE) != (size == 0):
        raise line.error(f"{what} collective is {collective.value}, but its size is {size} bytes")
    return TrainingPass(compute_cycles=compute, collective=collective, size_bytes=size)
