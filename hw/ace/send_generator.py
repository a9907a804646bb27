# SPDX-License-Identifier: Apache-2.0
"""Turns the instructions that start by themselves, and parked packets, into send commands."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.contexts import (
    ContextSignature,
    context_entry_layout,
    entry_request_layout,
    next_phase_layout,
)
from hw.ace.isa import MOST_RUNS, instruction_layout, phase_layout
from hw.ace.layouts import admit_layout, report_layout, send_command_layout
from hw.ace.lookup import own_request_layout, own_response_layout
from hw.ace.ready_turns import ReadyTurns
from hw.common.arbiter import AgeArbiter
from hw.common.fifo import StreamFIFO
from hw.common.select import index_of, marked
from hw.common.skid import SkidBuffer

__all__ = ["SendGenerator", "Source", "parking_beats"]


class Source(enum.Enum, shape=1):
    """Kind of packet that the generator is working on."""

    PARKED = 0
    FRESH = 1


class SendGenerator(wiring.Component):
    """Makes the send commands of an FSM, one packet at a time.

    Work is taken in this order: table entries that contexts ask for; READY packets; then parked
    packets (that a receive unit could not forward) and fresh ones (of instructions that start by
    themselves, in order up to END) in turn. READY packets of all contexts take turns. Of fresh
    packets those of the context that was admitted first are next. A packet whose peer is not ready
    is passed over, never waited for: a parked one goes to the back of its queue, a fresh one is
    looked at again when another one has been sent, or all contexts have been passed over. So is the
    end of a phase; its context is looked at again once it has been settled, with no READY left,
    for a cycle. A packet whose port has no room for a command, or a READY to send first, is passed
    over, too; its context is looked at again when there is room.

    Timing: a READY takes 1 cycle; a packet, a table entry and the end of a phase take
    ``LOOKUP_LATENCY + 2`` cycles, a parked packet that is passed over one more; each longer by the
    cycles in which the lookup stalls.

    Members
    -------
    contexts : ``In(ContextSignature(config))``
        State of the contexts.
    admit : ``In(stream.Signature(admit_layout(config), always_ready=True))``
        The context starts afresh.
    start : ``In(contexts)``
        These contexts go live: send their READY packets and their instructions.
    sending : ``Out(contexts)``
        READY packets or instructions of these contexts are left.
    entry_request : ``In(stream.Signature(entry_request_layout(config)))``
        Contexts that ask for their table entry.
    entry : ``Out(stream.Signature(context_entry_layout(config), always_ready=True))``
        Table entries for `ContextTable`.
    phase : ``Out(stream.Signature(next_phase_layout(config), always_ready=True))``
        Phases that begin, for `ContextTable`.
    request : ``Out(stream.Signature(own_request_layout(config)))``
        Lookups in `LookupPipeline`.
    response : ``In(stream.Signature(own_response_layout(config), always_ready=True))``
        Its answers.
    event : ``In(stream.Signature(report_layout(config), always_ready=True))``
        Packets that were parked are queued; there is room for all that can be.
    send : ``Out(stream.Signature(send_command_layout(config), always_ready=True))``
        Commands for ports that have room; ``fsm`` is left to the engine.
    to : ``Out(ports)``
        The port that gets a command, a bit; none while there is no command.
    room : ``In(ports)``
        Ports that have room for a command of this FSM.
    forget : ``In(1)``
        Forget what contexts have left. Parked packets of contexts that are not live are discarded
        when their turn comes.
    busy : ``Out(1)``
        Something is under way or parked.
    fresh : ``Out(contexts)``, ready_ports, steps : ``Out(...).array(contexts)``
        For software: contexts with instructions left, the ports on which each has still to say
        READY, and the step that each is at.
    held : ``Out(range(contexts)).array(ports)``
        For software: the context of the last command for each port.
    """

    admit: stream.Interface
    start: Signal
    sending: Signal
    entry_request: stream.Interface
    entry: stream.Interface
    phase: stream.Interface
    request: stream.Interface
    response: stream.Interface
    event: stream.Interface
    send: stream.Interface
    to: Signal
    room: Signal
    forget: Signal
    busy: Signal
    fresh: Signal
    ready_ports: list
    steps: list
    held: list

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        always = {"always_ready": True}
        super().__init__(
            {
                "contexts": In(ContextSignature(c)),
                "admit": In(stream.Signature(admit_layout(c), **always)),
                "start": In(c.contexts),
                "sending": Out(c.contexts),
                "entry_request": In(stream.Signature(entry_request_layout(c))),
                "entry": Out(stream.Signature(context_entry_layout(c), **always)),
                "phase": Out(stream.Signature(next_phase_layout(c), **always)),
                "request": Out(stream.Signature(own_request_layout(c))),
                "response": In(stream.Signature(own_response_layout(c), **always)),
                "event": In(stream.Signature(report_layout(c), **always)),
                "send": Out(stream.Signature(send_command_layout(c), **always)),
                "to": Out(c.targets),
                "room": In(c.targets),
                "forget": In(1),
                "busy": Out(1),
                "fresh": Out(c.contexts),
                "ready_ports": Out(c.ports).array(c.contexts),
                "steps": Out(c.format.step).array(c.contexts),
                "held": Out(range(max(2, c.contexts))).array(c.ports),
            }
        )
        # The packet in progress.
        self._source = Signal(Source)
        self._context = Signal(range(max(2, c.contexts)), name="context")
        self._step = Signal(c.format.step, name="step")  # a cycle after the context
        self._offset = Signal(c.format.offset, name="offset")
        # Its place is that of its context, or was given with it.
        self._placed = Signal(name="placed")
        self._given_step = Signal(c.format.step, name="given_step")
        self._given_offset = Signal(c.format.offset, name="given_offset")
        self._live = Signal(name="live")  # its context has not been forgotten
        self._crowded = Signal(name="crowded")  # its port has no room
        self._free = Signal(c.targets, name="free")  # ports that have room, and no READY wants it

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.d.comb += [
            self.request.p.context.eq(self._context), self.entry.p.context.eq(self._context),
        ]
        m.d.comb += self.entry.p.entry.eq(self.response.p.word)

        ready_ports = self._ready_ports(m)
        fresh = Signal(c.contexts)  # instructions that start by themselves remain
        waiting = Signal(c.contexts)  # the end of a phase has been passed over
        with m.If(self.start.any()):
            m.d.sync += [fresh.eq(fresh | self.start), waiting.eq(waiting & ~self.start)]
        claimed = reduce(or_, ready_ports)
        if c.phased:  # no READY is for the copy unit
            claimed = Cat(claimed, Const(0, 1))
        m.d.comb += self._free.eq(self.room & ~claimed)
        crowded_out = self._crowded_out(m)
        positions = self._positions(m)
        repark = Signal()
        parked, parked_now = self._parking(m, repark)
        idle = self._states(
            m, fresh, waiting, crowded_out, ready_ports, parked, parked_now, repark
        )
        with m.If(self.forget):
            m.d.sync += fresh.eq(0)
            m.d.sync += [ports.eq(0) for ports in ready_ports]
        m.d.comb += [
            self.sending.eq(fresh | Cat(ports.any() for ports in ready_ports)),
            self.busy.eq(
                ~idle | (m.submodules.parking.level != 0) | parked.valid | ~self.room.all()
            ),
            self.fresh.eq(fresh),
            *(shown.eq(ports) for shown, ports in zip(self.ready_ports, ready_ports, strict=True)),
            *(shown.eq(step) for shown, step in zip(self.steps, positions[0], strict=True)),
        ]
        return m

    def _ready_ports(self, m):
        """For each context the ports on which its READY is still to be sent."""
        c = self._config
        ready_ports = [Signal(c.ports, name=f"ready_ports_{n}") for n in range(c.contexts)]
        for n, ports in enumerate(ready_ports):
            with m.If(self.admit.valid & (self.admit.p.context == n)):
                m.d.sync += ports.eq(0)
            with m.If(self.start[n]):
                m.d.sync += ports.eq(self.contexts.entry[n].ready_ports)
        return ready_ports

    def _sends_fresh(self):
        return self.send.valid & ~self.send.p.ready & (self._source == Source.FRESH)

    def _crowded_out(self, m):
        """The contexts that have been passed over for want of room at their port, where there still
        is none."""
        c = self._config
        crowded_out = Signal(c.contexts)
        for n in range(c.contexts):
            wanted = Signal(c.targets, name=f"wanted_port_{n}")
            m.d.comb += crowded_out[n].eq((wanted & ~self._free).any())
            with m.If(self.start[n] | (self._sends_fresh() & (self._context == n))):
                m.d.sync += wanted.eq(0)
            with m.Elif(self._crowded & (self._source == Source.FRESH) & (self._context == n)):
                m.d.sync += wanted.eq(1 << self.response.p.resolved.port)
        for p, held in enumerate(self.held):
            with m.If(self.to[p]):
                m.d.sync += held.eq(self.send.p.context)
        return crowded_out

    def _positions(self, m):
        """For each context the step and the packet that are next; those of the packet in progress.

        Of a fresh one they are read when its context is known, which comes late.
        """
        c = self._config
        steps = [Signal(c.format.step, name=f"step_{n}") for n in range(c.contexts)]
        offsets = [Signal(c.format.offset, name=f"offset_{n}") for n in range(c.contexts)]
        m.d.comb += [
            self.request.p.step.eq(
                Mux(self._placed, Array(steps)[self._context], self._given_step)
            ),
            self.request.p.offset.eq(
                Mux(self._placed, Array(offsets)[self._context], self._given_offset)
            ),
        ]
        # What comes behind the packet in progress is made ready, register by register, while that
        # is looked up: its run is as long as it is until the next phase.
        packets = Signal(range(c.block_packets + 1))
        run_ends = Signal()
        next_step, next_offset = Signal.like(self._step), Signal(len(self._offset) + 1)
        m.d.sync += [
            self._step.eq(self.request.p.step),
            self._offset.eq(self.request.p.offset),
            packets.eq(
                Array(
                    Mux(odd, *reversed(of_phase))
                    for odd, of_phase in zip(self.contexts.odd, self.contexts.packets, strict=True)
                )[self._context]
            ),
            next_step.eq(self._step + 1),
            next_offset.eq(self._offset + 1),
            run_ends.eq(next_offset == packets),
        ]
        for n, (step, offset) in enumerate(zip(steps, offsets, strict=True)):
            mine = self._context == n
            with m.If(self.entry.valid & mine):
                m.d.sync += [step.eq(0), offset.eq(0)]
            with m.If(self._sends_fresh() & mine):
                m.d.sync += [
                    offset.eq(Mux(run_ends, 0, next_offset)),
                    step.eq(Mux(run_ends, next_step, self._step)),
                ]
            with m.If(self.phase.valid & mine):
                m.d.sync += step.eq(next_step)
        return steps, offsets

    def _parking(self, m, repark):
        """The queue of parked packets: from events, and with *repark* the present one again."""
        c = self._config
        m.submodules.parking = parking = StreamFIFO(*parking_beats(c))
        event = self.event.p
        parked_now = Signal()
        m.d.comb += [
            parked_now.eq(self.event.valid & event.parked),
            parking.i.valid.eq(parked_now | repark),
            parking.i.p.context.eq(Mux(parked_now, event.context, self._context)),
            parking.i.p.step.eq(Mux(parked_now, event.step, self._step)),
            parking.i.p.offset.eq(Mux(parked_now, event.offset, self._offset)),
        ]
        # Behind a block memory, which answers late in the cycle.
        m.submodules.next_parked = front = SkidBuffer(parking.o.payload.shape())
        wiring.connect(m, parking.o, front.i)
        return front.o, parked_now

    def _next_ready(self, m, ready_ports):
        """The READY that is next, and whether there is one."""
        m.submodules.ready_turns = turns = ReadyTurns(self._config)
        m.d.comb += [to.eq(ports) for to, ports in zip(turns.wanted, ready_ports, strict=True)]
        m.d.comb += turns.room.eq(self.room)
        pending = (reduce(or_, ready_ports) & self.room).any()
        return turns, pending

    def _next_fresh(self, m, fresh):
        """The context whose instruction is next: the oldest one that has not been passed over since
        a packet was sent, but for want of room. Returns the *fresh* ones, it, as a bit, and the
        signal that takes it."""
        contexts = self._config.contexts
        m.submodules.fresh_arbiter = ages = AgeArbiter(contexts)
        passed = Signal(contexts)  # taken since the last packet was sent
        left = Signal(contexts)
        take = Signal(name="take_fresh")
        m.d.comb += [
            ages.renew.eq(self.admit.valid << self.admit.p.context),
            left.eq(fresh & ~passed),
            ages.requests.eq(fresh),
            ages.preferred.eq(~passed),
        ]
        with m.If(take):
            m.d.sync += passed.eq(Mux(left.any(), passed, 0) | ages.grant)
        with m.Elif(self._sends_fresh()):
            m.d.sync += passed.eq(0)
        with m.Elif(self._crowded & (self._source == Source.FRESH)):
            m.d.sync += passed.bit_select(self._context, 1).eq(0)
        return fresh, ages.grant, take

    def _key_of(self, context):
        return Array(key.as_value() for key in self.contexts.key)[context]

    def _states(
        self, m, fresh, waiting, crowded_out, ready_ports, parked, parked_now, repark
    ):
        """One piece of work at a time; the returned value is high while there is none."""
        able, over = (Signal(self._config.contexts, name=name) for name in ("able", "over"))
        # READYs may be for the phase that follows. Behind a new phase no look at its end has been
        # answered before the register knows of it.
        m.d.sync += over.eq(self.contexts.settled & Cat(~ports.any() for ports in ready_ports))
        m.d.comb += able.eq(fresh & (~waiting | over) & ~crowded_out)
        next_ready, next_fresh = self._next_ready(m, ready_ports), self._next_fresh(m, able)
        with m.FSM(init="PICK") as states:
            with m.State("PICK"):
                self._pick(m, ready_ports, parked, next_ready, next_fresh)
            with m.State("ASK_ENTRY"):
                m.d.comb += [self.request.valid.eq(1), self.request.p.table.eq(1)]
                with m.If(self.request.ready):
                    m.next = "ENTRY"
            with m.State("ENTRY"):
                m.d.comb += self.entry.valid.eq(self.response.valid)
                with m.If(self.response.valid):
                    m.next = "PICK"
            with m.State("ASK"):
                # A parked packet of a context that is gone is forgotten.
                m.d.comb += self.request.valid.eq(self._live)
                m.d.sync += self._live.eq(self._live & (self._placed | ~self.forget))
                with m.If(~self._live):
                    m.next = "PICK"
                with m.Elif(self.request.ready):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                with m.If(self.response.valid):
                    self._answered(m, fresh, waiting, over, ready_ports)
            with m.State("REPARK"):
                with m.If(~parked_now):
                    m.d.comb += repark.eq(1)
                    m.next = "PICK"
        return states.ongoing("PICK")

    def _pick(self, m, ready_ports, parked, next_ready, next_fresh):
        """Choose the next piece of work: table entry, READY, parked packet or fresh packet."""
        ready, pending = next_ready
        fresh, fresh_context, send_fresh = next_fresh
        prefer_fresh = Signal()
        contexts = self.contexts
        command, entry = self.send.p, self.entry_request
        with m.If(entry.valid):
            m.d.comb += entry.ready.eq(1)
            m.d.sync += [
                self._placed.eq(0),
                self._given_step.eq(entry.p.program),
                self._context.eq(entry.p.context),
            ]
            m.next = "ASK_ENTRY"
        with m.Elif(pending):
            m.d.comb += [
                ready.take.eq(1),
                self.send.valid.eq(1),
                self.to.eq(ready.port),
                command.ready.eq(1),
                command.context.eq(index_of(ready.context)),
                command.remote_context.eq(index_of(ready.context)),
                command.key.eq(marked(ready.context, (key.as_value() for key in contexts.key))),
                # What peers must agree on lies where a DATA packet has step and offset.
                command.operator.eq(
                    marked(ready.context, (each.as_value() for each in contexts.operator))
                ),
                Cat(command.step, command.offset).eq(marked(ready.context, contexts.digest)),
            ]
            for n, ports in enumerate(ready_ports):
                with m.If(ready.context[n]):
                    m.d.sync += ports.eq(ready.left[n])
        with m.Elif(parked.valid & ~(prefer_fresh & fresh.any())):
            m.d.comb += parked.ready.eq(1)
            m.d.sync += [
                prefer_fresh.eq(1),
                self._source.eq(Source.PARKED),
                self._context.eq(parked.p.context),
                # No context of a parked packet ends but by an abort.
                self._live.eq(
                    contexts.live.bit_select(parked.p.context, 1) & ~self.forget
                ),
                self._placed.eq(0),
                self._given_step.eq(parked.p.step),
                self._given_offset.eq(parked.p.offset),
            ]
            m.next = "ASK"
        with m.Elif(fresh.any()):
            m.d.comb += send_fresh.eq(1)
            m.d.sync += [
                prefer_fresh.eq(0),
                self._source.eq(Source.FRESH),
                self._live.eq(1),
                self._placed.eq(1),
                self._context.eq(index_of(fresh_context)),
            ]
            m.next = "ASK"

    def _answered(self, m, fresh, waiting, over, ready_ports):
        """Act on a lookup: send the packet, pass it over, open the next phase, or end the program
        of the context."""
        command, resolved = self.send.p, self.response.p.resolved
        operation = data.View(instruction_layout, self.response.p.word).op
        phase = data.View(phase_layout, self.response.p.word)
        ends = ~operation.send | operation.receive
        room = self._free.bit_select(resolved.port, 1)
        runs = (self._source == Source.PARKED) | ~ends
        m.d.comb += self._crowded.eq(runs & resolved.granted & ~room)
        m.d.comb += [
            self.phase.p.context.eq(self._context),
            self.phase.p.receives.eq(phase.receives),
            self.phase.p.sends.eq(phase.sends),
            self.phase.p.run.eq(phase.run),
            self.phase.p.ahead.eq(phase.ahead),
        ]
        m.d.comb += [
            command.poisoned.eq(resolved.poisoned),
            command.odd.eq(resolved.odd),
            command.age.eq(resolved.age),
            command.context.eq(self._context),
            command.remote_context.eq(resolved.remote_context),
            command.key.eq(self._key_of(self._context)),
            command.operator.eq(resolved.operator),
            command.step.eq(resolved.peer_step),
            command.offset.eq(self._offset),
            command.length.eq(resolved.length),
            command.contributions.eq(resolved.contributions),
            command.row.eq(resolved.row),
        ]
        if self._config.phased:
            m.d.comb += command.place.eq(resolved.place)
            with m.If(self._source == Source.PARKED):
                m.d.comb += command.row.eq(resolved.place)
        with m.If((self._source == Source.FRESH) & ends & operation.reduce & ~operation.receive):
            is_over = over.bit_select(self._context, 1)
            m.d.comb += self.phase.valid.eq(is_over)
            m.d.sync += waiting.bit_select(self._context, 1).eq(~is_over)
            for n, ports in enumerate(ready_ports):
                with m.If(self.phase.valid & (self._context == n)):
                    m.d.sync += ports.eq(phase.ready_ports)
            m.next = "PICK"
        with m.Elif((self._source == Source.FRESH) & ends):
            # END: what is left of the program is up to the packets that arrive.
            m.d.sync += fresh.bit_select(self._context, 1).eq(0)
            m.next = "PICK"
        with m.Elif(resolved.granted & room):
            m.d.comb += [self.send.valid.eq(1), self.to.eq(1 << resolved.port)]
            m.next = "PICK"
        with m.Elif(self._source == Source.PARKED):
            m.next = "REPARK"
        with m.Else():
            m.next = "PICK"


def parking_beats(c: AceConfig) -> tuple[data.StructLayout, int]:
    """Layout of packets that wait for a place, and how many of them the queue holds.

    It has room for every packet of every slot: a run is at one place at a time, and ends with a
    packet that may not be full.
    """
    layout = data.StructLayout(
        {
            "context": range(max(2, c.contexts)), "step": c.format.step, "offset": c.format.offset
        }
    )
    per_slot = c.slot_beats // c.packet_beats + min(c.max_nodes, MOST_RUNS)
    return layout, c.contexts * per_slot
