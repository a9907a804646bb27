# SPDX-License-Identifier: Apache-2.0
"""Writes two_layers.et: one training step of two layers, data parallel, as a Chakra trace.

    python examples/traces/two_layers.py

Every NPU runs the same trace: both layers forwards, then backwards, each gradient being all-reduced
while the layer before it is still computed, and an update of the weights.
"""

from pathlib import Path

from sim.workload.chakra import CommType, NodeType, Trace, TraceNode
from sim.workload.chakra_file import write_trace

WIDTH, BATCH, DTYPE_BYTES = 4096, 1024, 2
PASS_OPERATIONS = 2 * BATCH * WIDTH * WIDTH
WEIGHT_BYTES = DTYPE_BYTES * WIDTH * WIDTH


def two_layers() -> Trace:
    """The trace: four computations, two collectives, two updates."""
    nodes: list[TraceNode] = []

    def add(name: str, kind: NodeType, after: list[int], **attributes: int) -> int:
        made = TraceNode(
            id=len(nodes), name=name, type=kind, data_deps=tuple(after), attributes=attributes
        )
        nodes.append(made)
        return len(nodes) - 1

    def compute(name: str, after: list[int], passes: int) -> int:
        work = {"num_ops": passes * PASS_OPERATIONS, "tensor_size": WEIGHT_BYTES}
        return add(name, NodeType.COMP_NODE, after, **work)

    first = compute("forward 0", [], 1)
    last = compute("forward 1", [first], 1)
    for layer in (1, 0):
        last = compute(f"backward {layer}", [last], 2)
        size = {"comm_type": int(CommType.ALL_REDUCE), "comm_size": WEIGHT_BYTES}
        summed = add(f"gradient {layer}", NodeType.COMM_COLL_NODE, [last], **size)
        update = {"num_ops": WIDTH * WIDTH, "tensor_size": 3 * WEIGHT_BYTES}
        add(f"update {layer}", NodeType.COMP_NODE, [summed], **update)
    return Trace(nodes=tuple(nodes), source="two_layers")


if __name__ == "__main__":
    write_trace(Path(__file__).with_suffix(".et"), two_layers())
