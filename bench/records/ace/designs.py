# SPDX-License-Identifier: Apache-2.0
"""Designs of ACE on which a change is looked for."""

from dataclasses import replace

from bench.mutation.plain import Components
from hw.ace.config import preset
from hw.ace.engine import AceEngine

__all__ = ["DESIGNS"]


def _ace() -> Components:
    # Two of everything with the least memory, which costs proofs time.
    small = replace(preset("duo"), contexts=2, sram_bytes=1 << 10, rx_packets=2)
    yield AceEngine(small)
    yield AceEngine(replace(small, partitions="phase", phases=2))


DESIGNS = {"ace": _ace}
