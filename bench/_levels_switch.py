"""Descriptions of switches that reduce, for `bench.levels`: by push and by pull."""

from collections.abc import Iterator
from typing import Any

__all__ = ["has_rtl", "switch_descriptions"]

KIB = 1 << 10
RATE = 25e9
NEAR_S, FAR_S = 6.4e-9, 100e-9
DEEP = {"buffer_packets": 40, "credits": 40}
"""Switch settings with enough credits for links of hundreds of cycles."""
AHEAD = {"read_ahead": 64, "outstanding_bursts": 64}


def _flat(nodes: int, latency_s: float = NEAR_S, planes: int = 1) -> dict[str, Any]:
    return {
        "topology": {
            "kind": "switch", "shape": [nodes], "bandwidth_bytes_per_s": RATE,
            "latency_s": latency_s,
        },
        "dimension": [{"lanes": planes}],
    }


def _leaves(nodes: int, group: int, cables: int) -> dict[str, Any]:
    return {
        "topology": {
            "kind": "fat_tree", "shape": [nodes], "bandwidth_bytes_per_s": RATE,
            "latency_s": NEAR_S,
        },
        "dimension": [{
            "group": group, "lanes": 1, "router_latency_s": 0.0,
            "trunk_bandwidth_bytes_per_s": cables * RATE,
        }],
    }


def _case(
    base: dict[str, Any], kib: int, mode: str, switch: dict[str, Any] | None = None,
    endpoint: dict[str, Any] | None = None, **tables: Any,
) -> dict[str, Any]:
    return {
        **base,
        "endpoint": {"kind": "in_switch", **(endpoint or {})},
        "switch": {"preset": "16-port", "regions": 8, "mode": mode, **(switch or {})},
        "workload": {"collective": "all_reduce", "size_bytes": kib * KIB},
        "run": {"passes": 1},
        **tables,
    }


def has_rtl(description: dict[str, Any]) -> bool:
    """True if level rtl exists, too: up to 8 endpoints and 4 switches, one link between two."""
    from sim.describe.build import build
    from sim.describe.reader import ConfigError
    from sim.describe.system import describe
    from sim.engines.run import engine_group

    try:
        made = describe({**description, "endpoint": {**description["endpoint"], "level": "rtl"}})
        engine_group(made, build(made))
    except ConfigError:
        return False
    return True


def switch_descriptions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and descriptions, each of at least 256 KiB per node."""
    dgx_2 = {"topology": {"kind": "dgx2"}}
    for mode in ("push", "pull"):
        yield f"{mode}, 4 at a switch", _case(_flat(4), 256, mode)
        yield f"{mode}, 8 in 6 planes", _case(_flat(8, planes=6), 1024, mode)
        yield f"{mode}, 8, few credits", _case(_flat(8, FAR_S), 512, mode)
        yield f"{mode}, 8, credits enough", _case(_flat(8, FAR_S), 512, mode, DEEP, AHEAD)
        yield f"{mode}, two levels of 8", _case(_leaves(8, 4, 4), 256, mode)
        yield f"{mode}, DGX-2", _case(dgx_2, 1024, mode, DEEP, {**AHEAD, "waves": 32})
    more = {**DEEP, "entries": 8}
    yield "push, DGX-2, 8 entries", _case(dgx_2, 1024, "push", more, {**AHEAD, "waves": 32})
    yield "push, two levels, a link", _case(_leaves(8, 4, 1), 256, "push")
    slow = {"memory": {"read_latency_s": 240e-9}}
    yield "push, 4, slow memories", _case(_flat(4), 256, "push", **slow)
    small = {"preset": "test", "regions": 2}
    few = {"waves": 4, "wave_blocks": 2}
    yield "push, 4, small tables", _case(_flat(4), 256, "push", small, few)
