# SPDX-License-Identifier: Apache-2.0
"""The control part of the ACE engine: registers, commands and records, abort and failure."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.completions import CompletionQueue, ended_layout
from hw.ace.config import AceConfig
from hw.ace.dispatcher import command_layout
from hw.ace.inspection import inspected_layout
from hw.ace.isa import (
    ENTRY_WORDS,
    INSTRUCTION_BITS,
    TABLE_WORDS,
    placement_layout,
    program_entry_layout,
)
from hw.ace.lookup import program_write_layout
from hw.ace.registers import CAUSES, INSPECTED, CommandError, register_map
from hw.common.engine_registers import CSR_SIGNATURE, EngineRegisters
from hw.common.idle import IdleDetector
from hw.common.select import select
from hw.link.retry_registers import LINK_STATUS, show_links

__all__ = ["EngineControl", "PortControlSignature"]

_IDLE_CYCLES = 4
_COMMAND_FIELDS = ("collective", "program", "op", "load_all", "store_all", "contiguous")
"""Fields of the register `command`."""


class PortControlSignature(wiring.Signature):
    """Control of a port and its reports, seen from the control part.

    Members
    -------
    restart, halt : ``Out(1)``
        Bring both ends of the link into step; tell the peer that all collectives were given up.
    halted : ``In(1)``, because : ``In(2)``
        The peer says so; why.
    dropped, rejected, repeated, missing, parked, starved
        Events of the port, to be counted.
    sent, received : ``In(1)``
        A beat leaves, a beat arrives.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__(
            {
                "restart": Out(1),
                "halt": Out(1),
                "halted": In(1),
                "because": In(2),
                "dropped": In(1),
                "rejected": In(2),
                "repeated": In(1),
                "missing": In(config.format.sequence),
                "parked": In(1),
                "starved": In(1),
                "sent": In(1),
                "received": In(1),
            }
        )


class EngineControl(wiring.Component):
    """Software's view of the engine, and the abort of all collectives.

    Registers become settings and commands; what became of the commands goes into records, status,
    interrupts and counters. If a collective cannot complete, here or on another node, all of them
    are given up: ``stop`` forgets them, the neighbours are told, and a new epoch begins when
    software aborts.

    Timing: a command leaves in the first cycle in which its register holds it. Failures of ports
    and FSMs stop the engine one cycle later, counters show events two cycles later. Nothing stalls.

    Parameters
    ----------
    config : AceConfig
    retry : bool
        Its links have retry, whose ``status`` is shown.
    parts : int
        Bits of ``quiet``.

    Members
    -------
    csr : ``In(CSR_SIGNATURE)``
        Registers, see ``hw.ace.registers``.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    quiet : ``In(parts)``, idle : ``Out(1)``
        Parts that have nothing to do, a bit for each; nothing is queued, running or in flight.
    rank : ``Out(config.format.node)``, epoch : ``Out(config.format.epoch)``
        This node's rank and epoch, for the packets.
    stop : ``Out(1)``, flush : ``Out(1)``
        Forget all collectives; drop what waits to be sent, from the next cycle on until the engine
        is idle.
    because : ``Out(2)``
        Why collectives are given up: disagreement, loss.
    command : ``Out(stream.Signature(command_layout(config)))``
        What software wants; refused here if it is not taken at once.
    ended : ``In(stream.Signature(ended_layout(config), always_ready=True))``
        A command is over.
    memory_error : ``In(1)``
        Pulse: a DMA reported an error.
    programs : ``Out(16).array(fsms)``
        Entries of each program table that hold a program.
    limits : ``Out(range(slot_beats + 1)).array(16)``, with partitions by phase
        Most beats of a block for each program, as the word behind its entry was written last.
    program : ``Out(program_write_layout(config))``, program_writes : ``Out(fsms)``
        A word for the program stores; those that it is for.
    reread : ``Out(1)``, program_words : ``In(64).array(fsms)``
        Read the word at ``program.address``; what was read.
    inspect : ``Out(range(contexts))``, inspected : ``In(inspected_layout(config)).array(fsms)``
        A context to look at; how it is in each FSM.
    disagrees : ``In(1)``
        A peer was told to do something else with a chunk than this node.
    moves : ``In(1)``
        A packet was received or sent, or a chunk loaded or stored.
    port : ``Out(PortControlSignature(config)).array(ports)``
        Each link.
    status : ``In(LINK_STATUS).array(ports)``, only with *retry*
        What its retry tells of it.
    bank_conflicts, alu_conflicts : ``In``
        How many requests to SRAM and ALUs waited in the cycle before.
    """

    csr: wiring.PureInterface
    irq: Signal
    quiet: Signal
    idle: Signal
    rank: Signal
    epoch: Signal
    stop: Signal
    flush: Signal
    because: Signal
    command: stream.Interface
    ended: stream.Interface
    memory_error: Signal
    programs: list
    program: data.View
    program_writes: Signal
    reread: Signal
    program_words: list
    inspect: Signal
    inspected: list
    disagrees: Signal
    moves: Signal
    port: list
    status: list
    bank_conflicts: Signal
    alu_conflicts: Signal

    def __init__(self, config: AceConfig, *, retry: bool = False, parts: int = 1) -> None:
        c = self._config = config
        self._retry = retry
        self._parts = parts
        super().__init__(
            {
                "csr": In(CSR_SIGNATURE),
                "irq": Out(1),
                "quiet": In(parts),
                "idle": Out(1),
                "rank": Out(c.format.node),
                "epoch": Out(c.format.epoch),
                "stop": Out(1),
                "flush": Out(1),
                "because": Out(2),
                "command": Out(stream.Signature(command_layout(c))),
                "ended": In(stream.Signature(ended_layout(c), always_ready=True)),
                "memory_error": In(1),
                "programs": Out(16).array(c.fsms),
                **({"limits": Out(range(c.slot_beats + 1)).array(16)} if c.phased else {}),
                "program": Out(program_write_layout(c)),
                "program_writes": Out(c.fsms),
                "reread": Out(1),
                "program_words": In(INSTRUCTION_BITS).array(c.fsms),
                "inspect": Out(range(max(2, c.contexts))),
                "inspected": In(inspected_layout(c)).array(c.fsms),
                "disagrees": In(1),
                "moves": In(1),
                "port": Out(PortControlSignature(c)).array(c.ports),
                **({"status": In(LINK_STATUS).array(c.ports)} if retry else {}),
                "bank_conflicts": In(range(c.sram_requesters + 1)),
                "alu_conflicts": In(range(c.ports + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        registers = EngineRegisters(m, register_map(c, retry=self._retry), csr=self.csr)
        m.submodules.completions = completions = CompletionQueue(c)
        abort = Signal(name="software_aborts")
        m.d.comb += [
            abort.eq(registers.control.strobe & registers.control.value.abort),
            self.rank.eq(registers.node.value.rank),
        ]
        self._join_programs(m, registers)
        self._join_inspection(m, registers)
        self._join_settings(m, registers)
        stalled = self._watch(m, registers, completions)
        halted = self._halt(m, registers, completions, abort)
        m.submodules.idle_detector = detector = IdleDetector(_IDLE_CYCLES, parts=self._parts + 1)
        aborting = Signal()  # from an abort until the engine is idle
        flushes = Signal()
        passes = Signal(init=1)  # its inverse, which may lie near the ports: nothing else needs it
        young = Signal()  # it has just begun, which is not seen yet
        rests = Signal()  # it was idle two cycles ago
        m.d.comb += [aborting.eq(flushes & (young | ~rests)), self.flush.eq(~passes)]
        m.d.sync += [
            flushes.eq(self.stop | aborting),
            passes.eq(~(self.stop | aborting)),
            young.eq(self.stop),
            rests.eq(detector.was_idle),
        ]
        self._join_links(m, registers, abort)
        self._join_outcomes(m, registers, completions, stalled, halted, aborting, detector.was_idle)
        # Not later than `idle`: software that sees the engine idle may give commands.
        shown = flushes & (young | ~detector.was_idle)
        registers.show("status", aborting=shown)
        self._join_counters(m, registers)

        # Quiet for long enough that no pulse is on its way to a register.
        waiting = (completions.outstanding != 0) | registers.command.strobe
        m.d.comb += [detector.quiet.eq(Cat(self.quiet, ~waiting)), self.idle.eq(detector.idle)]
        return m

    def _join_programs(self, m, r):
        """Writes to `program_high` go to the program store of the FSM in `program_address`."""
        c = self._config
        place = r.program_address.value
        outside = Signal()  # known long before the next access
        m.d.sync += outside.eq((place.word >= c.program_words) | (place.fsm >= c.fsms))
        entry = data.View(program_entry_layout, self.program.word)
        is_program = (entry.last != 0) & (entry.entry * ENTRY_WORDS + entry.last < c.program_words)
        m.d.comb += [
            r.program_high.refuse.eq(outside),
            self.program.address.eq(place.word),
            self.program.word.eq(Cat(r.program_low.value.value, r.program_high.value.value)),
        ]
        # The word that software may read has changed.
        m.d.sync += self.reread.eq(r.program_address.strobe | r.program_high.strobe)
        for f in range(c.fsms):
            writes = self.program_writes[f]
            m.d.comb += writes.eq(r.program_high.strobe & (place.fsm == f))
            with m.If(writes & (place.word < TABLE_WORDS)):
                held = self.programs[f].bit_select(place.word[:4], 1)
                m.d.sync += held.eq(is_program)
        if c.phased:
            written = self.program_writes.any()
            placement = data.View(placement_layout, self.program.word)
            for n, limit in enumerate(self.limits):
                with m.If(written & (place.word == TABLE_WORDS + n)):
                    too_many = placement.beats > c.slot_beats
                    m.d.sync += limit.eq(Mux(too_many, c.slot_beats, placement.beats))
        shown = Signal(INSTRUCTION_BITS)
        with m.If(~outside):
            m.d.comb += shown.eq(Array(self.program_words)[place.fsm])
        r.show("program_word_low", value=shown[:32])
        r.show("program_word_high", value=shown[32:])

    def _join_inspection(self, m, r):
        """Show the context that software has asked for as it was then, all of it in one cycle."""
        c = self._config
        asked = r.inspect.value
        inside = (asked.fsm < c.fsms) & (asked.context < c.contexts)
        seen: Any = Signal(inspected_layout(c))
        m.d.comb += self.inspect.eq(asked.context)
        with m.If(r.inspect.strobe):
            found = select(asked.fsm, [Value.cast(each) for each in self.inspected])
            m.d.sync += seen.eq(Mux(inside, found, 0))
        for name, fields in INSPECTED.items():
            r.show(name, **{each: seen[each] for each in fields})
        r.show("inspected_chunk", chunk=seen.key.chunk, collective=seen.key.collective)
        r.show("inspected_readies", **{
            f"port_{p}": seen.readies.word_select(p, 2) for p in range(c.ports)
        })

    def _join_settings(self, m, r):
        """Pass settings from software to the dispatcher, and show the slot size to software."""
        c = self._config
        command = self.command
        m.d.comb += [command.p[name].eq(r.command.value[name]) for name in _COMMAND_FIELDS]
        m.d.comb += [
            command.p[name].eq(getattr(r, name).value.value)
            for name in ("elements", "stride", "block")
        ]
        m.d.comb += [command.p[name].eq(r.wide(name)) for name in ("source", "destination")]
        m.d.comb += [
            command.p.rank.eq(r.node.value.rank),
            command.p.nodes.eq(r.nodes.value.count),
            command.p.fsms.eq(r.fsms.value.count),
            command.p.memory_end.eq(r.wide("memory_end") + 1),
        ]
        r.show("slot_elements", value=c.slot_elements)

    def _watch(self, m, r, completions):
        """Return the watchdog's bit: no progress for too long while a command is outstanding."""
        passed = Signal(32)
        stalled = Signal()
        idle = completions.outstanding == 0
        limit = r.watchdog.value.cycles
        with m.If(self.moves | idle | r.watchdog.strobe | (limit == 0)):
            m.d.sync += [passed.eq(0), stalled.eq(0)]
        with m.Elif(passed != limit):
            m.d.sync += passed.eq(passed + 1)
        with m.Else():
            m.d.sync += stalled.eq(1)
        return stalled

    def _halt(self, m, r, completions, abort):
        """Gives up all collectives, and tells the neighbours, once one of them cannot complete.
        Returns whether that has happened since the last abort."""
        disagrees = Signal()
        lost = Signal()
        halted = Signal()
        causes = Signal(2)  # disagreement, lost
        found = self.because
        outstanding = completions.outstanding != 0
        m.d.sync += [
            disagrees.eq(self.disagrees),
            # A damaged header while nothing is outstanding may be nobody's.
            lost.eq(
                Cat((port.missing != 0) | (port.dropped & outstanding) for port in self.port).any()
            ),
        ]
        heard = Signal(2)
        m.d.sync += heard.eq(0)
        for port in self.port:
            with m.If(port.halted & ~abort):
                m.d.sync += heard.eq(port.because)
        now = Signal()
        # A register, as much is given up by it in the same cycle.
        m.d.sync += found.eq(Mux(abort, 0, Mux(heard.any(), heard, Cat(disagrees, lost))))
        m.d.comb += [
            now.eq(found.any() & ~halted & ~abort),
            self.stop.eq(abort | now),
            completions.give_up.eq(self.stop),
            completions.because.aborted.eq(abort),
            completions.because.disagreement.eq(~abort & found[0]),
            completions.because.lost.eq(~abort & found[1]),
        ]
        with m.If(self.stop):
            m.d.sync += [halted.eq(~abort), causes.eq(Mux(abort, 0, found))]
        with m.If(abort):
            m.d.sync += [disagrees.eq(0), lost.eq(0)]
        for p, port in enumerate(self.port):
            m.d.comb += port.halt.eq(now & r.links.value.used[p])
        r.show("status", halted=halted, disagreement=causes[0], lost=causes[1])
        return halted

    def _join_links(self, m, r, abort):
        """Epoch of all packets; an abort brings the links that are used into step."""
        with m.If(abort):
            m.d.sync += self.epoch.eq(r.control.value.epoch)
        for p, port in enumerate(self.port):
            # After the epoch has changed.
            m.d.sync += port.restart.eq(abort & r.links.value.used[p])
        r.show("status", epoch=self.epoch)

    def _join_outcomes(self, m, r, completions, stalled, halted, aborting, was_idle):
        """Show status; record completions and refusals; raise interrupts."""
        given, command = r.command.strobe, self.command
        full = completions.full | ~command.ready
        turned_away = Signal()  # a command that is refused as it is written, without a record
        m.d.comb += [
            turned_away.eq(given & (aborting | halted | full)),
            command.valid.eq(given & ~turned_away),
            command.p.ticket.eq(completions.ticket),
            completions.take.eq(command.valid),
            completions.collective.eq(r.command.value.collective),
            completions.ended.valid.eq(self.ended.valid),
            completions.ended.p.eq(self.ended.p),
            completions.pop.eq(r.completion_taken.strobe),
        ]
        written = completions.written
        error, causes = written.p.error, written.p.causes
        given_up = causes.aborted | causes.disagreement | causes.lost
        refused = Signal()
        done = Signal()
        m.d.comb += [
            refused.eq(written.valid & (error.as_value() != 0)),
            done.eq(written.valid & (error.as_value() == 0) & ~given_up),
        ]
        r.show(
            "status",
            idle=was_idle,
            outstanding=completions.outstanding,
            stalled=stalled,
        )
        r.record("completed", done, collective=written.p.collective)
        # Kept a cycle later, long before software can read it.
        refusal = Signal()
        number = Signal(2)
        why = Signal(CommandError)
        collective = Signal.like(written.p.collective)
        m.d.sync += [
            refusal.eq(refused | turned_away), number.eq(refused + turned_away),
            why.eq(written.p.error),
            collective.eq(Mux(turned_away, r.command.value.collective, written.p.collective)),
        ]
        with m.If(turned_away):
            m.d.sync += why.eq(
                Mux(
                    halted,
                    CommandError.HALTED,
                    Mux(aborting, CommandError.ABORTING, CommandError.FULL),
                )
            )
        r.record("refusal", refusal, number=number, error=why, collective=collective)
        oldest = completions.oldest
        r.show(
            "completion",
            valid=completions.valid,
            overrun=completions.overrun,
            error=oldest.error,
            collective=oldest.collective,
            **{name: oldest.causes[name] for name in CAUSES},
        )
        dropped = Signal()
        m.d.sync += dropped.eq(
            Cat(
                Cat(port.dropped, port.repeated, port.missing).any()
                # What others still send to collectives that were given up is no news.
                | ((port.rejected != 0) & ~halted & ~aborting)
                for port in self.port
            ).any()
        )
        before = Signal(2)
        m.d.sync += before.eq(Cat(stalled, halted))
        enabled = r.interrupt_by(
            done=done,
            refused=refused | turned_away,
            dropped=dropped,
            memory=self.memory_error,
            failed=(written.valid & causes.as_value().any()) | (halted & ~before[1]),
            stalled=stalled & ~before[0],
            **({"link": show_links(m, r, self.status, shown=r.link_status)}
               if self._retry else {}),
        )
        m.d.sync += self.irq.eq(enabled)

    def _join_counters(self, m, r):
        """Performance counters."""
        for p, port in enumerate(self.port):
            r.count(r.damaged[p], port.dropped)
            r.count(r.unexpected[p], port.rejected)
            r.count(r.repeated[p], port.repeated)
            r.count(r.missing[p], port.missing)
            r.count(r.parked[p], port.parked)
            r.count(r.starved[p], port.starved)
            r.count(r.sent[p], port.sent)
            r.count(r.received[p], port.received)
        r.count(r.bank_conflicts, self.bank_conflicts)
        r.count(r.alu_conflicts, self.alu_conflicts)
