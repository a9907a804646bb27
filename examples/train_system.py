# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 on a 4 x 4 x 4 torus, two iterations, with four kinds of endpoint."""

import foldwire as fw

torus = {
    "topology": {"kind": "hierarchical_torus", "shape": [4, 4, 4]},
    "workload": {"shipped": "resnet50"},
}
for kind in ("baseline_comp_opt", "baseline_comm_opt", "ace", "ideal"):
    run = fw.run(torus, endpoint=kind)
    print(f"{kind:18} {1e3 * run.time_s:.2f} ms")
