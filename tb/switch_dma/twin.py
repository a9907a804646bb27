# SPDX-License-Identifier: Apache-2.0
"""All-reduces of RTL switches and endpoints, and the cycle model beside them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.cycles.switch.model import AllReduceJob, SwitchModel, SwitchSettings
from sim.cycles.switch.state import EVENTS
from sim.rtl.switch.stepped import WRITE_LATENCY, SteppedFabric
from tb.switch_dma.fabric import AllReduce

__all__ = ["Course", "Race"]

_COMMAND_CYCLES = 22
"""From a host's first register access to the cycle in which the links begin, less those from
completion to the interrupt: measured, and the same for all."""


class Course:
    """Runs an all-reduce that endpoints start at their own times; holds cycles and counts.

    Parameters
    ----------
    system : SteppedFabric
        Built by `tb.switch_dma.fabric`; its endpoints have joined.
    job : AllReduce
    given : sequence of int
        Cycles from now to the command of each endpoint.
    deadline : int
    quiet : int
        Cycles without a flit after which the run ends; by default, two periods of the time-out.
    """

    def __init__(
        self, system: SteppedFabric, job: AllReduce, given: Sequence[int], *,
        deadline: int = 100_000, quiet: int | None = None,
    ) -> None:
        before = self._counted(system)
        for cycles in (0, system.timeout):  # start their periods now
            every = [each.write("timeout", cycles=cycles) for each in system.switches]
        system.run(lambda: all(each.done for each in every))
        self.begin = system.cycle
        ends = []
        for node, wait in zip(job.nodes, given):
            node.node.delay(wait)
            job.start([node])
            ends.append(node.node.wait_irq())
        system.run(lambda: all(each.done for each in ends), deadline=deadline)
        self.rtl = np.array([each.cycle for each in ends]) - self.begin
        system.settle(quiet=2 * system.timeout + 150 if quiet is None else quiet)
        after = self._counted(system)
        self.counted = {name: after[name] - before[name] for name in after}

    @staticmethod
    def _counted(system: SteppedFabric) -> dict[str, int]:
        """Counts of the registers; the model has the same ones."""
        counters = [switch.counters() for switch in system.switches]
        links = range(system.dma.links)
        return {
            **{name: sum(each.get(name, 0) for each in counters)
               for name in EVENTS},
            **{name: sum(each["count"] for k in links for each in system.ask(name, k))
               for name in ("operands", "loads", "answers", "partials", "finished", "results",
                            "wave_wait", "barrier")},
        }


class Race(Course):
    """Runs the cycle model as well, with the same commands at the same times.

    Parameters
    ----------
    system, job, given, deadline, quiet
        See `Course`; the endpoints have done nothing but join.
    waves : dict
        ``wave_log2``, ``waves`` of the endpoints' registers, if they are not the reset values.
    """

    def __init__(
        self, system: SteppedFabric, job: AllReduce, given: Sequence[int], *,
        deadline: int = 100_000, quiet: int | None = None, **waves: Any,
    ) -> None:
        system.restart_switches()  # forget the notices that have passed
        super().__init__(system, job, given, deadline=deadline, quiet=quiet)
        begin = self.begin
        self.model = SwitchModel(
            system.config, system.dma, system.fabric,
            SwitchSettings(
                latency_cycles=system.latency, timeout_cycles=system.timeout,
                read_latency_cycles=system.read_latency,
                write_latency_cycles=WRITE_LATENCY, stalls=system.stalls, seed=system.seed,
                **waves,
            ),
            [AllReduceJob(elements=job.elements, source=job.source, destination=job.destination,
                          mode=system.mode)],
            [[begin + _COMMAND_CYCLES + wait] for wait in given], start_cycle=begin,
        )
        self.model.joined()
        self.model.run()
        self.modelled = self.model.completions()[:, 0] - begin

    @property
    def counts(self) -> dict[str, int]:
        """The model's values of `counted`."""
        counts = self.model.counts()
        both = {**counts.units, **counts.lanes}
        return {name: both[name] for name in self.counted}

    @property
    def error_pct(self) -> float:
        """Error of the model's last completion, in percent of the RTL's cycles."""
        return 100 * abs(int(self.modelled.max()) - int(self.rtl.max())) / int(self.rtl.max())
