# SPDX-License-Identifier: Apache-2.0
"""Descriptions of switches that reduce, for `bench levels`: by push and by pull."""

import random
from collections.abc import Iterator
from typing import Any

from bench._levels_cases import KIB, Case, EngineLevels, log_uniform

__all__ = ["LEVELS", "switch_descriptions"]

PORTS = {"test": 4, "8-port": 8, "16-port": 16}
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


def _has_rtl(description: dict[str, Any]) -> bool:
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


class _SwitchLevels(EngineLevels):
    groups = ("push", "pull")
    clock_hz = RATE / 16
    most_bytes = 1 << 20  # the model simulates every cycle of every part

    def cases(self, job: str) -> Iterator[Case]:
        for name, each in switch_descriptions():
            yield Case(name=name, description=each, rtl=_has_rtl(each))

    def drawn(self, rng: random.Random, group: str) -> dict[str, Any]:
        nodes = rng.randint(2, 16)
        fits = [name for name, ports in PORTS.items() if ports >= nodes]
        preset = rng.choice(fits)
        buffer = round(log_uniform(rng, 2, 64))
        switch: dict[str, Any] = {
            "preset": preset, "mode": group, "clock_hz": self.clock_hz,
            "entries": 2 ** rng.randint(0, 5), "buffer_packets": buffer, "credits": buffer,
        }
        tree = nodes % 2 == 0 and nodes >= 4 and rng.random() < 0.25
        topology: dict[str, Any] = {
            "kind": "fat_tree" if tree else "switch", "shape": [nodes],
            "bandwidth_bytes_per_s": 16 * self.clock_hz,
            "latency_s": self.cycles(rng) / self.clock_hz,
        }
        made: dict[str, Any] = {
            "topology": topology,
            "endpoint": {
                "kind": "in_switch", "read_ahead": 2 ** rng.randint(0, 6),
                "waves": 2 ** rng.randint(1, 5),
            },
            "switch": switch,
            "memory": self.memory(rng),
        }
        if tree:
            switch |= {"preset": "16-port", "regions": 8}
            made["dimension"] = [{
                "group": nodes // 2, "lanes": 1, "router_latency_s": 0.0,
                "trunk_bandwidth_bytes_per_s": nodes // 2 * 16 * self.clock_hz,
            }]
        return made


LEVELS = _SwitchLevels()
