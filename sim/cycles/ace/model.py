"""The cycle model of engines on a ring, driven from outside."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import AceConfig
from sim.collectives.golden import direction_of
from sim.collectives.partition import Partition
from sim.collectives.ring import Collective, ring_program
from sim.cycles.ace.latencies import Latencies
from sim.cycles.ace.state import NEVER, OP_WRITE, allocate
from sim.native import bind

__all__ = ["Command", "EngineModel", "Note", "Surroundings"]

_PORTS_AHEAD_BEHIND = (0, 1)
_MAX_NODES = 1024  # steps and places fit the words of packets and events
_LINK = np.uint64(48)  # among all that is drawn at random
_LOG = 1 << 18  # entries of the log of a model whose links are watched


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What is around the engines of a ring; as ``RingSettings`` of the RTL driver.

    Parameters
    ----------
    nodes : int
        Ranks, 2 or more.
    latency_cycles : int
        Of every link, in both directions.
    read_latency_cycles, write_latency_cycles : int
        Of every memory.
    link_stalls : float
        Probability that a link stalls in a cycle, drawn as ``sim.rtl`` draws it for *seed*.
    beats_per_cycle : float
        Pace of the links.
    queues : int or None
        FSMs in use, None for all.
    bidirectional : bool
        Whether FSMs with odd numbers run the ring backwards.
    seed : int
    """

    nodes: int
    latency_cycles: int = 1
    read_latency_cycles: int = 50
    write_latency_cycles: int = 4
    link_stalls: float = 0.0
    beats_per_cycle: float = 1.0
    queues: int | None = None
    bidirectional: bool = True
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Command:
    """A collective, the same on every node: *elements* of 4 bytes, cut as *partition* says."""

    collective: Collective
    partition: Partition
    source: int = 0
    destination: int = 0


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that a model sent to a node outside.

    A packet (its fields; ``cycle`` says when its first beat entered the packer), or a beat of
    ``flits`` flits that the link takes in ``cycle``, or a credit that leaves in ``cycle``.
    """

    node: int
    port: int
    cycle: int
    flits: int
    packet: dict[str, int] | None


def _check(
    config: AceConfig,
    around: Surroundings,
    commands: Sequence[Command],
    scripts: Sequence[Sequence[tuple[int, int, int]]],
) -> None:
    """Refuse what the model cannot run."""
    nodes = around.nodes
    most = min(config.max_nodes, _MAX_NODES)
    if not 2 <= nodes <= most:
        raise ValueError(f"nodes must be from 2 to {most} for this engine, not {nodes!r}")
    if config.ports < 2:
        raise ValueError(f"ports must be at least 2 for a ring, not {config.ports!r}")
    if around.queues is not None and not 1 <= around.queues <= config.fsms:
        raise ValueError(
            f"queues must be from 1 to {config.fsms} for this engine, not {around.queues!r}"
        )
    if len(scripts) != nodes:
        raise ValueError(f"scripts must be one per rank ({nodes}), not {len(scripts)}")
    for number, command in enumerate(commands):
        if command.partition.nodes != nodes:
            raise ValueError(
                f"commands[{number}] is cut for {command.partition.nodes} ranks, not for {nodes}"
            )


class EngineModel:
    """Engines of one configuration on a ring; cycles only, no data.

    Parameters
    ----------
    config : AceConfig
    around : Surroundings
    commands : sequence of Command
        All collectives of the run, in the order in which every node starts them.
    scripts : sequence of sequences of (kind, value, poll)
        Host operations of each node, see ``sim.rtl.script``.
    latencies : Latencies or None
        None: those measured on the RTL.
    external : sequence of int
        Nodes that are not simulated here but outside.
    trace : bool
        Keep the beats of all links, see ``beats``.
    start_cycle : int
        When the scripts start.

    Raises
    ------
    ValueError
        For a ring that the engine does not support, or commands or scripts that do not fit it.
    """

    def __init__(
        self,
        config: AceConfig,
        around: Surroundings,
        commands: Sequence[Command],
        scripts: Sequence[Sequence[tuple[int, int, int]]],
        *,
        latencies: Latencies | None = None,
        external: Sequence[int] = (),
        trace: bool = False,
        start_cycle: int = 0,
    ) -> None:
        from sim.cycles.ace.events import HOST, post
        from sim.cycles.ace.link import OUTSIDE, TRACED, stall_key

        _check(config, around, commands, scripts)
        scripts = [() if rank in external else script for rank, script in enumerate(scripts)]
        c = self.config = config
        self.around = around
        nodes = around.nodes
        operations = sum(len(script) for script in scripts)
        s = self.state = allocate(
            config, nodes, commands=len(commands), operations=max(1, operations),
            log=_LOG if external or trace else 1,
        )  # fmt: skip
        table = latencies or Latencies.stored()
        queues = config.fsms if around.queues is None else around.queues
        settings = {
            "nodes": nodes, "ports": c.ports, "fsms": c.fsms, "contexts": c.contexts,
            "memory_ports": c.memory_ports, "banks": c.banks,
            "shared_banks": int(c.bank_ports == "1rw"), "flits": c.flits, "lanes": c.lanes,
            "beats": c.packet_beats, "elements": c.packet_elements, "slot_beats": c.slot_beats,
            "slots": c.slots, "alus": c.alus, "alu_latency": c.alu_latency,
            "rx_packets": c.rx_packets, "tx_packets": c.tx_packets, "commands": c.commands,
            "scan": c.ports << (c.contexts - 1).bit_length(), "queues": queues,
            "memory_read": around.read_latency_cycles,
            "memory_write": around.write_latency_cycles,
            **table.of(config),
        }  # fmt: skip
        for name, value in settings.items():
            s.c[name] = value
        self._programs(queues)
        s.node["rank"] = np.arange(nodes)
        s.port["pace"] = 0 if around.beats_per_cycle >= 1 else round(65536 / around.beats_per_cycle)
        s.port["stall_below"] = int(around.link_stalls * 2**32)
        s.port["latency"] = around.latency_cycles
        ahead, behind = _PORTS_AHEAD_BEHIND
        for rank in range(nodes):
            for p, other, back in ((ahead, rank + 1, behind), (behind, rank - 1, ahead)):
                s.port["peer"][rank, p] = other % nodes
                s.port["peer_port"][rank, p] = back
        ranks, ports = np.indices((nodes, c.ports), np.uint64)
        s.port["stall_key"] = stall_key((np.full_like(ranks, around.seed), ranks, ports, _LINK))
        outside = np.array(sorted(external), np.int64)
        s.port["external"] = np.where(np.isin(s.port["peer"], outside), OUTSIDE, TRACED * trace)
        for number, command in enumerate(commands):
            self._command(number, command)
        self._lengths = [len(script) for script in scripts]
        position = 0
        for rank, script in enumerate(scripts):
            for offset, operation in enumerate(script):
                s.script[position + offset, :3] = operation
            s.node["op"][rank] = position
            position += len(script)
            s.node["op_end"][rank] = position
            if script:
                post(s, start_cycle, HOST, rank, 0)
        self.events = 0

    def _command(self, number: int, command: Command) -> None:
        part, kind = command.partition, command.collective
        bus = self.config.bus_bytes
        self.state.commands[number] = (
            kind.value, kind is not Collective.ALL_GATHER, kind is not Collective.REDUCE_SCATTER,
            kind is Collective.ALL_GATHER, part.elements, part.stride, part.block,
            -(-part.elements // part.stride) - 1, command.source // bus,
            command.destination // bus,
        )  # fmt: skip

    def _programs(self, queues: int) -> None:
        """Programs of rank 0. Those of other ranks differ in the blocks alone, by their rank."""
        nodes = self.around.nodes
        ahead, behind = _PORTS_AHEAD_BEHIND
        programs = {}
        for direction in (1, -1):
            ports = (ahead, behind) if direction == 1 else (behind, ahead)
            for kind in Collective:
                programs[direction, kind] = ring_program(
                    kind, rank=0, nodes=nodes, direction=direction,
                    to_port=ports[0], from_port=ports[1],
                )  # fmt: skip
        longest = max(len(program.instructions) for program in programs.values())
        state = self.state
        code = np.zeros((len(programs), longest), state.code.dtype)
        entries = np.zeros(len(programs), state.programs.dtype)
        numbers = {key: number for number, key in enumerate(programs)}
        for key, program in programs.items():
            mask = sum(1 << port for port in program.ready_ports)
            number = numbers[key]
            entries[number] = (program.receives, program.sends, mask, len(program.instructions))
            for step, i in enumerate(program.instructions):
                code[number, step] = i.op.value, i.block, i.port, i.peer_step, i.from_result
        for fsm in range(self.config.fsms):
            direction = direction_of(fsm, queues=queues, bidirectional=self.around.bidirectional)
            for kind in Collective:
                state.c["program_of"][0, fsm, kind.value] = numbers[direction, kind]
        self.state = state._replace(code=code, programs=entries)

    def run(self, until: int = NEVER >> 10) -> float:
        """Simulate all cycles before *until*; returns the wall time in seconds."""
        from sim.cycles.ace.events import FAULT, FAULTS

        run_until = self._run_until
        began = time.perf_counter()
        self.events += run_until(until)
        if fault := int(self.state.registers[FAULT]):
            raise RuntimeError(FAULTS[fault])
        return time.perf_counter() - began

    @cached_property
    def _run_until(self) -> Callable[..., int]:
        from sim.cycles.ace.loop import run_until

        return bind(run_until, self.state, doing="compiling ACE's cycle model (about 20 s)")

    # ---- To and from nodes outside.

    def inject(
        self, rank: int, port: int, cycle: int, header: Mapping[str, int], last_flits: int
    ) -> None:
        """The last flit of a packet from outside arrives at a port in *cycle*.

        *header* has the fields of ``PacketFormat``; *last_flits* flits of the beat are up to that
        last flit.
        """
        from hw.link.packet import FLIT_BYTES, PacketKind
        from sim.cycles.ace.events import ARRIVE, post
        from sim.cycles.ace.words import CHUNK_BITS, data_word, ready_word

        queue, slot = header["queue"], header["slot"]
        key = (header["collective"] & 127) << CHUNK_BITS | header["chunk"]
        if header["kind"] == PacketKind.READY.value:
            word = ready_word(queue, slot, key)
        else:
            flits = -(-header["length"] // FLIT_BYTES)
            word = data_word(queue, slot, header["step"], header["offset"], flits, key)
        s = self.state
        record = s.port[rank, port]
        s.arriving[rank, port, record["tail"] % s.arriving.shape[2]] = word, last_flits
        record["tail"] += 1
        post(s, cycle, ARRIVE, rank, port)

    def inject_credit(self, rank: int, port: int, cycle: int) -> None:
        """A credit from outside arrives at a port in *cycle*."""
        from sim.cycles.ace.events import CREDIT, post

        post(self.state, cycle + int(self.state.c["credit"][0]), CREDIT, rank, port)

    def take_log(self) -> Iterator["Note"]:
        """What was sent to nodes outside since the last call, in order for each port."""
        from sim.cycles.ace.events import LOGGED
        from sim.cycles.ace.link import LOG_BEAT, LOG_CREDIT
        from sim.cycles.ace.words import packet_fields

        s = self.state
        entries = s.log[: s.registers[LOGGED]].tolist()
        s.registers[LOGGED] = 0
        for kind, node, port, cycle, value in entries:
            packet = None
            if kind not in (LOG_BEAT, LOG_CREDIT):
                packet = packet_fields(value)
            flits = value if kind == LOG_BEAT else 0
            yield Note(node=node, port=port, cycle=cycle, flits=flits, packet=packet)

    @property
    def done(self) -> bool:
        """Whether every script has been completed."""
        s = self.state
        return bool((s.node["op"] == s.node["op_end"]).all())

    @cached_property
    def commands(self) -> int:
        """Collectives of the run."""
        return len(self.state.commands)

    def completions(self) -> NDArray[np.int64]:
        """Cycle of each completion: nodes x commands, -1 where there is none yet."""
        done: NDArray[np.int64] = self.state.progress["done"]
        return done

    def beats(self, rank: int, port: int) -> NDArray[np.int64]:
        """Cycles in which a traced port sent a beat."""
        from sim.cycles.ace.events import LOGGED
        from sim.cycles.ace.link import LOG_BEAT

        log = self.state.log[: self.state.registers[LOGGED]]
        chosen = (log["kind"] == LOG_BEAT) & (log["node"] == rank) & (log["port"] == port)
        cycles: NDArray[np.int64] = log["cycle"][chosen]
        return cycles

    def steps(self, rank: int) -> NDArray[np.int64]:
        """Cycle in which each step of a node's script was completed, -1 if it was not."""
        end = int(self.state.node[rank]["op_end"])
        script = self.state.script[end - self._lengths[rank] : end]
        ends: NDArray[np.int64] = script[script[:, 0] != OP_WRITE, 3]
        return ends
