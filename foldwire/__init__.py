"""Foldwire: collective-communication hardware for distributed training.

``import foldwire as fw`` is the public door; everything here is re-exported from ``hw`` (the
hardware), ``gen`` (Verilog, compiled models, synthesis) and ``sim`` (systems and workloads).
"""

from foldwire.version import __version__
from gen.compile import CompiledModel, compile_model
from gen.synth import synthesize
from gen.verilog import Emitted, emit, emit_files
from hw.ace.config import PRESETS, AceConfig, preset
from hw.ace.engine import AceEngine
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp
from sim.collectives.driver import RingCluster, RingSettings
from sim.config import SystemConfig
from sim.config import read as read_system
from sim.run import Outcome, run_collective
from sim.topology.torus import Torus, ring
from sim.workload.astra_text import Workload
from sim.workload.astra_text import read as read_workload

__all__ = [
    "PRESETS",
    "AceConfig",
    "AceEngine",
    "CompiledModel",
    "Emitted",
    "FPAdder",
    "Outcome",
    "ReduceALU",
    "ReduceOp",
    "RingCluster",
    "RingSettings",
    "SystemConfig",
    "Torus",
    "Workload",
    "__version__",
    "compile_model",
    "emit",
    "emit_files",
    "preset",
    "read_system",
    "read_workload",
    "ring",
    "run_collective",
    "synthesize",
]
