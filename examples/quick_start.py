"""Four RTL engines on a ring add up four gradients; then the same engine as Verilog."""

import numpy as np

import foldwire as fw

gradients = [np.random.default_rng(rank).standard_normal(1000, np.float32) for rank in range(4)]

ring = fw.AceRing("test", fw.RingSettings(nodes=4, latency_cycles=90))
sums = ring.all_reduce(gradients)

golden = ring.golden(gradients)  # numpy, in the order of additions that the ring defines
print("equal, bit for bit:", all(np.array_equal(each, golden) for each in sums))
print("clock cycles:", ring.last_run.cycles)

verilog = fw.emit(fw.AceEngine(fw.preset("test")), name="ace")
print("lines of Verilog:", verilog.lines)
