# SPDX-License-Identifier: Apache-2.0
"""Reader of the layer tables of SCALE-Sim and of the workload generator of ASTRA-sim 1.0.

Three kinds of CSV file, told apart by their first line: convolutions (name, input height and width,
filter height and width, channels, filters, stride), products (name, M, N, K) with M x K by K x N,
and products with a parallelism per layer. A comma at the end of a line is part of the format.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from sim.opened import opening
from sim.workload.work import Convolution, Gemm

__all__ = ["TableRow", "read_gemm_table"]

CONVOLUTION: tuple[str, ...] = (
    "height",
    "width",
    "filter_height",
    "filter_width",
    "channels",
    "filters",
    "stride",
)
PRODUCT: tuple[str, ...] = ("m", "n", "k")
LARGEST_FILE = 16 << 20
LARGEST_NUMBER = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One layer. A convolution has its product as well as itself."""

    name: str
    gemm: Gemm
    convolution: Convolution | None = None
    parallelism: str | None = None


def read_gemm_table(path: str | Path) -> tuple[TableRow, ...]:
    """The rows of the file *path*, in order.

    Raises
    ------
    ValueError
        With file, line and column, if the file says something that has no meaning.
    """
    path = opening(path)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"{path}: is larger than the {LARGEST_FILE} bytes allowed")
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [
                (number, [field.strip() for field in fields])
                for number, fields in enumerate(csv.reader(file), start=1)
                if any(field.strip() for field in fields)
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    if not lines:
        raise ValueError(f"{path}: is empty")

    number, header = lines[0]
    columns = _fields(header)
    if len(columns) == 1 + len(CONVOLUTION) and "height" in columns[1].lower():
        names = CONVOLUTION
    elif [name.lower() for name in columns[1:4]] == list(PRODUCT) and len(columns) in (4, 5):
        names = PRODUCT
    else:
        raise ValueError(
            f"{path}:{number}: the first line must name the columns, either layer and 7 of a "
            f"convolution or Layer, M, N, K and perhaps a parallelism, not {','.join(header)[:80]}"
        )
    if len(lines) == 1:
        raise ValueError(f"{path}: holds no layers")
    return tuple(
        _row(f"{path}:{number}", _fields(fields), names, len(columns))
        for number, fields in lines[1:]
    )


def _fields(fields: list[str]) -> list[str]:
    return fields[:-1] if fields and not fields[-1] else fields


def _row(where: str, fields: list[str], names: tuple[str, ...], columns: int) -> TableRow:
    if len(fields) != columns:
        raise ValueError(f"{where}: a row has {columns} columns, not {len(fields)}")
    sizes = {}
    for name, text in zip(names, fields[1:]):
        good = text.isascii() and text.isdigit() and len(text) <= 20
        if not good or not 1 <= int(text) <= LARGEST_NUMBER:
            raise ValueError(f"{where}: {name} must be 1 .. {LARGEST_NUMBER}, not {text[:40]!r}")
        sizes[name] = int(text)
    try:
        if names == PRODUCT:
            own = fields[4] if columns == 5 else None
            return TableRow(name=fields[0], gemm=Gemm(**sizes), parallelism=own)
        convolution = Convolution(**sizes)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return TableRow(name=fields[0], gemm=convolution.gemm(), convolution=convolution)
