# SPDX-License-Identifier: Apache-2.0
"""Compiled engines from numpy arrays to numpy arrays: the base of all drivers."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from amaranth.lib import wiring
from numpy.typing import NDArray

from gen.compile import CompiledModel, compile_model
from gen.configured import compile_configured
from gen.waves import TracedSignal
from hw.common.axi import aligned
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.link.retry_link import RETRY_COUNTS
from sim.fields import FieldError, FoldError
from sim.hosts.activity import LinkActivity
from sim.hosts.command import Command
from sim.hosts.rules import EngineRules
from sim.hosts.script import POLL_CYCLES, Compute, Interrupt, Issue, Reached, Step
from sim.hosts.surroundings import Surroundings
from sim.hosts.vectors import ENGINE_TYPES
from sim.rtl.errors import (
    CommandRefusedError,
    MemoryAccessError,
    PacketDroppedError,
    PacketLostError,
    PoisonedError,
)
from sim.rtl.harness.host import Node, Ticket
from sim.rtl.harness.signals import SignalTrace
from sim.rtl.harness.specs import (
    Fault,
    LinkSpec,
    MemorySpec,
    NodeSpec,
    split_links,
)
from sim.rtl.harness.system import WIRE_FAULTS, CycleLimitError, LinkFailedError, RunResult, System
from sim.rtl.writes import Write
from sim.workload.graph import CollectiveKind

__all__ = [
    "EngineDriver",
    "Progress",
    "Request",
    "reduction",
]

Progress = Callable[[int, int], None]
"""Called with the cycle and the number of nodes that are done."""

# Interval of checks whether nodes that have not completed ever will.
_CHECK_CYCLES = 100_000
# Far more than set-up takes, or an abort with data in flight in links and memory.
_REST_CYCLES = 1_000_000
_ASKED = 64  # requests for a number after which a link counts as one that never answers
# More than a command takes until it counts as outstanding.
_JUDGING_CYCLES = 8
_ONE = "what happens to one rank would happen to each of them"


def reduction(op: ReduceOp | str | None, dtype: np.dtype[Any]) -> ReduceOp:
    """The operation called *op*, as ``sum_f32``, ``SUM_F32`` or just ``sum``, in the type of the
    vectors, which is *dtype*; None is their sum.

    Raises
    ------
    ValueError
        For other types (floats would be added as integers, bytes in the wrong order), or an
        unknown name.
    """
    if dtype not in ENGINE_TYPES:
        raise FieldError("vectors", f"must hold {' or '.join(map(str, ENGINE_TYPES))}, not {dtype}")
    names = {each.name.lower(): each for each in ReduceOp}
    fitting = [name for name in names if name.endswith("i32") == (dtype.kind in "iu")]
    stated = fitting[0] if op is None else op.name if isinstance(op, ReduceOp) else op
    name = stated.lower()
    if "_" not in name:
        name = f"{name}_{fitting[0].rpartition('_')[2]}"
    if name not in fitting:
        raise FieldError("op", f"must be {' or '.join(fitting)} for {dtype} vectors, not {op!r}")
    return names[name]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A collective for :meth:`EngineDriver.run`.

    Parameters
    ----------
    inputs : sequence of 1-D arrays
        A vector per rank (all-gather: a shard, `AceProgram.shard`), all float32, int32 or uint32.
    collective : CollectiveKind
    elements : int or None
        Length of the whole vector; needed for an all-gather.
    op : ReduceOp, str or None
        Such as ``ReduceOp.SUM_F32``, ``"sum_f32"`` or ``"sum"``; None: the sum, in the type of
        the vectors.
    compress : bool
        Compress data on links (NIC).
    in_place : bool
        The result of an all-reduce replaces the local vector.
    block : int or None
        Elements of a block (ACE); None: chosen.
    """

    inputs: Sequence[Any]
    collective: CollectiveKind = CollectiveKind.ALL_REDUCE
    elements: int | None = None
    op: ReduceOp | str | None = None
    compress: bool = False
    in_place: bool = False
    block: int | None = None


@cache
def _compiled(
    component: Callable[[Any], wiring.Component], config: Any, name: str, lanes: int
) -> Any:
    return compile_configured(component, config, name=name, lanes=lanes)


class EngineDriver(EngineRules):
    """Compiled engines of one configuration, each with a host and a memory.

    Parameters
    ----------
    config
        Configuration of the engine.
    settings : Surroundings
    registers : RegisterMap
        Registers of the engine.
    links : sequence of LinkSpec
        By rank; they may be those of a topology in which the ring lies.
    faults : sequence of Fault
    ranks : sequence of int or None
        Ranks that are in the system, None for all; links to the others lead outside (see
        ``System.arrivals``). Collectives are then up to the caller.
    outstanding_bursts : int
        Bursts that a memory accepts at a time.
    trace_signals : sequence of str
        Patterns of signals (`gen.waves`) whose changes are noted, see ``System.signals``.
    others : mapping of int to NodeSpec
        Other nodes of the system, by their numbers in *links*.
    watched : sequence of TracedSignal
        Ports of every engine whose changes are noted for the driver itself.
    lanes : int
        Nodes that are simulated at a time, in vectors of the processor (1, 2, 4 or 8): nothing but
        the speed changes. It pays for many nodes with work to do (``python -m bench rtl_speed``).
    options
        Passed on to :class:`sim.rtl.harness.system.System` (threads, window_cycles, bucket_cycles,
        record_beats, skip_idle).

    Members
    -------
    system : System
    last_run : RunResult or None
        Result of the last collectives.
    reports : dict of int to exception
        Error that each rank reported in the last :meth:`run`, which raised one of them.

    Raises
    ------
    ValueError
        For a ring that the engine does not support.
    """

    name: ClassVar[str]
    called: ClassVar[str] = "rank"
    """Word for an engine in errors, before its number."""
    order_is_fixed: ClassVar[bool] = True
    """Additions have an order that is known before they are made, so results are known without a
    run, and a driver may be used again and again."""
    failures: ClassVar[tuple[str, ...]] = ()
    """Interrupts of an engine that leave the others waiting."""

    def __init__(
        self,
        config: Any,
        settings: Surroundings,
        *,
        registers: RegisterMap,
        links: Sequence[LinkSpec],
        faults: Sequence[Fault] = (),
        ranks: Sequence[int] | None = None,
        outstanding_bursts: int = 16,
        trace_signals: Sequence[str] = (),
        others: Mapping[int, NodeSpec] | None = None,
        watched: Sequence[TracedSignal] = (),
        lanes: int = 1,
        **options: Any,
    ) -> None:
        self.config = config
        self.settings = settings
        self.registers = registers
        if settings.folded:
            for name, value in (("faults", faults), ("ranks", ranks), ("others", others)):
                if value:
                    raise FoldError(name, f"must be none where one engine stands for all: {_ONE}")
        self.ranks = list(range(settings.engines)) if ranks is None else list(ranks)
        others = others or {}
        inside, outside = split_links(links, [*self.ranks, *others])
        memory = MemorySpec(
            size_bytes=settings.memory_bytes,
            read_latency_cycles=settings.read_latency_cycles,
            write_latency_cycles=settings.write_latency_cycles,
            bytes_per_cycle=settings.host_bytes_per_cycle,
            beats_per_cycle=settings.memory_beats_per_cycle,
            outstanding_bursts=outstanding_bursts,
            stall_probability=settings.memory_stalls,
        )
        made = config if settings.retry is None else self.with_retry(config, settings.retry)
        engine = self.compiled(made, lanes) if not trace_signals else compile_model(
            self.component(made), name=self.name, trace=trace_signals, lanes=lanes
        )
        self.system = System(
            [
                *(
                    NodeSpec(
                        engine=engine, memory=memory, host_stall_probability=settings.host_stalls,
                        watched=watched, number=rank, name=f"{self.called} {rank}",
                        stands_for=settings.nodes // settings.engines,
                    )
                    for rank in self.ranks
                ),
                *(replace(spec, number=number) for number, spec in others.items()),
            ],
            inside,
            external=outside,
            seed=settings.seed,
            faults=faults,
            **options,
        )
        self._watched = len(watched)
        self._next = 0
        self.last_run: RunResult | None = None
        self.reports: dict[int, Exception] = {}
        self.start_system()

    @property
    def nodes(self) -> list[Node]:
        """Nodes of the ranks."""
        return self.system.nodes[: len(self.ranks)]

    def start_system(self) -> None:
        """Make every engine ready for collectives.

        Raises
        ------
        LinkFailedError
            If links with retry do not come up.
        """
        if self.settings.retry is not None:
            self._await_links(self.settings.retry)
        for rank, node in zip(self.ranks, self.nodes, strict=True):
            self.perform(node, self.set_up(rank))
        # An engine that is not set up yet would drop the first packets of one that starts early.
        self.system.run(max_cycles=_REST_CYCLES)

    def _await_links(self, retry: RetryConfig) -> None:
        """Run until all links work. Without an answer an end asks again after each time-out."""
        limit = _ASKED * retry.timeout_cycles + _ASKED * self.settings.latencies[1]
        try:
            self.system.run(max_cycles=limit)  # an end that is not up is not idle
        except CycleLimitError:
            down = [~node.output("up") for node in self.system.nodes]
            if not (links := self.system.links_of(down)):
                raise
            raise LinkFailedError(
                f"links are not up {limit} cycles after reset: {links}; do their wires work?"
            ) from None

    # ---- Properties of an engine.

    @staticmethod
    @abstractmethod
    def component(config: Any) -> wiring.Component:
        """The hardware of one node, from an engine's configuration or from that of `with_retry`."""

    @staticmethod
    @abstractmethod
    def with_retry(config: Any, retry: RetryConfig) -> Any:
        """The configuration of an engine with retry on its links."""

    @classmethod
    def compiled(cls, config: Any, lanes: int = 1) -> CompiledModel:
        """The engine of *config* as native code, built once for each number of lanes."""
        model: CompiledModel = _compiled(cls.component, config, cls.name, lanes)
        return model

    @classmethod
    def shard(cls, config: Any, settings: Surroundings, command: Command, rank: int) -> slice:
        """Elements of a rank in reduce-scatters and all-gathers, of engines that have them."""
        raise FieldError(
            "collective", f"must be all_reduce for {cls.name} engines, not "
            f"{command.collective.name.lower()}"
        )

    @abstractmethod
    def set_up(self, rank: int) -> Iterable[Write]:
        """Register writes that make an engine a rank of the ring."""

    @abstractmethod
    def start_writes(self, command: Command, number: int) -> Iterable[Write]:
        """Register writes that start *command*; *number* names it, the same on all nodes."""

    @classmethod
    @abstractmethod
    def reduced_by(
        cls, config: Any, settings: Surroundings, command: Command, inputs: Sequence[NDArray[Any]]
    ) -> NDArray[Any]:
        """The vectors *inputs* reduced, bit for bit as such a ring does it."""

    def reduced(self, command: Command, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The vectors *inputs* reduced, bit for bit as the ring does it."""
        return self.reduced_by(self.config, self.settings, command, inputs)

    @abstractmethod
    def judge(self, rank: int, node: Node, causes: dict[str, int]) -> None:
        """Raise the error that the *causes* of an interrupt tell of, if any."""

    @abstractmethod
    def recover(self) -> None:
        """Abort everything on all nodes; the ring is as new."""

    # ---- Registers.

    def write(self, node: Node, register: str, value: int = 0, **fields: Any) -> Ticket:
        """Queue a register write: a number, or field values by name."""
        word = self.registers.registers[register].pack(**fields) if fields else value
        return node.write(self.registers.offset(register), word)

    def perform(self, node: Node, writes: Iterable[Write]) -> Ticket:
        """Queue register writes, at least one; return the last one's ticket."""
        return [self.write(node, register, word) for register, word in writes][-1]

    def read(self, node: Node, register: str, index: int | None = None) -> dict[str, int]:
        """Read a register of one node now, field by field; the system runs on meanwhile."""
        ticket = node.read(self.registers.offset(register, index))
        self.system.run(drain=False)
        return self.registers.registers[register].unpack(ticket.value)

    def take_records(self, node: Node) -> list[dict[str, int]]:
        """Take the records of all commands of a node that are over, the oldest first, field by
        field."""
        found = []
        while (record := self.read(node, "completion"))["valid"]:
            found.append(record)
            self.write(node, "completion_taken", taken=1)
        return found

    def start(self, node: Node, command: Command, *, number: int | None = None) -> Ticket:
        """Queue the writes that start a collective on one node, by default as the next one."""
        name = self._next if number is None else number
        return self.perform(node, self.start_writes(command, name))

    def next_collective(self) -> None:
        """Give the next collective a new name, the same on all nodes."""
        self._next += 1

    def wait(self, node: Node, commands: int = 1) -> Ticket:
        """Queue a wait until a node has completed, or given up, all of *commands* commands."""
        node.delay(_JUDGING_CYCLES)
        return node.wait_register(
            self.registers.offset("status"),
            value=0,
            mask=self._mask("status", "outstanding"),
            poll_cycles=4,
        )

    def _mask(self, register: str, field: str) -> int:
        layout = self.registers.registers[register]
        (ones,) = ((1 << each.width) - 1 for each in layout.fields if each.name == field)
        return layout.pack(**{field: ones})

    def acknowledge(self, rank: int, node: Node) -> None:
        """Clear the interrupts of a node.

        Raises
        ------
        CommandRefusedError, MemoryAccessError, PacketDroppedError
            If that is what they report.
        """
        causes = self.read(node, "interrupt")
        self.write(node, "interrupt", **{name: value for name, value in causes.items() if value})
        self.system.run(drain=False)
        self.judge(rank, node, causes)

    def queue_script(
        self, node: Node, script: Sequence[Step], commands: Sequence[Command]
    ) -> list[Ticket]:
        """Queue the register accesses of a script on a node; return the last ticket of each step.
        """
        tickets = []
        for step in script:
            match step:
                case Compute(cycles=cycles):
                    tickets.append(node.delay(cycles))
                case Issue(command=number):
                    tickets.append(self.start(node, commands[number], number=number))
                case Reached(count=count):
                    tickets.append(
                        node.wait_at_least(
                            self.registers.offset("completed"),
                            value=count,
                            mask=self._mask("completed", "count"),
                            poll_cycles=POLL_CYCLES,
                        )
                    )
                case Interrupt():
                    tickets.append(node.wait_irq())
        return tickets

    # ---- Collectives.

    def all_reduce(
        self,
        inputs: Sequence[Any],
        *,
        op: ReduceOp | str | None = None,
        compress: bool = False,
        in_place: bool = False,
        block: int | None = None,
        **options: Any,
    ) -> list[NDArray[Any]]:
        """Reduce arrays of one shape, one per rank; every rank gets the whole result.

        Parameters are those of :class:`Request`, *options* those of :meth:`run`. Other types than
        the engines' are converted by :func:`sim.runs.all_reduce.all_reduce`.
        """
        shape = np.shape(inputs[0]) if len(inputs) else ()
        if len(shape) > 1 and all(np.shape(each) == shape for each in inputs):
            inputs = [np.asarray(each).reshape(-1) for each in inputs]
        request = Request(inputs=inputs, op=op, compress=compress, in_place=in_place, block=block)
        return [
            each.reshape(shape) if len(shape) > 1 else each
            for each in self.run(request, **options)[0]
        ]

    def run(
        self,
        *requests: Request,
        start_skew_cycles: int = 0,
        max_cycles: int = 100_000_000,
        progress: Progress | None = None,
    ) -> list[list[NDArray[Any]]]:
        """Run all requests, one queued behind the other; return the results by request and rank.

        Where one engine stands for all, it has the one vector that is given, and returns the one
        result that is its own; the vectors of the others are its vector with shards in a circle
        moved on by one from rank to rank.

        Parameters
        ----------
        requests : Request
        start_skew_cycles : int
            Most cycles by which nodes start late, at random.
        max_cycles : int
        progress : callable or None
            ``progress(cycle, nodes_done)``, now and then.

        Raises
        ------
        ValueError
            For vectors that do not fit together or into memory, an operation that does not fit
            their type, or more requests than can be queued.
        CommandRefusedError, MemoryAccessError, PacketDroppedError
            The ring can be used again.
        CycleLimitError
            If the nodes are not done after *max_cycles*.
        """
        if self.settings.folded and start_skew_cycles:
            what = f"must be 0 where one engine stands for all, not {start_skew_cycles!r}: {_ONE}"
            raise FoldError("start_skew_cycles", what)
        most = self.outstanding(self.config)
        if not 1 <= len(requests) <= most:
            raise FieldError(
                "requests", f"must be from 1 to {most} collectives, not {len(requests)}"
            )
        commands, vectors = self._placed(requests)
        for command, inputs in zip(commands, vectors, strict=True):
            for node, array in zip(self.nodes, inputs, strict=True):
                self.store(node, command, array)
                self.start(node, command)
            self.next_collective()
        self.last_run = self._complete(len(commands), max_cycles, start_skew_cycles, progress)
        # Every interrupt is cleared before an error is raised, so the next collective starts clean.
        errors: list[Exception] = []
        self.reports = {}
        for rank, node in enumerate(self.nodes):
            try:
                self.acknowledge(rank, node)
            except (CommandRefusedError, MemoryAccessError, PacketDroppedError) as error:
                errors.append(error)
                self.reports[rank] = error
        if errors:
            # The error that happened, rather than those that other nodes were told of; of ranks
            # without progress the one that has come least far.
            told = PoisonedError, PacketLostError
            own = [error for error in errors if not isinstance(error, told)]
            worst = min(own or errors, key=lambda error: getattr(error, "progress", ()))
            if self.failures and any(isinstance(error, PacketDroppedError) for error in errors):
                self._recover_from(worst)  # other engines abort by themselves
            raise worst
        return [
            [
                self.result(node, command, rank).view(inputs[0].dtype).copy()
                for rank, node in enumerate(self.nodes)
            ]
            for command, inputs in zip(commands, vectors, strict=True)
        ]

    def _recover_from(self, error: Exception) -> None:
        """Abort everything; where that does not help, say what it was for."""
        try:
            self.recover()
        except CycleLimitError as limit:
            raise CycleLimitError(f"{limit}; before that, {error}", limit.partial) from error

    def expectations(
        self, commands: Sequence[Command], data: Sequence[Sequence[NDArray[Any]]]
    ) -> list[list[NDArray[Any]]]:
        """Data that each rank must hold after each of all *commands* that were run."""
        return [self.expected(each, inputs) for each, inputs in zip(commands, data, strict=True)]

    def signals(self, node: Node) -> SignalTrace:
        """Changes of the signals that *trace_signals* named."""
        trace = self.system.signals(node.number)
        return trace.first(len(trace.signals) - self._watched) if self._watched else trace

    def counts(self) -> Mapping[str, int]:
        """Events by name: those that engines count, and those of links with retry."""
        return self._link_counts()

    def _link_counts(self) -> dict[str, int]:
        """Frames resent, damaged and repeated on links with retry, and faults of wires, so far."""
        if self.settings.retry is None:
            return {}
        found = {
            f"frames_{name}": sum(node.output(name) for node in self.system.nodes)
            for name in RETRY_COUNTS
        }
        for name in WIRE_FAULTS:
            found[f"wires_{name}"] = sum(
                self.system.met(node.number, port)[name]
                for node in self.system.nodes for port in range(node.link_ports)
            )
        return found

    def link_activity(self, rank: int, port: int) -> LinkActivity:
        """Load of a link that is counted with a rank."""
        return self.system.link_activity(self.nodes[self.ranks.index(rank)].number, port)

    def expected(self, command: Command, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Data that each rank of the ring must hold after *command*, bit for bit."""
        gathers = command.collective is CollectiveKind.ALL_GATHER
        shards = [*inputs] * (self.settings.nodes // self.settings.engines)
        whole = np.concatenate(shards) if gathers else self.reduced(command, inputs)
        return [whole[self._stored(command, rank)] for rank in range(self.settings.engines)]

    def store(self, node: Node, command: Command, array: NDArray[Any]) -> None:
        """Put the local vector or shard of *command* into a node's memory."""
        raw = np.ascontiguousarray(array).view(np.uint8)
        node.memory[command.source : command.source + len(raw)] = raw

    def result(self, node: Node, command: Command, rank: int) -> NDArray[np.uint32]:
        """The words that *command* has left in a node's memory."""
        place = self._stored(command, rank)
        first = command.destination
        return node.memory[first : first + 4 * (place.stop - place.start)].view(np.uint32)

    def _stored(self, command: Command, rank: int) -> slice:
        if command.collective is CollectiveKind.REDUCE_SCATTER:
            return self.shard(self.config, self.settings, command, rank)
        return slice(0, command.elements)

    @classmethod
    def vectors(
        cls, config: Any, settings: Surroundings, command: Command, inputs: Sequence[Any],
        *, name: str = "inputs",
    ) -> list[NDArray[Any]]:
        """The data of *command* as arrays, checked to fit it and each other."""
        if len(inputs) != settings.engines:
            which = "for the engine that stands for all" if settings.folded else "per rank"
            raise FieldError(
                name, f"must be one array {which} ({settings.engines}), not {len(inputs)}"
            )
        arrays = [np.asarray(array) for array in inputs]
        first = arrays[0].dtype
        wanted = str(first) if first in ENGINE_TYPES else " or ".join(map(str, ENGINE_TYPES))
        for rank, array in enumerate(arrays):
            place = slice(0, command.elements)
            if command.collective is CollectiveKind.ALL_GATHER:
                place = cls.shard(config, settings, command, rank)
            length = place.stop - place.start
            if array.dtype not in ENGINE_TYPES or array.shape != (length,) or array.dtype != first:
                raise ValueError(
                    f"{name}[{rank}] must be {length} elements of {wanted} in one dimension, "
                    f"not {array.shape} of {array.dtype}"
                )
        if command.collective is not CollectiveKind.ALL_GATHER:
            reduction(command.op, first)
        return arrays

    def _command(self, request: Request) -> Command:
        gathers = request.collective is CollectiveKind.ALL_GATHER
        if request.in_place and request.collective is not CollectiveKind.ALL_REDUCE:
            raise FieldError("in_place", "must be False for all but all-reduces")
        if gathers and request.elements is None:
            raise FieldError("elements", "must be given for an all-gather")
        # Without any vector the default will do: the missing vectors are reported later.
        first = np.asarray(request.inputs[0] if len(request.inputs) else np.zeros(1, np.float32))
        command = Command(
            collective=request.collective,
            elements=len(first) if request.elements is None else request.elements,
            op=reduction(None if gathers else request.op, first.dtype),
            compress=request.compress,
            block=request.block,
        )
        self.check_command(self.config, self.settings, command)
        return command

    def _placed(
        self, requests: Sequence[Request]
    ) -> tuple[list[Command], list[list[NDArray[Any]]]]:
        """Commands and data of all requests: each vector in memory is followed by its result."""
        commands, vectors = [], []
        free = 0
        for request in requests:
            command = self._command(request)
            arrays = self.vectors(self.config, self.settings, command, request.inputs)
            source = free
            if not request.in_place:
                free += aligned(max(array.nbytes for array in arrays))
            commands.append(replace(command, source=source, destination=free))
            vectors.append(arrays)
            free += aligned(4 * command.elements)
        if free > self.settings.memory_bytes:
            elements = sum(command.elements for command in commands)
            raise FieldError(
                "memory_bytes", f"must be at least {free} for {elements} elements, "
                f"not {self.settings.memory_bytes!r}"
            )
        return commands, vectors

    def _complete(
        self, commands: int, max_cycles: int, start_skew_cycles: int, progress: Progress | None
    ) -> RunResult:
        """Run until every node has completed all commands, or one has reported an error."""
        nodes = self.nodes
        waits = [self.wait(node, commands) for node in nodes]
        parts: list[RunResult] = []
        overdue = False
        while True:
            spent = sum(part.cycles for part in parts)
            try:
                part = self.system.run(
                    max_cycles=min(_CHECK_CYCLES, max_cycles - spent),
                    start_skew_cycles=start_skew_cycles if not parts else 0,
                    progress=progress,
                )
            except CycleLimitError as error:
                parts.append(error.partial)
                # A link that has lost a packet is not at rest before an abort.
                if all(wait.done for wait in waits):
                    return _joined(parts)
                if spent + error.partial.cycles >= max_cycles:
                    raise CycleLimitError(f"{error}; {self.report()}", _joined(parts)) from None
            else:
                return _joined([*parts, part])
            # Some nodes have interrupts and others are not done for long: is something wrong?
            suspicious = bool(self.failures) and any(node.output("irq") for node in nodes)
            if suspicious and overdue:
                self.system.give_up_waits()
                causes = [self.read(node, "interrupt") for node in nodes]
                if any(cause[name] for cause in causes for name in self.failures):
                    return _joined(parts)
                waits = [
                    wait if wait.response == 0 else self.wait(node, commands)
                    for wait, node in zip(waits, nodes, strict=True)
                ]
            overdue = suspicious and not overdue

    def _come_to_rest(self, interrupts: Iterable[str]) -> None:
        """Wait for the end of an abort, and clear the *interrupts* of all nodes.

        Raises
        ------
        CycleLimitError
            If an engine never comes to rest; only a reset of its node remains.
        """
        self.system.run(max_cycles=_REST_CYCLES)
        for node in self.nodes:
            self.write(node, "interrupt", **dict.fromkeys(interrupts, 1))
        self.system.run(max_cycles=_REST_CYCLES)

    def report(self) -> str:
        """State of the engines by their outputs, rank by rank, in one line."""
        words = []
        for rank, node in zip(self.ranks, self.nodes, strict=True):
            state = "idle" if node.output("idle") else "busy"
            words.append(f"{rank} {state}{', interrupt' if node.output('irq') else ''}")
        return f"engines by rank: {'; '.join(words)}"


def _joined(parts: Sequence[RunResult]) -> RunResult:
    """Runs that follow each other, as one."""
    return replace(
        parts[-1],
        first_cycle=parts[0].first_cycle,
        node_cycles=sum(part.node_cycles for part in parts),
        stepped_node_cycles=sum(part.stepped_node_cycles for part in parts),
        wall_s=sum(part.wall_s for part in parts),
    )
