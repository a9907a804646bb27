"""Foldwire: collective-communication hardware for distributed training.

``import foldwire as fw`` is the public door; everything here is re-exported from ``hw`` (the
hardware), ``gen`` (Verilog, compiled models, synthesis) and ``sim`` (systems and workloads). Names
are imported when they are first used, so that whoever simulates does not load the hardware
description language, and nobody waits for help.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from foldwire.version import __version__

if TYPE_CHECKING:
    from gen.compile import CompiledModel, compile_model
    from gen.synth import synthesize
    from gen.verilog import Emitted, emit, emit_files
    from hw.ace.config import PRESETS, AceConfig, preset
    from hw.ace.engine import AceEngine
    from hw.bfp.format import BlockFormat
    from hw.fp.adder import FPAdder
    from hw.fp.alu import ReduceALU
    from hw.fp.ops import ReduceOp
    from hw.smartnic.config import SmartNicConfig
    from hw.smartnic.nic import SmartNic
    from sim.collectives.plan import AlgorithmChoice
    from sim.describe.collective import SystemConfig
    from sim.describe.collective import read as read_system
    from sim.endpoint.kinds import endpoint
    from sim.events.record import RunRecord
    from sim.events.scheduler import Scheduler
    from sim.events.simulate import simulate
    from sim.limits.network import call_bound
    from sim.network.dimension import Dimension
    from sim.network.link import LinkFault
    from sim.network.network import Network
    from sim.results.breakdown import break_down
    from sim.results.store import load as load_run
    from sim.results.store import save as save_run
    from sim.rtl.ace_ring import RingCluster, RingSettings
    from sim.rtl.collective import Outcome, run_collective
    from sim.run import RunResult, run_description
    from sim.workload.astra_text import Workload
    from sim.workload.astra_text import read as read_workload
    from sim.workload.graph import (
        CollectiveCall,
        CollectiveKind,
        GraphBuilder,
        Job,
        TaskKind,
        TrainingPhase,
    )
    from sim.workload.load import load as load_workload
    from sim.workload.training import training_job

_MODULES = {
    "gen.compile": ("CompiledModel", "compile_model"),
    "gen.synth": ("synthesize",),
    "gen.verilog": ("Emitted", "emit", "emit_files"),
    "hw.ace.config": ("PRESETS", "AceConfig", "preset"),
    "hw.ace.engine": ("AceEngine",),
    "hw.bfp.format": ("BlockFormat",),
    "hw.fp.adder": ("FPAdder",),
    "hw.fp.alu": ("ReduceALU",),
    "hw.fp.ops": ("ReduceOp",),
    "hw.smartnic.config": ("SmartNicConfig",),
    "hw.smartnic.nic": ("SmartNic",),
    "sim.collectives.plan": ("AlgorithmChoice",),
    "sim.rtl.ace_ring": ("RingCluster", "RingSettings"),
    "sim.describe.collective": ("SystemConfig", "read_system"),
    "sim.endpoint.kinds": ("endpoint",),
    "sim.limits.network": ("call_bound",),
    "sim.network.dimension": ("Dimension",),
    "sim.network.link": ("LinkFault",),
    "sim.network.network": ("Network",),
    "sim.results.breakdown": ("break_down",),
    "sim.results.store": ("load_run", "save_run"),
    "sim.rtl.collective": ("Outcome", "run_collective"),
    "sim.events.record": ("RunRecord",),
    "sim.run": ("RunResult", "run_description"),
    "sim.events.scheduler": ("Scheduler",),
    "sim.events.simulate": ("simulate",),
    "sim.workload.astra_text": ("Workload", "read_workload"),
    "sim.workload.graph": (
        "CollectiveCall",
        "CollectiveKind",
        "GraphBuilder",
        "Job",
        "TaskKind",
        "TrainingPhase",
    ),
    "sim.workload.load": ("load_workload",),
    "sim.workload.training": ("training_job",),
}
_ORIGINS = {name: module for module, names in _MODULES.items() for name in names}
# Where the name in its module is too short to stand alone.
_ALIASES = {
    "load_run": "load",
    "load_workload": "load",
    "read_system": "read",
    "read_workload": "read",
    "save_run": "save",
}

__all__ = [
    "PRESETS",
    "AceConfig",
    "AceEngine",
    "AlgorithmChoice",
    "BlockFormat",
    "CollectiveCall",
    "CollectiveKind",
    "CompiledModel",
    "Dimension",
    "Emitted",
    "FPAdder",
    "GraphBuilder",
    "Job",
    "LinkFault",
    "Network",
    "Outcome",
    "ReduceALU",
    "ReduceOp",
    "RingCluster",
    "RingSettings",
    "RunRecord",
    "RunResult",
    "Scheduler",
    "SmartNic",
    "SmartNicConfig",
    "SystemConfig",
    "TaskKind",
    "TrainingPhase",
    "Workload",
    "__version__",
    "break_down",
    "call_bound",
    "compile_model",
    "emit",
    "emit_files",
    "endpoint",
    "load_run",
    "load_workload",
    "preset",
    "read_system",
    "read_workload",
    "run_collective",
    "run_description",
    "save_run",
    "simulate",
    "synthesize",
    "training_job",
]


def __getattr__(name: str) -> Any:
    if name not in _ORIGINS:
        raise AttributeError(f"module 'foldwire' has no attribute {name!r}")
    value = getattr(import_module(_ORIGINS[name]), _ALIASES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
