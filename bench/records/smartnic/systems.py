# SPDX-License-Identifier: Apache-2.0
"""Systems with smart NICs as event endpoints, as benches draw them."""

from sim.collectives.plan import AlgorithmChoice
from sim.workload.graph import CollectiveKind

__all__ = ["ALGORITHM", "COLLECTIVES"]

COLLECTIVES = (CollectiveKind.ALL_REDUCE,)
ALGORITHM = AlgorithmChoice(style="baseline", reductions=("ring",), rings=1)
"""On a ring, the one topology."""
