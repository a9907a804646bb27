# SPDX-License-Identifier: Apache-2.0
"""Hosts of endpoints at switches: computations and all-reduces, beside the cycle model."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hw.switch.packet import Format
from sim.cycles.model import CycleModel
from sim.cycles.queues import NEVER
from sim.cycles.switch.fabric import Fabric, Spot
from sim.cycles.switch.model import AllReduceJob, SwitchModel, SwitchSettings
from sim.endpoint.switch_system import SwitchSystem
from sim.fields import FieldError
from sim.hosts.activity import LinkActivity
from sim.hosts.command import Command
from sim.hosts.script import POLL_CYCLES, Compute, Issue, Reached, Step, check_scripts
from sim.hosts.surroundings import Surroundings

__all__ = ["COMMAND_CYCLES", "Assembly", "SwitchHosts"]

COMMAND_CYCLES = 21
"""From a host's first register access to the cycle in which the links begin, less the cycles from
completion to the interrupt; as measured on the RTL."""

_ISSUE_CYCLES = 18  # six register writes
_READ_CYCLES = 4  # a register read
_PERIOD_CYCLES = 3  # until switches, whose hosts begin with the scripts, count their time-outs
_SAMPLES = 2048


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """Switches and endpoints as a description places them.

    Parameters
    ----------
    system : SwitchSystem
    fabric : Fabric
    links : sequence of sequences of (int, sequence of Spot or int)
        By rank, the links of the described network that are counted with it: the number of each,
        and its senders: ports of switches, or the k-th link of all endpoints.
    router_cycles : int
        Delay of a packet before each switch, beside the switch's own.
    """

    system: SwitchSystem
    fabric: Fabric
    links: Sequence[Sequence[tuple[int, Sequence[Spot | int]]]]
    router_cycles: int = 0


class _Host:
    """One host: its present step, the cycle in which that begins, and the ends of earlier steps."""

    def __init__(self, script: Sequence[Step], start_cycle: int) -> None:
        self.script = script
        self.at = start_cycle
        self.ends: list[int] = []

    @property
    def done(self) -> bool:
        return len(self.ends) == len(self.script)

    @property
    def issues(self) -> bool:
        """True if there are commands to come."""
        return any(isinstance(step, Issue) for step in self.script[len(self.ends) :])

    def go_on(self, done_at: NDArray[np.int64], given_at: NDArray[np.int64]) -> None:
        """Take all steps that present completions allow."""
        while not self.done:
            step = self.script[len(self.ends)]
            if isinstance(step, Compute):
                end = self.at + step.cycles
            elif isinstance(step, Issue):
                given_at[step.command] = self.at + COMMAND_CYCLES
                end = self.at + _ISSUE_CYCLES - 1
            else:
                polls = isinstance(step, Reached)
                count = step.count if isinstance(step, Reached) else 1
                complete = int(done_at[count - 1]) if count else self.at
                if complete < 0:
                    return
                # A register is read in the second cycle of an access.
                late = max(0, complete - self.at - 1)
                apart = POLL_CYCLES + _READ_CYCLES - 1
                end = self.at + _READ_CYCLES + -(-late // apart) * apart - 1
                if not polls:
                    end = max(self.at, complete)
            self.ends.append(end)
            self.at = end + 1


class SwitchHosts(CycleModel):
    """Endpoints at switches with their hosts, cycle by cycle.

    Parameters
    ----------
    config : Assembly
    ring : Surroundings
        Number of endpoints, latencies of links and memories, stalls of memories.
    commands : sequence of Command
        All-reduces.
    scripts : sequence of sequences of Step
        Steps of the host of each endpoint.
    external : sequence of int
        Endpoints, and switches (numbered behind them), that are simulated elsewhere.
    start_cycle : int
    trace : bool
        Record the traffic of links over time.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    def __init__(
        self,
        config: Assembly,
        ring: Surroundings,
        commands: Sequence[Command],
        scripts: Sequence[Sequence[Step]],
        *,
        external: Sequence[int] = (),
        start_cycle: int = 0,
        trace: bool = False,
    ) -> None:
        check_scripts(scripts, nodes=ring.nodes, commands=len(commands))
        self.config = config
        self._mixed = len(external) > 0
        self.hosts = [
            _Host(() if rank in external else script, start_cycle)
            for rank, script in enumerate(scripts)
        ]
        system = config.system
        if system.format is not Format.WORDS:
            raise FieldError("format", "must be WORDS for cycle models of switches")
        self._given = np.full((ring.nodes, len(commands)), NEVER, np.int64)
        self.model = SwitchModel(
            system.switch,
            system.dma,
            config.fabric,
            SwitchSettings(
                latency_cycles=ring.latency_cycles,
                router_cycles=config.router_cycles,
                timeout_cycles=system.timeout_cycles,
                read_latency_cycles=ring.read_latency_cycles,
                write_latency_cycles=ring.write_latency_cycles,
                stalls=ring.memory_stalls,
                seed=ring.seed,
                acknowledged=system.acknowledged,
            ),
            [
                AllReduceJob(
                    elements=each.elements, source=each.source, destination=each.destination,
                    mode=system.mode,
                )
                for each in commands
            ],
            self._given.tolist(),
            start_cycle=start_cycle,
            elsewhere=external,
            most_cycles=ring.latency_cycles,
            background=system.background,
        )
        self.model.joined()
        self.model.count_periods(start_cycle + _PERIOD_CYCLES)
        self._given = self.model.state.job["given_at"]
        self._done_at = self.model.state.job["done_at"]
        outputs = [each for of_rank in config.links for _, each in of_rank]
        first, ports = int(self.model.state.c["lane_output"][0]), system.switch.ports
        self._outputs = np.array(
            [
                first + each if isinstance(each, int) else each[0] * ports + each[1]
                for group in outputs
                for each in group
            ],
            np.int64,
        )
        self._groups = np.cumsum([0, *(len(group) for group in outputs[:-1])])
        self._trace = trace
        self._samples: list[tuple[int, NDArray[np.int64]]] = []
        self._interval = 16

    @property
    def done(self) -> bool:
        return all(host.done for host in self.hosts)

    def run(self, until: int = NEVER) -> float:
        """Simulate all cycles before *until* (default: all); returns the wall time in seconds.

        Raises
        ------
        RuntimeError
            If an operand came twice, a result lacks one, or nothing moves any more.
        """
        began = time.perf_counter()
        model, beside = self.model, self.model.background
        background = beside is not None and beside.load > 0
        model.run(0)
        if self._trace and not self._samples:
            self._sample()
        progress, moved_at = -1, model.now
        while model.now < until:
            for rank, host in enumerate(self.hosts):
                host.go_on(self._done_at[rank], self._given[rank])
            if not self._mixed:
                if self.done:
                    break
                if not background:
                    self._skip(until)
            if (carried := model.progress()) != progress:
                progress, moved_at = carried, model.now
            elif not self._mixed and model.now - moved_at > model.patience:
                raise RuntimeError(f"nothing moves before cycle {model.now}")
            # A command after a completion is given at least so many cycles later.
            busy = any(host.issues for host in self.hosts)
            window = COMMAND_CYCLES if busy else self._interval if self._trace else NEVER
            model.run(min(until, model.now + window))
            if self._trace and model.now >= self._samples[-1][0] + self._interval:
                self._sample()
        if background and self.done:
            model.run()  # until ordinary packets in flight have arrived, too
        return time.perf_counter() - began

    def _skip(self, until: int) -> None:
        """Skip to the next command while all that were given are complete: nothing moves."""
        waiting = self._given[self._done_at < 0].min(initial=NEVER)
        if waiting > self.model.now and waiting < NEVER:
            self.model.skip(min(until, int(waiting)))

    def _sample(self) -> None:
        """Sample the flits of links so far; where there are many samples, drop half of them."""
        self._samples.append((self.model.now, self._carried()))
        if len(self._samples) > _SAMPLES:
            self._samples = self._samples[::2]
            self._interval *= 2

    def _carried(self) -> NDArray[np.int64]:
        """Flits by link, in the order of the configuration."""
        if not len(self._outputs):
            return np.zeros(0, np.int64)
        flits = self.model.state.output["flits"][self._outputs]
        return np.asarray(np.add.reduceat(flits, self._groups), np.int64)

    def steps(self, rank: int) -> NDArray[np.int64]:
        host = self.hosts[rank]
        left = len(host.script) - len(host.ends)
        return np.array(host.ends + [-1] * left, np.int64)

    def completions(self) -> NDArray[np.int64]:
        return self.model.completions()

    def counts(self) -> dict[str, int]:
        """Events of all reduction units and endpoints, by name."""
        counts = self.model.counts()
        found = self.model.ordinary() if self.model.background and self.model.done else None
        ordinary = {"ordinary": found.packets, "ordinary_travel": round(found.travel),
                    "ordinary_queued": round(found.queued)} if found else {}
        return {**counts.units, **counts.lanes, **ordinary}

    def link_activity(self, rank: int, port: int, *, bucket_cycles: int = 0) -> LinkActivity:
        """Traffic of the *port*-th link that is counted with a rank.

        Its series are interpolated between samples, at most 2048 of them in a run.
        """
        place = sum(len(each) for each in self.config.links[:rank]) + port
        whole = int(self._carried()[place])
        series = np.zeros(0)
        if bucket_cycles and self._samples:
            cycles = np.array([cycle for cycle, _ in self._samples] + [self.model.now])
            flits = np.array([carried[place] for _, carried in self._samples] + [whole])
            edges = np.arange(-(-self.model.now // bucket_cycles) + 1) * bucket_cycles
            series = np.diff(np.interp(edges, cycles, flits))
        packet = self.config.system.packet_cycles
        extra = packet / self.config.system.switch.packet_flits
        headers = packet - self.config.system.switch.payload_flits
        nothing = np.zeros(0, np.int64)
        return LinkActivity(
            node=rank,
            port=port,
            beats=round(whole * extra),
            flits=round(whole * extra),
            header_flits=round(whole * extra * headers / packet),
            first_cycle=None,
            last_cycle=None,
            stalled_cycles=0,
            bucket_cycles=bucket_cycles,
            beats_per_bucket=series * extra,
            header_flits_per_bucket=series * extra * headers / packet,
            payload_flits_per_bucket=series * extra * (packet - headers) / packet,
            beat_cycles=nothing,
            beat_flits=nothing,
            beat_header_flits=nothing,
        )
