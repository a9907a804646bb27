# SPDX-License-Identifier: Apache-2.0
"""The cycle model of smart NICs in a ring, driven from outside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from hw.bfp.layouts import blocks_per_beat
from hw.common.axi import BOUNDARY_BYTES
from hw.fp.ops import ReduceOp
from hw.smartnic.config import MAX_NODES, SmartNicConfig
from hw.smartnic.transmit import SHORTEST_FRAME_BYTES
from sim.collectives.partition import NicPartition
from sim.cycles.model import RingCycles
from sim.cycles.port import CHANNELS
from sim.cycles.queues import NEVER
from sim.cycles.smartnic.network import OUTSIDE, TRACED
from sim.cycles.smartnic.state import WIRE, NicState, allocate
from sim.cycles.stalls import HOST, LINK, MEMORY, pace_of, stall_key, threshold
from sim.fields import FieldError
from sim.hosts.activity import LinkActivity
from sim.hosts.command import Command
from sim.hosts.script import POLL_CYCLES, Step
from sim.hosts.surroundings import Surroundings
from sim.workload.graph import CollectiveKind

__all__ = ["START_WRITES", "Beat", "NicModel", "check_command", "check_ring"]

START_WRITES = 6
"""Register writes that start an all-reduce, the command among them."""

_FLIT_BYTES = 16
_LOG = 1 << 14
_MOST = NEVER >> 1


@dataclass(frozen=True, kw_only=True)
class Beat:
    """A beat that a link has taken in *cycle*.

    Sent by engine *engine* of *rank*, on *link* 0 to the next rank or 1 to the previous one. Its
    content is packed into *token*, see ``sim.cycles.smartnic.words``.
    """

    rank: int
    engine: int
    link: int
    cycle: int
    token: int


class NicModel(RingCycles):
    """Smart NICs of one configuration on a ring; cycles only, no data.

    Every part of ``hw/smartnic`` is there with its queues, their depths and latencies; each cycle
    is simulated, register by register. Random stalls of links, memories and hosts are those that
    the co-simulation draws for the same seed.

    Parameters
    ----------
    config : SmartNicConfig
    ring : Surroundings
    commands : sequence of Command
        All-reduces of the run, in the order in which every node starts them.
    scripts : sequence of sequences of Step
        Steps of the host of each rank.
    external : sequence of int
        Ranks that are not simulated here but outside.
    start_cycle : int
        When the scripts start.
    trace : bool
        Keep the beats of all links, see `link_activity`.

    Raises
    ------
    ValueError
        For a ring that the NIC does not support, or commands or scripts that do not fit it.
    """

    package = "sim.cycles.smartnic"
    title = "the NIC's cycle model"
    state: NicState

    def __init__(
        self,
        config: SmartNicConfig,
        ring: Surroundings,
        commands: Sequence[Command],
        scripts: Sequence[Sequence[Step]],
        *,
        external: Sequence[int] = (),
        start_cycle: int = 0,
        trace: bool = False,
    ) -> None:
        check_ring(ring)
        hosts = self.operations(ring, commands, scripts, external, writes=START_WRITES)
        for command in commands:
            check_command(config, command)
        self.config, self.ring = config, ring
        self._now = start_cycle
        links = 2 * ring.nodes * config.engines
        self.state = s = allocate(
            config, ring.nodes, latency=ring.latency_cycles, commands=len(commands),
            operations=max(1, sum(map(len, hosts))), log=_LOG + links * ring.latency_cycles,
        )
        for name, value in _settings(config, ring).items():
            s.c[name] = value
        for number, command in enumerate(commands):
            plan = NicPartition(elements=command.elements, nodes=ring.nodes, config=config)
            s.commands[number] = (
                command.compress, plan.beats, plan.rounds, plan.rest_beats,
                command.source // config.bus_bytes, command.destination // config.bus_bytes,
            )
        self._connect(s, set(external), trace)
        self._give(hosts)
        s.node["op_at"] = np.where(s.node["op"] < s.node["op_end"], start_cycle, NEVER)
        s.node["sleep"] = start_cycle
        self._trace: list[NDArray[np.void]] | None = [] if trace else None
        self._external = bool(external)
        self._sent: list[NDArray[np.void]] = []

    def _connect(self, s: NicState, external: set[int], trace: bool) -> None:
        """Neighbours, and the keys of all random draws."""
        nodes, engines = self.ring.nodes, self.config.engines
        seed = self.ring.seed
        s.node["host_key"] = stall_key(seed, np.arange(nodes), HOST)
        rank = np.repeat(np.arange(nodes), engines)[:, None]
        engine = np.tile(np.arange(engines), nodes)[:, None]
        s.engine["memory_key"] = stall_key(seed, rank, engine, MEMORY + np.arange(CHANNELS))
        s.engine["link_key"] = stall_key(seed, rank, 2 * engine + np.arange(2), LINK)
        peer = (rank + [1, -1]) % nodes
        s.engine["peer"] = peer * engines + engine
        outside = np.isin(peer, np.array(sorted(external), np.int64))
        s.engine["watched"] = np.where(outside, OUTSIDE, TRACED * trace)

    def _simulate(self, until: int) -> None:
        """Simulate all cycles before *until*, at most as long as something happens.

        Raises
        ------
        RuntimeError
            If a NIC refuses a command: its queue is full.
        """
        s = self.state
        while self._now < until:
            before = self._now
            self._now = self._run_until(before, until)
            self._empty_log()
            if self._now == before and int(s.node["sleep"].min()) >= _MOST:
                break
        for rank in np.flatnonzero(s.node["refused"]):
            raise RuntimeError(
                f"the NIC of rank {rank} refuses command {s.node['refused'][rank] - 1}: "
                f"{self.config.descriptors} all-reduces are outstanding"
            )
        self._now = max(self._now, until if until < _MOST else 0)

    def _empty_log(self) -> None:
        s = self.state
        entries = s.log[: s.logged[0]].copy()
        s.logged[0] = 0
        if self._trace is not None:
            self._trace.append(entries)
        if self._external:
            self._sent.append(entries)

    # ---- To and from nodes outside.

    def inject(self, rank: int, link: int, cycle: int, token: int, *, engine: int = 0) -> None:
        """A beat from outside arrives in *cycle*: from the next rank (0) or the previous one."""
        s = self.state
        unit, queue = s.engine[rank * self.config.engines + engine], WIRE + link
        seen = cycle + int(unit["latency"][queue]) - self.ring.latency_cycles
        tail = int(unit["tail"][queue])
        at = int(unit["origin"][queue]) + 2 * (tail & int(unit["mask"][queue]))
        s.slots[at : at + 2] = seen, token
        unit["tail"][queue] = tail + 1
        s.node["sleep"][rank] = min(int(s.node["sleep"][rank]), seen)

    def take_log(self) -> Iterator[Beat]:
        """Yield what was sent to nodes outside since the last call, in order for each link."""
        engines = self.config.engines
        watched = self.state.engine["watched"]
        for entries in self._sent:
            for unit, link, cycle, token in entries.tolist():
                if watched[unit, link] == OUTSIDE:
                    yield Beat(
                        rank=unit // engines, engine=unit % engines, link=link, cycle=cycle,
                        token=token,
                    )
        self._sent = []

    # ---- What happened.

    @property
    def flits(self) -> int:
        """Flits of a beat, as links count them."""
        return self.config.bus_bytes // _FLIT_BYTES

    @property
    def done(self) -> bool:
        node = self.state.node
        return bool(((node["op"] == node["op_end"]) & (node["op_at"] >= NEVER)).all())

    def completions(self) -> NDArray[np.int64]:
        return self.state.done.copy()

    def steps(self, rank: int) -> NDArray[np.int64]:
        ends = super().steps(rank)
        return np.where(ends < self._now, ends, -1)

    def link_activity(self, rank: int, port: int, *, bucket_cycles: int = 0) -> LinkActivity:
        """Traffic that a port has sent: port 2 *e* of engine *e* leads to the next rank, 2 *e* + 1
        back.

        Headers count as in the co-simulation: two flits of a frame are no payload.
        """
        if not 0 <= port < 2 * self.config.engines:
            raise FieldError(
                "port", f"must be from 0 to {2 * self.config.engines - 1}, not {port!r}"
            )
        number, link = rank * self.config.engines + port // 2, port % 2
        unit, flits = self.state.engine[number], self.flits
        beats = int(unit["beats"][link])
        kept = np.concatenate(self._trace) if self._trace else np.zeros(0, self.state.log.dtype)
        kept = kept[(kept["engine"] == number) & (kept["link"] == link)]
        return LinkActivity.of_beats(
            beat_cycles=kept["cycle"], beat_flits=np.full(len(kept), flits),
            beat_header_flits=(kept["token"] & 1) + (kept["token"] >> 1 & 1),
            node=rank, port=port, beats=beats, flits=flits * beats,
            header_flits=2 * int(unit["frames"][link]),
            first_cycle=int(unit["first"][link]) if beats else None,
            last_cycle=int(unit["last"][link]) if beats else None,
            stalled_cycles=int(unit["stalled"][link]), bucket_cycles=bucket_cycles,
        )


def _settings(config: SmartNicConfig, ring: Surroundings) -> dict[str, int]:
    """Settings of NIC and ring for the compiled code."""
    c = config
    settings = {
        "nodes": ring.nodes, "engines": c.engines, "block_beats": c.block_beats,
        "frame_beats": c.frame_beats, "compressed_frame_beats": c.compressed_frame_beats,
        "receive_beats": c.receive_beats, "credit_beats": c.credit_beats,
        "control_beats": max(0, -(-(SHORTEST_FRAME_BYTES - c.bus_bytes) // c.bus_bytes)),
        "descriptors": c.descriptors,
        "burst_beats": min(c.max_burst, BOUNDARY_BYTES // c.bus_bytes),
        "granule_beats": c.granule, "wire_bits": 8 * c.bus_bytes,
        "latency": ring.latency_cycles, "read_latency": ring.read_latency_cycles,
        "write_latency": ring.write_latency_cycles, "pace": pace_of(ring.beats_per_cycle),
        "host_pace": 0 if ring.host_bytes_per_cycle is None
        else int(65536 * c.bus_bytes / ring.host_bytes_per_cycle + 0.5),
        "poll": POLL_CYCLES, "link_below": threshold(ring.link_stalls),
        "memory_below": threshold(ring.memory_stalls), "host_below": threshold(ring.host_stalls),
    }
    fmt = c.codec_format
    if fmt is None:
        return settings
    block = blocks_per_beat(fmt, c.lanes) * fmt.block_bits
    unit = gcd(block, 8 * c.bus_bytes)
    blocks, wire = block // unit, 8 * c.bus_bytes // unit
    return settings | {
        "parts": max(1, fmt.elements // c.lanes), "unit": unit,
        "granule_bits": c.granule * c.lanes // fmt.elements * fmt.block_bits,
        "pack_in": blocks, "pack_out": wire, "unpack_in": wire, "unpack_out": blocks,
    }


def check_ring(ring: Surroundings) -> None:
    """Raise a ``ValueError`` for a ring that a NIC does not support."""
    ring.refuse_folded("NICs")
    if ring.nodes > MAX_NODES:
        raise FieldError("nodes", f"must be from 2 to {MAX_NODES}, not {ring.nodes!r}")
    if ring.wiring is not None:
        raise FieldError("wiring", "must be None for NICs, which are a ring of their own")


def check_command(config: SmartNicConfig, command: Command) -> None:
    """Raise a ``ValueError`` for a command that the NIC does not have."""
    if command.collective is not CollectiveKind.ALL_REDUCE:
        raise FieldError(
            "collective", f"must be all_reduce for NICs, not {command.collective.name.lower()}"
        )
    if command.block is not None:
        raise FieldError("block", f"must be None for NICs, not {command.block!r}")
    if command.compress and (config.codec == "none" or command.op is ReduceOp.SUM_I32):
        raise FieldError(
            "compress", f"must be False for codec {config.codec!r} and {command.op.name.lower()}"
        )
    for name in "source", "destination":
        address = getattr(command, name)
        if address % config.bus_bytes:
            raise FieldError(
                name, f"must be a multiple of {config.bus_bytes} bytes, not {address!r}"
            )
