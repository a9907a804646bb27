"""The ACE engine: everything between the links, the memory and the register bus."""

from amaranth.hdl import Cat, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUPool
from hw.ace.command_arbiter import CommandArbiter
from hw.ace.config import AceConfig
from hw.ace.control import EngineControl
from hw.ace.copy_unit import CopyUnit
from hw.ace.dispatcher import Dispatcher
from hw.ace.dma import MemoryPort
from hw.ace.layouts import loaded_layout, stored_layout
from hw.ace.partitions import PartitionChain
from hw.ace.phase_fsm import PhaseFSM
from hw.ace.port import LinkSignature, Port
from hw.ace.sram import BankedSRAM
from hw.common.arbiter import StreamArbiter
from hw.common.engine import Engine
from hw.link.retry_registers import LINK_STATUS

__all__ = ["AceEngine"]


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
    retry : bool
        Whether the links have retry, of which there are registers then; set by
        `hw.ace.retry.RetryAce`.

    Members
    -------
    csr : ``In(CSR_SIGNATURE)``
        Registers, see ``hw.ace.registers``.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    idle : ``Out(1)``
        Nothing is queued, running or in flight; without inputs, no register changes.
    mem : ``Out(AXI4Signature).array(memory_ports)``
        Memory.
    link : ``Out(LinkSignature).array(ports)``
        Links to the neighbours.
    status : ``In(LINK_STATUS).array(ports)``, only with *retry*
        State of each link with retry.

    Raises
    ------
    TypeError
        If *config* is not an `AceConfig`.
    """

    config: AceConfig
    link: list
    status: list

    def __init__(self, config: AceConfig, *, retry: bool = False) -> None:
        if not isinstance(config, AceConfig):
            raise TypeError(f"config must be an AceConfig, not {config!r}")
        if not isinstance(retry, bool):
            raise TypeError(f"retry must be True or False, not {retry!r}")
        c = config
        link = Out(LinkSignature(flits=c.flits)).array(c.ports)
        status = {"status": In(LINK_STATUS).array(c.ports)} if retry else {}
        self._retry = retry
        super().__init__(c, masters=c.memory_ports, link=link, **status)

    def elaborate(self, platform):
        m = Module()
        c = self.config
        m.submodules.control = control = EngineControl(c, retry=self._retry)
        dispatcher = Dispatcher(c)
        m.submodules.dispatcher = ResetInserter(control.stop)(dispatcher)
        m.submodules.alus = alus = ALUPool(c)
        m.submodules.sram = sram = BankedSRAM(
            depth=c.sram_beats,
            width=8 * c.bus_bytes,
            banks=c.banks,
            interleave=c.group_banks,
            bank_ports=c.bank_ports,
            readers=c.ports + c.targets + c.memory_ports,
            writers=c.targets + c.memory_ports,
        )
        fsms = [PhaseFSM(c) for _ in range(c.fsms)]
        ports = [Port(c) for _ in range(c.ports)]
        memory = [
            MemoryPort(c, stores=1 if c.phased else len(fsms[n :: c.memory_ports]))
            for n in range(c.memory_ports)
        ]
        for name, parts in (("fsm", fsms), ("link_port", ports), ("memory_port", memory)):
            for n, part in enumerate(parts):
                m.submodules[f"{name}_{n}"] = part

        self._join_ports(m, ports, alus, sram)
        self._join_messages(m, fsms, ports)
        copiers, chains = [], []
        if c.phased:
            m.submodules.copy_unit = copier = CopyUnit(c)
            m.submodules.partitions = chain = PartitionChain(c)
            copiers, chains = [copier], [chain]
            self._join_copies(m, copier, fsms, sram)
        self._join_commands(m, fsms, [*ports, *copiers])
        if c.phased:
            jobs = [[each] for each in chains[0].store]
        else:
            jobs = [[fsm.store for fsm in fsms[n :: len(memory)]] for n in range(len(memory))]
        loaded, stored = self._join_memory(m, dispatcher, memory, jobs, sram)
        self._join_dispatcher(m, dispatcher, fsms, loaded, stored, control.stop, chains)
        self._join_control(m, control, dispatcher, fsms, ports)
        refused = [port.enable & ~port.grant for port in (*sram.read, *sram.write)]
        quiet = Cat(part.idle for part in (*ports, *copiers, *memory)).all()
        busy = Cat(part.busy for part in (*fsms, *chains)).any()
        m.d.comb += [
            control.bank_conflicts.eq(sum(refused)),
            control.alu_conflicts.eq(sum(alus.contended)),
            control.quiet.eq(quiet & ~busy),
            control.moves.eq(
                Cat(
                    loaded.valid,
                    stored.valid,
                    *(Cat(port.received.valid, port.sent.valid) for port in ports),
                    *(copier.event.valid for copier in copiers),
                ).any()
            ),
        ]
        return m

    def _join_control(self, m, control, dispatcher, fsms, ports):
        """Software's side of the engine to the parts that do the work."""
        wiring.connect(m, wiring.flipped(self.csr), control.csr)
        wiring.connect(m, control.command, dispatcher.command)
        wiring.connect(m, dispatcher.ended, control.ended)
        m.d.comb += [
            self.irq.eq(control.irq),
            self.idle.eq(control.idle),
            control.memory_error.eq(dispatcher.memory_error),
            control.disagrees.eq(Cat(fsm.disagrees for fsm in fsms).any()),
        ]
        if self._retry:
            m.d.comb += [inner.eq(outer) for inner, outer in zip(control.status, self.status)]
        for f, fsm in enumerate(fsms):
            m.d.comb += [
                dispatcher.programs[f].eq(control.programs[f]),
                fsm.program.valid.eq(control.program_writes[f]),
                fsm.program.p.eq(control.program),
                fsm.reread.eq(control.reread),
                fsm.read_address.eq(control.program.address),
                control.program_words[f].eq(fsm.read_word),
                fsm.inspect.eq(control.inspect),
                control.inspected[f].eq(fsm.inspected),
            ]
        for port, seen in zip(ports, control.port, strict=True):
            m.d.comb += [
                port.node.eq(control.rank),
                port.epoch.eq(control.epoch),
                port.flush.eq(control.flush),
                port.because.eq(control.because),
                port.restart.eq(seen.restart),
                port.halt.eq(seen.halt),
                seen.halted.eq(port.halted),
                seen.because.eq(port.halted_because),
                seen.sent.eq(port.link.tx.tvalid & port.link.tx.tready),
                seen.received.eq(port.link.rx.tvalid),
            ]
            for event in ("dropped", "rejected", "repeated", "missing", "parked", "starved"):
                m.d.comb += getattr(seen, event).eq(getattr(port, event))

    def _join_ports(self, m, ports, alus, sram):
        """Ports to links, ALUs, SRAM and each other."""
        for p, port in enumerate(ports):
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

    def _join_copies(self, m, copier, fsms, sram):
        """The copy unit, behind the ports, to the SRAM and the FSMs."""
        wiring.connect(m, copier.read, sram.read[-1])
        wiring.connect(m, copier.write, sram.write[-1])
        event = copier.event
        for f, fsm in enumerate(fsms):
            sink = fsm.event[-1]
            m.d.comb += [sink.p.eq(event.p), sink.valid.eq(event.valid & (event.p.fsm == f))]
            with m.If(event.p.fsm == f):
                m.d.comb += event.ready.eq(sink.ready)

    def _join_commands(self, m, fsms, ports):
        """Send commands of FSMs to ports, and to the copy unit: each names its port."""
        m.submodules.send_arbiter = arbiter = CommandArbiter(self.config)
        for command, room, fsm in zip(arbiter.i, arbiter.room, fsms, strict=True):
            wiring.connect(m, fsm.send, command)
            m.d.comb += fsm.room.eq(room)
        for command, port in zip(arbiter.o, ports, strict=True):
            wiring.connect(m, command, port.command)

    def _join_memory(self, m, dispatcher, memory, jobs, sram):
        """Memory ports to memory, SRAM, loads of the dispatcher and stores, the *jobs* for each;
        the streams of their reports."""
        c = self.config
        m.submodules.loaded = loaded = StreamArbiter(loaded_layout(c), c.memory_ports)
        m.submodules.stored = stored = StreamArbiter(stored_layout(c), c.memory_ports)
        m.d.comb += [loaded.o.ready.eq(1), stored.o.ready.eq(1)]
        for n, port in enumerate(memory):
            wiring.connect(m, dispatcher.load[n], port.load)
            wiring.connect(m, port.loaded, loaded.i[n])
            wiring.connect(m, port.stored, stored.i[n])
            wiring.connect(m, port.write, sram.write[c.ports + n])
            wiring.connect(m, port.read, sram.read[2 * c.ports + n])
            wiring.connect(m, port.bus, wiring.flipped(self.mem[n]))
            for job, sink in zip(jobs[n], port.job, strict=True):
                wiring.connect(m, job, sink)
        return loaded.o, stored.o

    def _join_dispatcher(self, m, dispatcher, fsms, loaded, stored, stop, chains):
        """The dispatcher to the FSMs, and reports of the DMAs to both; with partitions by phase
        through the chain that hands chunks over."""
        for report, sink in ((loaded, dispatcher.loaded), (stored, dispatcher.stored)):
            m.d.comb += [sink.valid.eq(report.valid), sink.p.eq(report.p)]
        for f, fsm in enumerate(fsms):
            m.d.comb += [fsm.forget.eq(stop), *self._reported(fsm.loaded, loaded, f)]
        for f, fsm in enumerate(fsms[: len(dispatcher.admit)]):
            m.d.comb += dispatcher.vacant_context[f].eq(fsm.vacant_context)
        for chain in chains:
            self._join_chain(m, chain, dispatcher, fsms, stored, stop)
        if not chains:
            self._join_slots(m, dispatcher, fsms, stored, stop)

    def _reported(self, sink, report, fsm):
        return [sink.valid.eq(report.valid & (report.p.fsm == fsm)), sink.p.eq(report.p)]

    def _join_slots(self, m, dispatcher, fsms, stored, stop):
        """Chunks that keep their slot: from the dispatcher, to the RX DMAs."""
        for f, fsm in enumerate(fsms):
            m.d.comb += [
                dispatcher.vacant[f].eq(fsm.vacant),
                fsm.admit.valid.eq(dispatcher.admit[f].valid & ~stop),
                fsm.admit.p.eq(dispatcher.admit[f].p),
                fsm.job.eq(dispatcher.job),
                *self._reported(fsm.stored, stored, f),
            ]

    def _join_chain(self, m, chain, dispatcher, fsms, stored, stop):
        """Chunks from the dispatcher and from phase to phase."""
        for f, fsm in enumerate(fsms):
            wiring.connect(m, chain.stage[f], fsm.stage)
            wiring.connect(m, chain.admit[f], fsm.admit)
        for f, (admit, entered) in enumerate(zip(dispatcher.admit, chain.dispatched)):
            wiring.connect(m, admit, entered)
            m.d.comb += dispatcher.vacant[f].eq(fsms[f].vacant & chain.room)
        m.d.comb += [
            chain.job.eq(dispatcher.job),
            chain.first.eq(dispatcher.first),
            chain.forget.eq(stop),
            chain.stored.valid.eq(stored.valid),
            chain.stored.p.eq(stored.p),
        ]
