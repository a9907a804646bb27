"""The ACE engine: everything between the links, the memory and the register bus."""

from amaranth.hdl import Array, C, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from hw.ace.alu_pool import ALUPool
from hw.ace.completions import CompletionQueue
from hw.ace.config import AceConfig
from hw.ace.dispatcher import Dispatcher
from hw.ace.dma import RxDMA, TxDMA
from hw.ace.isa import program_entry_layout
from hw.ace.layouts import loaded_layout, send_command_layout, store_job_layout, stored_layout
from hw.ace.phase_fsm import PhaseFSM
from hw.ace.port import LinkSignature, Port
from hw.ace.registers import CAUSES, ENGINE_ID, CommandError, register_map
from hw.ace.sram import BankedSRAM
from hw.common.arbiter import StreamArbiter
from hw.common.engine import Engine
from hw.common.engine_registers import EngineRegisters
from hw.common.fifo import StreamFIFO
from hw.common.idle import IdleDetector

__all__ = ["AceEngine"]

_IDLE_CYCLES = 4
_TABLE_WORDS = 16
"""First words of a program store: its table."""
_COMMAND_FIELDS = ("collective", "program", "op", "load_all", "store_all", "load_to_result")
"""Fields of the register `command`."""


class AceEngine(Engine):
    """Endpoint engine for collective communication (ACE, ISCA 2021, section 4).

    Software loads programs into the FSMs, then starts collectives through the registers. The engine
    loads chunks from memory into its SRAM, runs the program of each chunk against packets from and
    to its neighbours, and writes results back, without the NPU.

    Every output is a register or a function of registers: no path leads from an input to an output
    in the same cycle. Throughput: each link sends and receives one beat per cycle, back to back, as
    long as memory ports, SRAM banks and the neighbours keep up.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    csr : ``In(CSR_SIGNATURE)``
        Registers, see ``hw.ace.registers``.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    idle : ``Out(1)``
        Nothing is queued, running or in flight; without inputs, no register changes.
    mem : ``Out(AXI4Signature).array(memory_ports)``
    link : ``Out(LinkSignature).array(ports)``

    Raises
    ------
    TypeError
        If *config* is not an `AceConfig`.
    """

    link: list

    def __init__(self, config: AceConfig) -> None:
        if not isinstance(config, AceConfig):
            raise TypeError(f"config must be an AceConfig, not {config!r}")
        c = self._config = config
        link = Out(LinkSignature(flits=c.flits)).array(c.ports)
        super().__init__(c, masters=c.memory_ports, link=link)

    @property
    def config(self) -> AceConfig:
        """What was built."""
        return self._config

    def elaborate(self, platform):
        m = Module()
        c = self._config
        registers = EngineRegisters(m, register_map(c), engine=ENGINE_ID, csr=self.csr)
        abort = Signal(name="software_aborts")
        stop = Signal()  # of software or of the engine itself
        m.d.comb += abort.eq(registers.control.strobe & registers.control.value.abort)
        dispatcher = Dispatcher(c)
        m.submodules.dispatcher = ResetInserter(stop)(dispatcher)
        m.submodules.completions = completions = CompletionQueue(c)
        m.submodules.alus = alus = ALUPool(c)
        m.submodules.sram = sram = BankedSRAM(
            depth=c.sram_beats,
            width=8 * c.bus_bytes,
            banks=c.banks,
            bank_ports=c.bank_ports,
            readers=2 * c.ports + c.memory_ports,
            writers=c.ports + c.memory_ports,
        )
        fsms = [PhaseFSM(c) for _ in range(c.fsms)]
        ports = [Port(c) for _ in range(c.ports)]
        loaders = [TxDMA(c) for _ in range(c.memory_ports)]
        storers = [RxDMA(c) for _ in range(c.memory_ports)]
        for name, parts in (
            ("fsm", fsms),
            ("link_port", ports),
            ("tx_dma", loaders),
            ("rx_dma", storers),
        ):
            for n, part in enumerate(parts):
                m.submodules[f"{name}_{n}"] = part

        self._join_ports(m, ports, alus, sram, registers.node.value.rank)
        self._join_messages(m, fsms, ports)
        self._join_commands(m, fsms, ports)
        loaded, stored = self._join_memory(m, dispatcher, fsms, loaders, storers, sram)
        self._join_dispatcher(m, dispatcher, fsms, loaded, stored, stop)
        self._join_programs(m, registers, fsms, dispatcher)
        self._join_settings(m, registers, dispatcher)
        stalled = self._watch(m, registers, completions, ports, loaded, stored)
        halted = self._halt(m, registers, completions, fsms, ports, abort, stop)
        aborting = Signal()  # from an abort until the engine is idle
        self._join_links(m, registers, ports, abort, stop | aborting)
        self._join_outcomes(m, registers, dispatcher, completions, ports, stalled, halted, aborting)
        self._join_counters(m, registers, ports, sram, alus)

        # Quiet for long enough that no pulse is on its way to a register.
        m.submodules.idle_detector = detector = IdleDetector(_IDLE_CYCLES)
        idle = Cat(part.idle for part in (*ports, *loaders, *storers)).all()
        busy = Cat(fsm.busy for fsm in fsms).any()
        waiting = (completions.outstanding != 0) | registers.command.strobe
        m.d.comb += [detector.quiet.eq(idle & ~busy & ~waiting), self.idle.eq(detector.idle)]
        with m.If(stop):
            m.d.sync += aborting.eq(1)
        with m.Elif(self.idle):
            m.d.sync += aborting.eq(0)
        return m

    def _join_ports(self, m, ports, alus, sram, rank):
        """Ports to links, ALUs, SRAM and each other."""
        for p, port in enumerate(ports):
            m.d.comb += port.node.eq(rank)
            wiring.connect(m, port.link, wiring.flipped(self.link[p]))
            wiring.connect(m, port.alu, alus.client[p])
            wiring.connect(m, port.operand, sram.read[p])
            wiring.connect(m, port.read, sram.read[len(ports) + p])
            wiring.connect(m, port.store, sram.write[p])
            for q, other in enumerate(ports):
                wiring.connect(m, port.forward[q], other.forwarded[p])

    def _join_messages(self, m, fsms, ports):
        """Receive and send units to FSMs: each message names its FSM."""

        def to_fsm(source, sinks):
            for f, sink in enumerate(sinks):
                m.d.comb += [
                    sink.p.eq(source.p),
                    sink.valid.eq(source.valid & (source.p.fsm == f)),
                ]
                with m.If(source.p.fsm == f):
                    m.d.comb += source.ready.eq(sink.ready)

        for p, port in enumerate(ports):
            to_fsm(port.lookup, [fsm.lookup[p] for fsm in fsms])
            to_fsm(port.received, [fsm.event[p] for fsm in fsms])
            to_fsm(port.sent, [fsm.event[len(ports) + p] for fsm in fsms])
            to_fsm(port.ready, [fsm.ready[p] for fsm in fsms])
            # A response follows its request by a fixed time, so only one FSM responds to a port in
            # a cycle.
            for fsm in fsms:
                with m.If(fsm.resolved[p].valid):
                    m.d.comb += [
                        port.resolved.valid.eq(1),
                        port.resolved.p.eq(fsm.resolved[p].p),
                    ]

    def _join_commands(self, m, fsms, ports):
        """Send commands of FSMs to ports: each names its port."""
        for p, port in enumerate(ports):
            m.submodules[f"send_arbiter_{p}"] = arbiter = StreamArbiter(
                send_command_layout(self._config), len(fsms)
            )
            wiring.connect(m, arbiter.o, port.command)
            for f, fsm in enumerate(fsms):
                m.d.comb += [
                    arbiter.i[f].p.eq(fsm.send.p),
                    arbiter.i[f].p.fsm.eq(f),
                    arbiter.i[f].valid.eq(fsm.send.valid & (fsm.send.p.port == p)),
                ]
                with m.If(fsm.send.p.port == p):
                    m.d.comb += fsm.send.ready.eq(arbiter.i[f].ready)

    def _join_memory(self, m, dispatcher, fsms, loaders, storers, sram):
        """DMAs to memory, SRAM and their jobs; the streams of their reports."""
        c = self._config
        m.submodules.loaded = loaded = StreamArbiter(loaded_layout(c), c.memory_ports)
        m.submodules.stored = stored = StreamArbiter(stored_layout(c), c.memory_ports)
        m.d.comb += [loaded.o.ready.eq(1), stored.o.ready.eq(1)]
        for n, (loader, storer) in enumerate(zip(loaders, storers, strict=True)):
            wiring.connect(m, loader.loaded, loaded.i[n])
            wiring.connect(m, storer.stored, stored.i[n])
            wiring.connect(m, loader.write, sram.write[c.ports + n])
            wiring.connect(m, storer.read, sram.read[2 * c.ports + n])
            wiring.connect(m, loader.bus, wiring.flipped(self.mem[n].read))
            wiring.connect(m, storer.bus, wiring.flipped(self.mem[n].write))
            m.submodules[f"load_jobs_{n}"] = jobs = StreamFIFO(dispatcher.load[n].p.shape(), 2)
            wiring.connect(m, dispatcher.load[n], jobs.i)
            wiring.connect(m, jobs.o, loader.job)
            served = fsms[n :: c.memory_ports]
            m.submodules[f"store_arbiter_{n}"] = arbiter = StreamArbiter(
                store_job_layout(c), len(served)
            )
            wiring.connect(m, arbiter.o, storer.job)
            for sink, fsm in zip(arbiter.i, served, strict=True):
                wiring.connect(m, fsm.store, sink)
        return loaded.o, stored.o

    def _join_dispatcher(self, m, dispatcher, fsms, loaded, stored, stop):
        """The dispatcher to the FSMs, and reports of the DMAs to both."""
        for report, sink in ((loaded, dispatcher.loaded), (stored, dispatcher.stored)):
            m.d.comb += [sink.valid.eq(report.valid), sink.p.eq(report.p)]
        for f, fsm in enumerate(fsms):
            m.d.comb += [
                dispatcher.vacant[f].eq(fsm.vacant),
                dispatcher.vacant_context[f].eq(fsm.vacant_context),
                dispatcher.vacant_result[f].eq(fsm.vacant_result),
                fsm.admit.valid.eq(dispatcher.admit[f].valid & ~stop),
                fsm.admit.p.eq(dispatcher.admit[f].p),
                fsm.job.eq(dispatcher.job),
                fsm.forget.eq(stop),
            ]
            for report, sink in ((loaded, fsm.loaded), (stored, fsm.stored)):
                m.d.comb += [
                    sink.valid.eq(report.valid & (report.p.fsm == f)),
                    sink.p.eq(report.p),
                ]

    def _join_programs(self, m, r, fsms, dispatcher):
        """Writes to `program_high` go to the program store of the FSM in `program_address`."""
        c = self._config
        place = r.program_address.value
        word = Cat(r.program_low.value.value, r.program_high.value.value)
        inside = (place.word < c.program_words) & (place.fsm < c.fsms)
        entry = data.View(program_entry_layout, word)
        is_program = (entry.length != 0) & (entry.entry + entry.length <= c.program_words)
        m.d.comb += r.program_high.refuse.eq(~inside)
        changed = Signal()  # the word that software may read
        m.d.sync += changed.eq(r.program_address.strobe | r.program_high.strobe)
        for f, fsm in enumerate(fsms):
            writes = r.program_high.strobe & (place.fsm == f)
            m.d.comb += [
                fsm.program.valid.eq(writes),
                fsm.program.p.address.eq(place.word),
                fsm.program.p.word.eq(word),
                fsm.reread.eq(changed),
                fsm.read_address.eq(place.word),
            ]
            with m.If(writes & (place.word < _TABLE_WORDS)):
                held = dispatcher.programs[f].bit_select(place.word[:4], 1)
                m.d.sync += held.eq(is_program)
        words = Array([*(fsm.read_word for fsm in fsms), *[C(0, 64)] * (16 - len(fsms))])
        shown = Mux(inside, words[place.fsm], 0)
        r.show("program_word_low", value=shown[:32])
        r.show("program_word_high", value=shown[32:])

    def _join_settings(self, m, r, dispatcher):
        """What software has written, to the dispatcher; what the engine is, to software."""
        c = self._config
        command = dispatcher.command
        m.d.comb += [command.p[name].eq(r.command.value[name]) for name in _COMMAND_FIELDS]
        m.d.comb += [
            command.p[name].eq(getattr(r, name).value.value)
            for name in ("elements", "stride", "block")
        ]
        m.d.comb += [command.p[name].eq(r.wide(name)) for name in ("source", "destination")]
        m.d.comb += [
            command.p.rank.eq(r.node.value.rank),
            command.p.nodes.eq(r.node.value.nodes),
            command.p.fsms.eq(r.fsms.value.count),
            command.p.memory_end.eq(r.wide("memory_end") + 1),
        ]
        shape = ("ports", "fsms", "contexts", "memory_ports", "bus_bytes")
        r.show("shape", **{name: getattr(c, name) for name in shape})
        r.show("slot_elements", value=c.slot_elements)

    def _watch(self, m, r, completions, ports, loaded, stored):
        """Whether nothing has happened for too long although a command is outstanding."""
        passed = Signal(32)
        stalled = Signal()
        moves = Cat(
            loaded.valid,
            stored.valid,
            *(Cat(port.received.valid, port.sent.valid) for port in ports),
        ).any()
        limit = r.watchdog.value.cycles
        with m.If(moves | (completions.outstanding == 0) | r.watchdog.strobe | (limit == 0)):
            m.d.sync += [passed.eq(0), stalled.eq(0)]
        with m.Elif(passed != limit):
            m.d.sync += passed.eq(passed + 1)
        with m.Else():
            m.d.sync += stalled.eq(1)
        return stalled

    def _halt(self, m, r, completions, fsms, ports, abort, stop):
        """Gives up all collectives, and tells the neighbours, once one of them cannot complete;
        drives *stop*. Returns whether that has happened since the last abort."""
        disagrees = Signal()
        lost = Signal()
        halted = Signal()
        causes = Signal(2)  # disagreement, lost
        found = Signal(2)
        outstanding = completions.outstanding != 0
        m.d.sync += [
            disagrees.eq(Cat(fsm.disagrees for fsm in fsms).any()),
            # A damaged header while nothing is outstanding may be nobody's.
            lost.eq(
                Cat((port.missing != 0) | (port.dropped & outstanding) for port in ports).any()
            ),
        ]
        heard = Signal(2)
        m.d.sync += heard.eq(0)
        for port in ports:
            with m.If(port.halted & ~abort):
                m.d.sync += heard.eq(port.halted_because)
        now = Signal()
        m.d.comb += [
            found.eq(Mux(heard.any(), heard, Cat(disagrees, lost))),
            now.eq(found.any() & ~halted & ~abort),
            stop.eq(abort | now),
            completions.give_up.eq(stop),
            completions.because.aborted.eq(abort),
            completions.because.disagreement.eq(~abort & found[0]),
            completions.because.lost.eq(~abort & found[1]),
        ]
        with m.If(stop):
            m.d.sync += [halted.eq(~abort), causes.eq(Mux(abort, 0, found))]
        with m.If(abort):
            m.d.sync += [disagrees.eq(0), lost.eq(0)]
        for p, port in enumerate(ports):
            m.d.comb += [
                port.halt.eq(now & r.links.value.used[p]),
                port.because.eq(found),
            ]
        r.show("status", halted=halted, disagreement=causes[0], lost=causes[1])
        return halted

    def _join_links(self, m, r, ports, abort, flush):
        """Epoch of all packets; an abort brings the links that are used into step."""
        epoch = Signal(self._config.format.epoch)
        with m.If(abort):
            m.d.sync += epoch.eq(r.control.value.epoch)
        for p, port in enumerate(ports):
            restart = Signal(name=f"restart_{p}")  # after the epoch has changed
            m.d.sync += restart.eq(abort & r.links.value.used[p])
            m.d.comb += [port.epoch.eq(epoch), port.flush.eq(flush), port.restart.eq(restart)]
        r.show("status", epoch=epoch)

    def _join_outcomes(self, m, r, dispatcher, completions, ports, stalled, halted, aborting):
        """Status, completions, refusals and interrupts."""
        given, command = r.command.strobe, dispatcher.command
        full = completions.full | ~command.ready
        turned_away = Signal()  # a command that is refused as it is written, without a record
        m.d.comb += [
            turned_away.eq(given & (aborting | halted | full)),
            command.valid.eq(given & ~turned_away),
            command.p.ticket.eq(completions.ticket),
            completions.take.eq(command.valid),
            completions.collective.eq(r.command.value.collective),
            completions.ended.valid.eq(dispatcher.ended.valid),
            completions.ended.p.eq(dispatcher.ended.p),
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
            idle=self.idle,
            outstanding=completions.outstanding,
            aborting=aborting,
            stalled=stalled,
        )
        r.record("completed", done, collective=written.p.collective)
        r.record(
            "refusal",
            refused | turned_away,
            number=refused + turned_away,
            error=Mux(
                turned_away,
                Mux(
                    halted,
                    CommandError.HALTED,
                    Mux(aborting, CommandError.ABORTING, CommandError.FULL),
                ),
                error.as_value(),
            ),
            collective=Mux(turned_away, r.command.value.collective, written.p.collective),
        )
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
                for port in ports
            ).any()
        )
        before = Signal(2)
        m.d.sync += before.eq(Cat(stalled, halted))
        enabled = r.interrupt_by(
            done=done,
            refused=refused | turned_away,
            dropped=dropped,
            memory=dispatcher.memory_error,
            failed=(written.valid & causes.as_value().any()) | (halted & ~before[1]),
            stalled=stalled & ~before[0],
        )
        m.d.sync += self.irq.eq(enabled)

    def _join_counters(self, m, r, ports, sram, alus):
        """Performance counters."""
        for p, port in enumerate(ports):
            r.count(r.damaged[p], port.dropped)
            r.count(r.unexpected[p], port.rejected)
            r.count(r.repeated[p], port.repeated)
            r.count(r.missing[p], port.missing)
            r.count(r.parked[p], port.parked)
            r.count(r.starved[p], port.starved)
            r.count(r.sent[p], port.link.tx.tvalid & port.link.tx.tready)
            r.count(r.received[p], port.link.rx.tvalid)
        refused = [port.enable & ~port.grant for port in (*sram.read, *sram.write)]
        r.count(r.bank_conflicts, sum(refused))
        r.count(r.alu_conflicts, sum(alus.contended))
