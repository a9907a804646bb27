# SPDX-License-Identifier: Apache-2.0
"""Machines by name, from public data sheets alone: nothing here is fitted.

Bandwidths are those of one GPU or chip in one direction; data sheets state both directions
together. What no sheet states, the latency of switches and links and the headers of packets, is 0,
and marked as chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hw.switch.sizes import SwitchSizes
from sim.describe.topologies import NVLINK
from sim.fields import FieldError, not_one_of
from sim.units import GB

__all__ = ["MACHINES", "Machine", "machine"]

PLANES = 2
"""Planes into which a GPU's links are grouped (chosen): as many as a double binary tree uses."""

NVLINK_SHARP: Mapping[str, Any] = {
    "memory_latency_s": 0.0,
    "waves": 8,
    "switch": {"header_bytes": 0},
    "own_travels": True,
}
"""Switches whose packets no data sheet states, with waves that fill their links (chosen). A load
with reduction (``multimem.ld_reduce`` of NVIDIA's PTX) reads the operands of all members, that of
its own GPU too, through the switch."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A topology, and whether its switches reduce.

    Parameters
    ----------
    what : str
    dimensions : sequence of fields of `Dimension`
    in_switch : mapping or None
        Keys of ``[endpoint]`` of kind in_switch; None: the switches do not reduce. With
        ``own_travels`` the puller's own operand passes the switch, too.
    modes : sequence of str
        Allowed values of its ``mode``; the first is the default.
    source : str
        Where the numbers are stated.
    chosen : str
        Values that no source states.
    """

    what: str
    dimensions: Sequence[Mapping[str, Any]]
    source: str
    in_switch: Mapping[str, Any] | None = None
    modes: Sequence[str] = ("pull",)
    chosen: str = "latencies and headers 0; links of a GPU in two planes; 8 waves where reduced"

    @property
    def nodes(self) -> int:
        count = 1
        for each in self.dimensions:
            count *= each["size"]
        return count

    @property
    def latency_is_stated(self) -> bool:
        """True if a sheet states the latency of a link or a switch."""
        keys = ("latency_s", "router_latency_s")
        return any(each.get(key, 0.0) > 0 for each in self.dimensions for key in keys)

    def of(self, nodes: int) -> "Machine":
        """The machine with only *nodes* of its ranks: packages are filled one after the other, a
        DGX-2's two groups evenly.

        Raises
        ------
        ValueError
            There are not so many ranks, or they cannot be divided so.
        """
        if isinstance(nodes, bool) or not isinstance(nodes, int) or not 2 <= nodes <= self.nodes:
            raise FieldError("nodes", f"must be from 2 to {self.nodes}, not {nodes!r}")
        left, dimensions = nodes, []
        for each in self.dimensions:
            size = min(left, each["size"])
            if left % size:
                raise FieldError("nodes", f"must be a multiple of {size} above {size}, not {nodes}")
            left //= size
            if size > 1:
                dimensions.append(_part(each, size))
        return replace(self, dimensions=dimensions)

    @property
    def gb_per_s(self) -> list[float]:
        """Bandwidth of one GPU in one direction, in each dimension."""
        return [
            each["bandwidth_bytes_per_s"] * each["lanes"] * (2 if each["kind"] == "ring" else 1)
            / GB
            for each in self.dimensions
        ]

    def algorithms(self, collective: str) -> dict[str, dict[str, Any]]:
        """Algorithms for a collective: tables of a description, by the name of the algorithm.

        Training, whose collectives differ, takes those for all-reduces.
        """
        if collective in ("all_to_all", "broadcast"):
            offered: dict[str, dict[str, Any]] = {"direct": {}}
        else:
            offered = {"ring": self._software("ring")}
            if all(each["kind"] != "ring" for each in self.dimensions):
                offered["direct"] = self._software("direct")
                if collective == "all_reduce":
                    offered["tree"] = self._software("tree", style="baseline")
        if self.in_switch is not None and collective != "all_to_all":
            modes = self.modes if collective == "all_reduce" else self.modes[:1]
            for mode in modes:
                offered[mode] = {"endpoint": {"kind": "in_switch", "mode": mode}}
        return offered

    def _software(self, name: str, **more: Any) -> dict[str, Any]:
        return {"algorithm": {"reductions": [name] * len(self.dimensions), **more}}


def _part(dimension: Mapping[str, Any], size: int) -> dict[str, Any]:
    """*size* members of a dimension."""
    if dimension["kind"] != "fat_tree" or size == dimension["size"]:
        return {**dimension, "size": size}
    if size <= dimension["group"]:
        inner = {key: value for key, value in dimension.items() if key not in ("group", "spine")}
        return {**inner, "kind": "switch", "size": size}
    if size % 2:
        group = dimension["group"]
        raise FieldError("nodes", f"must be an even number above {group}, not {size}")
    return {**dimension, "size": size, "group": size // 2}


def _switch(size: int, gb_per_s: float, planes: int = PLANES) -> dict[str, Any]:
    rate = gb_per_s * GB / planes
    return {"kind": "switch", "size": size, "bandwidth_bytes_per_s": rate, "lanes": planes}


def _nvswitch(
    what: str, size: int, gb_per_s: float, sheet: str, *, reduces: bool = True
) -> Machine:
    """GPUs at NVSwitches; *sheet* states the bandwidth both ways, twice *gb_per_s*."""
    return Machine(
        what=what,
        dimensions=[_switch(size, gb_per_s)],
        in_switch=NVLINK_SHARP if reduces else None,
        source=f"NVIDIA {sheet} data sheet: {2 * gb_per_s:g} GB/s NVLink a GPU (both ways)",
    )


MACHINES: Mapping[str, Machine] = {
    "dgx-2": Machine(
        what="16 V100, 12 NVSwitches in two groups",
        dimensions=[{**NVLINK, "kind": "fat_tree", "size": 16, "spine": False,
                     "router_latency_s": 0.0, "efficiency": 1.0}],
        source="NVIDIA DGX-2 data sheet: 6 NVLinks of 50 GB/s (both ways) a GPU",
        chosen="latencies 0",
    ),
    "dgx-2-klenk": Machine(
        what="the DGX-2 of Klenk et al., with switches that reduce",
        dimensions=[{**NVLINK, "kind": "fat_tree", "size": 16, "spine": False,
                     "efficiency": SwitchSizes().payload_share}],
        in_switch={},
        modes=("push", "pull"),
        source="Klenk et al., ISCA 2020, section V: 25 GB/s a link, 150 ns, packets of 144 B and "
        "acknowledgements of 16 B",
        chosen="for vectors beyond 8 MiB larger waves and messages, to save time",
    ),
    "dgx-a100": _nvswitch("8 A100, 6 NVSwitches", 8, 300, "DGX A100", reduces=False),
    "dgx-h100": _nvswitch("8 H100, 4 NVSwitches with NVLink SHARP", 8, 450, "DGX H100"),
    "dgx-h200": _nvswitch("8 H200, 4 NVSwitches with NVLink SHARP", 8, 450, "DGX H200"),
    "hgx-h800": _nvswitch("8 H800, NVSwitches with NVLink SHARP", 8, 200, "H800"),
    "2x-p4de": Machine(
        what="two p4de.24xlarge of 8 A100",
        dimensions=[_switch(8, 300), _switch(2, 4 * 12.5 / 8)],
        source="AWS EC2 P4 page: 600 GB/s NVSwitch (both ways), 4 x 100 Gbit/s EFA a node",
        chosen="latencies 0; a node's network in even parts for its 8 GPUs; two planes",
    ),
    "2x-p5": Machine(
        what="two p5.48xlarge of 8 H100",
        dimensions=[_switch(8, 450), _switch(2, 32 * 12.5 / 8)],
        source="AWS EC2 P5 page: 900 GB/s NVSwitch (both ways), 3200 Gbit/s EFA a node",
        chosen="latencies 0; a node's network in even parts for its 8 GPUs; two planes; switches "
        "do not reduce (not stated)",
    ),
    "gb200-x4": _nvswitch("a tray of 4 B200 of a GB200 NVL72", 4, 900, "GB200 NVL72"),
    "gb200-x8": _nvswitch("two trays, 8 B200 of a GB200 NVL72", 8, 900, "GB200 NVL72"),
    "tpu-v4-pod": Machine(
        what="4096 TPU v4 in a torus of 16 x 16 x 16",
        dimensions=[
            {"kind": "ring", "size": 16, "bandwidth_bytes_per_s": 50 * GB, "lanes": 1}
        ]
        * 3,
        source="Jouppi et al., ISCA 2023, Table 4: 6 links of 50 GB/s each way a chip",
        chosen="latencies 0",
    ),
}


def machine(name: str, nodes: int | None = None) -> Machine:
    """A machine by name, or *nodes* of its ranks.

    Raises
    ------
    ValueError
        There is none of that name, or not so many ranks.
    """
    if name not in MACHINES:
        raise FieldError("machine", not_one_of(name, MACHINES))
    return MACHINES[name] if nodes is None else MACHINES[name].of(nodes)
