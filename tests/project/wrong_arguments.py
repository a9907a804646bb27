# SPDX-License-Identifier: Apache-2.0
"""Calls of everything public, cheap and right, to be made wrong in one argument at a time."""

import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import foldwire as fw

__all__ = ["VALUES", "Call", "calls", "parameters_of"]


class Thing:
    """Of no use to anybody."""

    def __repr__(self) -> str:
        return "a thing"


VALUES: dict[str, Any] = {
    "None": None,
    "nan": math.nan,
    "inf": math.inf,
    "-1": -1,
    "-0.5": -0.5,
    "0": 0,
    "1.5": 1.5,
    "10**30": 10**30,
    "'x'": "x",
    "''": "",
    "b'x'": b"x",
    "[]": [],
    "[thing]": [Thing()],
    "[[]]": [[]],
    "{}": {},
    "{'x': 1}": {"x": 1},
    "thing": Thing(),
    "type": int,
}
"""Arguments that are wrong nearly everywhere, by what they are called in tables of those that are
right here and there."""


class Call(NamedTuple):
    """What is called, and with which arguments; those of *options* are in ``**`` parameters."""

    what: Callable[..., Any]
    arguments: dict[str, Any]
    options: tuple[str, ...] = ()


def calls(folder: Path) -> dict[str, Call]:
    """By the name under which each is called."""
    ring = fw.Network.ring(4, 25e9, 1e-7)
    builder = fw.GraphBuilder()
    call = fw.CollectiveCall(kind="all_reduce", size_bytes=4096)
    builder.add("reduce", fw.TaskKind.COLLECTIVE, call=call)
    graph = builder.graph()
    job = fw.Job(name="job", graphs=(graph,))
    record = fw.simulate(ring, job)
    description = {
        "topology": {"kind": "ring", "shape": [4]},
        "workload": {"collective": "all_reduce", "size_bytes": 4096},
    }
    done = fw.run(description)
    fw.save_run(record, job, folder / "saved", figures=False)
    vectors = [np.arange(8, dtype=np.float32)] * 2
    links = {"size": 4, "bandwidth_bytes_per_s": 25e9, "latency_s": 1e-7}
    of_links = tuple(
        name for name in inspect.signature(fw.Dimension).parameters
        if name not in (*links, "kind", "group")
    )
    ace = fw.preset("ace", "test")
    nic = fw.preset("smartnic", "test")
    adder = fw.FPAdder()
    adder._MustUse__silence = True  # of what is never elaborated
    workload = _workload()
    sweep = {"base": description, "grid": {"workload.size_bytes": [1024]}}
    dataset = _dataset()
    settings = fw.Surroundings(nodes=2)
    of_rings = ("window_cycles", "threads", "bucket_cycles", "record_beats")
    return {
        "AceConfig": Call(fw.AceConfig, {}),
        "AceEngine": Call(fw.AceEngine, {"config": ace}),
        "AceRing": Call(fw.AceRing, {"config": ace, "settings": settings}, of_rings),
        "AlgorithmChoice": Call(fw.AlgorithmChoice, {}),
        "AllReducer": Call(fw.AllReducer, {"level": "golden"}),
        "AllReducer()": Call(fw.AllReducer(level="golden"), {"vectors": vectors}),
        "BlockFormat": Call(fw.BlockFormat, {}),
        "CollectiveCall": Call(fw.CollectiveCall, {"kind": "all_reduce", "size_bytes": 4096}),
        "Dataset": Call(fw.Dataset, dataset),
        "Dimension": Call(fw.Dimension, {"kind": "ring", **links}),
        "Dimension.fat_tree": Call(fw.Dimension.fat_tree, {**links, "group": 2}, of_links),
        "Dimension.fully_connected": Call(fw.Dimension.fully_connected, links, of_links),
        "Dimension.ring": Call(fw.Dimension.ring, links, of_links),
        "Dimension.switch": Call(fw.Dimension.switch, links, of_links),
        "FPAdder": Call(fw.FPAdder, {}),
        "GraphBuilder": Call(fw.GraphBuilder, {}),
        "GraphBuilder.add": Call(
            fw.GraphBuilder().add, {"name": "task", "kind": fw.TaskKind.COMPUTE},
            ("duration_s", "call", "peer", "tag", "size_bytes", "layer", "phase", "iteration",
             "memory_bytes"),
        ),
        "Job": Call(fw.Job, {"name": "job", "graphs": (graph,)}),
        "LinkFault": Call(fw.LinkFault, {"source": 0, "target": 1}),
        "Network": Call(fw.Network, {"dimensions": ring.dimensions}),
        "Network.ring": Call(fw.Network.ring, links, ("logical_shape", "placement", "faults",
                                                      *of_links)),
        "Network.split": Call(ring.split, {"shape": (2, 2)}),
        "Network.torus": Call(
            fw.Network.torus, {"sizes": (2, 2), "bandwidth_bytes_per_s": 25e9, "latency_s": 1e-7},
            of_links,
        ),
        "Network.view": Call(ring.split((2, 2)).view, {"dimensions": (0,)}),
        "NicRing": Call(fw.NicRing, {"config": nic, "settings": settings}, of_rings),
        "ReduceALU": Call(fw.ReduceALU, {"lanes": 2}),
        "Surroundings": Call(fw.Surroundings, {"nodes": 4}),
        "Run.save": Call(done.save, {"folder": folder / "run", "figures": False}),
        "Scheduler": Call(fw.Scheduler, {}),
        "SmartNic": Call(fw.SmartNic, {"config": nic}),
        "SmartNicConfig": Call(fw.SmartNicConfig, {}),
        "Switch": Call(fw.Switch, {"config": fw.preset("switch", "test")}),
        "SwitchConfig": Call(fw.SwitchConfig, {}),
        "SwitchDma": Call(fw.SwitchDma, {"config": fw.preset("switch-dma", "test")}),
        "SwitchDmaConfig": Call(fw.SwitchDmaConfig, {}),
        "register_engine": Call(fw.register_engine, {"engine": None}),
        "Table": Call(fw.Table, {"title": "table", "columns": []}),
        "all_reduce": Call(fw.all_reduce, {"vectors": vectors, "level": "golden"}),
        "break_down": Call(fw.break_down, {"record": record, "job": job}),
        "call_bound": Call(fw.call_bound, {"network": ring, "call": call}),
        "compile_model": Call(fw.compile_model, {"component": adder, "name": "adder"}),
        "emit": Call(fw.emit, {"component": adder, "name": "adder"}),
        "emit_files": Call(
            fw.emit_files,
            {"component": adder, "directory": folder / "out", "name": "adder", "replace": True},
        ),
        "endpoint": Call(
            fw.endpoint, {"kind": "ace"},
            tuple(inspect.signature(type(fw.endpoint("ace"))).parameters),
        ),
        "engine": Call(fw.engine, {"config": ace}),
        "load_digits": Call(fw.load_digits, {}),
        "load_run": Call(fw.load_run, {"folder": folder / "saved"}),
        "load_tumours": Call(fw.load_tumours, {}),
        "load_workload": Call(
            fw.load_workload, {"source": "mlp-model", "shape": (4,)},
            ("passes", "overlap", "cycle_s", "parallelism"),
        ),
        "preset": Call(fw.preset, {"kind": "ace", "name": "test"}),
        "presets": Call(fw.presets, {"kind": "ace"}),
        "run": Call(fw.run, {"description": description}),
        "save_run": Call(
            fw.save_run, {"record": record, "job": job, "folder": folder / "by_hand",
                          "figures": False},
        ),
        "simulate": Call(fw.simulate, {"network": ring, "job": job}),
        "sweep": Call(fw.sweep, {"description": sweep, "folder": folder / "sweep"}),
        "synthesize": Call(fw.synthesize, {"component": adder, "name": "adder"}),
        "train": Call(
            fw.train,
            {
                "all_reduce": lambda vectors: vectors, "data": fw.Dataset(**dataset), "steps": 2,
                "batch": 8,
            },
        ),
        "training_job": Call(fw.training_job, {"workload": workload, "shape": (4,)}),
    }


def _workload() -> Any:
    from sim.workload.load import shipped

    return shipped("mlp-model")


def _dataset() -> dict[str, Any]:
    x, y = np.zeros((64, 8), np.float32), np.zeros(64, np.int64)
    return {"train_x": x, "train_y": y, "test_x": x, "test_y": y}


def parameters_of(call: Call) -> Iterator[str]:
    """Every parameter by name; those behind ``**`` as the call lists them."""
    for name, each in inspect.signature(call.what).parameters.items():
        if each.kind is each.VAR_POSITIONAL:
            raise AssertionError(f"*{name} cannot be drawn")
        if each.kind is not each.VAR_KEYWORD:
            yield name
    yield from call.options
