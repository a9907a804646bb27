# SPDX-License-Identifier: Apache-2.0
"""Arrow arrays of cells against ``pyarrow.array``, and that none of them imports pandas."""

import random
import subprocess
import sys

import pyarrow
import pytest

from gen.arrow import arrow_array

DRAWN = {
    "bool": lambda draw: draw.random() < 0.5,
    "int": lambda draw: draw.randrange(-(1 << 63), 1 << 63),
    "float": lambda draw: draw.choice([draw.gauss(0, 1e300), float("inf"), -0.0]),
    "str": lambda draw: draw.choice(["", "a", "ü\n", "\U0001f600" * 3]),
}


@pytest.mark.parametrize("kind", DRAWN)
@pytest.mark.parametrize("nulls", [0.0, 0.3])
def test_an_array_is_that_of_pyarrow(kind: str, nulls: float) -> None:
    draw = random.Random(f"{kind}{nulls}")
    for length in (1, 7, 8, 9, 65, 300):
        values = [
            None if draw.random() < nulls else DRAWN[kind](draw) for _ in range(length)
        ]
        made, expected = arrow_array(values), pyarrow.array(values)
        made.validate(full=True)
        assert made.type == expected.type
        assert made.equals(expected)
        assert made.null_count == expected.null_count


@pytest.mark.parametrize(
    "values", [[], [None], [None, None], [1 << 63], [True, None, 2], [b"a"]], ids=repr
)
def test_all_else_is_that_of_pyarrow_too(values: list[object]) -> None:
    try:
        expected = pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError) as error:
        with pytest.raises(type(error)):
            arrow_array(values)
    else:
        assert arrow_array(values).equals(expected)


def test_saving_a_run_imports_no_pandas(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = (
        "import sys\nfrom pathlib import Path\nfrom gen.table import Column, Table\n"
        "table = Table('t', [Column('a'), Column('b'), Column('c'), Column('d')],"
        " [('x', 1, 2.5, True), (None, None, None, None)])\n"
        f"table.write(Path({str(tmp_path / 't.parquet')!r}))\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True)
