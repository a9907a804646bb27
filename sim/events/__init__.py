"""Event simulation of training systems: lowering of plans, the kernel, the record of a run."""
