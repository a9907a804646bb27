"""The ACE engine: everything between the links, the memory and the register bus."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUPool
from hw.ace.config import AceConfig
from hw.ace.dispatcher import Dispatcher, command_layout
from hw.ace.dma import RxDMA, TxDMA
from hw.ace.forward_gate import ForwardGate
from hw.ace.layouts import loaded_layout, send_command_layout, store_job_layout, stored_layout
from hw.ace.lookup import program_write_layout
from hw.ace.phase_fsm import PhaseFSM
from hw.ace.receive_unit import ReceiveUnit
from hw.ace.registers import ENGINE_ID, INTERRUPTS, CommandError, register_map
from hw.ace.send_unit import SendUnit
from hw.ace.sram import BankedSRAM
from hw.common.arbiter import StreamArbiter
from hw.common.axi import AXI4LiteSignature
from hw.common.fifo import StreamFIFO
from hw.common.registers import RegisterFile
from hw.link.receive import ReceiveBuffer
from hw.link.transmit import TransmitPort

__all__ = ["CSR_ADDRESS_BITS", "AceEngine", "LinkSignature"]

CSR_ADDRESS_BITS = 12


class LinkSignature(wiring.Signature):
    """A link: AXI4-Stream both ways with credits, seen from the engine.

    TKEEP has one bit per 16-byte flit (a prefix), TUSER one bit per flit that is a packet header.
    ``tx_credit`` is high for one cycle for each packet slot that the other end has freed,
    ``rx_credit`` for each that this end has. A sender starts with as many credits as the receive
    buffer of the other end holds packets, so ``rx_tready`` is always high.
    """

    def __init__(self, *, flits: int) -> None:
        self._flits = flits
        beat = {"tdata": 128 * flits, "tkeep": flits, "tuser": flits, "tvalid": 1}
        members = {f"tx_{name}": Out(width) for name, width in beat.items()}
        members |= {f"rx_{name}": In(width) for name, width in beat.items()}
        members |= {
            "tx_tready": In(1),
            "rx_tready": Out(1),
            "tx_credit": In(1),
            "rx_credit": Out(1),
        }
        super().__init__(members)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._flits == self._flits

    def __repr__(self) -> str:
        return f"LinkSignature(flits={self._flits})"


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
    csr : ``In(AXI4LiteSignature)``
        Registers, see ``hw.ace.registers``.
    irq : ``Out(1)``
        An enabled interrupt is pending.
    idle : ``Out(1)``
        Nothing is queued, running or in flight; without inputs, no register changes.
    mem : ``Out(AXI4Signature).array(memory_ports)``
    link : ``Out(LinkSignature).array(ports)``
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
                "csr": In(AXI4LiteSignature(addr_width=CSR_ADDRESS_BITS)),
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
        ports = range(c.ports)
        masters = range(c.memory_ports)

        # ---- The parts.
        m.submodules.registers = registers = RegisterFile(
            register_map(c), addr_width=CSR_ADDRESS_BITS
        )
        wiring.connect(m, wiring.flipped(self.csr), registers.bus)
        abort = Signal()
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
        fsms, receivers, units, gates, senders, transmitters, loaders, storers = (
            [] for _ in range(8)
        )
        for f in range(c.fsms):
            m.submodules[f"fsm_{f}"] = fsm = PhaseFSM(c)
            fsms.append(fsm)
        for p in ports:
            m.submodules[f"receive_buffer_{p}"] = receiver = ReceiveBuffer(
                c.format, bus_bytes=c.bus_bytes, packets=c.rx_packets
            )
            m.submodules[f"receive_unit_{p}"] = unit = ReceiveUnit(c)
            m.submodules[f"forward_gate_{p}"] = gate = ForwardGate(c)
            m.submodules[f"send_unit_{p}"] = sender = SendUnit(c)
            m.submodules[f"transmit_port_{p}"] = transmitter = TransmitPort(
                c.format, bus_bytes=c.bus_bytes, packets=c.tx_packets, credits=c.rx_packets
            )
            receivers.append(receiver)
            units.append(unit)
            gates.append(gate)
            senders.append(sender)
            transmitters.append(transmitter)
        for n in masters:
            m.submodules[f"tx_dma_{n}"] = loader = TxDMA(c)
            m.submodules[f"rx_dma_{n}"] = storer = RxDMA(c)
            loaders.append(loader)
            storers.append(storer)

        # ---- Links, receive path, transmit path.
        for p, (link, receiver, unit, gate, sender, transmitter) in enumerate(
            zip(self.link, receivers, units, gates, senders, transmitters, strict=True)
        ):
            m.d.comb += [
                receiver.rx.valid.eq(link.rx_tvalid),
                receiver.rx.p.data.eq(link.rx_tdata),
                receiver.rx.p.keep.eq(link.rx_tkeep),
                receiver.rx.p.start.eq(link.rx_tuser),
                link.rx_tready.eq(receiver.rx.ready),
                link.rx_credit.eq(receiver.credit),
                link.tx_tvalid.eq(transmitter.tx.valid),
                link.tx_tdata.eq(transmitter.tx.p.data),
                link.tx_tkeep.eq(transmitter.tx.p.keep),
                link.tx_tuser.eq(transmitter.tx.p.start),
                transmitter.tx.ready.eq(link.tx_tready),
                transmitter.credit.eq(link.tx_credit),
                unit.node.eq(registers.node.value.rank),
                sender.node.eq(registers.node.value.rank),
            ]
            wiring.connect(m, receiver.header, unit.header)
            wiring.connect(m, unit.payload, receiver.payload)
            wiring.connect(m, unit.alu, alus.client[p])
            wiring.connect(m, gate.queue, transmitter.queue[0])
            wiring.connect(m, sender.queue, transmitter.queue[1])
            wiring.connect(m, unit.operand, sram.read[p])
            wiring.connect(m, sender.read, sram.read[c.ports + p])
            wiring.connect(m, unit.store, sram.write[p])
            for q, other in enumerate(gates):
                wiring.connect(m, unit.forward[q], other.client[p])

        # ---- Receive and send units to FSMs: each message names its FSM.
        def to_fsm(source, sinks):
            """Connect *source* to the sink of the FSM that its payload names."""
            for f, sink in enumerate(sinks):
                m.d.comb += [
                    sink.p.eq(source.p),
                    sink.valid.eq(source.valid & (source.p.queue == f)),
                ]
                with m.If(source.p.queue == f):
                    m.d.comb += source.ready.eq(sink.ready)

        for p in ports:
            to_fsm(units[p].lookup, [fsm.lookup[p] for fsm in fsms])
            to_fsm(units[p].event, [fsm.event[p] for fsm in fsms])
            to_fsm(senders[p].event, [fsm.event[c.ports + p] for fsm in fsms])
            to_fsm(units[p].ready, [fsm.ready[p] for fsm in fsms])
            # An answer follows its question by a fixed time, so only one FSM answers a port in a
            # cycle.
            for fsm in fsms:
                with m.If(fsm.resolved[p].valid):
                    m.d.comb += [
                        units[p].resolved.valid.eq(1),
                        units[p].resolved.p.eq(fsm.resolved[p].p),
                    ]

        # ---- Send commands: each names its port.
        for p in ports:
            m.submodules[f"send_arbiter_{p}"] = arbiter = StreamArbiter(
                send_command_layout(c), c.fsms
            )
            wiring.connect(m, arbiter.o, senders[p].command)
            for f, fsm in enumerate(fsms):
                m.d.comb += [
                    arbiter.i[f].p.eq(fsm.send.p),
                    arbiter.i[f].p.queue.eq(f),
                    arbiter.i[f].valid.eq(fsm.send.valid & (fsm.send.p.port == p)),
                ]
                with m.If(fsm.send.p.port == p):
                    m.d.comb += fsm.send.ready.eq(arbiter.i[f].ready)

        # ---- DMAs.
        m.submodules.loaded = loaded = StreamArbiter(loaded_layout(c), c.memory_ports)
        m.submodules.stored = stored = StreamArbiter(stored_layout(c), c.memory_ports)
        m.d.comb += [loaded.o.ready.eq(1), stored.o.ready.eq(1)]
        for n in masters:
            wiring.connect(m, loaders[n].loaded, loaded.i[n])
            wiring.connect(m, storers[n].stored, stored.i[n])
            wiring.connect(m, loaders[n].write, sram.write[c.ports + n])
            wiring.connect(m, storers[n].read, sram.read[2 * c.ports + n])
            m.submodules[f"load_jobs_{n}"] = jobs = StreamFIFO(dispatcher.load[n].p.shape(), 2)
            wiring.connect(m, dispatcher.load[n], jobs.i)
            wiring.connect(m, jobs.o, loaders[n].job)
            served = [f for f in range(c.fsms) if f % c.memory_ports == n]
            m.submodules[f"store_arbiter_{n}"] = arbiter = StreamArbiter(
                store_job_layout(c), len(served)
            )
            wiring.connect(m, arbiter.o, storers[n].job)
            for sink, f in zip(arbiter.i, served, strict=True):
                wiring.connect(m, fsms[f].store, sink)
            wiring.connect(m, loaders[n].bus, wiring.flipped(self.mem[n].read))
            wiring.connect(m, storers[n].bus, wiring.flipped(self.mem[n].write))

        # ---- Dispatcher.
        m.d.comb += [
            dispatcher.rank.eq(registers.node.value.rank),
            dispatcher.nodes.eq(registers.node.value.nodes),
            dispatcher.queues.eq(registers.queues.value.count),
            dispatcher.memory_end.eq(
                Cat(registers.memory_end_low.value, registers.memory_end_high.value) + 1
            ),
            dispatcher.loaded.valid.eq(loaded.o.valid),
            dispatcher.loaded.p.eq(loaded.o.p),
            dispatcher.stored.valid.eq(stored.o.valid),
            dispatcher.stored.p.eq(stored.o.p),
        ]
        load_instruction = Signal(program_write_layout(c))
        instruction_fsm = Signal(4)
        word = registers.program_address.value.word
        for f, fsm in enumerate(fsms):
            m.d.comb += [
                dispatcher.vacant[f].eq(fsm.vacant),
                dispatcher.vacant_slot[f].eq(fsm.vacant_slot),
                dispatcher.vacant_result[f].eq(fsm.vacant_result),
                fsm.admit.valid.eq(dispatcher.admit[f].valid & ~abort),
                fsm.admit.p.eq(dispatcher.admit[f].p),
                fsm.job.eq(dispatcher.job),
                fsm.loaded.valid.eq(loaded.o.valid & (loaded.o.p.queue == f)),
                fsm.loaded.p.eq(loaded.o.p),
                fsm.stored.valid.eq(stored.o.valid & (stored.o.p.queue == f)),
                fsm.stored.p.eq(stored.o.p),
                fsm.program.valid.eq(registers.program_high.strobe & (instruction_fsm == f)),
                fsm.program.p.eq(load_instruction),
                fsm.abort.eq(abort),
            ]
        m.d.comb += [
            abort.eq(registers.control.strobe & registers.control.value.abort),
            instruction_fsm.eq(registers.program_address.value.fsm),
            load_instruction.address.eq(word),
            load_instruction.word.eq(
                Cat(registers.program_low.value.value, registers.program_high.value.value)
            ),
        ]

        # ---- Commands and status.
        command = Signal(command_layout(c))
        start = registers.command
        full = Signal()
        m.d.comb += [
            command.collective.eq(start.value.collective),
            command.program.eq(start.value.program),
            command.op.eq(start.value.op),
            command.load_all.eq(start.value.load_all),
            command.store_all.eq(start.value.store_all),
            command.load_to_result.eq(start.value.load_to_result),
            command.source.eq(Cat(registers.source_low.value, registers.source_high.value)),
            command.destination.eq(
                Cat(registers.destination_low.value, registers.destination_high.value)
            ),
            command.elements.eq(registers.elements.value.value),
            command.stride.eq(registers.stride.value.value),
            command.block.eq(registers.block.value.value),
            dispatcher.command.valid.eq(start.strobe),
            dispatcher.command.p.eq(command),
            full.eq(start.strobe & ~dispatcher.command.ready),
            registers.identity.value.engine.eq(ENGINE_ID),
            registers.identity.value.version.eq(1),
            registers.shape.value.ports.eq(c.ports),
            registers.shape.value.fsms.eq(c.fsms),
            registers.shape.value.contexts.eq(c.contexts),
            registers.shape.value.memory_ports.eq(c.memory_ports),
            registers.shape.value.bus_bytes.eq(c.bus_bytes),
            registers.slot_elements.value.value.eq(c.slot_elements),
            registers.status.value.idle.eq(self.idle),
            registers.status.value.outstanding.eq(dispatcher.outstanding),
        ]
        with m.If(dispatcher.completed):
            m.d.sync += [
                registers.completed.value.count.eq(registers.completed.value.count + 1),
                registers.completed.value.collective.eq(dispatcher.completed_collective),
            ]
        with m.If(dispatcher.refused | full):
            m.d.sync += [
                registers.refusal.value.error.eq(
                    Mux(full, CommandError.FULL, dispatcher.refusal.as_value())
                ),
                registers.refusal.value.collective.eq(
                    Mux(full, command.collective, dispatcher.refused_collective)
                ),
                registers.refusal.value.count.eq(registers.refusal.value.count + 1),
            ]
        dropped = Cat(r.dropped for r in receivers).any() | Cat(u.rejected for u in units).any()
        causes = {
            "done": dispatcher.completed,
            "refused": dispatcher.refused | full,
            "dropped": dropped,
            "memory": dispatcher.memory_error,
            "fault": registers.fault,
        }
        for name in INTERRUPTS:
            m.d.comb += registers.interrupt.set[name].eq(causes[name])
        m.d.sync += self.irq.eq(
            (
                registers.interrupt.value.as_value() & registers.interrupt_enable.value.as_value()
            ).any()
        )

        # ---- Performance counters.
        def count(register, event):
            value = register.value.as_value()
            m.d.sync += value.eq(value + event)

        for p in ports:
            count(registers.damaged[p], receivers[p].dropped)
            count(registers.unexpected[p], units[p].rejected)
            count(registers.parked[p], units[p].parked)
            count(registers.starved[p], transmitters[p].starved)
            count(registers.sent[p], self.link[p].tx_tvalid & self.link[p].tx_tready)
            count(registers.received[p], self.link[p].rx_tvalid)
        refused = [port.enable & ~port.grant for port in (*sram.read, *sram.write)]
        count(registers.bank_conflicts, sum(refused))
        count(registers.alu_conflicts, sum(alus.contended))

        # ---- Idle: quiet for long enough that no pulse is on its way to a register.
        quiet = Signal()
        quiet_before = Signal(4)
        parts = (*receivers, *units, *senders, *transmitters, *loaders, *storers)
        m.d.comb += [
            quiet.eq(
                (dispatcher.outstanding == 0)
                & Cat(part.idle for part in parts).all()
                & ~Cat(fsm.busy for fsm in fsms).any()
                & ~start.strobe
            ),
            self.idle.eq(quiet & quiet_before.all()),
        ]
        m.d.sync += quiet_before.eq(Cat(quiet, quiet_before))
        return m
