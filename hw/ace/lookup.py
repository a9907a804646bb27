# SPDX-License-Identifier: Apache-2.0
"""Pipeline of lookups: the context and instruction that a packet is for, and what they say."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.contexts import ContextSignature
from hw.ace.isa import (
    ENTRY_WORDS,
    INSTRUCTION_BITS,
    instruction_layout,
    program_entry_layout,
)
from hw.ace.layouts import admit_layout, context_key_layout, query_layout, resolved_layout
from hw.ace.ready_table import GrantSignature
from hw.common.arbiter import StreamArbiter
from hw.common.sram import UNUSED_IF_WRITTEN, SRAMBank

__all__ = [
    "LOOKUP_LATENCY",
    "LookupPipeline",
    "own_request_layout",
    "own_response_layout",
    "program_write_layout",
]

# Cycles from an accepted request to its response: arbiter, context row, instruction, its register
# behind the SRAM, products, response.
LOOKUP_LATENCY = 6


def program_write_layout(c: AceConfig) -> data.StructLayout:
    """One instruction for a program store."""
    return data.StructLayout({"address": range(c.program_words), "word": INSTRUCTION_BITS})


def own_request_layout(c: AceConfig) -> data.StructLayout:
    """A lookup of the send generator: an instruction of a context, or with ``table`` the entry
    ``step`` of the program table."""
    return data.StructLayout(
        {
            "context": range(max(2, c.contexts)),
            "step": c.format.step,
            "offset": c.format.offset,
            "table": 1,
        }
    )


def own_response_layout(c: AceConfig) -> data.StructLayout:
    """The response to the send generator: what it means, and the word of the program store."""
    return data.StructLayout({"resolved": resolved_layout(c), "word": INSTRUCTION_BITS})


class LookupPipeline(wiring.Component):
    """Program store and context rows of an FSM, and the lookups in them.

    A request of a receive unit names context, key, step and offset as its packet does. It is
    *valid* if that context is live with that key, the step is one of its receive instructions, the
    offset lies within a run of blocks, and operation, length and contributions are what the program
    expects. The send generator asks about its own contexts, so nothing is checked.

    Timing: a request that is accepted is answered exactly ``LOOKUP_LATENCY`` cycles later. One
    request per cycle is accepted, from all requesters in turn; a requester that is not alone waits
    for at most one request of each other one. Nothing else stalls: responses must be taken.
    Whether a peer is ready is read in the cycle before the response.

    Members
    -------
    program : ``In(stream.Signature(program_write_layout(config), always_ready=True))``
        Writes to the program store.
    reread : ``In(1)``, read_address : ``In(range(program_words))``, read_word : ``Out(64)``
        The word at an address is to be read, in the next cycle without a lookup.
    admit : ``In(stream.Signature(admit_layout(config), always_ready=True))``
        Writes the row of a context; it may be looked up from the next cycle on.
    contexts : ``In(ContextSignature(config))``, grants : ``In(GrantSignature(config))``
        State of the contexts, and which peers are ready for them.
    request : ``In(stream.Signature(query_layout(config))).array(ports)``
        Requests of the receive units.
    response : ``Out(stream.Signature(resolved_layout(config), always_ready=True)).array(ports)``
        Responses to the receive units.
    own_request : ``In(stream.Signature(own_request_layout(config)))``
        Requests of the send generator.
    own_response : ``Out(stream.Signature(own_response_layout(config), always_ready=True))``
        Responses to the send generator. ``word`` keeps its value until the next one.
    """

    program: stream.Interface
    reread: Signal
    read_address: Signal
    read_word: Signal
    admit: stream.Interface
    request: list
    response: list
    own_request: stream.Interface
    own_response: stream.Interface

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        always = {"always_ready": True}
        super().__init__(
            {
                "program": In(stream.Signature(program_write_layout(c), **always)),
                "reread": In(1),
                "read_address": In(range(c.program_words)),
                "read_word": Out(INSTRUCTION_BITS),
                "admit": In(stream.Signature(admit_layout(c), **always)),
                "contexts": In(ContextSignature(c)),
                "grants": In(GrantSignature(c)),
                "request": In(stream.Signature(query_layout(c))).array(c.ports),
                "response": Out(stream.Signature(resolved_layout(c), **always)).array(c.ports),
                "own_request": In(stream.Signature(own_request_layout(c))),
                "own_response": Out(stream.Signature(own_response_layout(c), **always)),
            }
        )
        self._request = data.StructLayout(
            {"query": query_layout(c), "client": range(c.ports + 1), "table": 1}
        )
        self._stage = data.StructLayout({"valid": 1, "request": self._request})

    def elaborate(self, platform):
        m = Module()
        accepted = self._accept(m)
        # A row and an instruction are read with the address of one cycle, and seen in the next.
        stages = [Signal(self._stage, name=f"stage_{n}") for n in range(4)]
        m.d.sync += [stages[0].valid.eq(accepted.valid), stages[0].request.eq(accepted.p)]
        m.d.sync += [after.eq(before) for before, after in pairwise(stages)]
        row = self._context_row(m, accepted.p.query.context)
        instruction_now = self._instruction(m, stages[0])
        # An SRAM answers late in the cycle: what is made of the word begins in a register.
        instruction = Signal(instruction_layout, name="instruction_1")
        row_1, row_2 = (Signal(admit_layout(self._config), name=f"row_{n}") for n in (1, 2))
        expected_2 = Signal()
        m.d.sync += [
            instruction.eq(instruction_now),
            row_1.eq(row), row_2.eq(row_1), expected_2.eq(self._expects(m, stages, row_1)),
        ]
        runs = self._runs(m, stages[1])
        products = self._products(m, stages[2], row_2, expected_2, instruction, runs)
        self._respond(m, stages[3], *products)
        return m

    def _accept(self, m):
        """One request per cycle, from everyone in turn."""
        ports = self._config.ports
        m.submodules.requests = requests = StreamArbiter(
            self._request, ports + 1, always_ready=True
        )
        for p in range(ports):
            m.d.comb += [
                requests.i[p].valid.eq(self.request[p].valid),
                requests.i[p].p.query.eq(self.request[p].p),
                requests.i[p].p.client.eq(p),
                self.request[p].ready.eq(requests.i[p].ready),
            ]
        own = requests.i[ports]
        m.d.comb += [
            own.valid.eq(self.own_request.valid),
            own.p.client.eq(ports),
            own.p.query.context.eq(self.own_request.p.context),
            own.p.query.step.eq(self.own_request.p.step),
            own.p.query.offset.eq(self.own_request.p.offset),
            own.p.table.eq(self.own_request.p.table),
            self.own_request.ready.eq(own.ready),
        ]
        return requests.o

    def _context_row(self, m, asked):
        """The row of the context *asked* for, a cycle later."""
        c = self._config
        # A context is looked up from the cycle after its row is written.
        depth = max(2, c.contexts)
        rows: Memory = Memory(
            shape=admit_layout(c), depth=depth, init=[], attrs=UNUSED_IF_WRITTEN
        )
        m.submodules.rows = rows
        write, read = rows.write_port(), rows.read_port()
        m.d.comb += [
            write.addr.eq(self.admit.p.context),
            write.data.eq(self.admit.p),
            write.en.eq(self.admit.valid),
            read.addr.eq(asked),
        ]
        return read.data

    def _expects(self, m, stages, row):
        """High if the context with this *row* expects the packet that is in the second of the
        *stages*, as it was in the first one."""
        c = self._config
        context = stages[0].request.query.context
        key = Signal(context_key_layout(c))
        live = Signal()
        last = Signal.like(self._entry(m, stages[0]).last)
        m.d.sync += [
            key.eq(Array(k.as_value() for k in self.contexts.key)[context]),
            live.eq((context < c.contexts) & self.contexts.live.bit_select(context, 1)),
            last.eq(self._entry(m, stages[0]).last),
        ]
        request = stages[1].request
        expected = (
            live & (key.as_value() == request.query.key.as_value()) & (request.query.step <= last)
            & (request.query.op == row.op.as_value())
        )
        return (request.client == c.ports) | expected

    def _entry(self, m, stage):
        """Table entry of the program that the context in *stage* runs."""
        entry = Signal(program_entry_layout)
        entries = Array(e.as_value() for e in self.contexts.entry)
        m.d.comb += entry.eq(entries[stage.request.query.context])
        return entry

    def _instruction(self, m, stage):
        """The word that the request in *stage* is for, a cycle later."""
        m.submodules.program_store = words = SRAMBank(
            depth=self._config.program_words, width=INSTRUCTION_BITS, ports="1r1w"
        )
        step = stage.request.query.step
        instruction = Signal(instruction_layout)
        asked = Signal()  # software wants a word
        reading = Signal()  # it is on the read port
        m.d.comb += [
            words.w_addr.eq(self.program.p.address),
            words.w_data.eq(self.program.p.word),
            words.w_en.eq(self.program.valid),
            words.r_en.eq(stage.valid | asked),
            words.r_addr.eq(
                Mux(
                    stage.valid,
                    Mux(
                        stage.request.table,
                        step,
                        self._entry(m, stage).entry * ENTRY_WORDS + step,
                    ),
                    self.read_address,
                )
            ),
            instruction.eq(words.r_data),
        ]
        with m.If(self.reread):
            m.d.sync += asked.eq(1)
        with m.Elif(~stage.valid):
            m.d.sync += asked.eq(0)
        m.d.sync += reading.eq(asked & ~stage.valid)
        with m.If(reading):
            m.d.sync += self.read_word.eq(words.r_data)
        return instruction

    def _runs(self, m, stage):
        """Beats and packets of a run in the context of the packet in *stage*, a cycle later: in an
        even phase and in an odd one."""
        context = stage.request.query.context
        runs = []
        for name in ("span", "packets"):
            of_contexts = getattr(self.contexts, name)
            runs.append([Signal.like(of_contexts[0][n], name=f"{name}_{n}") for n in range(2)])
            m.d.sync += [
                mine.eq(Array(each[n] for each in of_contexts)[context])
                for n, mine in enumerate(runs[-1])
            ]
        return runs

    def _products(self, m, stage, row_now, expected_now, instruction_now, runs):
        """Place in a slot of the packet in *stage*, and its beats, as far as its run goes, all a
        cycle later."""
        c = self._config
        spans, packets = runs
        odd = instruction_now.odd
        offset = stage.request.query.offset
        own = stage.request.client == c.ports
        inside = Cat(own | (offset < each) for each in packets)
        start = Signal(range(c.slot_beats + c.packet_beats + 1))
        span = Mux(odd, spans[1], spans[0])
        m.d.comb += start.eq(offset * c.packet_beats)

        instruction = Signal(instruction_layout, name="instruction_2")
        row = Signal(admit_layout(c), name="row_3")
        expected = Signal(name="expected_3")
        rows_in = Signal(range(c.sram_beats))  # rows from the start of the slot
        beats = Signal(range(c.packet_beats + 1))
        m.d.sync += [
            instruction.eq(instruction_now),
            row.eq(row_now),
            expected.eq(expected_now & inside.bit_select(odd, 1)),
            rows_in.eq(instruction_now.block * row_now.beats + start),
            beats.eq(Mux(span > start, span - start, 0)),
        ]
        with m.If(span >= start + c.packet_beats):
            m.d.sync += beats.eq(c.packet_beats)
        return row, expected, instruction, rows_in, beats

    def _length(self, m, elements, rows_in, beats):
        """Bytes of a packet of some *beats*, of which only the *elements* of the chunk count. Also
        a function of a length that is 1 if it is as long: all cases are compared before it is known
        which one it is."""
        c = self._config
        length = Signal(12)
        first = rows_in * c.lanes
        left = Signal(range(c.slot_elements + 1))
        room = Signal(range(c.packet_elements + 1))
        m.d.comb += [left.eq(elements - first), room.eq(beats * c.lanes)]
        begins = elements > first
        ends = (left >> len(room) == 0) & (left[: len(room)] < room)
        with m.If(begins):
            m.d.comb += length.eq(Mux(ends, left, room) << 2)

        def fits(given: Value) -> Value:
            partial = Mux(ends, given == left << 2, given == room << 2)
            return Mux(begins, partial, given == 0)

        return length, fits

    def _respond(self, m, stage, row, expected, instruction, rows_in, beats):
        """The response to the request in *stage*, to the one who asked."""
        c = self._config
        response = Signal(resolved_layout(c))
        query, client = stage.request.query, stage.request.client
        operation, port = instruction.op, instruction.port
        length, has_length = self._length(m, row.elements, rows_in, beats)
        fits = (
            operation.receive
            & has_length(query.length)
            & (query.contributions == instruction.arriving)
        )
        readies = Array(Array(r)[port] for r in self.grants.readies)[query.context]
        remote = Array(Array(r)[port] for r in self.grants.remote)[query.context]
        m.d.comb += [
            response.valid.eq(expected & ((client == c.ports) | fits)),
            response.op.eq(operation),
            response.operator.eq(row.op),
            response.port.eq(port),
            response.granted.eq((readies > instruction.readies) & (port < c.ports)),
            response.poisoned.eq(self.contexts.poisoned.bit_select(query.context, 1)),
            response.remote_context.eq(remote),
            response.odd.eq(instruction.odd),
            response.age.eq(row.age),
            response.peer_step.eq(instruction.peer_step),
            response.length.eq(length),
            response.contributions.eq(instruction.contributions),
            response.row.eq(row.row + rows_in),
        ]
        if c.phased:
            # Results are kept in the next partition, all else in the place that it has.
            results = Array(self.contexts.results)[query.context]
            m.d.comb += response.place.eq(Mux(operation.store, results, row.row) + rows_in)
            with m.If(operation.send & operation.store & ~operation.receive):
                m.d.comb += [response.port.eq(c.ports), response.granted.eq(1)]
        valid = Signal(c.ports + 1)  # for each client
        reply = Signal(resolved_layout(c))
        m.d.sync += [
            valid.eq(Cat(stage.valid & (client == n) for n in range(c.ports + 1))),
            reply.eq(response),
        ]
        for p in range(c.ports):
            m.d.comb += [self.response[p].valid.eq(valid[p]), self.response[p].p.eq(reply)]
        word = Signal(INSTRUCTION_BITS)
        with m.If(stage.valid & (client == c.ports)):
            m.d.sync += word.eq(instruction)
        m.d.comb += [
            self.own_response.valid.eq(valid[c.ports]),
            self.own_response.p.resolved.eq(reply),
            self.own_response.p.word.eq(word),
        ]
