# SPDX-License-Identifier: Apache-2.0
"""What the codec means for a ring all-reduce: requantised at each hop, equal bits on all ranks."""

import numpy as np
import pytest

from hw.bfp.format import BlockFormat, preset
from hw.bfp.model import Blocks
from hw.fp import model as fp

FORMATS = ["bfp16", "bfp12", "bfp13", "mxint8", "bfp16_truncate", "bfp16_stochastic"]


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return fp.reduce("SUM_F32", a, b)


def all_reduce(
    fmt: BlockFormat, shards: np.ndarray, *, owner_keeps: str = "what it sends"
) -> tuple[np.ndarray, list[Blocks]]:
    """Ring all-reduce of ``shards[rank, chunk]``; every message is encoded, every sum is binary32.

    Returns the result of each rank, and all messages of the reducing half.
    """
    ranks = len(shards)
    results = np.zeros_like(shards)
    reducing = []
    for chunk in range(ranks):
        # Chunk c starts at rank c; after N - 1 hops its sum is complete at rank c - 1.
        partial = shards[chunk, chunk]
        for hop in range(1, ranks):
            message = fmt.encode(partial, seed=1000 * chunk + hop)
            reducing.append(message)
            here = (chunk + hop) % ranks
            partial = add(fmt.decode(message).ravel(), shards[here, chunk])
        for hop in range(ranks, 2 * ranks - 1):
            message = fmt.encode(partial, seed=1000 * chunk + hop)
            here = (chunk + hop) % ranks
            decoded = fmt.decode(message).ravel()
            if hop == ranks:
                kept = decoded if owner_keeps == "what it sends" else partial
                results[(here - 1) % ranks, chunk] = kept
            results[here, chunk] = decoded
            partial = decoded
    return results, reducing


def identical(results: np.ndarray) -> bool:
    words = results.view(np.uint32)
    return bool((words == words[0]).all())


def gradients(ranks: int, size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.normal(-6, 2, (1, ranks, size // 64))).repeat(64, axis=2)
    return (rng.normal(size=(ranks, ranks, size)) * scale).astype(np.float32)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("ranks", [2, 3, 6, 16])
def test_all_ranks_end_with_the_same_bits(name: str, ranks: int) -> None:
    results, _ = all_reduce(preset(name), gradients(ranks, 256, seed=ranks))

    assert identical(results)
    assert len(np.unique(results[0])) > 50


def test_the_owner_of_a_sum_must_keep_what_it_sends() -> None:
    shards = gradients(4, 256, seed=1)

    results, _ = all_reduce(preset("bfp16"), shards, owner_keeps="its own sum")

    assert not identical(results)


def test_error_is_at_most_half_a_unit_per_hop_and_grows_with_the_ring() -> None:
    fmt = preset("bfp16")
    errors = []
    for ranks in 2, 4, 8, 16, 32:
        shards = gradients(ranks, 256, seed=3)
        exact = shards.astype(np.float64).sum(axis=0)

        results, reducing = all_reduce(fmt, shards)

        unit = np.ldexp(1.0, np.array([m.exponents for m in reducing]).astype(int) - 127 - 6)
        final = np.ldexp(1.0, fmt.encode(results[0]).exponents.astype(int) - 127 - 6)
        hops = unit.reshape(ranks, ranks - 1, -1).sum(axis=1) + final.reshape(ranks, -1)
        bound = hops.repeat(16, axis=1) / 2
        rounding = np.abs(shards).sum(axis=0) * ranks * 2.0**-24
        error = np.abs(results[0] - exact)
        assert (error <= bound + rounding).all()
        errors.append(np.sqrt(np.mean(error**2) / np.mean(exact**2)))
    # Of independent gradients: like the square root of the number of hops, 4 times from 2 to 32.
    assert 2 < errors[-1] / errors[0] < 6
    assert errors[-1] < 0.05


def test_where_the_ring_starts_changes_the_bits_but_running_again_does_not() -> None:
    fmt = preset("bfp16")
    shards = gradients(4, 256, seed=5)

    once, _ = all_reduce(fmt, shards)
    again, _ = all_reduce(fmt, shards)
    turned, _ = all_reduce(fmt, np.roll(shards, 1, axis=0))

    assert np.array_equal(once, again)
    assert not np.array_equal(once, turned)
    assert np.allclose(once, turned, rtol=0, atol=0.05 * np.abs(once).max())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_reaches_every_rank(name: str, bad: float) -> None:
    shards = gradients(3, 64, seed=6)
    shards[1, 2, 5] = bad

    results, _ = all_reduce(preset(name), shards)

    assert identical(results)
    assert not np.isfinite(results[:, 2, 5]).any()
    block = preset(name).elements
    assert np.isfinite(results[:, 2, block:]).all() and np.isfinite(results[:, :2]).all()
    if name != "mxint8" and np.isinf(bad):
        assert (results[:, 2, 5] == bad).all()


def test_sums_past_the_range_of_binary32_become_infinite_on_every_rank() -> None:
    shards = np.full((2, 2, 16), 3e38, dtype=np.float32)

    results, _ = all_reduce(preset("bfp16"), shards)

    assert np.isposinf(results).all()
