# SPDX-License-Identifier: Apache-2.0
"""Algorithms of one's own on the rings of an engine: the one that a description names."""

from sim.collectives import plan
from sim.collectives.algorithm import Algorithm
from sim.collectives.ring import RING
from sim.describe.build import DescribedSystem
from sim.describe.sections import Description, EngineSection
from sim.engines.engine import EngineRecord
from sim.engines.wires import refused
from sim.workload.graph import CollectiveKind

__all__ = ["own_algorithm"]


def own_algorithm(
    description: Description, record: EngineRecord, section: EngineSection, system: DescribedSystem
) -> Algorithm | None:
    """The algorithm that ``algorithm.reductions`` names, if it is not the ring's.

    Raises
    ------
    ConfigError
        It does not do the collectives of the job, or the engines are no single ring, all at one
        level.
    """
    named = description.algorithms[CollectiveKind.ALL_REDUCE].reductions
    default = record.algorithm(section, len(description.dimensions)).reductions
    if named in (None, default) or set(named) <= {None, RING.name}:
        return None

    def wrong(what: str) -> Exception:
        return refused(description, "algorithm", f"{what}, not {list(named)}", "reductions")

    if not record.takes_algorithms:
        raise wrong(f"must be absent for {description.kind!r}, whose programs are fixed")
    if len(named) > 1 or getattr(section.config, "phased", False):
        raise wrong(f"must be {RING.name!r} where programs have phases")
    if description.levels:
        raise wrong(f"must be {RING.name!r} among nodes of several levels")
    made = plan.ALGORITHMS[str(named[0])]
    calls = {task.call for graph in system.job.graphs for task in graph.tasks if task.call}
    for kind in sorted({call.kind for call in calls}, key=lambda each: each.value):
        if not made.does(kind):
            raise wrong(f"must name an algorithm that does {kind.value}")
    return made
