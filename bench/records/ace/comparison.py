# SPDX-License-Identifier: Apache-2.0
"""ACE beside other engines."""

from bench._compared import RING, TWICE, Case, ring

__all__ = ["CASES"]

CASES = [Case("ACE", ring(2), {"kind": "ace"}, RING, TWICE, ("TX DMA", "RX DMA"))]
