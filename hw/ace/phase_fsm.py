# SPDX-License-Identifier: Apache-2.0
"""The programmable FSM: one of the engines of ACE that drive chunks through their programs."""

from amaranth.hdl import Array, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.contexts import ContextTable
from hw.ace.inspection import inspected_layout, look_at
from hw.ace.isa import INSTRUCTION_BITS
from hw.ace.layouts import (
    admit_layout,
    loaded_layout,
    peer_layout,
    query_layout,
    report_layout,
    resolved_layout,
    send_command_layout,
    store_job_layout,
    stored_layout,
)
from hw.ace.lookup import LookupPipeline, program_write_layout
from hw.ace.partitions import StageSignature
from hw.ace.ready_table import ReadyTable
from hw.ace.send_generator import SendGenerator
from hw.common.arbiter import StreamArbiter

__all__ = ["PhaseFSM"]


class PhaseFSM(wiring.Component):
    """One of the FSMs of ACE (ISCA 2021, section 4.3): a program store, and contexts for several
    chunks at a time.

    A chunk lives here from its admission to the moment its result is in memory:

    1. *Admit*: the dispatcher hands over a context; the table entry of its program sets how many
       blocks must arrive and be sent in its first phase.
    2. *Loaded*: its data is in the slot. READY goes to every peer that sends to it in this phase:
       from now on packets may come.
    3. *Packets* are looked up by the receive units (``lookup``, ``resolved``): context and
       instruction give addresses and what to do. Anything that the program does not expect is
       refused.
    4. *Sends*: the instructions that start by themselves are turned into send commands in order,
       one packet at a time; so are packets that a receive unit had to park. A packet whose peer is
       not ready is passed over, never waited for: the FSM turns to its next context. READY goes
       first, then parked and fresh packets in turn, of fresh ones those of the chunk that was
       admitted first. An instruction that ends a phase is passed over until every block of the
       phase has arrived and left; then it opens the next one.
    5. *Complete*: every block of the last phase has arrived and left. The slot goes to the RX DMA,
       and is free for the next chunk, as the context is, when it is stored.

    With partitions by phase, an FSM does one phase of a chunk, and 5 is for others to do: the chunk
    moves on to the next phase (`hw.ace.partitions`).

    READY packets of peers that are ahead of this node wait in a table with one row for each context
    of each peer, so they always find room.

    Members
    -------
    program : ``In(stream)``, reread : ``In(1)``, read_address : ``In``, read_word : ``Out``
        Writes to the program store, and what software reads of it.
    vacant : ``Out(1)``
        There is a free context.
    vacant_context : ``Out(range(contexts))``
        A free one, if ``vacant``.
    admit, loaded, stored : ``In(stream)``
        A chunk arrives; its load is done; its result is in memory.
    store : ``Out(stream)``, job : ``In``
        Job for the RX DMA; ``job`` is sampled with ``admit``.
    stage : ``In(StageSignature(config))``
        In place of ``stored``, ``store`` and ``job``, with partitions by phase.
    lookup : ``In(stream).array(ports)``, resolved : ``Out(stream).array(ports)``
        Answers follow ``LOOKUP_LATENCY`` cycles after the question is taken.
    event : ``In(stream).array(ports + targets)``, ready : ``In(stream).array(ports)``
        From the receive and send units, and the copy unit.
    send : ``Out(stream)``, to : ``Out(targets)``, room : ``In(targets)``
        Send commands, for the ports that have room; the port of each, a bit.
    forget : ``In(1)``
        Forget all chunks and READY packets, what is admitted in this cycle, too. Packets in flight
        are refused from now on. Nothing new may be admitted before the engine is idle.
    disagrees : ``Out(1)``
        A peer was told to do something else with a chunk than this node.
    busy : ``Out(1)``
        A chunk is assigned, or something is being cleaned up.
    inspect : ``In(range(contexts))``, inspected : ``Out(inspected_layout(config))``
        A context for software to look at; how it is in this cycle.
    """

    program: stream.Interface
    reread: Signal
    read_address: Signal
    read_word: Signal
    vacant: Signal
    vacant_context: Signal
    admit: stream.Interface
    loaded: stream.Interface
    stored: stream.Interface
    store: stream.Interface
    send: stream.Interface
    to: Signal
    room: Signal
    forget: Signal
    disagrees: Signal
    busy: Signal
    inspect: Signal
    inspected: data.View
    lookup: list
    resolved: list
    event: list
    ready: list

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        always = {"always_ready": True}
        leaves = {
            "job": In(store_job_layout(c)),
            "stored": In(stream.Signature(stored_layout(c), **always)),
            "store": Out(stream.Signature(store_job_layout(c))),
        }
        if c.phased:
            leaves = {"stage": In(StageSignature(c))}
        super().__init__(
            {
                "program": In(stream.Signature(program_write_layout(c), **always)),
                "reread": In(1),
                "read_address": In(range(c.program_words)),
                "read_word": Out(INSTRUCTION_BITS),
                "vacant": Out(1),
                "vacant_context": Out(range(max(2, c.contexts))),
                "admit": In(stream.Signature(admit_layout(c), **always)),
                "loaded": In(stream.Signature(loaded_layout(c), **always)),
                "lookup": In(stream.Signature(query_layout(c))).array(c.ports),
                "resolved": Out(stream.Signature(resolved_layout(c), **always)).array(c.ports),
                "event": In(stream.Signature(report_layout(c))).array(c.ports + c.targets),
                "ready": In(stream.Signature(peer_layout(c))).array(c.ports),
                "send": Out(stream.Signature(send_command_layout(c), **always)),
                "to": Out(c.targets),
                "room": In(c.targets),
                "forget": In(1),
                "disagrees": Out(1),
                "busy": Out(1),
                "inspect": In(range(max(2, c.contexts))),
                "inspected": Out(inspected_layout(c)),
                **leaves,
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.contexts = contexts = ContextTable(c)
        m.submodules.lookups = lookups = LookupPipeline(c)
        m.submodules.ready_table = ready_table = ReadyTable(c)
        m.submodules.generator = generator = SendGenerator(c)
        m.submodules.events = events = StreamArbiter(
            report_layout(c), c.ports + c.targets, always_ready=True
        )

        parts = (lookups, ready_table, generator)
        wiring.connect(m, contexts.state, *(part.contexts for part in parts))
        wiring.connect(m, ready_table.grants, lookups.grants)
        wiring.connect(m, contexts.entry_request, generator.entry_request)
        wiring.connect(m, generator.entry, contexts.entry)
        wiring.connect(m, generator.phase, contexts.phase)
        wiring.connect(m, generator.request, lookups.own_request)
        wiring.connect(m, lookups.own_response, generator.response)
        for inner, outer in (
            (contexts.loaded, self.loaded),
            *(() if c.phased else (
                (contexts.stored, self.stored), (contexts.store, self.store)
            )),
            (lookups.program, self.program),
            (generator.send, self.send),
            *zip(lookups.request, self.lookup, strict=True),
            *zip(lookups.response, self.resolved, strict=True),
            *zip(ready_table.ready, self.ready, strict=True),
            *zip(events.i, self.event, strict=True),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))

        # Everyone is told of admissions and aborts; events are for two parts.
        for part in (contexts, *parts):
            m.d.comb += [part.admit.valid.eq(self.admit.valid), part.admit.p.eq(self.admit.p)]
        for part in (contexts, generator):
            m.d.comb += [part.event.valid.eq(events.o.valid), part.event.p.eq(events.o.p)]
        for part in (contexts, ready_table, generator):
            m.d.comb += part.forget.eq(self.forget)
        if c.phased:
            self._join_stage(m, contexts)
        else:
            m.d.comb += contexts.job.eq(self.job)
        m.d.comb += [
            self.disagrees.eq(ready_table.disagrees),
            lookups.reread.eq(self.reread),
            lookups.read_address.eq(self.read_address),
            self.read_word.eq(lookups.read_word),
            contexts.searched.eq(ready_table.searched),
            contexts.sending.eq(generator.sending),
            generator.room.eq(self.room),
            self.to.eq(generator.to),
            generator.start.eq(contexts.start),
            self.vacant.eq(contexts.vacant),
            self.vacant_context.eq(contexts.vacant_context),
            self.busy.eq(
                contexts.busy | generator.busy | ready_table.sweeping | ready_table.waits
            ),
        ]
        seen = look_at(
            c, self.inspect, contexts=contexts, generator=generator, grants=ready_table.grants
        )
        m.d.comb += [Value.cast(self.inspected[name]).eq(value) for name, value in seen.items()]
        return m

    def _join_stage(self, m, contexts):
        """The contexts to the chain that hands chunks over."""
        stage = self.stage
        m.d.comb += [
            stage.room.eq(contexts.room),
            stage.open.eq(contexts.open),
            stage.vacant_context.eq(contexts.vacant_context),
            stage.finished.eq(contexts.finished),
            stage.poisoned.eq(contexts.state.poisoned.bit_select(stage.leaving, 1)),
            stage.tainted.eq(contexts.tainted),
            stage.results.eq(Array(contexts.state.results)[stage.leaving]),
            contexts.reserve.eq(stage.reserve),
            contexts.barred.eq(stage.barred),
            contexts.departing.eq(stage.leaving),
            contexts.release.eq(stage.release),
        ]
