# SPDX-License-Identifier: Apache-2.0
"""Blocks one instance at a time and several in the lanes of vector words, on random inputs.

Busy means new inputs in every cycle, idle that they stay.
"""

import time
from collections.abc import Callable

import numpy as np
from amaranth.lib import wiring
from numpy.typing import NDArray

from gen.compile import CompiledModel, compile_model
from gen.rtlil import RESET
from hw.common.fifo import StreamFIFO
from hw.fp.adder import FPAdder

__all__ = ["BLOCKS", "block_hertz"]

ROWS = 256
"""Cycles that an instance runs before the next one's turn."""
BLOCKS: dict[str, Callable[[], wiring.Component]] = {
    "adder": lambda: FPAdder(stages=3),
    "fifo": lambda: StreamFIFO(64, 16),
}


def _stimulus(model: CompiledModel, rng: np.random.Generator, busy: bool) -> NDArray[np.uint32]:
    """Rows of inputs of one instance; the idle ones are not valid."""
    columns = []
    for port in model.ports:
        if not port.is_input:
            continue
        words = -(-port.width // 32)
        column = rng.integers(0, 1 << 32, (ROWS, words), dtype=np.uint32)
        column[:, -1] &= (1 << port.width - 32 * (words - 1)) - 1
        if not busy:
            column[:] = 0 if port.width == 1 else column[0]
        if port.name == RESET:
            column[:] = 0
        columns.append(column)
    return np.hstack(columns)


def block_hertz(
    name: str, lanes: int, nodes: int, busy: bool, repeats: int
) -> tuple[float, float]:
    """Cycles of all *nodes* instances of a block per second of CPU time, the best of *repeats*.

    First in models of one instance, then in models of several *lanes*, measured by turns.
    """
    models = [compile_model(BLOCKS[name](), name=name, lanes=each) for each in (1, lanes)]
    rng = np.random.default_rng(1)
    single = [_stimulus(models[0], rng, busy) for _ in range(nodes)]
    together = [np.hstack(single[at : at + lanes]) for at in range(0, nodes, lanes)]
    best = [float("inf")] * 2
    sides = [
        (side, [model.instance() for _ in stimuli], stimuli)
        for side, (model, stimuli) in enumerate(zip(models, (single, together), strict=True))
    ]
    for _ in range(repeats):
        for side, instances, stimuli in sides:
            start = time.process_time()
            for instance, stimulus in zip(instances, stimuli, strict=True):
                instance.replay(stimulus)
            best[side] = min(best[side], time.process_time() - start)
    for _, instances, _ in sides:
        for instance in instances:
            instance.close()
    return nodes * ROWS / best[0], nodes * ROWS / best[1]
