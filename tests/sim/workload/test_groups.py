# SPDX-License-Identifier: Apache-2.0
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.network.shapes import split_into
from sim.workload.groups import (
    common_shape,
    dimensions_of,
    group_spans,
    read_groups,
)


@pytest.mark.parametrize(
    ("members", "spans"),
    [
        ([5], []),
        ([0, 1, 2, 3], [(1, 4)]),
        ([8, 0], [(8, 2)]),
        ([3, 7, 11, 15], [(4, 4)]),
        ([0, 1, 8, 9], [(1, 2), (8, 2)]),
        ([0, 2, 16, 18, 32, 34], [(2, 2), (16, 3)]),
    ],
)
def test_spans_are_strides_and_counts(members, spans):
    assert group_spans(members) == spans


@pytest.mark.parametrize("members", [[0, 1, 3], [0, 1, 2, 4], [0, 1, 8, 10], [0, 1, 2, 3, 8]])
def test_irregular_groups_are_refused(members):
    with pytest.raises(ValueError, match="are not equally spaced"):
        group_spans(members)


SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@given(SHAPES, st.data())
def test_blocks_of_whole_dimensions_are_those_dimensions(shape, data):
    chosen = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    base = data.draw(st.integers(0, prod(shape) - 1))
    members = [
        npu
        for npu in range(prod(shape))
        if all(
            npu // prod(shape[:each]) % size == base // prod(shape[:each]) % size
            for each, size in enumerate(shape)
            if each not in chosen
        )
    ]

    assert common_shape(shape, [members]) == shape
    assert dimensions_of(members, shape) == tuple(
        sorted(each for each in chosen if shape[each] > 1)
    )


def test_parts_of_dimensions_split_them():
    shape = common_shape((8, 1, 6), [[0, 1], [0, 4], [0, 16, 32]])

    assert shape == (2, 2, 2, 1, 2, 3)
    assert split_into((8, 1, 6), shape) == [(0, 1, 2), (3,), (4, 5)]
    assert dimensions_of([0, 16, 32], shape) == (5,)
    assert dimensions_of([3, 7], shape) == (2,)


def test_groups_that_fit_no_common_shape_are_refused():
    with pytest.raises(ValueError, match="one has blocks of 2 NPUs, another of 3"):
        common_shape((6,), [[0, 1], [0, 1, 2]])
    with pytest.raises(ValueError, match="must stay within the 4 NPUs, not 8"):
        common_shape((4,), [[0, 4]])
    with pytest.raises(ValueError, match="lie across the blocks of 4 NPUs"):
        dimensions_of([1, 2, 3, 4], (4, 2))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "must be an object with a list of NPUs for each group"),
        ("{", "cannot be read"),
        ('{"0": []}', r"group '0' must be a list of NPUs, not \[\]"),
        ('{"0": 3}', "group '0' must be a list of NPUs, not 3"),
        ('{"0": [0, 8]}', r"group '0': NPU must be 0 \.\. 7, not 8"),
        ('{"0": [0, -1]}', r"NPU must be 0 \.\. 7, not -1"),
        ('{"0": [true]}', r"NPU must be 0 \.\. 7, not True"),
        ('{"0": [1, 1]}', "group '0' names an NPU twice"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_broken_group_files_are_refused(tmp_path, text, reason):
    path = tmp_path / "groups.json"
    path.write_text(text)

    with pytest.raises(ValueError, match=reason):
        read_groups(path, npus=8)


def test_a_missing_group_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        read_groups(tmp_path / "absent.json", npus=8)
