"""Cycle model of a ring of smart NICs: how long an all-reduce takes, queue by queue."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.common.fifo import BLOCK_MEMORY_DEPTH
from hw.common.params import require_int
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.transmit import SHORTEST_FRAME_BYTES
from sim.collectives.partition import NicPartition
from sim.cycles.smartnic import cycle_kernel

__all__ = ["CycleModel"]

# From the command's acceptance to the first item: queue, planner, job queue, sequencer.
_FIRST_ITEM = 40
# Between the last item of a round and the first of the next.
_ROUND_GAP = 1
# From a beat handed to the write master to the end, besides the memory's answer.
_ANSWER = 4
# From the beat that makes room for the last item in the store unit to the end.
_LAST_ITEM = 4
_ENCODER, _DECODER = 5, 2
_FOREVER = 1 << 40
_SMALL = 30_000


@cache
def _compiled() -> Callable[..., Any]:
    import numba

    compiled = numba.njit(cache=True)
    cycle_kernel.push_frame = compiled(cycle_kernel.push_frame)
    kernel: Callable[..., Any] = compiled(cycle_kernel.simulate)
    return kernel


@dataclass(frozen=True, kw_only=True)
class CycleModel:
    """What the RTL does, in cycles, without a bit of data.

    The model has the queues of the hardware with their depths and latencies, the frames, the
    credits and the switch. What it leaves out: random stalls, host bandwidth below the bus width,
    and write bursts, of which there are always enough under way.

    Parameters
    ----------
    config : SmartNicConfig
        With one engine.
    nodes : int
    latency_cycles : int
        From one NIC's port to another's.
    read_latency_cycles, write_latency_cycles : int
        Of host memory.
    """

    config: SmartNicConfig
    nodes: int
    latency_cycles: int = 50
    read_latency_cycles: int = 50
    write_latency_cycles: int = 10

    def __post_init__(self) -> None:
        if self.config.engines != 1:
            raise ValueError(f"config engines must be 1 for the model, not {self.config.engines!r}")
        if not 2 <= self.nodes <= 256:
            raise ValueError(f"nodes must be from 2 to 256, not {self.nodes!r}")
        for name in ("latency_cycles", "read_latency_cycles", "write_latency_cycles"):
            require_int(name, getattr(self, name), minimum=0)

    def all_reduce(self, elements: int, *, compress: bool = False) -> NDArray[np.int64]:
        """Cycles from the acceptance of a command to its completion, for each rank.

        All ranks get their commands in the same cycle.

        Raises
        ------
        ValueError
            *compress*, and the NIC has no codec; or *elements* is below 1.
        """
        c = self.config
        fmt = c.codec_format
        if compress and fmt is None:
            raise ValueError("compress must be False for a NIC whose codec is 'none'")
        plan = NicPartition(elements=elements, nodes=self.nodes, config=c)
        beats, valid, first_beat = self._items(plan)
        rounds = len(beats) // self.nodes
        ready = (
            _FIRST_ITEM
            + np.arange(len(beats))
            + _ROUND_GAP * np.repeat(np.arange(rounds), self.nodes)
        )
        # Compiling pays only for what would take seconds without.
        work = 2 * self.nodes * self.nodes * (plan.share_beats + self.latency_cycles + 100)
        simulate = cycle_kernel.simulate if work < _SMALL else _compiled()
        written, roomy = simulate(
            self.nodes,
            *self._queues(compress),
            beats,
            valid,
            np.broadcast_to(ready, valid.shape).copy(),
            c.compressed_frame_beats if compress else c.frame_beats,
            c.receive_beats,
            c.credit_beats,
            max(0, -(-(SHORTEST_FRAME_BYTES - c.bus_bytes) // c.bus_bytes)),
            8 * c.bus_bytes,
            c.granule,
            0 if fmt is None else c.granule * c.lanes // fmt.elements * fmt.block_bits,
            compress,
            min(c.max_burst, 4096 // c.bus_bytes),
            first_beat % min(c.max_burst, 4096 // c.bus_bytes),
            c.outstanding_bursts,
            self.read_latency_cycles,
            16,
            _FOREVER,
        )
        answered = written + self.write_latency_cycles + _ANSWER
        result: NDArray[np.int64] = np.maximum(answered, roomy + _LAST_ITEM)
        return result

    def _items(self, plan: NicPartition) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Length, part in memory (by flow and rank) and first beat (by rank) of the blocks."""
        nodes = self.nodes
        lengths = [self.config.block_beats] * plan.rounds + [plan.rest_beats] * (
            plan.rest_beats != 0
        )
        beats = np.repeat(np.array(lengths, np.int64), nodes)
        base = np.repeat(
            np.concatenate([[0], np.cumsum(np.array(lengths, np.int64) * nodes)[:-1]]), nodes
        )
        order = np.tile(np.arange(nodes), len(lengths))
        first = np.empty((2, nodes, len(beats)), np.int64)
        for rank in range(nodes):
            for flow in range(2):
                first[flow, rank] = base + (rank + flow - order) % nodes * beats
        valid = np.clip(plan.beats - first, 0, beats)
        return beats, valid, first[0]

    def _queues(self, compress: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Depth and latency of each queue, in the order of the kernel."""
        c = self.config

        def fifo(depth: int) -> tuple[int, int]:
            return depth, 2 if depth >= BLOCK_MEMORY_DEPTH else 1

        transmit = fifo(2 * c.frame_beats)
        wire = 4 * c.receive_beats + 2 * c.frame_beats, self.latency_cycles + 3
        words = (4, _DECODER) if compress else (2, 1)
        table = [
            (2, 1),
            fifo(c.input_beats),
            (c.alu_stages + 3, c.alu_stages + 1),
            (2, 1),
            (8, _ENCODER),
            transmit,
            transmit,
            wire,
            wire,
            (c.receive_beats, 3),
            (c.receive_beats, 3),
            fifo(c.block_beats),
            words,
            words,
            fifo(c.output_beats),
        ]
        depth, latency = np.array(table, np.int64).T
        return depth.copy(), latency.copy()
