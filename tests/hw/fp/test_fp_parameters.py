# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Parameters of the arithmetic blocks that are refused."""

from typing import Any

import pytest

from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU
from hw.fp.formats import FloatFormat
from hw.fp.minmax import FPMinMax


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: FPAdder(stages=-1), ValueError, "FPAdder stages must be an integer from 0 to 8"),
        (lambda: FPAdder(stages=True), TypeError, "FPAdder stages must be an integer from 0 to 8"),
        (lambda: FPAdder(fmt=32), TypeError, "FPAdder fmt must be a FloatFormat, not 32"),
        (lambda: FPMinMax(fmt=None), TypeError, "FPMinMax fmt must be a FloatFormat, not None"),
        (lambda: ReduceALU(0), ValueError, "ReduceALU lanes must be .* 1 to 4096, not 0"),
        (lambda: ReduceALU(2.0), TypeError, "ReduceALU lanes must be .* 1 to 4096, not "),
        (lambda: ReduceALU(1, stages=9), ValueError, "ReduceALU stages must be .* 0 to 8, not 9"),
        (lambda: ReduceALU(1, stages="3"), TypeError, "ReduceALU stages must be .*, not '3'"),
    ],
)
def test_bad_parameters_are_named(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        make()


@pytest.mark.parametrize(
    ("exponent", "fraction", "error", "text"),
    [
        (2, 5, ValueError, "exponent must be an integer at least 3, not 2"),
        (5, 1, ValueError, "fraction must be an integer from 2 to 28, not 1"),
        (3, 8, ValueError, "fraction must be an integer from 2 to 4, not 8"),
        (5.0, 10, TypeError, "exponent must be an integer at least 3, not 5.0"),
    ],
)
def test_impossible_formats_are_named(exponent: Any, fraction: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=f"^FloatFormat {text}$"):
        FloatFormat(exponent=exponent, fraction=fraction)
