# SPDX-License-Identifier: Apache-2.0
"""The cycle model of engines on rings, driven from outside."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.ace.reduce_path import results_depth
from hw.link.packet import FLIT_BYTES, PacketKind
from sim.collectives.ace_program import PROGRAM_ENTRY, AceProgram
from sim.collectives.fold import check_alike
from sim.collectives.fsm_program import PhaseStart
from sim.collectives.ring import RING
from sim.cycles.ace.latencies import Latencies
from sim.cycles.ace.state import DIGIT, AceState, allocate
from sim.cycles.model import MOST_CYCLES, RingCycles
from sim.cycles.queues import fifo
from sim.cycles.stalls import LINK, MEMORY, pace_of, stall_key, threshold
from sim.fields import FieldError
from sim.hosts.activity import LinkActivity, UnitActivity
from sim.hosts.command import Command
from sim.hosts.script import (
    POLL_CYCLES,
    Compute,
    Issue,
    Step,
)
from sim.hosts.surroundings import Surroundings
from sim.workload.graph import CollectiveKind

__all__ = [
    "START_WRITES",
    "EngineModel",
    "Note",
    "check_command",
    "check_ring",
    "completion_cycles",
    "program_of",
]

START_WRITES = 8
"""Register writes that start a collective, the command among them."""

BEAT_FLITS, BEAT_HEADERS = 255, 8  # of the word of a beat: mask and shift
_MAX_ENGINES = 1024  # nodes fit the words of events
_LOG = 1 << 18  # entries of the log of a model whose links are watched


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


def check_ring(config: AceConfig, ring: Surroundings) -> int:
    """Number of FSMs that a ring of these engines uses.

    Raises
    ------
    ValueError
        If the engine does not support the ring.
    """
    if not 2 <= ring.nodes <= config.max_nodes:
        raise FieldError(
            "nodes", f"must be from 2 to {config.max_nodes} for this engine, not {ring.nodes!r}"
        )
    used = [wire.port + 1 for wire in ring.wiring.wires] if ring.wiring is not None else [2]
    if config.ports < max(used):
        what = "for a ring" if ring.wiring is None else "for these links"
        raise FieldError("ports", f"must be at least {max(used)} {what}, not {config.ports!r}")
    most = config.first_fsms
    fsms = most if ring.fsms is None else ring.fsms
    if ring.fsms is None and ring.wiring is not None and ring.wiring.torus is not None:
        # All paths have equally many FSMs.
        paths = len(ring.wiring.torus.paths)
        fsms = max(paths, fsms // paths * paths)
    if not 1 <= fsms <= most:
        raise FieldError("fsms", f"must be from 1 to {most} for this engine, not {fsms!r}")
    return fsms


def program_of(config: AceConfig, ring: Surroundings) -> AceProgram:
    """Program of a ring of engines.

    Raises
    ------
    ValueError
        If the engine does not support the ring.
    """
    program = AceProgram(
        config=config, nodes=ring.nodes, queues=check_ring(config, ring),
        bidirectional=ring.bidirectional,
        rings=() if ring.wiring is None else ring.wiring.rings,
        torus=None if ring.wiring is None else ring.wiring.torus,
        algorithm=ring.algorithm or RING,
    )
    if config.phased:
        program.check_ways()
    return program


def check_command(config: AceConfig, ring: Surroundings, command: Command) -> None:
    """Raise a ``ValueError`` for a command that a ring of engines does not have; a `FoldError` for
    one that makes ranks differ where one engine stands for all."""
    program = program_of(config, ring)
    for kind in range(program.kinds):
        program.loaded(kind, wanted=command.collective)
    program.cut(command.elements, block=command.block, collective=command.collective)
    if ring.folded:
        check_alike(
            program, command.elements, block=command.block, collective=command.collective
        )


class EngineModel(RingCycles):
    """Engines of one configuration on a ring; cycles only, no data.

    Parameters
    ----------
    config : AceConfig
    ring : Surroundings
    commands : sequence of Command
        All collectives of the run, in the order in which every node starts them.
    scripts : sequence of sequences of Step
        Steps of the host of each node.
    latencies : Latencies or None
        None: those measured on the RTL.
    external : sequence of int
        Nodes that are not simulated here but outside.
    trace : bool
        Keep the beats of all links, see ``link_activity``.
    start_cycle : int
        When the scripts start.

    Raises
    ------
    ValueError
        For a ring that the engine does not support, or commands or scripts that do not fit it.
    """

    package = "sim.cycles.ace"
    title = "ACE's cycle model"
    state: AceState

    def __init__(
        self,
        config: AceConfig,
        ring: Surroundings,
        commands: Sequence[Command],
        scripts: Sequence[Sequence[Step]],
        *,
        latencies: Latencies | None = None,
        external: Sequence[int] = (),
        trace: bool = False,
        start_cycle: int = 0,
    ) -> None:
        from sim.cycles.ace.events import HOST, post
        from sim.cycles.ace.link import OUTSIDE, TRACED

        fsms = check_ring(config, ring)
        if ring.engines > _MAX_ENGINES:
            raise FieldError(
                "nodes", f"must be at most {_MAX_ENGINES} unless one stands for all (run.fold = "
                f"'on'), not {ring.engines}"
            )
        hosts = self.operations(ring, commands, scripts, external, writes=START_WRITES)
        program = program_of(config, ring)
        for each in commands:
            check_command(config, ring, each)
        c = self.config = config
        self.ring = ring
        nodes = ring.engines
        most = 0
        if trace:
            most = nodes * sum(
                program.most_flits(each.elements, block=each.block, collective=each.collective)
                for each in commands
            )
        s = self.state = allocate(
            config, nodes, commands=len(commands), operations=max(1, sum(map(len, hosts))),
            log=(_LOG if external else 1) + most,
        )
        self._beats: list[NDArray[Any]] = []  # taken from the log
        self._trace = trace
        table = latencies or Latencies.stored()
        settings = {
            "nodes": ring.nodes, "ports": c.ports, "fsms": c.fsms, "contexts": c.contexts,
            "memory_ports": c.memory_ports, "banks": c.banks,
            "shared_banks": int(c.bank_ports == "1rw"),
            "bank_mask": c.group_banks - 1, "group_mask": c.banks - c.group_banks,
            "group_shift": (c.group_beats // c.group_banks).bit_length() - 1,
            "flits": c.flits, "lanes": c.lanes,
            "beats": c.packet_beats, "elements": c.packet_elements, "slot_beats": c.slot_beats,
            "phases": c.phases, "targets": c.targets,
            "first_writer": c.ports + c.targets + c.memory_ports,
            "slots": c.slots, "alus": c.alus, "alu_latency": c.alu_latency,
            "results": results_depth(c),
            "rx_packets": c.rx_packets, "tx_packets": c.tx_packets, "commands": c.commands,
            "scan": c.ports << (c.contexts - 1).bit_length(), "queues": fsms,
            "memory_read": ring.read_latency_cycles,
            "memory_write": ring.write_latency_cycles,
            "poll": POLL_CYCLES,
            "headers": fifo(c.tx_packets)[1],
            "payloads": fifo(c.tx_packets * c.packet_beats)[1],
            "parking": fifo(s.parking.shape[2])[1] + 1,  # a skid buffer behind it
            **table.of(config),
        }
        for name, value in settings.items():
            s.c[name] = value
        self._lay_out_slots()
        self._programs(program)
        s.node["rank"] = np.arange(nodes)
        for wire in ring.wired().wires:
            port = s.port[wire.rank, wire.port]
            port["peer"], port["peer_port"] = wire.peer, wire.peer_port
            port["latency"], port["pace"] = wire.latency_cycles, pace_of(wire.beats_per_cycle)
        self._draw_stalls()
        outside = np.array(sorted(external), np.int64)
        s.port["external"] = np.where(np.isin(s.port["peer"], outside), OUTSIDE, TRACED * trace)
        for number, command in enumerate(commands):
            self._command(number, command, program)
        self._give(hosts)
        for rank in np.flatnonzero(s.node["op"] < s.node["op_end"]).tolist():
            post(s, start_cycle, HOST, rank, 0)
        self.events = 0

    def _lay_out_slots(self) -> None:
        """Slots of FSMs and of results, and FSMs of phases."""
        c, settings = self.config, self.state.c[0]
        for phase, count in enumerate(c.fsms_by_phase):
            settings["fsms_from"][phase], settings["fsms_in"][phase] = c.fsms_of(phase)[0], count
        for fsm in range(c.fsms):
            settings["phase_of"][fsm] = c.phase_of(fsm)[0]
            row, beats, count = c.slots_of(fsm)
            settings["slot_row"][fsm] = row
            settings["slot_size"][fsm], settings["slot_count"][fsm] = beats, count
            if c.phased and fsm in c.fsms_of(c.phases - 1):
                row, beats, count = c.results_of(fsm)
                settings["final_row"][fsm] = row
                settings["final_size"][fsm], settings["final_count"][fsm] = beats, count

    def _draw_stalls(self) -> None:
        """Keys and thresholds of the channels of links and memories."""
        s, c, ring = self.state, self.config, self.ring
        ranks, ports = np.indices((ring.engines, c.ports), np.uint64)
        s.port["stall_below"] = threshold(ring.link_stalls)
        s.port["stall_key"][:, : c.ports] = stall_key(ring.seed, ranks, ports, LINK)
        ranks, ports = np.indices((ring.engines, c.memory_ports), np.uint64)
        read_address, write_address, write, read, answer = range(MEMORY, MEMORY + 5)
        for unit, channels in (
            (s.loader, (read_address, read)),
            (s.storer, (write_address, write, answer)),
        ):
            unit["stall_below"] = threshold(ring.memory_stalls)
            unit["pace"] = pace_of(ring.memory_beats_per_cycle)
            for number, channel in enumerate(channels):
                unit["stall_key"][:, :, number] = stall_key(ring.seed, ranks, ports, channel)

    def _command(self, number: int, command: Command, program: AceProgram) -> None:
        kind = command.collective
        bus = self.config.bus_bytes
        cut = program.cut(command.elements, block=command.block, collective=kind)
        last = 0 if cut.contiguous else -(-cut.elements // cut.stride) - 1
        self.state.commands[number] = (
            PROGRAM_ENTRY[kind], kind is not CollectiveKind.ALL_GATHER,
            kind is not CollectiveKind.REDUCE_SCATTER, cut.contiguous, cut.elements, cut.stride,
            cut.block, last, command.source // bus, command.destination // bus,
        )

    def _programs(self, program: AceProgram) -> None:
        """Programs of the origin of a ring or torus, see `AceProgram.first`. Those of other places
        differ in the blocks alone, by their coordinates; ``way`` has what makes ranks and ports
        of them."""
        program.check_places()
        loaded = [
            (kind, each) for kind in range(program.kinds) for each in program.loaded(kind)
        ]
        numbers = {both: number for number, both in enumerate(loaded)}
        programs = [program.first(each, kind=kind) for kind, each in numbers]
        digits = [
            phase for kind, each in numbers for phase in program.digits(each, kind=kind)
        ]
        table = np.zeros((len(digits), max(map(len, digits))), DIGIT)
        for phase, its in enumerate(digits):
            table[phase, : len(its)] = its
        state = self.state
        longest = max(len(each.instructions) for each in programs)
        code = np.zeros((len(programs), longest), state.code.dtype)
        entries = np.zeros(len(programs), state.programs.dtype)
        phases = 0  # of the programs before
        for number, code_of in enumerate(programs):
            first = code_of.first.fields
            entries[number] = tuple(first[name] for name in entries.dtype.names)
            for step, (i, phase) in enumerate(
                zip(code_of.instructions, code_of.phase_of, strict=True)
            ):
                if isinstance(i, PhaseStart):
                    counts = i.fields
                    code[number, step] = (
                        i.op.value, counts["receives"], counts["ready_ports"], counts["sends"], 0,
                        i.run, 0, 0,
                    )
                else:
                    code[number, step] = (
                        i.op.value, i.block, i.port, i.peer_step, i.readies, 0, phases + phase,
                        phase & 1,
                    )
            phases += len(code_of.phases)
        engines = self.ring.engines
        for fsm in range(self.config.fsms):
            for kind, each in numbers:
                if kind == program.kind(fsm):
                    state.c["program_of"][0, fsm, PROGRAM_ENTRY[each]] = numbers[kind, each]
            number = self.config.phase_of(fsm)[1]
            state.way["ring"][:, fsm] = program.ring_of(number)
            places = program.coordinates(number)[:engines]
            state.way["place"][:, fsm, : places.shape[1]] = places
            if self.config.phased:
                self._place_results(program, fsm)
            if program.torus is None:
                ports = [program.ports(number, rank) for rank in range(engines)]
                state.way["port"][:, fsm, :2] = ports
            else:
                state.way["port"][:, fsm] = np.arange(8)
        self.state = state._replace(
            code=code, programs=entries, order=program.order_of_places, digits=table
        )

    def _place_results(self, program: AceProgram, fsm: int) -> None:
        """First blocks that the phase of an FSM leaves to the next one."""
        phase = self.config.phase_of(fsm)[0]
        for each in program.loaded(program.kind(fsm)):
            for rank in range(self.ring.engines):
                held = program.partitioned(each, fsm=fsm, rank=rank).held
                self.state.firsts[rank, fsm, PROGRAM_ENTRY[each]] = held[phase + 1].first

    def _simulate(self, until: int) -> None:
        """Simulate all cycles before *until*.

        Raises
        ------
        ValueError
            If more cycles are needed than events can count.
        """
        from sim.cycles.ace.events import FAULT, FAULTS, SIZE

        self.events += self._run_until(min(until, MOST_CYCLES))
        if fault := int(self.state.registers[FAULT]):
            raise RuntimeError(FAULTS[fault])
        if until >= MOST_CYCLES and self.state.registers[SIZE]:
            raise ValueError(f"a run must end within {MOST_CYCLES} cycles")

    # ---- To and from nodes outside.

    def inject(
        self, rank: int, port: int, cycle: int, header: Mapping[str, int], last_flits: int
    ) -> None:
        """The last flit of a packet from outside arrives at a port in *cycle*.

        *header* has the fields of ``PacketFormat``; *last_flits* flits of the beat are up to that
        last flit.
        """
        from sim.cycles.ace.events import ARRIVE, post
        from sim.cycles.ace.words import CHUNK_BITS, data_word, ready_word

        queue, slot = header["fsm"], header["context"]
        key = (header["collective"] & 127) << CHUNK_BITS | header["chunk"]
        if header["kind"] == PacketKind.READY.value:
            word = ready_word(queue, slot, key)
        else:
            flits = -(-header["length"] // FLIT_BYTES)
            word = data_word(queue, slot, header["step"], header["offset"], flits, key)
        s = self.state
        record = s.port[rank, port]
        s.arriving[rank, port, record["tail"] % s.arriving.shape[2]] = (
            word, cycle, last_flits, 0
        )
        record["tail"] += 1
        post(s, cycle, ARRIVE, rank, port)

    def inject_credit(self, rank: int, port: int, cycle: int) -> None:
        """A credit from outside arrives at a port in *cycle*."""
        from sim.cycles.ace.events import CREDIT, post

        post(self.state, cycle + int(self.state.c["credit"][0]), CREDIT, rank, port)

    def take_log(self) -> Iterator["Note"]:
        """Yield what was sent to nodes outside since the last call, in order for each port."""
        from sim.cycles.ace.events import LOGGED
        from sim.cycles.ace.link import LOG_BEAT, LOG_CREDIT, OUTSIDE
        from sim.cycles.ace.words import packet_fields

        s = self.state
        entries = s.log[: s.registers[LOGGED]].copy()
        s.registers[LOGGED] = 0
        if self._trace:
            self._beats.append(entries[entries["kind"] == LOG_BEAT])
            entries = entries[s.port["external"][entries["node"], entries["port"]] == OUTSIDE]
        for kind, node, port, cycle, value in entries.tolist():
            packet = None
            if kind not in (LOG_BEAT, LOG_CREDIT):
                packet = packet_fields(value)
            flits = value & BEAT_FLITS if kind == LOG_BEAT else 0
            yield Note(node=node, port=port, cycle=cycle, flits=flits, packet=packet)

    @property
    def done(self) -> bool:
        s = self.state
        return bool((s.node["op"] == s.node["op_end"]).all())

    @cached_property
    def commands(self) -> int:
        """Collectives of the run."""
        return len(self.state.commands)

    def completions(self) -> NDArray[np.int64]:
        done: NDArray[np.int64] = self.state.progress["done"]
        return done

    def units(self) -> dict[str, UnitActivity]:
        from sim.cycles.ace.events import WINDOW
        from sim.cycles.ace.occupancy import FSMS, SRAM_READ, SRAM_WRITE, UNITS

        c, s = self.config, self.state
        servers = c.banks, c.banks, c.alus, c.fsms, c.memory_ports, c.memory_ports
        parts: dict[str, list[int]] = {}
        for number, name in enumerate(UNITS):
            # The only port of a bank reads and writes.
            shared = c.bank_ports == "1rw" and number in (SRAM_READ, SRAM_WRITE)
            parts.setdefault("SRAM" if shared else name, []).append(number)
        return {
            name: UnitActivity(
                servers=servers[of[0]],
                cycles=s.work[:, of].sum(axis=1),
                beats=s.work[:, [number for number in of if number != FSMS]].sum(axis=1),
                window_cycles=1 << int(s.registers[WINDOW]),
                cycles_per_window=s.work_over_time[of].sum(axis=0),
            )
            for name, of in parts.items()
        }

    def link_activity(self, rank: int, port: int, *, bucket_cycles: int = 0) -> LinkActivity:
        from sim.cycles.ace.events import LOGGED
        from sim.cycles.ace.link import LOG_BEAT

        s = self.state
        q = s.port[rank, port]
        log = np.concatenate([*self._beats, s.log[: s.registers[LOGGED]]])
        chosen = (log["kind"] == LOG_BEAT) & (log["node"] == rank) & (log["port"] == port)
        beats = log[chosen if self._trace else slice(0)]
        return LinkActivity.of_beats(
            beat_cycles=beats["cycle"], beat_flits=beats["value"] & BEAT_FLITS,
            beat_header_flits=beats["value"] >> BEAT_HEADERS,
            node=rank, port=port, beats=int(q["beats"]), flits=int(q["flits"]),
            header_flits=int(q["packets"]),
            first_cycle=int(q["first_beat"]) if q["beats"] else None,
            last_cycle=int(q["accepted"]) if q["beats"] else None,
            stalled_cycles=int(q["stalled"]), bucket_cycles=bucket_cycles,
        )


def completion_cycles(
    config: AceConfig,
    ring: Surroundings,
    collective: CollectiveKind,
    size_bytes: int,
    *,
    starts: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """Cycle in which each rank has completed one collective.

    Parameters
    ----------
    config : AceConfig
    ring : Surroundings
    collective : CollectiveKind
    size_bytes : int
        Bytes of the whole vector, a multiple of 4.
    starts : sequence of int or None
        Cycle in which the host of each rank begins to write the registers of its engine; None: 0.

    Returns
    -------
    array of *nodes*
        Cycles in which the engines count the collective as complete.

    Raises
    ------
    ValueError
        For a ring or a size that the engine does not support, or bad *starts*.
    """
    if size_bytes < ELEMENT_BYTES or size_bytes % ELEMENT_BYTES:
        raise FieldError(
            "size_bytes", f"must be a multiple of {ELEMENT_BYTES} above 0, not {size_bytes!r}"
        )
    begins = [0] * ring.engines if starts is None else list(starts)
    if len(begins) != ring.engines or min(begins) < 0:
        raise FieldError("starts", f"must be {ring.engines} cycles of at least 0, not {starts!r}")
    command = Command(collective=collective, elements=size_bytes // ELEMENT_BYTES)
    # A delay ends in its last cycle; what follows starts in the next one.
    scripts: list[list[Step]] = [
        [*([Compute(cycles=begin - 1)] if begin else []), Issue(command=0)] for begin in begins
    ]
    model = EngineModel(config, ring, [command], scripts)
    model.run()
    return model.completions()[:, 0]
