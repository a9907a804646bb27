"""Synthesis figures through Yosys: cells per block, memory, levels of logic, clock."""

from gen.synth.cells import largest_blocks, synthesize
from gen.synth.targets import LIBERTY_OSU018, TARGETS, Device, Target

__all__ = ["LIBERTY_OSU018", "TARGETS", "Device", "Target", "largest_blocks", "synthesize"]
