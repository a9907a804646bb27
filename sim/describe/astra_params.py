# SPDX-License-Identifier: Apache-2.0
"""The 28 parameters of the ASTRA-SIM paper's Table III, and the keys of its released code."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from sim.fields import FieldError, check

__all__ = ["IMPLEMENTATIONS", "AstraExtras", "AstraParameters", "key_of"]


def _key(
    name: str,
    *aliases: str,
    default: Any = MISSING,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    choices: Mapping[str, str] | None = None,
    number: int = 0,
) -> Any:
    """A field with the names that files use and the values that they may hold."""
    metadata = {
        "number": number,
        "names": (name, *aliases),
        "least": least,
        "most": most,
        "above": above,
        "choices": choices,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class AstraParameters:
    """Table III, in its order. Delays are cycles of the system clock (1 GHz in the released code).

    Defaults are those of the paper's Table IV; a parameter without one is None and is then not part
    of the system. ``docs/reference/system-astra.md`` says what each parameter changes.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed, also where parameters contradict each other.
    """

    dnn_name: str | None = _key("DNN-name", "dnn-name", number=1, default=None)
    num_passes: int = _key("num-passes", number=2, default=1, least=1)
    algorithm: str = _key(
        "algorithm",
        "collective-optimization",
        number=3,
        default="baseline",
        choices={
            "baseline": "baseline",
            "enhanced": "enhanced",
            "localBWAware": "dimension_ordered",
        },
    )
    num_npus: int | None = _key("num-npus", number=4, default=None, least=2)
    num_packages: int | None = _key("num-packages", number=5, default=None, least=1)
    package_rows: int | None = _key("package-rows", number=6, default=None, least=1)
    scheduling_policy: str = _key(
        "scheduling-policy", number=7, default="lifo", choices={"LIFO": "lifo", "FIFO": "fifo"}
    )
    topology: str = _key(
        "topology",
        number=8,
        default="torus",
        choices={
            "Torus2D": "torus",
            "Torus3D": "torus",
            "AllToAll": "all_to_all",
            "NV_Switch": "all_to_all",
        },
    )
    local_rings: int = _key("local-rings", number=9, default=2, least=1)
    vertical_rings: int = _key("vertical-rings", number=10, default=2, least=1)
    horizontal_rings: int = _key("horizontal-rings", number=11, default=2, least=1)
    global_switches: int = _key("global-switches", "links-per-tile", number=12, default=1, least=1)
    endpoint_delay: int = _key("endpoint-delay", number=13, default=10, least=0)
    packet_routing: str = _key(
        "packet-routing",
        number=14,
        default="software",
        choices={"hardware": "hardware", "software": "software"},
    )
    injection_policy: str = _key(
        "injection-policy",
        number=15,
        default="normal",
        choices={
            "normal": "normal",
            "semiAggressive": "semi_aggressive",
            "aggressive": "aggressive",
            "extraAggressive": "extra_aggressive",
            "infinite": "infinite",
        },
    )
    preferred_set_splits: int = _key(
        "preferred-set-splits", "preferred-dataset-splits", number=16, default=4, least=1
    )
    local_link_efficiency: float = _key(
        "local-link-efficiency", number=17, default=0.94, above=0, most=1
    )
    package_link_efficiency: float = _key(
        "package-link-efficiency", number=18, default=0.94, above=0, most=1
    )
    flit_width: int = _key("flit-width", number=19, default=1024, least=8)
    local_packet_size: int = _key("local-packet-size", number=20, default=512, least=1)
    package_packet_size: int = _key("package-packet-size", number=21, default=256, least=1)
    tile_link_width: int = _key("tile-link-width", number=22, default=1600, least=1)
    package_link_width: int = _key("package-link-width", number=23, default=200, least=1)
    vcs_per_vnet: int = _key("vcs-per-vnet", number=24, default=50, least=1)
    router_latency: int = _key("router-latency", number=25, default=1, least=0)
    local_link_latency: int = _key("local-link-latency", number=26, default=90, least=0)
    package_link_latency: int = _key("package-link-latency", number=27, default=200, least=0)
    buffers_per_vc: int = _key("buffers-per-vc", number=28, default=5000, least=1)

    def __post_init__(self) -> None:
        _check_ranges(self)
        check("flit-width", self.flit_width, "a multiple of 8 bits", self.flit_width % 8 == 0)
        npus, packages, rows = self.num_npus, self.num_packages, self.package_rows
        if packages is not None:
            known = npus is not None and npus % packages == 0
            check("num-packages", packages, f"a divisor of num-npus, which is {npus}", known)
        if rows is not None:
            known = packages is not None and packages % rows == 0
            check("package-rows", rows, f"a divisor of num-packages, which is {packages}", known)
        if self.topology == "all_to_all":
            allowed = "1 or absent for an all-to-all topology, which has no rows"
            check("package-rows", rows, allowed, rows in (None, 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """NPUs of a package and packages; those of a torus as columns (vertical) and rows.

        The vertical dimension has one NPU of each row. Without ``num-packages`` there is one NPU a
        package; without ``package-rows`` one row.
        """
        if self.num_npus is None:
            raise FieldError("num-npus", "must be given to build the topology, not None")
        packages = self.num_npus if self.num_packages is None else self.num_packages
        local = self.num_npus // packages
        if self.topology == "all_to_all":
            return local, packages
        rows = 1 if self.package_rows is None else self.package_rows
        return local, rows, packages // rows


IMPLEMENTATIONS = {
    "ring": "ring",
    "direct": "direct",
    "doubleBinaryTree": "tree",
    "halvingDoubling": "halving_doubling",
    "oneRing": "one_ring",
    "oneDirect": "one_direct",
    "oneDoubleBinaryTree": "one_tree",
    "oneHalvingDoubling": "one_halving_doubling",
}


@dataclass(frozen=True, kw_only=True)
class AstraExtras:
    """Keys of the released code that Table III does not have.

    None is a key that was not given. Implementations hold one algorithm per logical dimension, or
    a single ``one_...`` that sees all NPUs as one dimension.
    """

    active_chunks_per_dimension: int | None = _key(
        "active-chunks-per-dimension", default=None, least=1
    )
    boost_mode: int | None = _key("boost-mode", default=None, least=0, most=1)
    all_reduce_implementation: tuple[str, ...] | None = _key(
        "all-reduce-implementation", default=None
    )
    reduce_scatter_implementation: tuple[str, ...] | None = _key(
        "reduce-scatter-implementation", default=None
    )
    all_gather_implementation: tuple[str, ...] | None = _key(
        "all-gather-implementation", default=None
    )
    all_to_all_implementation: tuple[str, ...] | None = _key(
        "all-to-all-implementation", default=None
    )
    intra_dimension_scheduling: str | None = _key(
        "intra-dimension-scheduling", default=None, choices={"FIFO": "fifo"}
    )
    inter_dimension_scheduling: str | None = _key(
        "inter-dimension-scheduling", default=None, choices={"baseline": "baseline"}
    )
    routing_algorithm: str | None = _key(
        "routing-algorithm",
        default=None,
        choices={"Ring_XY": "torus", "AllToAll": "all_to_all"},
    )
    local_mem_bw: float | None = _key("local-mem-bw", default=None, above=0)
    model_shared_bus: int | None = _key("model-shared-bus", default=None, least=0, most=1)
    loggp_latency: int | None = _key("L", default=None, least=0)
    loggp_overhead: int | None = _key("o", default=None, least=0)
    loggp_gap: int | None = _key("g", default=None, least=0)
    loggp_gap_per_byte: float | None = _key("G", default=None, least=0)
    roofline_enabled: int | None = _key("roofline-enabled", default=None, least=0, most=1)
    peak_perf: float | None = _key("peak-perf", default=None, above=0)
    compute_scale: float | None = _key("compute-scale", default=None, above=0)
    comm_scale: float | None = _key("comm-scale", default=None, above=0)

    def __post_init__(self) -> None:
        _check_ranges(self)


def _check_ranges(parameters: Any) -> None:
    for each in fields(parameters):
        value, limits = getattr(parameters, each.name), each.metadata
        if value is None:
            continue
        name = key_of(each)
        if limits["choices"] is not None:
            allowed = sorted(set(limits["choices"].values()))
            check(name, value, f"one of {', '.join(allowed)}", value in allowed)
        least, most, above = limits["least"], limits["most"], limits["above"]
        ok = type(value) not in (int, float) or (
            math.isfinite(value)
            and (least is None or value >= least)
            and (most is None or value <= most)
            and (above is None or value > above)
        )
        check(name, value, _range(least, most, above), ok)


def _range(least: float | None, most: float | None, above: float | None) -> str:
    low = f"above {above:g}" if above is not None else "" if least is None else f"at least {least}"
    high = "" if most is None else f"at most {most:g}"
    return " and ".join(part for part in (low, high) if part) or "a finite number"


def key_of(each: Field[Any]) -> str:
    """The name of a field in files: Table III's."""
    name: str = each.metadata["names"][0]
    return name
