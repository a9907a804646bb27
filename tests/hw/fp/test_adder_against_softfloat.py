# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The adder, as native code, against Berkeley SoftFloat: every bit of the sum and every flag."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import softfloatpy

from gen.compile import CompiledModel, compile_model
from hw.fp import model
from hw.fp.adder import FPAdder
from hw.fp.formats import BINARY16, BINARY32, FloatFormat

CACHE = Path(__file__).parents[3] / "build" / "cache"
FORMATS = {"binary16": BINARY16, "binary32": BINARY32}
LATENCY = {BINARY16: 1, BINARY32: 3}
RANDOM_PAIRS = 200_000
FULL_PAIRS = 10_000_000
BATCH = 100_000

Words = Any


@pytest.fixture(scope="module", params=FORMATS)
def adder(request: pytest.FixtureRequest) -> tuple[FloatFormat, CompiledModel]:
    fmt = FORMATS[request.param]
    component = FPAdder(fmt=fmt, stages=LATENCY[fmt])
    return fmt, compile_model(component, name=f"fp_adder_{request.param}", cache_dir=CACHE)


def hardware(adder: tuple[FloatFormat, CompiledModel], a: Words, b: Words) -> tuple[Words, Words]:
    """Sums and flags of the compiled adder, one pair per cycle."""
    fmt, compiled = adder
    latency = LATENCY[fmt]
    idle = np.zeros(latency - 1, dtype=a.dtype)
    with compiled.instance() as instance:
        out = instance.run(
            {"a": np.concatenate([a, idle]), "b": np.concatenate([b, idle])}, ["sum", "flags"]
        )
    # Row k holds the outputs after edge k: the pair given with row 0 is out after `latency` edges.
    return out["sum"][latency - 1 :], out["flags"][latency - 1 :]


def softfloat(fmt: FloatFormat, a: Words, b: Words) -> tuple[Words, Words]:
    number, add = {
        BINARY16: (softfloatpy.Float16, softfloatpy.f16_add),
        BINARY32: (softfloatpy.Float32, softfloatpy.f32_add),
    }[fmt]
    size = fmt.width // 8
    dtype = f">u{size}"
    left, right = a.astype(dtype).tobytes(), b.astype(dtype).tobytes()
    sums, flags = bytearray(), bytearray()
    convert: Callable[[bytes], Any] = number.from_bytes
    clear, read = softfloatpy.set_exception_flags, softfloatpy.get_exception_flags
    for start in range(0, len(left), size):
        end = start + size
        clear(0)
        sums += add(convert(left[start:end]), convert(right[start:end])).to_bytes()
        flags.append(int(read()))
    return np.frombuffer(bytes(sums), dtype=dtype), np.frombuffer(bytes(flags), dtype=np.uint8)


def check(adder: tuple[FloatFormat, CompiledModel], a: Words, b: Words) -> int:
    """Compare all pairs; return how many there were."""
    fmt = adder[0]
    a, b = (np.asarray(words).astype(np.uint32) for words in (a, b))
    sums, flags = hardware(adder, a, b)
    expected_sums, expected_flags = softfloat(fmt, a, b)
    wrong = np.flatnonzero((sums != expected_sums) | (flags != expected_flags))
    report = "\n".join(
        f"{a[k]:#x} + {b[k]:#x} gave {sums[k]:#x} flags {flags[k]:#x}, "
        f"not {expected_sums[k]:#x} flags {expected_flags[k]:#x}"
        for k in wrong[:10]
    )
    assert len(wrong) == 0, f"{len(wrong)} of {len(a)} sums are wrong\n{report}"
    assert len(sums) == len(a)
    return len(a)


def all_pairs(words: Words) -> tuple[Words, Words]:
    a, b = np.meshgrid(words, words)
    return a.ravel(), b.ravel()


def with_signs(fmt: FloatFormat, magnitudes: Words) -> Words:
    magnitudes = np.unique(np.asarray(magnitudes, dtype=np.uint32))
    return np.concatenate([magnitudes, magnitudes | np.uint32(1 << (fmt.width - 1))])


def edges(fmt: FloatFormat) -> Words:
    """Both sides of every border between kinds of number, and NaNs of both kinds."""
    least_normal = 1 << fmt.fraction
    one = ((1 << (fmt.exponent - 1)) - 1) << fmt.fraction
    half_ulp = one - (fmt.precision << fmt.fraction)
    quiet = fmt.canonical_nan
    centres = [least_normal, 2 * least_normal, one, half_ulp, fmt.infinity, quiet]
    near = [centre + step for centre in centres for step in (-2, -1, 0, 1, 2)]
    last = (1 << (fmt.width - 1)) - 1
    return with_signs(fmt, [0, 1, 2, 3, last, quiet | 0x55, fmt.infinity | 0x55, *near])


def random_pairs(fmt: FloatFormat, count: int, seed: int) -> Iterator[tuple[Words, Words]]:
    """Half of the pairs have any bits; the others are near in magnitude, or subnormal, or edges."""
    rng = np.random.default_rng(seed)
    special = edges(fmt).astype(np.int64)
    mask = (1 << (fmt.width - 1)) - 1
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        a, b = rng.integers(0, 1 << fmt.width, (2, size))
        kind = rng.integers(0, 8, size)
        reach = (fmt.precision + 3) << fmt.fraction
        near = (a & mask) + rng.integers(-reach, reach, size)
        b = np.where(kind < 3, (b & ~mask) | (near & mask), b)
        low = fmt.fraction + 2
        b = np.where(kind == 3, (b & ~mask) | (b & ((1 << low) - 1)), b)
        a = np.where(kind == 3, (a & ~mask) | (a & ((1 << low) - 1)), a)
        b = np.where(kind == 4, special[rng.integers(0, len(special), size)], b)
        yield a, b


def test_sums_of_all_pairs_of_edge_values(adder: tuple[FloatFormat, CompiledModel]) -> None:
    assert check(adder, *all_pairs(edges(adder[0]))) > 3000


def test_every_exponent_difference_with_every_kind_of_rounding(
    adder: tuple[FloatFormat, CompiledModel],
) -> None:
    fmt = adder[0]
    rng = np.random.default_rng(1)
    top = (1 << fmt.exponent) - 1
    full = (1 << fmt.fraction) - 1
    fractions = [0, 1, 2, full >> 1, (full >> 1) + 1, full - 1, full]
    a, b = [], []
    for low in range(0, top, max(1, top // 64)):
        for high in range(low, top):
            for _ in range(2):
                x, y = rng.choice(fractions, 2)
                signs = rng.integers(0, 2, 2)
                a.append((int(signs[0]) << (fmt.width - 1)) | (high << fmt.fraction) | int(x))
                b.append((int(signs[1]) << (fmt.width - 1)) | (low << fmt.fraction) | int(y))
    differences = {
        (x >> fmt.fraction) % (top + 1) - (y >> fmt.fraction) % (top + 1)
        for x, y in zip(a, b, strict=True)
    }

    assert differences == set(range(top))
    assert check(adder, a, b) > 0
    assert check(adder, b, a) > 0


def test_cancellation_to_every_number_of_leading_zeros(
    adder: tuple[FloatFormat, CompiledModel],
) -> None:
    fmt = adder[0]
    sign = 1 << (fmt.width - 1)
    a, b = [], []
    for exponent in range(1, (1 << fmt.exponent) - 1, max(1, 1 << (fmt.exponent - 5))):
        for bit in range(fmt.fraction):
            for fraction in (0, (1 << fmt.fraction) - 1, 0x155 & ((1 << fmt.fraction) - 1)):
                x = (exponent << fmt.fraction) | fraction
                a += [x, x, x, x | sign]
                b += [(x ^ (1 << bit)) | sign, (x - (1 << bit)) | sign, x | sign, x - 1]

    assert check(adder, a, b) > 1000


def test_ties_round_to_even_at_every_distance(adder: tuple[FloatFormat, CompiledModel]) -> None:
    fmt = adder[0]
    sign = 1 << (fmt.width - 1)
    bias = (1 << (fmt.exponent - 1)) - 1
    a, b = [], []
    for distance in range(1, min(fmt.precision + 2, bias)):
        for odd in (0, 1, 2, 3, (1 << fmt.fraction) - 1, (1 << fmt.fraction) - 2):
            x = (bias << fmt.fraction) | odd
            # Bits below half a unit of the larger operand: exactly half, just below, just above.
            half = 1 << min(distance - 1, fmt.fraction - 1)
            for fraction in (half, half - 1, half + 1, 0):
                y = ((bias - distance) << fmt.fraction) | (fraction & ((1 << fmt.fraction) - 1))
                a += [x, x]
                b += [y, y | sign]

    assert check(adder, a, b) > 100


def test_two_hundred_thousand_random_pairs(adder: tuple[FloatFormat, CompiledModel]) -> None:
    done = sum(check(adder, a, b) for a, b in random_pairs(adder[0], RANDOM_PAIRS, seed=2))

    assert done == RANDOM_PAIRS


@pytest.mark.full
def test_ten_million_random_pairs(adder: tuple[FloatFormat, CompiledModel]) -> None:
    done = sum(check(adder, a, b) for a, b in random_pairs(adder[0], FULL_PAIRS, seed=3))

    assert done == FULL_PAIRS


def test_golden_model_agrees_with_softfloat_in_sum_and_flags() -> None:
    a, b = (
        np.concatenate(parts)
        for parts in zip(
            all_pairs(edges(BINARY32)), *random_pairs(BINARY32, BATCH, seed=4), strict=True
        )
    )
    a, b = a.astype(np.uint32), b.astype(np.uint32)
    sums, flags = softfloat(BINARY32, a, b)

    assert (model.reduce("SUM_F32", a, b) == sums).all()
    assert (model.add_flags(a, b) == flags).all()
