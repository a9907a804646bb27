# SPDX-License-Identifier: Apache-2.0
"""The ACE engine: everything between the links, the memory and the register bus."""

from amaranth.hdl import Cat, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.command_arbiter import CommandArbiter
from hw.ace.config import AceConfig
from hw.ace.control import EngineControl
from hw.ace.data_path import DataPath
from hw.ace.dispatcher import Dispatcher
from hw.ace.dma import MemoryPort
from hw.ace.layouts import loaded_layout, stored_layout
from hw.ace.partitions import PartitionChain
from hw.ace.phase_fsm import PhaseFSM
from hw.ace.port import LinkSignature
from hw.common.arbiter import StreamArbiter
from hw.common.demux import ValidDecoder
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
        dispatcher = Dispatcher(c)
        m.submodules.data_path = path = DataPath(c)
        fsms = [PhaseFSM(c) for _ in range(c.fsms)]
        memory = [
            MemoryPort(c, stores=1 if c.phased else len(fsms[n :: c.memory_ports]))
            for n in range(c.memory_ports)
        ]
        for name, parts in (("fsm", fsms), ("memory_port", memory)):
            for n, part in enumerate(parts):
                m.submodules[f"{name}_{n}"] = part
        chains = []
        if c.phased:
            m.submodules.partitions = chain = PartitionChain(c)
            chains = [chain]
            jobs = [[each] for each in chain.store]
        else:
            jobs = [[fsm.store for fsm in fsms[n :: len(memory)]] for n in range(len(memory))]
        # Parts far from each other: what they say meets behind registers.
        quiet = (
            *(part.idle for part in (path, *memory)), *(~part.busy for part in (*fsms, *chains)),
        )
        control = EngineControl(c, retry=self._retry, parts=len(quiet))
        m.submodules.control = control
        m.submodules.dispatcher = ResetInserter(control.stop)(dispatcher)

        self._join_messages(m, fsms, path)
        self._join_commands(m, fsms, path)
        loaded, stored = self._join_memory(m, dispatcher, memory, jobs, path)
        self._join_dispatcher(m, dispatcher, fsms, loaded, stored, control.stop, chains)
        self._join_control(m, control, dispatcher, fsms, path)
        m.d.comb += [
            control.quiet.eq(Cat(quiet)),
            control.moves.eq(path.moves | loaded.valid | stored.valid),
        ]
        return m

    def _join_control(self, m, control, dispatcher, fsms, path):
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
        if self.config.phased:
            m.d.comb += [to.eq(limit) for to, limit in zip(dispatcher.limits, control.limits)]
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
        for seen, port, link, wires in zip(
            control.port, path.control, path.link, self.link, strict=True
        ):
            wiring.connect(m, seen, port)
            wiring.connect(m, link, wiring.flipped(wires))
        m.d.comb += [
            path.rank.eq(control.rank),
            path.epoch.eq(control.epoch),
            path.flush.eq(control.flush),
            path.because.eq(control.because),
            control.bank_conflicts.eq(path.bank_conflicts),
            control.alu_conflicts.eq(path.alu_conflicts),
        ]

    def _join_messages(self, m, fsms, path):
        """Receive units, send units and the copy unit to FSMs: each message names its FSM."""

        def to_fsm(source, sinks, valid):
            for sink, for_it in zip(sinks, valid, strict=True):
                m.d.comb += sink.valid.eq(for_it)
                m.d.comb += [
                    sink.p[name].eq(source.p[name]) for name in sink.p.shape().members
                ]
            # Only who is asked is ready.
            m.d.comb += source.ready.eq(Cat(sink.ready for sink in sinks).any())

        def events(name, source, sinks):
            m.submodules[name] = decoder = ValidDecoder(len(sinks))
            m.d.comb += [decoder.valid.eq(source.valid), decoder.number.eq(source.p.fsm)]
            to_fsm(source, sinks, decoder.offered)

        for p, resolved in enumerate(path.resolved):
            for source, sinks in (
                (path.lookup[p], [fsm.lookup[p] for fsm in fsms]),
                (path.ready[p], [fsm.ready[p] for fsm in fsms]),
            ):
                to_fsm(source, sinks, source.p.fsm)
            events(f"received_{p}", path.received[p], [fsm.event[p] for fsm in fsms])
            # A response follows its request by a fixed time, so only one FSM responds to a port in
            # a cycle.
            for fsm in fsms:
                with m.If(fsm.resolved[p].valid):
                    m.d.comb += [resolved.valid.eq(1), resolved.p.eq(fsm.resolved[p].p)]
        for t, sent in enumerate(path.sent):
            events(f"sent_{t}", sent, [fsm.event[len(path.received) + t] for fsm in fsms])

    def _join_commands(self, m, fsms, path):
        """Send commands of FSMs to ports, and to the copy unit: each names its port."""
        m.submodules.send_arbiter = arbiter = CommandArbiter(self.config)
        for f, fsm in enumerate(fsms):
            m.d.comb += [
                arbiter.i[f].eq(fsm.send.p),
                arbiter.to[f].eq(fsm.to),
                fsm.room.eq(arbiter.room[f]),
            ]
        for command, sink in zip(arbiter.o, path.command, strict=True):
            wiring.connect(m, command, sink)

    def _join_memory(self, m, dispatcher, memory, jobs, path):
        """Memory ports to memory, SRAM, loads of the dispatcher and stores, the *jobs* for each;
        the streams of their reports."""
        c = self.config
        m.submodules.loaded = loaded = StreamArbiter(
            loaded_layout(c), c.memory_ports, always_ready=True
        )
        m.submodules.stored = stored = StreamArbiter(
            stored_layout(c), c.memory_ports, always_ready=True
        )
        for n, port in enumerate(memory):
            wiring.connect(m, dispatcher.load[n], port.load)
            wiring.connect(m, port.loaded, loaded.i[n])
            wiring.connect(m, port.stored, stored.i[n])
            wiring.connect(m, port.write, path.write[n])
            wiring.connect(m, port.read, path.read[n])
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
            self._join_slots(m, dispatcher, fsms, stored)

    def _reported(self, sink, report, fsm):
        return [sink.valid.eq(report.valid & (report.p.fsm == fsm)), sink.p.eq(report.p)]

    def _join_slots(self, m, dispatcher, fsms, stored):
        """Chunks that keep their slot: from the dispatcher, to the RX DMAs."""
        for f, fsm in enumerate(fsms):
            wiring.connect(m, dispatcher.admit[f], fsm.admit)
            m.d.comb += [
                dispatcher.vacant[f].eq(fsm.vacant),
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
