"""ResNet-50 on a 4 x 4 x 4 torus, two iterations, with three kinds of endpoint."""

import foldwire as fw

network = fw.Network.torus(
    (4, 4, 4), bandwidth_bytes_per_s=(200e9, 25e9, 25e9), latency_s=(72e-9, 400e-9, 400e-9)
)
job = fw.load_workload("resnet50", shape=network.shape)
for kind in ("baseline_comp_opt", "ace", "ideal"):
    run = fw.simulate(network, job, endpoint=kind)
    print(f"{kind:18} {run.end_fs / 1e12:.2f} ms")
