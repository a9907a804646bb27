# SPDX-License-Identifier: Apache-2.0
"""Recordings of ACE."""

from bench._recording import of_ring

__all__ = ["RECORDINGS"]

RECORDINGS = {
    "ace/test": of_ring("ace", "test", 512, "ACE test"),
    "ace/duo": of_ring("ace", "duo", 512, "ACE duo"),
    "ace/ring": of_ring("ace", "ring", 4096, "ACE ring"),
    "ace/wide": of_ring("ace", "wide", 4096),
    "ace/isca21": of_ring("ace", "isca21", 4096),
    "ace/torus": of_ring("ace", "torus", 4096),
}
