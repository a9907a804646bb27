"""The programmable FSM: program store, contexts, and what drives chunks through them."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.isa import INSTRUCTION_BITS, instruction_layout, program_entry_layout
from hw.ace.layouts import (
    admit_layout,
    context_key_layout,
    event_layout,
    loaded_layout,
    lookup_layout,
    ready_layout,
    resolved_layout,
    send_command_layout,
    store_job_layout,
    stored_layout,
)
from hw.common.arbiter import RoundRobinArbiter, StreamArbiter
from hw.common.fifo import StreamFIFO
from hw.common.sram import SRAMBank

__all__ = ["LOOKUP_LATENCY", "PhaseFSM", "program_write_layout"]

# Cycles from an accepted lookup to its answer: arbiter, context row, instruction, products, answer.
LOOKUP_LATENCY = 5


def program_write_layout(c: AceConfig) -> data.StructLayout:
    """One instruction for a program store."""
    return data.StructLayout({"address": range(c.program_words), "word": INSTRUCTION_BITS})


class _Source(enum.Enum, shape=2):
    """What the send generator is working on."""

    READY = 0
    PARKED = 1
    FRESH = 2


class PhaseFSM(wiring.Component):
    """One of the FSMs of ACE (ISCA 2021, section 4.3): a program store, and contexts for several
    chunks at a time.

    A chunk lives here from its admission to the moment its result is in memory:

    1. *Admit*: the dispatcher hands over a context; the table entry of its program sets how many
       blocks must arrive and be sent.
    2. *Loaded*: its data is in the source slot. READY goes to every peer that sends to it: from now
       on packets may come.
    3. *Packets* are looked up by the receive units (``lookup``, ``resolved``): context and
       instruction give addresses and what to do. Anything that the program does not expect is
       refused.
    4. *Sends*: the instructions that start by themselves are turned into send commands in order,
       one packet at a time; so are packets that a receive unit had to park. A packet whose peer is
       not ready is passed over, never waited for: the FSM turns to its next context. READY goes
       first, then parked and fresh packets in turn.
    5. *Complete*: every block has arrived and left. The source slot is free for the next chunk, the
       result slot goes to the RX DMA.

    READY packets of peers that are ahead of this node wait in a table with one row for each context
    of each peer, so they always find room.

    Members
    -------
    program : ``In(stream)``
        Writes to the program store.
    vacant : ``Out(1)``, vacant_slot, vacant_result
        There is a free context and result slot, and which.
    admit, loaded, stored : ``In(stream)``
        A chunk arrives; its load is done; its result is in memory.
    store : ``Out(stream)``, job : ``In``
        Job for the RX DMA; ``job`` is sampled with ``admit``.
    lookup : ``In(stream).array(ports)``, resolved : ``Out(stream).array(ports)``
        Answers follow ``LOOKUP_LATENCY`` cycles after the question is taken.
    event : ``In(stream).array(2 * ports)``, ready : ``In(stream).array(ports)``
        From the receive and send units.
    send : ``Out(stream)``
        Send commands, for any port.
    abort : ``In(1)``
        Forget all chunks and READY packets. Packets in flight are refused from now on. Nothing new
        may be admitted before the engine is idle.
    busy : ``Out(1)``
        A chunk is assigned, or something is being cleaned up.
    """

    program: stream.Interface
    vacant: Signal
    vacant_slot: Signal
    vacant_result: Signal
    admit: stream.Interface
    loaded: stream.Interface
    stored: stream.Interface
    store: stream.Interface
    send: stream.Interface
    abort: Signal
    busy: Signal
    lookup: list
    resolved: list
    event: list
    ready: list

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        always = {"always_ready": True}
        super().__init__(
            {
                "program": In(stream.Signature(program_write_layout(c), **always)),
                "vacant": Out(1),
                "vacant_slot": Out(range(max(2, c.contexts))),
                "vacant_result": Out(range(max(2, c.contexts))),
                "admit": In(stream.Signature(admit_layout(c), **always)),
                "job": In(store_job_layout(c)),
                "loaded": In(stream.Signature(loaded_layout(c), **always)),
                "stored": In(stream.Signature(stored_layout(c), **always)),
                "store": Out(stream.Signature(store_job_layout(c))),
                "lookup": In(stream.Signature(lookup_layout(c))).array(c.ports),
                "resolved": Out(stream.Signature(resolved_layout(c), **always)).array(c.ports),
                "event": In(stream.Signature(event_layout(c))).array(2 * c.ports),
                "ready": In(stream.Signature(ready_layout(c))).array(c.ports),
                "send": Out(stream.Signature(send_command_layout(c))),
                "abort": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        contexts, ports = c.contexts, c.ports
        slot_index = range(max(2, contexts))
        packet_count = range(c.block_packets * 4096)

        # ---- State that more than one activity looks at, per context.
        assigned = Signal(contexts)  # holds a chunk
        live = Signal(contexts)  # its data is loaded: packets may come
        result_busy = Signal(contexts)  # the result slot of this number is in use
        keys = [Signal(context_key_layout(c), name=f"key_{n}") for n in range(contexts)]
        result_of = [Signal(slot_index, name=f"result_of_{n}") for n in range(contexts)]
        packets = [Signal(range(c.block_packets + 1), name=f"packets_{n}") for n in range(contexts)]
        receives_left = [Signal(packet_count, name=f"receives_left_{n}") for n in range(contexts)]
        sends_left = [Signal(packet_count, name=f"sends_left_{n}") for n in range(contexts)]
        announce = [Signal(ports, name=f"announce_{n}") for n in range(contexts)]  # READY to send
        fresh = Signal(contexts)  # instructions that start by themselves remain
        granted = [Signal(ports, name=f"granted_{n}") for n in range(contexts)]
        remote = [
            [Signal(c.format.slot, name=f"remote_{n}_{p}") for p in range(ports)]
            for n in range(contexts)
        ]

        rows: Memory = Memory(shape=admit_layout(c), depth=max(2, contexts), init=[])
        jobs: Memory = Memory(shape=store_job_layout(c), depth=max(2, contexts), init=[])
        m.submodules.rows = rows
        m.submodules.jobs = jobs
        m.submodules.program_store = words = SRAMBank(
            depth=c.program_words, width=INSTRUCTION_BITS, ports="1r1w"
        )
        row_write = rows.write_port()
        job_write = jobs.write_port()
        m.d.comb += [
            words.w_addr.eq(self.program.p.address),
            words.w_data.eq(self.program.p.word),
            words.w_en.eq(self.program.valid),
        ]

        # ---- Lookups: one per cycle, from the receive units and from the send generator.
        question = data.StructLayout(
            {
                "query": lookup_layout(c),
                "client": range(ports + 1),
                "table": 1,  # read program entry `step` instead
            }
        )
        m.submodules.questions = questions = StreamArbiter(question, ports + 1)
        own = questions.i[ports]
        for p in range(ports):
            m.d.comb += [
                questions.i[p].valid.eq(self.lookup[p].valid),
                questions.i[p].p.query.eq(self.lookup[p].p),
                questions.i[p].p.client.eq(p),
                self.lookup[p].ready.eq(questions.i[p].ready),
            ]
        m.d.comb += questions.o.ready.eq(1)

        row_read = rows.read_port()
        asked = questions.o
        stages = [
            Signal(data.StructLayout({"valid": 1, "asked": question}), name=f"stage_{n}")
            for n in range(3)
        ]
        m.d.comb += row_read.addr.eq(asked.p.query.slot)
        m.d.sync += [stages[0].valid.eq(asked.valid), stages[0].asked.eq(asked.p)]
        # Stage 0: the context row has been read; find the instruction.
        row = row_read.data
        step = stages[0].asked.query.step
        entries = [Signal(program_entry_layout, name=f"entry_{n}") for n in range(contexts)]
        entry = Signal(program_entry_layout)
        m.d.comb += [
            entry.eq(Array(e.as_value() for e in entries)[stages[0].asked.query.slot]),
            words.r_en.eq(stages[0].valid),
            words.r_addr.eq(Mux(stages[0].asked.table, step, entry.entry + step)),
        ]
        slot = stages[0].asked.query.slot
        expected = Signal()
        by_packet = Signal()
        m.d.comb += [
            by_packet.eq(stages[0].asked.client != ports),
            expected.eq(
                (slot < contexts)
                & live.bit_select(slot, 1)
                & (Array(k.as_value() for k in keys)[slot] == stages[0].asked.query.key.as_value())
                & (step < entry.length)
                & (stages[0].asked.query.offset < row.packets)
                & (stages[0].asked.query.op == row.op.as_value())
            ),
        ]
        row_1 = Signal(admit_layout(c))
        expected_1 = Signal()
        m.d.sync += [
            stages[1].eq(stages[0]),
            row_1.eq(row),
            expected_1.eq(~by_packet | expected),
        ]
        # Stage 1: the instruction is here; how long is the packet, and where is its block?
        instruction = Signal(instruction_layout)
        m.d.comb += instruction.eq(words.r_data)
        block_elements = Signal(range(c.slot_elements + 1))
        with m.If(instruction.block < row_1.tail_block):
            m.d.comb += block_elements.eq(row_1.beats * c.lanes)
        with m.Elif(instruction.block == row_1.tail_block):
            m.d.comb += block_elements.eq(row_1.tail_elements)
        offset = stages[1].asked.query.offset
        instruction_2 = Signal(instruction_layout)
        row_2 = Signal(admit_layout(c))
        rows_in = Signal(range(c.sram_beats))  # rows from the start of the slot
        rest = Signal(range(c.slot_elements + 1))
        expected_2 = Signal()
        start = Signal(range(c.slot_elements + c.packet_elements + 1))
        m.d.comb += start.eq(offset * c.packet_elements)
        m.d.sync += [
            stages[2].eq(stages[1]),
            instruction_2.eq(instruction),
            row_2.eq(row_1),
            expected_2.eq(expected_1),
            rows_in.eq(instruction.block * row_1.beats + offset * c.packet_beats),
            rest.eq(Mux(block_elements > start, block_elements - start, 0)),
        ]
        # Stage 2: the answer.
        answer = Signal(resolved_layout(c))
        length = Signal(12)
        operation = instruction_2.op
        query = stages[2].asked.query
        from_packet = stages[2].asked.client != ports
        target = query.slot
        arrives_with = Signal(c.format.node)
        m.d.comb += [
            length.eq(Mux(rest > c.packet_elements, c.packet_elements, rest) << 2),
            arrives_with.eq(instruction_2.contributions - operation.reduce),
            answer.valid.eq(
                expected_2
                & (
                    ~from_packet
                    | (
                        operation.receive
                        & (query.length == length)
                        & (query.contributions == arrives_with)
                    )
                )
            ),
            answer.op.eq(operation),
            answer.operator.eq(row_2.op),
            answer.port.eq(instruction_2.port),
            answer.granted.eq(
                Array(granted)[target].bit_select(instruction_2.port, 1)
                & (instruction_2.port < ports)
            ),
            answer.remote_slot.eq(Array(Array(r)[instruction_2.port] for r in remote)[target]),
            answer.peer_step.eq(instruction_2.peer_step),
            answer.length.eq(length),
            answer.contributions.eq(instruction_2.contributions),
            answer.operand_row.eq(row_2.source_row + rows_in),
            answer.store_row.eq(row_2.result_row + rows_in),
            # Where the data of a send lies: a store has put it into the result slot.
            answer.park_row.eq(
                Mux(operation.store | instruction_2.from_result, row_2.result_row, row_2.source_row)
                + rows_in
            ),
        ]
        answered = Signal(data.StructLayout({"valid": 1, "client": range(ports + 1)}))
        reply = Signal(resolved_layout(c))
        reply_word = Signal(INSTRUCTION_BITS)
        m.d.sync += [
            answered.valid.eq(stages[2].valid),
            answered.client.eq(stages[2].asked.client),
            reply.eq(answer),
        ]
        for p in range(ports):
            m.d.comb += [
                self.resolved[p].valid.eq(answered.valid & (answered.client == p)),
                self.resolved[p].p.eq(reply),
            ]
        own_answer = Signal()
        m.d.comb += own_answer.eq(answered.valid & (answered.client == ports))
        with m.If(stages[2].valid & (stages[2].asked.client == ports)):
            m.d.sync += reply_word.eq(instruction_2)

        # ---- Admission.
        admit = self.admit.p
        setup = Signal()  # an admission is being completed
        m.d.comb += [
            row_write.addr.eq(admit.slot),
            row_write.data.eq(admit),
            row_write.en.eq(self.admit.valid),
            job_write.addr.eq(admit.slot),
            job_write.data.eq(self.job),
            job_write.en.eq(self.admit.valid),
            self.vacant.eq(~assigned.all() & ~result_busy.all() & ~setup),
        ]
        for n in reversed(range(contexts)):
            with m.If(~assigned[n]):
                m.d.comb += self.vacant_slot.eq(n)
            with m.If(~result_busy[n]):
                m.d.comb += self.vacant_result.eq(n)

        # The program entry is read and READY packets that came early are searched for while the
        # chunk is being loaded.
        entry_asked = Signal()
        entry_known = Signal()
        newest = Signal(admit_layout(c))
        loaded = Signal(contexts)
        # READY packets that came too early, one row for each context of each peer.
        early = data.StructLayout({"valid": 1, "key": context_key_layout(c)})
        index_bits = (contexts - 1).bit_length()
        scan_end = ports << index_bits
        early_memory: Memory = Memory(shape=early, depth=scan_end, init=[])
        m.submodules.early = early_memory
        early_write = early_memory.write_port()
        early_read = early_memory.read_port(transparent_for=(early_write,))
        scan = Signal(range(scan_end + 1))
        scanned = Signal(range(scan_end + 1))  # row on the read port
        scanning = Signal()
        sweeping = Signal(init=1)  # forgetting all rows
        m.d.comb += early_read.addr.eq(scan)
        m.d.sync += [scanned.eq(scan), scanning.eq(setup & (scan != scan_end))]
        with m.If((setup | sweeping) & (scan != scan_end)):
            m.d.sync += scan.eq(scan + 1)
        with m.If(sweeping & (scan == scan_end)):
            m.d.sync += sweeping.eq(0)

        with m.If(self.admit.valid):
            m.d.sync += [
                setup.eq(1),
                entry_asked.eq(0),
                entry_known.eq(0),
                scan.eq(0),
                newest.eq(admit),
            ]
            with m.Switch(admit.slot):
                for n in range(contexts):
                    with m.Case(n):
                        m.d.sync += [
                            assigned[n].eq(1),
                            keys[n].eq(admit.key),
                            packets[n].eq(admit.packets),
                            result_of[n].eq(admit.result),
                            granted[n].eq(0),
                            announce[n].eq(0),
                            loaded[n].eq(0),
                        ]
            m.d.sync += result_busy.bit_select(admit.result, 1).eq(1)

        # ---- READY packets: to the context that waits for it, or into the table.
        m.submodules.greeters = greeters = RoundRobinArbiter(ports)
        greeting = Signal(ready_layout(c))
        greeted = Signal()
        greeter = Signal(range(max(2, ports)))
        match = Signal(contexts)
        found = Signal()  # the scan has found what the newest context waits for
        m.d.comb += [
            found.eq(scanning & early_read.data.valid & (early_read.data.key == newest.key)),
            # The table has one write port; a READY waits while the scan or the sweep uses it.
            greeters.requests.eq(Mux(found | sweeping, 0, Cat(r.valid for r in self.ready))),
            greeters.advance.eq(1),
            greeted.eq(greeters.grant.any()),
        ]
        for p in range(ports):
            m.d.comb += self.ready[p].ready.eq(greeters.grant[p])
            with m.If(greeters.grant[p]):
                m.d.comb += [greeting.eq(self.ready[p].p), greeter.eq(p)]
        for n in range(contexts):
            m.d.comb += match[n].eq(assigned[n] & (keys[n] == greeting.key))
        m.d.comb += [
            early_write.addr.eq(
                Mux(
                    sweeping,
                    scan,
                    Mux(found, scanned, Cat(greeting.slot[:index_bits], greeter)),
                )
            ),
            early_write.data.valid.eq(~found & ~sweeping),
            early_write.data.key.eq(greeting.key),
            early_write.en.eq(
                (sweeping & (scan != scan_end))
                | found
                | (greeted & ~match.any() & (greeting.slot < contexts))
            ),
        ]
        given = Signal(contexts)  # contexts that learn of a peer that is ready
        given_port = Signal(range(max(2, ports)))
        given_slot = Signal(c.format.slot)
        m.d.comb += [
            given.eq(Mux(found, 1 << newest.slot, Mux(greeted, match, 0))),
            given_port.eq(Mux(found, scanned[index_bits:], greeter)),
            given_slot.eq(Mux(found, scanned[:index_bits], greeting.slot)),
        ]
        for n in range(contexts):
            for p in range(ports):
                with m.If(given[n] & (given_port == p)):
                    m.d.sync += [granted[n][p].eq(1), remote[n][p].eq(given_slot)]

        # ---- Loaded: the context goes live once its program entry is known.
        with m.If(self.loaded.valid):
            m.d.sync += loaded.bit_select(self.loaded.p.slot, 1).eq(1)
        for n in range(contexts):
            mine = newest.slot == n
            with m.If(assigned[n] & loaded[n] & ~live[n] & ~(setup & mine)):
                m.d.sync += [
                    live[n].eq(1),
                    fresh[n].eq(1),
                    announce[n].eq(entries[n].ready_ports),
                ]
            with m.If(setup & mine & entry_known & (scan == scan_end) & ~scanning):
                m.d.sync += [
                    setup.eq(0),
                    receives_left[n].eq(entries[n].receives * newest.packets),
                    sends_left[n].eq(entries[n].sends * newest.packets),
                ]

        # ---- Events.
        m.submodules.events = events = StreamArbiter(event_layout(c), 2 * ports)
        for source, sink in zip(self.event, events.i, strict=True):
            wiring.connect(m, wiring.flipped(source), sink)
        done = events.o
        parked = data.StructLayout(
            {"slot": slot_index, "step": c.format.step, "offset": c.format.offset}
        )
        # Room for every packet of every slot to be parked in both halves of a collective.
        per_slot = 2 * max(c.slot_beats // c.packet_beats, c.max_nodes)
        m.submodules.parking = parking = StreamFIFO(parked, contexts * per_slot)
        m.d.comb += done.ready.eq(1)
        for n in range(contexts):
            with m.If(done.valid & (done.p.slot == n)):
                m.d.sync += [
                    receives_left[n].eq(receives_left[n] - done.p.received),
                    sends_left[n].eq(sends_left[n] - done.p.sent),
                ]

        # ---- Send generator.
        source = Signal(_Source)
        target_slot = Signal(slot_index)
        send_step = Signal(c.format.step)
        send_offset = Signal(c.format.offset)
        program_counter = [
            Signal(c.format.step, name=f"program_counter_{n}") for n in range(contexts)
        ]
        packet_counter = [
            Signal(c.format.offset, name=f"packet_counter_{n}") for n in range(contexts)
        ]
        m.submodules.turns = turns = RoundRobinArbiter(contexts)
        m.submodules.announcers = announcers = RoundRobinArbiter(contexts)
        announcing = Signal(slot_index)
        next_fresh = Signal(slot_index)
        prefer_fresh = Signal()
        repark = Signal()
        m.d.comb += [
            turns.requests.eq(fresh),
            announcers.requests.eq(Cat(a.any() for a in announce)),
        ]
        for n in range(contexts):
            with m.If(turns.grant[n]):
                m.d.comb += next_fresh.eq(n)
            with m.If(announcers.grant[n]):
                m.d.comb += announcing.eq(n)

        command = Signal(send_command_layout(c))
        command_valid = Signal()
        m.d.comb += [self.send.valid.eq(command_valid), self.send.p.eq(command)]
        m.d.comb += [
            own.p.client.eq(ports),
            own.p.query.slot.eq(target_slot),
            own.p.query.step.eq(send_step),
            own.p.query.offset.eq(send_offset),
        ]
        # Parked packets come from events; one that still cannot be sent goes to the back of the
        # queue.
        m.d.comb += [
            parking.i.valid.eq((done.valid & done.p.parked) | repark),
            parking.i.p.slot.eq(Mux(done.valid & done.p.parked, done.p.slot, target_slot)),
            parking.i.p.step.eq(Mux(done.valid & done.p.parked, done.p.step, send_step)),
            parking.i.p.offset.eq(Mux(done.valid & done.p.parked, done.p.offset, send_offset)),
        ]

        announce_port = Signal(range(max(2, ports)))
        mask = Signal(ports)
        m.d.comb += mask.eq(Array(announce)[announcing])
        for p in reversed(range(ports)):
            with m.If(mask[p]):
                m.d.comb += announce_port.eq(p)

        def key_of(index):
            return Array(k.as_value() for k in keys)[index]

        with m.FSM(init="PICK") as generator:
            with m.State("PICK"):
                with m.If(setup & ~entry_asked):
                    m.d.sync += [
                        entry_asked.eq(1),
                        send_step.eq(newest.program),
                        target_slot.eq(newest.slot),
                    ]
                    m.next = "ASK_ENTRY"
                with m.Elif(announcers.requests.any()):
                    m.d.comb += announcers.advance.eq(1)
                    m.d.sync += [
                        source.eq(_Source.READY),
                        command.eq(0),
                        command.ready.eq(1),
                        command.port.eq(announce_port),
                        command.slot.eq(announcing),
                        command.remote_slot.eq(announcing),
                        command.key.eq(key_of(announcing)),
                        command_valid.eq(1),
                    ]
                    for n in range(contexts):
                        with m.If(announcing == n):
                            m.d.sync += announce[n].bit_select(announce_port, 1).eq(0)
                    m.next = "SEND"
                with m.Elif(parking.o.valid & ~(prefer_fresh & fresh.any())):
                    m.d.comb += parking.o.ready.eq(1)
                    m.d.sync += [
                        prefer_fresh.eq(1),
                        source.eq(_Source.PARKED),
                        target_slot.eq(parking.o.p.slot),
                        send_step.eq(parking.o.p.step),
                        send_offset.eq(parking.o.p.offset),
                    ]
                    with m.If(live.bit_select(parking.o.p.slot, 1)):
                        m.next = "ASK"
                with m.Elif(fresh.any()):
                    m.d.comb += turns.advance.eq(1)
                    m.d.sync += [
                        prefer_fresh.eq(0),
                        source.eq(_Source.FRESH),
                        target_slot.eq(next_fresh),
                        send_step.eq(Array(program_counter)[next_fresh]),
                        send_offset.eq(Array(packet_counter)[next_fresh]),
                    ]
                    m.next = "ASK"
            with m.State("ASK_ENTRY"):
                m.d.comb += [own.valid.eq(1), own.p.table.eq(1)]
                with m.If(own.ready):
                    m.next = "ENTRY"
            with m.State("ENTRY"):
                with m.If(own_answer):
                    for n in range(contexts):
                        with m.If(target_slot == n):
                            m.d.sync += [
                                entries[n].eq(reply_word),
                                program_counter[n].eq(0),
                                packet_counter[n].eq(0),
                            ]
                    m.d.sync += entry_known.eq(1)
                    m.next = "PICK"
            with m.State("ASK"):
                m.d.comb += own.valid.eq(1)
                with m.If(own.ready):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                with m.If(own_answer):
                    word = data.View(instruction_layout, reply_word)
                    m.d.sync += [
                        command.ready.eq(0),
                        command.port.eq(reply.port),
                        command.slot.eq(target_slot),
                        command.remote_slot.eq(reply.remote_slot),
                        command.key.eq(key_of(target_slot)),
                        command.operator.eq(reply.operator),
                        command.step.eq(reply.peer_step),
                        command.offset.eq(send_offset),
                        command.length.eq(reply.length),
                        command.contributions.eq(reply.contributions),
                        command.row.eq(reply.park_row),
                    ]
                    with m.If((source == _Source.FRESH) & (~word.op.send | word.op.receive)):
                        # END: what is left of the program is up to the packets that arrive.
                        m.d.sync += fresh.bit_select(target_slot, 1).eq(0)
                        m.next = "PICK"
                    with m.Elif(reply.granted):
                        m.d.sync += command_valid.eq(1)
                        m.next = "SEND"
                    with m.Elif(source == _Source.PARKED):
                        m.next = "REPARK"
                    with m.Else():
                        m.next = "PICK"
            with m.State("REPARK"):
                with m.If(~(done.valid & done.p.parked)):
                    m.d.comb += repark.eq(1)
                    m.next = "PICK"
            with m.State("SEND"):
                with m.If(self.send.ready):
                    m.d.sync += command_valid.eq(0)
                    with m.If(source == _Source.FRESH):
                        for n in range(contexts):
                            with m.If(target_slot == n):
                                with m.If(send_offset + 1 == packets[n]):
                                    m.d.sync += [
                                        packet_counter[n].eq(0),
                                        program_counter[n].eq(send_step + 1),
                                    ]
                                with m.Else():
                                    m.d.sync += packet_counter[n].eq(send_offset + 1)
                    m.next = "PICK"

        # ---- Completion.
        finished = Signal(contexts)
        for n in range(contexts):
            m.d.comb += finished[n].eq(
                live[n]
                & ~fresh[n]
                & (receives_left[n] == 0)
                & (sends_left[n] == 0)
                & ~announce[n].any()
            )
        m.submodules.closers = closers = RoundRobinArbiter(contexts)
        closing = Signal(slot_index)
        m.d.comb += closers.requests.eq(finished)
        for n in range(contexts):
            with m.If(closers.grant[n]):
                m.d.comb += closing.eq(n)
        job_read = jobs.read_port()
        m.d.comb += [
            job_read.addr.eq(closing),
            job_read.en.eq(closers.advance),
            self.store.p.eq(job_read.data),
        ]
        with m.If(~self.store.valid | self.store.ready):
            m.d.comb += closers.advance.eq(1)
            m.d.sync += self.store.valid.eq(finished.any())
            with m.If(finished.any()):
                m.d.sync += [
                    assigned.bit_select(closing, 1).eq(0),
                    live.bit_select(closing, 1).eq(0),
                ]
        with m.If(self.stored.valid):
            m.d.sync += result_busy.bit_select(self.stored.p.slot, 1).eq(0)

        # ---- Abort: what is with the RX DMA already comes to its end, all else is forgotten.
        with m.If(self.abort):
            m.d.sync += [
                assigned.eq(0),
                live.eq(0),
                fresh.eq(0),
                setup.eq(0),
                sweeping.eq(1),
                scan.eq(0),
            ]
            m.d.sync += [mask.eq(0) for mask in announce]
            for n in range(contexts):
                with m.If(assigned[n]):
                    m.d.sync += result_busy.bit_select(result_of[n], 1).eq(0)
        m.d.comb += self.busy.eq(
            assigned.any()
            | result_busy.any()
            | self.store.valid
            | ~generator.ongoing("PICK")
            | sweeping
            | (parking.level != 0)
        )
        return m
