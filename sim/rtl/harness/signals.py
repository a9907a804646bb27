# SPDX-License-Identifier: Apache-2.0
"""Signals of RTL nodes that were traced, and the file of their waveforms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.waves import Change, TracedSignal, write_changes

__all__ = ["MOST_SAMPLES", "SignalTrace", "write_signals"]

MOST_SAMPLES = 1 << 24
"""Most words kept for a node, as in `node.hpp`; later changes are not noted."""

_WORD = 0xFFFF_FFFF


@dataclass(frozen=True, kw_only=True)
class SignalTrace:
    """Changes of the traced signals of one node.

    Parameters
    ----------
    signals : sequence of TracedSignal
    samples : array of uint32
        For each change the cycle since reset (two words, low first), the place in *signals*, and
        the words of the value, low first.
    """

    signals: Sequence[TracedSignal]
    samples: NDArray[Any]

    @property
    def complete(self) -> bool:
        """True if there was room for all changes."""
        return len(self.samples) < MOST_SAMPLES

    def first(self, count: int) -> "SignalTrace":
        """The first *count* signals alone."""
        kept = list[int]()
        for cycle, place, value in self.changes() if count else ():
            if place < count:
                kept += [cycle & _WORD, cycle >> 32, place]
                kept += [value >> shift & _WORD
                         for shift in range(0, self.signals[place].width, 32)]
        samples = np.array(kept, np.uint32)
        return SignalTrace(signals=self.signals[:count], samples=samples)

    def changes(self) -> Iterator[Change]:
        """Cycle, place in `signals` and value, in the order of cycles."""
        words = [-(-each.width // 32) for each in self.signals]
        samples = self.samples.tolist()
        at = 0
        while at < len(samples):
            low, high, place = samples[at : at + 3]
            at += 3 + words[place]
            value = 0
            for word in reversed(samples[at - words[place] : at]):
                value = value << 32 | word
            yield low | high << 32, place, value


def write_signals(path: Path, nodes: Mapping[int, SignalTrace], *, clock_hz: float) -> None:
    """Write the waveforms of all nodes as a VCD file; time counts from the reset."""
    tracks = {f"node_{node}": (each.signals, each.changes()) for node, each in nodes.items()}
    write_changes(path, tracks, clock_hz=clock_hz)
