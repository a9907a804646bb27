# SPDX-License-Identifier: Apache-2.0
"""The smart NIC beside other engines, wide enough for a link of their rate."""

from bench._compared import INJECTION, RING, TWICE, Case, ring

__all__ = ["CASES"]

NIC = {"kind": "smartnic", "lanes": 64, "clock_hz": 600e6, "host_bytes_per_s": INJECTION}
CASES = [
    Case("smart NIC", ring(1), NIC, {**RING, "rings": 1}, TWICE, ("host read", "host write"))
]
