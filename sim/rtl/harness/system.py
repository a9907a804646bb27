# SPDX-License-Identifier: Apache-2.0
"""Compiled engines, their hosts and memories, run together in the order of a global clock."""

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gen.arguments import typed
from gen.waves import TracedSignal
from hw.link.packet import FLIT_BITS
from sim.fields import FieldError
from sim.hosts.activity import LinkActivity, MemoryActivity
from sim.rtl.harness.host import Node, Ticket
from sim.rtl.harness.library import (
    BEAT_RECORD,
    TOKEN,
    Harness,
    LinkReport,
    MemoryReport,
    NodeConfig,
    NodeShape,
    SystemConfig,
    WireConfig,
    array_at,
)
from sim.rtl.harness.signals import SignalTrace
from sim.rtl.harness.specs import (
    ExternalLink,
    Fault,
    HeaderFault,
    LinkDirection,
    LinkSpec,
    NodeSpec,
    PayloadFault,
    StutterFault,
)

__all__ = [
    "MAX_WINDOW_CYCLES",
    "WIRE_FAULTS",
    "CosimError",
    "CycleLimitError",
    "LinkFailedError",
    "Node",
    "ProtocolError",
    "RunResult",
    "StuckError",
    "System",
    "Ticket",
]

MAX_WINDOW_CYCLES = 1024  # keeps the time between two looks at the clock short
RETURN_EVERY_S = 0.25  # longest delay of Ctrl-C
PROGRESS_EVERY_S = 0.5
WIRE_FAULTS = "damaged", "lost", "repeated"
"""Faults that packets on a wire may suffer."""
_FINISHED, _TIME_OVER, _LIMIT, _ERROR, _STUCK, _GIVEN_UP = range(6)
_NO_CYCLE = 2**64 - 1
_STUTTER = 4  # as in link.hpp
_NO_SERIES = np.dtype(np.uint32)


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One call of :meth:`System.run`. Cycles count from the system's reset.

    ``last_host_cycle`` has, per node, the cycle in which its script was completed (None without
    one). ``stepped_node_cycles`` of ``node_cycles`` were simulated, the others skipped at rest.
    """

    first_cycle: int
    end_cycle: int
    last_host_cycle: tuple[int | None, ...]
    node_cycles: int
    stepped_node_cycles: int
    wall_s: float

    @property
    def cycles(self) -> int:
        return self.end_cycle - self.first_cycle


class CosimError(RuntimeError):
    """A run that could not be completed."""


class ProtocolError(CosimError):
    """An engine broke a rule of one of its ports; names node, port and cycle.

    The system cannot be run further.
    """


class CycleLimitError(CosimError):
    """The cycle limit was reached; names what is not finished.

    ``partial`` tells how far the run came. Calling :meth:`System.run` again goes on from there.
    """

    def __init__(self, message: str, partial: RunResult) -> None:
        super().__init__(message, partial)  # as given: it is pickled between processes
        self._message = message
        self.partial = partial

    def __str__(self) -> str:
        return self._message


class StuckError(CosimError):
    """Every unfinished host waits for an interrupt and nothing can raise one any more."""


class LinkFailedError(CosimError):
    """Links with retry do not work: they have resent a frame as often as they may, or never came
    up. Names them; each is reported once, and the system can be run on."""


class System:
    """Nodes and links, cycle by cycle.

    All cycles and bits are a function of the specifications and ``seed`` alone; ``threads``,
    ``window_cycles`` (1 to the smallest link latency, at most 1024; None for the largest) and,
    for engines whose ``idle`` output is honest, ``skip_idle`` change nothing but speed.

    Parameters
    ----------
    nodes : sequence of :class:`NodeSpec`
    links : sequence of :class:`LinkSpec`
    seed : int
        Seed of all random stalls and skews.
    threads : int
        Nodes are shared out among them.
    skip_idle : bool
        Do not step a node that is idle, receives nothing and has a host without work.
    bucket_cycles : int
        Resolution of the time series; 0 for none.
    record_beats : bool
        Keep every beat's cycle (16 bytes a beat) for :meth:`LinkActivity.steady_state`.
    faults : sequence of :class:`Fault`
        As given to :meth:`inject`.
    external : sequence of :class:`ExternalLink`
        Links to parts that are simulated elsewhere.
    """

    @typed("nodes", "links", "seed", most={"threads": 1 << 12, "bucket_cycles": 1 << 40})
    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        links: Sequence[LinkSpec] = (),
        *,
        seed: int = 0,
        threads: int = 1,
        window_cycles: int | None = None,
        skip_idle: bool = True,
        bucket_cycles: int = 0,
        record_beats: bool = False,
        faults: Sequence[Fault] = (),
        external: Sequence[ExternalLink] = (),
    ) -> None:
        if not nodes:
            raise FieldError("nodes", "must hold at least one node")
        if not 0 <= seed < 2**64:
            raise FieldError("seed", f"must be in 0 to 2**64 - 1, not {seed!r}")
        if threads < 1:
            raise FieldError("threads", f"must be at least 1, not {threads!r}")
        if bucket_cycles < 0:
            raise FieldError("bucket_cycles", f"must be at least 0, not {bucket_cycles!r}")
        directions = [d for link in links for d in link.directions()]
        directions += [d for outside in external for d in outside.directions()]
        latencies = [direction.latency_cycles for direction in directions]
        largest = min([MAX_WINDOW_CYCLES, *latencies])
        if window_cycles is not None and not 1 <= window_cycles <= largest:
            raise FieldError(
                "window_cycles", f"must be in 1 to {largest}, which is the smallest link latency "
                f"or {MAX_WINDOW_CYCLES}, not {window_cycles!r}"
            )
        self.seed = seed
        self.window_cycles = window_cycles or largest
        self.bucket_cycles = bucket_cycles
        self._record_beats = record_beats
        self._broken: str | None = None
        self._skew_draws = 0
        config = SystemConfig(
            seed=seed,
            window_cycles=self.window_cycles,
            quantum_cycles=largest,
            bucket_cycles=bucket_cycles,
            threads=threads,
            skip_idle=skip_idle,
            record_beats=record_beats,
        )
        self._harness = Harness(config)
        self._names = [spec.name for spec in nodes]
        self._traced: list[tuple[TracedSignal, ...]] = []
        self.nodes = [self._add_node(number, spec) for number, spec in enumerate(nodes)]
        self._taken: set[tuple[int, int]] = set()
        self._peers: dict[tuple[int, int], tuple[int, int]] = {}
        self._connect(links)
        for outside in external:
            self._take_port(outside.node, outside.port)
            end = outside.node, outside.port
            outward, inward = outside.directions()
            self._add_wire(end, (-1, -1), outward)
            self._add_wire((-1, -1), end, inward)
        self.inject(*faults)
        self._harness.check("start")

    @property
    def cycle(self) -> int:
        """Cycles since reset."""
        return int(self._harness.call("cycle"))

    @property
    def quiet_since(self) -> int:
        """The first cycle from which on no packet was sent to another node and no host had
        anything to do; now, if one has."""
        return int(self._harness.call("quiet_since"))

    def run(
        self,
        *,
        max_cycles: int = 100_000_000,
        drain: bool = True,
        start_skew_cycles: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> RunResult:
        """Runs until every host script is completed.

        With ``drain`` also until all engines are idle and the links empty. ``start_skew_cycles``
        starts each node's new operations up to that many cycles late, at random.
        ``progress(cycle, nodes_done)`` is called about twice a second.

        Raises
        ------
        ProtocolError, CycleLimitError, StuckError, LinkFailedError
        """
        if self._broken is not None:
            raise ProtocolError(f"the system cannot run on: {self._broken}")
        if max_cycles < 1:
            raise FieldError("max_cycles", f"must be at least 1, not {max_cycles!r}")
        if start_skew_cycles < 0:
            raise FieldError("start_skew_cycles", f"must be at least 0, not {start_skew_cycles!r}")
        self._send_operations(start_skew_cycles)
        first_cycle, stepped_before = self.cycle, self._stepped()
        begin = last_report = time.perf_counter()
        status = _TIME_OVER
        while status == _TIME_OVER:
            status = self._harness.call("run", first_cycle + max_cycles, RETURN_EVERY_S, drain)
            if progress is not None and time.perf_counter() - last_report >= PROGRESS_EVERY_S:
                last_report = time.perf_counter()
                progress(self.cycle, self._nodes_done())
        end_cycle = self.cycle
        result = RunResult(
            first_cycle=first_cycle,
            end_cycle=end_cycle,
            last_host_cycle=tuple(node.last_cycle for node in self.nodes),
            node_cycles=(end_cycle - first_cycle) * len(self.nodes),
            stepped_node_cycles=self._stepped() - stepped_before,
            wall_s=time.perf_counter() - begin,
        )
        if status != _FINISHED:
            self._fail(status, max_cycles, result)
        return result

    def advance(self, end_cycle: int) -> None:
        """Runs to a cycle, whatever the host scripts have still to do.

        Raises
        ------
        ProtocolError
        """
        if self._broken is not None:
            raise ProtocolError(f"the system cannot run on: {self._broken}")
        self._send_operations(0)
        if self._harness.call("advance", end_cycle) == _ERROR:
            self._broken = self._harness.error()
            raise ProtocolError(self._broken)

    def arrivals(self, node: int, port: int, begin: int, end: int) -> np.ndarray:
        """Tokens that arrive at the other end of an external link in cycles ``begin`` to ``end``.

        One row per cycle with a beat or a credit, as ``sim.rtl.harness.library.TOKEN``. All sent in
        a window arrives within one window, from ``cycle - window + latency`` on; it is to be read
        before the next window.
        """
        tokens = np.zeros(end - begin, TOKEN)
        count = self._harness.check("external_read", node, port, begin, end, tokens.ctypes.data)
        return tokens[:count]

    def deliver(self, node: int, port: int, tokens: np.ndarray) -> None:
        """Puts tokens on their way to an external port; they arrive in the cycles that they name,
        at the earliest now and less than twice the latency from now."""
        data = np.ascontiguousarray(tokens, TOKEN)
        self._harness.check("external_write", node, port, data.ctypes.data, len(data))

    def give_up_waits(self) -> None:
        """Ends the wait of every host that waits for an interrupt or a register; its script goes
        on."""
        self._harness.call("give_up")

    def inject(self, *faults: Fault) -> None:
        """Let links fail from now on; packets are counted from reset.

        Raises
        ------
        ValueError
            For a port that does not exist.
        """
        for fault in faults:
            self._check_port(fault.node, fault.port, alone="faults")
            inverted: tuple[int, ...]
            if isinstance(fault, HeaderFault):
                kind, packets, inverted = 0, 1, fault.bits
            elif isinstance(fault, PayloadFault):
                kind, packets, inverted = 0, 1, tuple(FLIT_BITS + bit for bit in fault.bits)
            elif isinstance(fault, StutterFault):
                kind, packets, inverted = _STUTTER, _NO_CYCLE, (fault.flit,)
            else:
                kind, packets, inverted = 1 + fault.repeat, fault.packets, ()
            bits = (ctypes.c_int32 * len(inverted))(*inverted)
            self._harness.check(
                "add_link_fault", fault.node, fault.port, kind, fault.packet, packets, bits,
                len(inverted),
            )

    def forget_faults(self, node: int, port: int) -> None:
        """Undo all calls of `inject` for packets that ``port`` of ``node`` has not sent yet."""
        self._check_port(node, port)
        self._harness.call("forget_faults", node, port)

    def strain(
        self, node: int, port: int, *, damage: float = 0.0, loss: float = 0.0,
        repetition: float = 0.0, mangling: float = 0.0,
    ) -> None:
        """Let the wire on which ``port`` of ``node`` sends fail at random from now on.

        The first three are as in :class:`LinkDirection`. A packet that is mangled lacks a flit, has
        one more, or a flit with the wrong mark of a start; only on links of switches.
        """
        self._check_port(node, port, alone="strain")
        shares = (ctypes.c_double * 4)(damage, loss, repetition, mangling)
        self._harness.check("strain", node, port, shares)

    def cut(self, node: int, port: int, *, mended: bool = False) -> None:
        """Cut the wire on which ``port`` of ``node`` sends: all that is on it and all that is sent
        is lost, credits too. With *mended*, it works again."""
        self._check_port(node, port, alone="cut")
        self._harness.check("cut", node, port, int(not mended))

    def tap(self, node: int, port: int, payload_flits: int) -> None:
        """Prepare `add_packet` on a link of switches without retry, between two packets and when
        credits are home. Packets with data have *payload_flits* flits of it."""
        self._harness.check("tap", node, port, payload_flits)

    def add_packet(self, node: int, port: int, flits: Sequence[int], traffic: int | None) -> None:
        """Add a packet to those that ``port`` of ``node`` sends, as soon as there is room for it.

        It takes a credit of class *traffic*, unless that is None, from the sender: one that returns
        is withheld or, when nothing moves and the sender has all, the one that returns for this
        packet, before which nothing else is sent.

        Parameters
        ----------
        flits : sequence of int
            128 bits of data, and one that marks a header.
        """
        data = b"".join(flit.to_bytes(FLIT_BITS // 8 + 1, "little") for flit in flits)
        number = -1 if traffic is None else traffic
        self._harness.check("add_packet", node, port, data, len(flits), number)

    def added(self, node: int, port: int) -> int:
        """Number of packets of `add_packet` that have not been sent."""
        self._check_port(node, port)
        return int(self._harness.call("added", node, port))

    def struck(self, node: int, port: int) -> int:
        """Packets sent by ``port`` of ``node`` that faults have hit so far."""
        self._check_port(node, port)
        return int(self._harness.call("struck", node, port))

    def links_of(self, masks: Sequence[int]) -> str:
        """The links of all nodes whose bits are set in *masks*, in words, with both ends."""
        named: dict[tuple[int, int], str] = {}
        for node, mask in zip(self.nodes, masks, strict=True):
            for port in range(node.link_ports):
                end = node.number, port
                other = self._peers.get(end)
                if mask >> port & 1 and other not in named:
                    to = "" if other in (None, end) else f" (to {self._end(*other)})"
                    named[end] = f"{self._end(*end)}{to}"
        return ", ".join(named.values())

    def _end(self, node: int, port: int) -> str:
        return f"link {port} of {self._names[node] or f'node {node}'}"

    def met(self, node: int, port: int) -> dict[str, int]:
        """Packets sent by ``port`` of ``node`` that its wire has damaged, lost and repeated by
        chance (see :class:`LinkDirection`); a damaged one counts if it has the flit that was hit.
        """
        self._check_port(node, port)
        counts = (ctypes.c_uint64 * len(WIRE_FAULTS))()
        self._harness.call("met", node, port, counts)
        return dict(zip(WIRE_FAULTS, counts))

    def link_activity(self, node: int, port: int) -> LinkActivity:
        """Load of the link on which ``port`` of ``node`` sends, so far."""
        self._check_port(node, port)
        report = LinkReport()
        self._harness.call("link_report", node, port, ctypes.byref(report))
        recorded = report.beats if self._record_beats else 0
        records = array_at(report.records, recorded, BEAT_RECORD)
        return LinkActivity(
            node=node,
            port=port,
            beats=report.beats,
            flits=report.flits,
            header_flits=report.header_flits,
            first_cycle=None if report.first_cycle == _NO_CYCLE else report.first_cycle,
            last_cycle=None if report.last_cycle == _NO_CYCLE else report.last_cycle,
            stalled_cycles=report.stalled_cycles,
            bucket_cycles=self.bucket_cycles,
            beats_per_bucket=array_at(report.beat_series, report.buckets, _NO_SERIES),
            header_flits_per_bucket=array_at(report.header_series, report.buckets, _NO_SERIES),
            payload_flits_per_bucket=array_at(report.payload_series, report.buckets, _NO_SERIES),
            beat_cycles=records["cycle"].copy(),
            beat_flits=records["flits"].copy(),
            beat_header_flits=records["header_flits"].copy(),
        )

    def memory_activity(self, node: int, port: int) -> MemoryActivity:
        """Traffic of memory port ``port`` of ``node`` so far."""
        if not 0 <= node < len(self.nodes) or not 0 <= port < self.nodes[node].memory_ports:
            raise FieldError("there", f"is no memory port {port!r} of node {node!r}")
        report = MemoryReport()
        self._harness.call("memory_report", node, port, ctypes.byref(report))
        return MemoryActivity(
            node=node,
            port=port,
            read_bytes=report.read_bytes,
            written_bytes=report.written_bytes,
            read_bursts=report.read_bursts,
            write_bursts=report.write_bursts,
            decode_errors=report.decode_errors,
            bucket_cycles=self.bucket_cycles,
            read_bytes_per_bucket=array_at(report.read_series, report.read_buckets, _NO_SERIES),
            written_bytes_per_bucket=array_at(
                report.written_series, report.written_buckets, _NO_SERIES
            ),
        )

    def signals(self, node: int) -> SignalTrace:
        """Changes of the traced signals of ``node`` so far."""
        where = ctypes.c_void_p()
        count = self._harness.call("samples", node, ctypes.byref(where))
        samples = array_at(where.value, count, np.dtype(np.uint32))
        return SignalTrace(signals=self._traced[node], samples=samples)

    def _add_node(self, number: int, spec: NodeSpec) -> Node:
        memory = np.zeros(spec.memory.size_bytes, np.uint8)
        shape = NodeShape()
        config = NodeConfig(
            engine=str(spec.engine_path).encode(),
            memory=memory.ctypes.data,
            memory_base_address=spec.memory.base_address,
            memory_bytes=spec.memory.size_bytes,
            read_latency_cycles=spec.memory.read_latency_cycles,
            write_latency_cycles=spec.memory.write_latency_cycles,
            bytes_per_cycle=spec.memory.bytes_per_cycle or 0.0,
            memory_beats_per_cycle=spec.memory.beats_per_cycle,
            memory_stall_probability=spec.memory.stall_probability,
            host_stall_probability=spec.host_stall_probability,
            outstanding_bursts=spec.memory.outstanding_bursts,
            drawn_as=number if spec.number is None else spec.number,
        )
        self._harness.check("add_node", ctypes.byref(config), ctypes.byref(shape))
        for name, value in spec.inputs.items():
            self._harness.check("set_input", number, name.encode(), value)
        self._traced.append((*getattr(spec.engine, "traced", ()), *spec.watched))
        for signal in self._traced[-1]:
            self._harness.check("watch", number, signal.port.encode())
        return Node(self._harness, number, memory, shape, stands_for=spec.stands_for)

    def _connect(self, links: Sequence[LinkSpec]) -> None:
        for link in links:
            ends = (link.node_a, link.port_a), (link.node_b, link.port_b)
            plugged = ends[0] == ends[1]
            for node, port in ends[plugged:]:
                self._take_port(node, port)
            widths = [self.nodes[node].bus_bytes for node, _ in ends]
            if widths[0] != widths[1]:
                raise ValueError(
                    f"a link cannot join port {link.port_a} of node {link.node_a}, "
                    f"{widths[0]} bytes wide, and port {link.port_b} of node {link.node_b}, "
                    f"{widths[1]} bytes wide"
                )
            self._peers |= {ends[0]: ends[1], ends[1]: ends[0]}
            ways = list(zip((ends, ends[::-1]), link.directions()))
            for (start, end), direction in ways[plugged:]:
                self._add_wire(start, end, direction)

    def _take_port(self, node: int, port: int) -> None:
        self._check_port(node, port)
        if (node, port) in self._taken:
            raise ValueError(f"port {port} of node {node} has two links")
        self._taken.add((node, port))

    def _add_wire(
        self, start: tuple[int, int], end: tuple[int, int], direction: LinkDirection
    ) -> None:
        config = WireConfig(
            from_node=start[0],
            from_port=start[1],
            to_node=end[0],
            to_port=end[1],
            latency_cycles=direction.latency_cycles,
            stall_probability=direction.stall_probability,
            beats_per_cycle=direction.beats_per_cycle,
            damage=direction.damage_probability,
            loss=direction.loss_probability,
            repetition=direction.repetition_probability,
            packet_flits=direction.packet_flits,
        )
        self._harness.check("add_wire", ctypes.byref(config))

    def _send_operations(self, start_skew_cycles: int) -> None:
        skews = [0] * len(self.nodes)
        if start_skew_cycles:
            draws = np.random.default_rng([self.seed, self._skew_draws])
            skews = draws.integers(0, start_skew_cycles, len(skews), endpoint=True).tolist()
        self._skew_draws += 1
        for node, skew in zip(self.nodes, skews):
            node.send_operations(skew)

    def _fail(self, status: int, max_cycles: int, partial: RunResult) -> None:
        text = self._harness.error()
        if status == _ERROR:
            self._broken = text
            raise ProtocolError(text)
        if status == _STUCK:
            raise StuckError(
                f"at cycle {self.cycle} every unfinished host waits for an interrupt, all engines "
                f"are idle and all links empty: {text}"
            )
        if status == _GIVEN_UP:
            masks = [self._harness.call("given_up", node.number) for node in self.nodes]
            raise LinkFailedError(
                f"at cycle {self.cycle} links were given up, whose frames are not acknowledged "
                f"however often they are repeated: {self.links_of(masks)}"
            )
        raise CycleLimitError(f"not finished after {max_cycles} cycles: {text}", partial)

    def _nodes_done(self) -> int:
        return sum(node.done for node in self.nodes)

    def _stepped(self) -> int:
        return sum(self._harness.call("stepped_cycles", n.number) for n in self.nodes)

    def _check_port(self, node: int, port: int, *, alone: str = "") -> None:
        """Refuse a port that is not there, or of a node that stands for others what befalls it
        *alone*."""
        if not 0 <= node < len(self.nodes):
            raise FieldError("node", f"must be in 0 to {len(self.nodes) - 1}, not {node!r}")
        ports = self.nodes[node].link_ports
        if not 0 <= port < ports:
            raise FieldError(
                "port", f"must be below node {node}'s {ports} link ports, not {port!r}"
            )
        if alone:
            self.nodes[node].check_alone(alone)
