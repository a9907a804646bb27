# SPDX-License-Identifier: Apache-2.0
"""Operations by the names that people type: in large letters, and without a type."""

import numpy as np
import pytest

import foldwire as fw


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("sum", "f4", [5, 7, 9]),
        ("SUM_F32", "f4", [5, 7, 9]),
        ("Max", "f4", [4, 5, 6]),
        ("min", "f4", [1, 2, 3]),
        ("sum", "i4", [5, 7, 9]),
        ("SUM_I32", "u4", [5, 7, 9]),
    ],
)
def test_names_of_operations(op, dtype, expected):
    vectors = [np.array([1, 2, 3], dtype), np.array([4, 5, 6], dtype)]

    for result in fw.all_reduce(vectors, op=op, level="golden").vectors:
        assert result.dtype == dtype and result.tolist() == expected


@pytest.mark.parametrize(("op", "dtype"), [("max", "i4"), ("sum_i32", "f4"), ("mean", "f4")])
def test_operations_that_a_type_lacks_are_refused(op, dtype):
    vectors = [np.ones(3, dtype)] * 2

    with pytest.raises(ValueError, match=rf"^op must be sum_.* for \w+ vectors, not '{op}'$"):
        fw.all_reduce(vectors, op=op, level="golden")


def test_descriptions_take_the_same_names():
    ring = {"topology": {"kind": "ring", "shape": [2]}}
    work = {"collective": "all_reduce", "size_bytes": 64}

    for op, name in (("sum", "sum_f32"), ("MAX", "max_f32"), ("Sum_I32", "sum_i32")):
        done = fw.run({**ring, "workload": {**work, "op": op}, "run": {"data": True}})
        assert done.description.workload.op == name and done.data.exact
    with pytest.raises(ValueError, match=r"^system: workload.op: must be one of sum_f32, .*'avg'$"):
        fw.run({**ring, "workload": {**work, "op": "avg"}})
