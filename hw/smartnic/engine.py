# SPDX-License-Identifier: Apache-2.0
"""One datapath: a host port, a network port, and the ring all-reduce between them."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.fifo import StreamFIFO
from hw.smartnic.abort import PortSync, call_layout
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.fetch import Fetch
from hw.smartnic.gather_path import GatherPath
from hw.smartnic.layouts import (
    EPOCH_BITS,
    AbortCause,
    Contract,
    item_layout,
    job_layout,
    net_layout,
    outcome_layout,
    wire_layout,
)
from hw.smartnic.receive import Receive, Verdict
from hw.smartnic.reduce_path import ReducePath
from hw.smartnic.sequencer import BlockSequencer
from hw.smartnic.store import Store
from hw.smartnic.transmit import Transmit

__all__ = ["RingEngine", "events_layout"]

JOBS_AHEAD = 2


def events_layout() -> data.StructLayout:
    """Events for the performance counters, a bit for each: verdicts, others a cycle late."""
    return data.StructLayout(
        {
            "verdict": Verdict,
            "sent_frame": 1,
            "sent_beat": 1,
            "read_beat": 1,
            "written_beat": 1,
            "memory_error": 1,
            "disagreed": 1,
            "starved": 1,  # a frame waits for room at the next node
            "host_wait": 1,  # the adders wait for host memory
            "ring_wait": 1,  # the adders wait for the ring
        }
    )


class RingEngine(wiring.Component):
    """Ring all-reduce between host memory and network, at one beat per cycle.

    The two halves of the all-reduce run side by side, each as a flow of its own with its own
    receive buffer and credits: while the blocks of one round are gathered, those of the next ones
    are reduced. So a round of N blocks takes N block times of the host bus in either direction, or
    2 (N - 1) of the network, whichever is longer.

    Parameters
    ----------
    config : SmartNicConfig
    number : int
        Of this engine, among ``config.engines``.

    Members
    -------
    job : ``In(stream.Signature(job_layout(config)))``
        All-reduces to do, in order.
    contract : ``In(stream.Signature(Contract, always_ready=True))``
        Of every job to come, for engine 0: sent with its first frame, and compared with the
        previous rank's.
    done : ``Out(stream.Signature(outcome_layout(), always_ready=True))``
        One beat per job, in order, a cycle after the store has it.
    mem : ``Out(AXI4Signature)``
        Host memory.
    tx : ``Out(stream.Signature(net_layout(config)))``
        Frames to the network.
    rx : ``In(stream.Signature(net_layout(config), always_ready=True))``
        Frames from the network.
    here, following, preceding : ``In(48)``
        Ethernet addresses; present with ``config.ethernet`` only.
    epoch : ``In(32)``, rank : ``In(8)``
        Present epoch, while flushing the one after it; this node's rank.
    flush : ``In(1)``
        Forget everything. Hold until `busy` is low.
    busy : ``Out(1)``
        A transfer at memory, or a frame to the network, is under way.
    tell : ``In(1)``
        A new epoch has begun: tell the neighbours.
    cause : ``In(AbortCause)``, origin : ``In(8)``
        Why.
    call : ``Out(call_layout())``
        A neighbour's epoch asks for an abort.
    refresh : ``In(1)``
        Tell the previous node once more what was freed.
    idle : ``Out(1)``
        Nothing is held or under way, and no neighbour is waited for.
    events : ``Out(events_layout())``
        For counters, interrupts and aborts.
    """

    job: stream.Interface
    contract: stream.Interface
    done: stream.Interface
    mem: Any
    tx: stream.Interface
    rx: stream.Interface
    here: Signal
    following: Signal
    preceding: Signal
    epoch: Signal
    rank: Signal
    flush: Signal
    busy: Signal
    tell: Signal
    cause: Any
    origin: Signal
    call: Any
    refresh: Signal
    idle: Signal
    events: Any

    def __init__(self, config: SmartNicConfig, *, number: int = 0) -> None:
        self._config = c = config
        self._number = number
        addresses = {"here": In(48), "following": In(48), "preceding": In(48)}
        super().__init__(
            {
                "job": In(stream.Signature(job_layout(c))),
                "contract": In(stream.Signature(Contract, always_ready=True)),
                "done": Out(stream.Signature(outcome_layout(), always_ready=True)),
                "mem": Out(c.memory_bus),
                "tx": Out(stream.Signature(net_layout(c))),
                "rx": In(stream.Signature(net_layout(c), always_ready=True)),
                **(addresses if c.ethernet else {}),
                "epoch": In(EPOCH_BITS),
                "rank": In(8),
                "flush": In(1),
                "busy": Out(1),
                "tell": In(1),
                "cause": In(AbortCause),
                "origin": In(8),
                "call": Out(call_layout()),
                "refresh": In(1),
                "idle": Out(1),
                "events": Out(events_layout()),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        clear = ResetInserter(self.flush)

        # ---- Jobs become blocks, for each flow in its order.
        reduce_items, gather_items = (
            self._sequence(m, name, gather=gather, clear=clear)
            for name, gather in (("reduce", False), ("gather", True))
        )
        m.d.comb += self.job.ready.eq(reduce_items.job.ready & gather_items.job.ready)
        for each, other in (reduce_items, gather_items), (gather_items, reduce_items):
            m.d.comb += [
                each.job.payload.eq(self.job.payload),
                each.job.valid.eq(self.job.valid & other.job.ready),
            ]

        # ---- The parts.
        m.submodules.fetch = fetch = Fetch(c)
        m.submodules.store = store = Store(c)
        reducer = ReducePath(c)
        m.submodules.reduce_path = clear(reducer)
        gatherer = GatherPath(c)
        m.submodules.gather_path = clear(gatherer)
        m.submodules.transmit = transmit = Transmit(c)
        m.submodules.receive = receive = Receive(c)
        # A complete block has a place here, so that reducing never waits for gathering in the
        # middle of one.
        results = StreamFIFO(wire_layout(c), c.block_beats, kept=("data",))
        m.submodules.results = clear(results)
        self._fork(m, reduce_items.o, "reduce", fetch.item, reducer.item, clear, depth=16)
        self._fork(m, gather_items.o, "gather", store.item, gatherer.item, clear, depth=4)

        # ---- Data.
        connect(m, fetch.o, reducer.local)
        connect(m, receive.reduce, reducer.received)
        connect(m, reducer.sent, transmit.reduce)
        connect(m, reducer.result, results.i)
        connect(m, results.o, gatherer.result)
        connect(m, receive.gather, gatherer.received)
        connect(m, gatherer.sent, transmit.gather)
        connect(m, gatherer.kept, store.i)
        connect(m, gatherer.verdict, store.verdict)
        connect(m, transmit.net, flipped(self.tx))
        connect(m, flipped(self.rx), receive.net)
        connect(m, fetch.bus, flipped(self.mem.read))
        connect(m, store.bus, flipped(self.mem.write))

        # ---- Control.
        if c.ethernet:
            for end in (transmit, receive):
                m.d.comb += [
                    end.here.eq(self.here),
                    end.following.eq(self.following),
                    end.preceding.eq(self.preceding),
                ]
        for flow in range(2):
            m.d.comb += [
                transmit.freed[flow].eq(receive.freed[flow]),
                transmit.peer_freed[flow].eq(receive.peer_freed[flow]),
            ]
        m.submodules.sync = sync = PortSync()
        for part in (fetch, store, transmit, receive, sync):
            m.d.comb += part.flush.eq(self.flush)
        for part in (transmit, receive, sync):
            m.d.comb += part.epoch.eq(self.epoch)
        self._compare(m, transmit, receive, clear)
        m.d.comb += [
            sync.heard.eq(receive.heard),
            sync.rank.eq(self.rank),
            sync.tell.eq(self.tell),
            self.call.eq(sync.call),
            transmit.waiting.eq(sync.waiting),
            transmit.cause.eq(self.cause),
            transmit.origin.eq(self.origin),
            transmit.refresh.eq(self.refresh),
            self.busy.eq(fetch.busy | store.busy | transmit.busy),
            self.idle.eq(
                receive.idle & transmit.idle & ~fetch.busy & ~store.busy & ~sync.waiting.any()
            ),
            self.events.verdict.eq(receive.verdict),
            store.done.ready.eq(1),
        ]
        m.d.sync += [
            transmit.due.eq(sync.due),
            transmit.tell.eq(self.tell),
            self.done.valid.eq(store.done.valid),
            self.done.payload.eq(store.done.payload),
            self.events.sent_frame.eq(transmit.sent_frame),
            self.events.sent_beat.eq(transmit.sent_beat),
            self.events.read_beat.eq(fetch.read),
            self.events.written_beat.eq(store.written),
            self.events.memory_error.eq(fetch.error | (store.done.valid & store.done.p.write)),
            self.events.starved.eq(transmit.starved),
            self.events.host_wait.eq(reducer.host_wait),
            self.events.ring_wait.eq(reducer.ring_wait),
        ]
        return m

    def _compare(self, m: Module, transmit: Transmit, receive: Receive, clear: Any) -> None:
        """Send the contract of each job with its first frame, and compare it with those received.

        Only the first engine takes part in every all-reduce, and its first frame of the reducing
        flow is sent whatever the others do. So all disagreement is found there, and before a sum
        of the two can leave.
        """
        if self._number != 0:
            m.d.comb += self.events.disagreed.eq(0)
            return
        jobs = self._config.descriptors  # more are not outstanding
        queues = []
        for name in ("offered", "expected", "announced"):
            queue = StreamFIFO(Contract, jobs, memory=False, kept=name == "offered")
            m.submodules[name] = clear(queue)
            queues.append(queue)
        offered, expected, announced = queues
        for queue, given in ((offered, self), (expected, self), (announced, receive)):
            m.d.comb += [
                queue.i.payload.eq(given.contract.payload),
                queue.i.valid.eq(given.contract.valid),
            ]
        connect(m, offered.o, transmit.contract)
        own, other = expected.o.p, announced.o.p
        both = expected.o.valid & announced.o.valid
        before = Mux(own.rank == 0, own.last_rank, own.rank - 1)
        differing = [
            *(own[n] != other[n] for n in ("elements", "tag", "coding", "last_rank")),
            Value.cast(own.op) != Value.cast(other.op),
            other.rank != before[: len(own.rank)],
        ]
        m.d.comb += [
            expected.o.ready.eq(both),
            announced.o.ready.eq(both),
        ]
        found = (both & Cat(*differing).any()) | (announced.i.valid & ~announced.i.ready)
        m.d.sync += self.events.disagreed.eq(found & ~self.flush)

    def _sequence(self, m: Module, name: str, *, gather: bool, clear: Any) -> Any:
        """A sequencer, with a queue for its jobs."""
        c = self._config
        sequencer = BlockSequencer(c, engine=self._number, gather=gather)
        m.submodules[f"{name}_sequencer"] = clear(sequencer)
        jobs = StreamFIFO(job_layout(c), JOBS_AHEAD, memory=False)
        m.submodules[f"{name}_jobs"] = clear(jobs)
        connect(m, jobs.o, sequencer.job)
        return _Ends(jobs.i, sequencer.o)

    def _fork(
        self, m: Module, items: Any, name: str, host: Any, path: Any, clear: Any, *, depth: int
    ) -> None:
        """Give every item to the host side; those with beats, through a queue, to the datapath."""
        layout = item_layout(self._config)
        # All but what a path looks at before it takes an item.
        kept = tuple(name for name in layout.members if name != "first")
        queue = StreamFIFO(layout, depth, memory=False, kept=kept)
        m.submodules[f"{name}_items"] = clear(queue)
        connect(m, queue.o, path)
        wanted = ~items.p.end
        m.d.comb += [
            queue.i.payload.eq(items.payload),
            queue.i.valid.eq(items.valid & wanted & host.ready),
            host.payload.eq(items.payload),
            host.valid.eq(items.valid & (queue.i.ready | ~wanted)),
            items.ready.eq(host.ready & (queue.i.ready | ~wanted)),
        ]


class _Ends:
    """Entrance and exit of a chain of components."""

    def __init__(self, job: Any, o: Any) -> None:
        self.job = job
        self.o = o
