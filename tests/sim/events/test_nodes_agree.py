# SPDX-License-Identifier: Apache-2.0
"""Nodes that are not in step admit the chunks of a collective in one order."""

import pytest

import foldwire as fw


def training(policy, concurrency, flops_per_s):
    return fw.run({
        "topology": {"kind": "dgx2", "efficiency": 0.8},
        "endpoint": {"kind": "ideal", "delay_s": 540e-9, "message_bytes": 16384.0},
        "algorithm": {"reductions": ["ring"]},
        "scheduler": {"chunk_bytes": 262144, "policy": policy, "concurrency": concurrency},
        "workload": {
            "generator": "transformer",
            "preset": "bert-base",
            "batch": 1,
            "compute": {"flops_per_s": flops_per_s},
        },
        "run": {"passes": 1, "check": True},
    })


@pytest.mark.parametrize(("concurrency", "flops_per_s"), [(2, 500e12), (4, 124e12), (8, 124e12)])
def test_new_collectives_do_not_scatter_the_places_of_a_queue(concurrency, flops_per_s):
    # Each GPU's queue took another chunk when gradients came while places became free; these
    # chunks then waited for one another, one at a time.
    newest = training("lifo", concurrency, flops_per_s)
    oldest = training("fifo", concurrency, flops_per_s)
    assert newest.time_s < 1.01 * oldest.time_s

