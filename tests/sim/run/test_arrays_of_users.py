# SPDX-License-Identifier: Apache-2.0
"""Arrays of any shape and type are all-reduced, and the result says what was converted."""

import ml_dtypes
import numpy as np
import pytest

import foldwire as fw

RANKS = 4


def drawn(dtype, shape=(3, 2, 5), ranks=RANKS):
    rng = np.random.default_rng(7)
    return [(100 * rng.standard_normal(shape)).astype(dtype) for _ in range(ranks)]


def reduced_flat(arrays, dtype, **options):
    """The results of the same numbers, given flat in a type of the engines."""
    flat = [each.astype(dtype).reshape(-1) for each in arrays]
    return fw.all_reduce(flat, level="golden", **options).vectors


@pytest.mark.parametrize(
    ("dtype", "engine", "note"),
    [
        (np.float32, np.float32, ""),
        (np.int32, np.int32, ""),
        (np.uint32, np.uint32, ""),
        (np.dtype(">f4"), np.float32, ""),
        (np.float16, np.float32, "float16 was widened to float32, and results rounded once to fl"),
        (ml_dtypes.bfloat16, np.float32, "bfloat16 was widened to float32, and results rounded o"),
        (ml_dtypes.float8_e5m2, np.float32, "float8_e5m2 was widened to float32, and results ro"),
        (np.float64, np.float32, "float64 was rounded once to float32; results have no more digi"),
        (np.int16, np.int32, "int16 was widened to int32, which all results fit"),
        (np.int64, np.int32, "int64 was narrowed to int32, which all results fit"),
        (np.dtype(">i2"), np.int32, ">i2 was widened to int32, which all results fit"),
    ],
    ids=str,
)
def test_a_type_that_engines_lack_is_rounded_once(dtype, engine, note):
    arrays = drawn(dtype)
    reduced = fw.all_reduce(arrays, level="golden")

    assert reduced.note.startswith(note) and bool(reduced.note) == bool(note)
    for found, flat in zip(reduced.vectors, reduced_flat(arrays, engine), strict=True):
        assert (found.dtype, found.shape) == (np.dtype(dtype), (3, 2, 5))
        assert found.tobytes() == flat.astype(dtype).reshape(3, 2, 5).tobytes()
    assert len(repr(reduced)) < 200 and ("float" in repr(reduced) or "int" in repr(reduced))


def test_sums_of_half_precision_are_not_rounded_on_the_way():
    arrays = drawn(np.float16, ranks=8)
    each_rounded = arrays[0]
    for array in arrays[1:]:
        each_rounded = each_rounded + array

    found = fw.all_reduce(arrays, level="golden").vectors[0]
    exact = sum(array.astype(np.float64) for array in arrays)
    assert np.abs(found - exact).max() <= np.abs(exact).max() * 2**-11
    assert (found != each_rounded).any()


def test_the_rtl_takes_them_as_well():
    arrays = drawn(np.float16, (2, 3))
    reducer = fw.AllReducer("ace")
    reduced = reducer.reduce(arrays)

    assert reduced.exact and reduced.cycles == reducer.cycles > 0
    assert repr(reduced).startswith(f"<Reduced 4 x float16[2, 3]: {reduced.cycles} cycles, exact,")
    flat = reduced_flat(arrays, np.float32)
    found = [each.tobytes() for each in reduced.vectors]
    assert found == [each.astype(np.float16).tobytes() for each in flat]
    assert reducer(arrays)[0].shape == (2, 3)


def test_rings_of_engines_take_matrices_of_their_own_types():
    matrices = drawn(np.float32, (2, 3), ranks=3)
    found = fw.AceRing("test", fw.Surroundings(nodes=3)).all_reduce(matrices)

    expected = fw.all_reduce(matrices, level="golden").vectors
    assert [each.tobytes() for each in found] == [each.tobytes() for each in expected]
    assert found[0].shape == (2, 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([[1, 2], [3, 4]], [4, 6]),
        ([[1, 2.5], [3, 4]], [4.0, 6.5]),
        ([1.5, 2], 3.5),
        (np.arange(6, dtype=np.float32).reshape(3, 2), [6.0, 9.0]),
        (([[1], [2]], [[3], [4]]), [[4], [6]]),
    ],
)
def test_lists_and_matrices_are_taken(given, expected):
    assert fw.all_reduce(given, level="golden").vectors[0].tolist() == expected


def test_results_that_a_type_does_not_hold_are_counted():
    reduced = fw.all_reduce([np.array([6e4, 1, 6e4], np.float16)] * 2, level="golden")

    assert reduced.vectors[0].tolist() == [np.inf, 2, np.inf]
    assert reduced.note.endswith("rounded once to float16; 2 of them are beyond it")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([np.zeros(3, bool)] * 2, "must hold real numbers or integers of at most 64 bits, not bo"),
        ([np.zeros(3, complex)] * 2, "must hold real numbers or integers of .*, not complex128"),
        ([np.zeros(3, np.longdouble)] * 2, "must hold real numbers or .*, not (float128|.*double)"),
        ([np.zeros(3, ml_dtypes.int4)] * 2, "must hold real numbers or integers of .*, not int4"),
        ([np.zeros(3, [("a", "f4")])] * 2, "must hold real numbers or integers of .*, not .*'a'"),
        (["a", "b"], "must hold real numbers or integers of at most 64 bits, not <U1"),
        ([None, {}], "must hold real numbers or integers of at most 64 bits, not object"),
        ([[1, [2, 3]]] * 2, "must be arrays, and number 0 is none: setting an array element with"),
        ([np.zeros((2, 3)), np.zeros((3, 2))], r"must be two or more of one shape, not of shapes"),
        ([np.zeros((2, 0))] * 2, r"must have elements, not shape \(2, 0\)"),
        ([np.array([1e39])] * 2, r"must be within float32, not 1e\+39"),
        ([[2**31 - 1], [1]], "must have sums within int32, not 2147483648"),
        ([[2**40], [1]], "must hold numbers within int32, not 1099511627776"),
        ([np.array([-100], np.int8)] * 2, "must have sums within int8, not -200"),
        ([np.array([2**63], np.uint64)] * 2, "must hold numbers within uint32, not 92233720368547"),
    ],
)
def test_what_cannot_be_converted_is_one_line(given, message):
    with pytest.raises(ValueError, match=rf"^vectors {message}") as caught:
        fw.all_reduce(given, level="golden")
    assert "\n" not in str(caught.value)


def test_blocks_are_of_real_numbers():
    with pytest.raises(ValueError, match=r"^vectors must hold real numbers for a block format, "):
        fw.all_reduce([[1, 2], [3, 4]], engine="smartnic", format="bfp16", level="golden")


def test_sums_beyond_float32_are_counted_and_other_operations_need_no_sum():
    far = fw.all_reduce([np.array([3e38, 1.0])] * 2, level="golden")

    assert np.isinf(far.vectors[0][0]) and far.vectors[0][1] == 2.0
    assert far.note.endswith("; 1 of them are beyond float32")
    with pytest.raises(ValueError, match="op must be sum_i32 for uint32 vectors, not 'max'"):
        fw.all_reduce([np.uint8([255]), np.uint8([3])], op="max", level="golden")
    with pytest.raises(ValueError, match="vectors must have sums within uint8, not 258"):
        fw.all_reduce([np.uint8([255]), np.uint8([3])], level="golden")


def test_results_are_compared_as_objects_and_shown_in_notebooks():
    one, other = (fw.all_reduce([np.float32([1])] * 2, level="golden") for _ in range(2))

    assert one == one and one != other and len({one, other}) == 2
    assert "&lt;Reduced 2 x" in one._repr_html_()
