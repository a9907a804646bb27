# SPDX-License-Identifier: Apache-2.0
"""Switches that reduce beside other engines."""

from bench._compared import Case, switch

__all__ = ["CASES"]

PUSH = {"kind": "in_switch", "mode": "push"}
IDLE = {"lost_memory_bytes_per_s": 0.0, "memory_latency_s": 0.0}
CASES = [
    Case("ideal", switch(), {**PUSH, **IDLE}, {}, 1.0, ()),
    Case("push", switch(), PUSH, {}, 1.0, ()),
    Case("pull", switch(), {**PUSH, "mode": "pull"}, {}, 1.0, ()),
]
