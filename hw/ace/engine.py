"""The ACE engine: everything between the links, the memory and the register bus."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUPool
from hw.ace.config import AceConfig
from hw.ace.dispatcher import Dispatcher
from hw.ace.dma import RxDMA, TxDMA
from hw.ace.layouts import loaded_layout, send_command_layout, store_job_layout, stored_layout
from hw.ace.phase_fsm import PhaseFSM
from hw.ace.port import LinkSignature, Port
from hw.ace.registers import ENGINE_ID, CommandError, register_map
from hw.ace.sram import BankedSRAM
from hw.common.arbiter import StreamArbiter
from hw.common.engine_registers import CSR_SIGNATURE, EngineRegisters
from hw.common.fifo import StreamFIFO
from hw.common.idle import IdleDetector

__all__ = ["AceEngine"]

_IDLE_CYCLES = 4
_COMMAND_FIELDS = ("collective", "program", "op", "load_all", "store_all", "load_to_result")
"""Fields of the register `command`."""


class AceEngine(wiring.Component):
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

    csr: wiring.PureInterface
    irq: Signal
    idle: Signal
    mem: list
    link: list

    def __init__(self, config: AceConfig) -> None:
        if not isinstance(config, AceConfig):
            raise TypeError(f"config must be an AceConfig, not {config!r}")
        c = self._config = config
        super().__init__(
            {
                "csr": In(CSR_SIGNATURE),
                "irq": Out(1),
                "idle": Out(1),
                "mem": Out(c.memory_bus).array(c.memory_ports),
                "link": Out(LinkSignature(flits=c.flits)).array(c.ports),
            }
        )

    @property
    def config(self) -> AceConfig:
        """What was built."""
        return self._config

    def elaborate(self, platform):
        m = Module()
        c = self._config
        registers = EngineRegisters(m, register_map(c), engine=ENGINE_ID, csr=self.csr)
        abort = Signal()
        m.d.comb += abort.eq(registers.control.strobe & registers.control.value.abort)
        dispatcher = Dispatcher(c)
        m.submodules.dispatcher = ResetInserter(abort)(dispatcher)
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
            ("port", ports),
            ("tx_dma", loaders),
            ("rx_dma", storers),
        ):
            for n, part in enumerate(parts):
                m.submodules[f"{name}_{n}"] = part

        self._join_ports(m, ports, alus, sram, registers.node.value.rank)
        self._join_messages(m, fsms, ports)
        self._join_commands(m, fsms, ports)
        loaded, stored = self._join_memory(m, dispatcher, fsms, loaders, storers, sram)
        self._join_dispatcher(m, dispatcher, fsms, loaded, stored, abort)
        self._join_programs(m, registers, fsms)
        self._join_settings(m, registers, dispatcher)
        self._join_outcomes(m, registers, dispatcher, ports)
        self._join_counters(m, registers, ports, sram, alus)

        # Quiet for long enough that no pulse is on its way to a register.
        m.submodules.idle_detector = detector = IdleDetector(_IDLE_CYCLES)
        idle = Cat(part.idle for part in (*ports, *loaders, *storers)).all()
        busy = Cat(fsm.busy for fsm in fsms).any()
        waiting = (dispatcher.outstanding != 0) | registers.command.strobe
        m.d.comb += [detector.quiet.eq(idle & ~busy & ~waiting), self.idle.eq(detector.idle)]
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

    def _join_dispatcher(self, m, dispatcher, fsms, loaded, stored, abort):
        """The dispatcher to the FSMs, and reports of the DMAs to both."""
        for report, sink in ((loaded, dispatcher.loaded), (stored, dispatcher.stored)):
            m.d.comb += [sink.valid.eq(report.valid), sink.p.eq(report.p)]
        for f, fsm in enumerate(fsms):
            m.d.comb += [
                dispatcher.vacant[f].eq(fsm.vacant),
                dispatcher.vacant_context[f].eq(fsm.vacant_context),
                dispatcher.vacant_result[f].eq(fsm.vacant_result),
                fsm.admit.valid.eq(dispatcher.admit[f].valid & ~abort),
                fsm.admit.p.eq(dispatcher.admit[f].p),
                fsm.job.eq(dispatcher.job),
                fsm.abort.eq(abort),
            ]
            for report, sink in ((loaded, fsm.loaded), (stored, fsm.stored)):
                m.d.comb += [
                    sink.valid.eq(report.valid & (report.p.fsm == f)),
                    sink.p.eq(report.p),
                ]

    def _join_programs(self, m, r, fsms):
        """Writes to `program_high` go to the program store of the FSM in `program_address`."""
        place = r.program_address.value
        for f, fsm in enumerate(fsms):
            m.d.comb += [
                fsm.program.valid.eq(r.program_high.strobe & (place.fsm == f)),
                fsm.program.p.address.eq(place.word),
                fsm.program.p.word.eq(Cat(r.program_low.value.value, r.program_high.value.value)),
            ]

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
            command.valid.eq(r.command.strobe),
            dispatcher.rank.eq(r.node.value.rank),
            dispatcher.nodes.eq(r.node.value.nodes),
            dispatcher.fsms.eq(r.fsms.value.count),
            dispatcher.memory_end.eq(r.wide("memory_end") + 1),
        ]
        shape = ("ports", "fsms", "contexts", "memory_ports", "bus_bytes")
        r.show("shape", **{name: getattr(c, name) for name in shape})
        r.show("slot_elements", value=c.slot_elements)

    def _join_outcomes(self, m, r, dispatcher, ports):
        """Status, completions, refusals and interrupts."""
        full = Signal()
        refused = dispatcher.refused | full
        m.d.comb += full.eq(dispatcher.command.valid & ~dispatcher.command.ready)
        r.show("status", idle=self.idle, outstanding=dispatcher.outstanding)
        r.record("completed", dispatcher.completed, collective=dispatcher.completed_collective)
        r.record(
            "refusal",
            refused,
            error=Mux(full, CommandError.FULL, dispatcher.refusal.as_value()),
            collective=Mux(full, r.command.value.collective, dispatcher.refused_collective),
        )
        enabled = r.interrupt_by(
            done=dispatcher.completed,
            refused=refused,
            dropped=Cat(Cat(port.dropped, port.rejected) for port in ports).any(),
            memory=dispatcher.memory_error,
        )
        m.d.sync += self.irq.eq(enabled)

    def _join_counters(self, m, r, ports, sram, alus):
        """Performance counters."""
        for p, port in enumerate(ports):
            r.count(r.damaged[p], port.dropped)
            r.count(r.unexpected[p], port.rejected)
            r.count(r.parked[p], port.parked)
            r.count(r.starved[p], port.starved)
            r.count(r.sent[p], port.link.tx.tvalid & port.link.tx.tready)
            r.count(r.received[p], port.link.rx.tvalid)
        refused = [port.enable & ~port.grant for port in (*sram.read, *sram.write)]
        r.count(r.bank_conflicts, sum(refused))
        r.count(r.alu_conflicts, sum(alus.contended))
