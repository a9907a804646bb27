# SPDX-License-Identifier: Apache-2.0
"""Request generator: reads operands from memory and sends them."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.axi_read import AXI4Reader
from hw.common.count import stepped, stepped_to
from hw.common.fifo import StreamFIFO
from hw.common.params import require_int
from hw.common.skid import SkidBuffer
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch.packet import FLIT, HEADER, Kind
from hw.switch.recode import CompressPackets
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.fixed_point import FloatToFixed, reach
from hw.switch_dma.interfaces import (
    BeginSignature,
    BlockSignature,
    MemberSignature,
    WindowSignature,
)
from hw.switch_dma.layouts import (
    Part,
    address_of,
    contract_flits,
    halved,
    in_part,
    job_layout,
    read_layout,
)

__all__ = ["Operands"]

_PACKETS = 2


class Use(enum.Flag, shape=3):
    """Purpose of an operand that is read, one-hot: it finds the way out late in a cycle."""

    PUSH = 1
    ANSWER = 2  # to a load of another endpoint
    OWN = 4  # of a block that this endpoint loads


_FOR = {"use": Use, "requester": HEADER["destination"].width, "tag": HEADER["tag"].width}
"""Purpose of an operand that is read, and the header of the answer."""


class Operands(wiring.Component):
    """Turns this link's share of a vector into PUSH packets, the contract first.

    Every ``links``-th block of the vector is read, `read_ahead` at most before they are sent, and
    sent as a whole once its last beat is there: ``poison`` says that memory refused one. Elements
    beyond the end of the vector are zero. From a memory that keeps up, a flit per cycle. With
    ``config.fixed_point`` operands become integers on the way, 3 cycles later, if the job's are;
    ``poison`` also says that one is outside the window. With ``config.parts`` blocks that the job
    leaves to others are not read, and sent as zeros. With ``config.half`` elements may have 16 bits
    in memory, and with ``config.bfp`` what leaves may be compressed.

    For pull only the contract is pushed, and the other blocks are begun when all have `agreed` to
    it. Operands are read as they are asked for, and become RESPONSE packets.

    Parameters
    ----------
    config : SwitchDmaConfig
    link : int
        Number of this link.

    Members
    -------
    job : ``In(stream.Signature(job_layout(config)))``
        Taken when the one before has been sent as a whole.
    member : ``In(MemberSignature())``, window : ``In(WindowSignature())``
        What packets say. The window is that of the contract: 0 for push.
    begin : ``Out(BeginSignature(config))``
        Blocks as they are begun.
    next : ``Out(BlockSignature(config))``
        The next of them.
    agreed : ``In(1)``
        The job's contract has come back.
    ask : ``In(stream.Signature(read_layout(config)))``
        Operands that loads ask for, of the job.
    o, answers, own : ``Out(stream.Signature(FLIT))``
        Packets: pushed, for other endpoints, for the home store.
    bus : ``Out(AXIReadSignature)``
        Memory.
    flush : ``In(1)``
        Forget everything, from the next cycle on. Hold until `busy` is low: reads under way are
        thrown away, a packet of which the header was sent is completed.
    busy : ``Out(1)``
        A read or a packet is under way.
    sending : ``Out(1)``
        A packet is.
    active : ``Out(1)``
        There is a job of which not all operands were begun.
    waits, barrier : ``Out(1)``
        An operand waits for a wave counter; for the contract.
    read, error : ``Out(1)``
        High for one cycle per beat read, and per beat that memory answered with an error.
    outside : ``Out(1)``, only with ``config.fixed_point``
        High for one cycle per beat with an element outside the window.
    """

    job: stream.Interface
    member: Any
    window: Any
    begin: Any
    next: Any
    agreed: Signal
    ask: stream.Interface
    o: stream.Interface
    answers: stream.Interface
    own: stream.Interface
    bus: Any
    flush: Signal
    busy: Signal
    sending: Signal
    active: Signal
    waits: Signal
    barrier: Signal
    read: Signal
    error: Signal
    outside: Signal

    def __init__(self, config: SwitchDmaConfig, *, link: int) -> None:
        c = self._config = config
        self._link = require_int("Operands link", link, minimum=0, maximum=c.links - 1)
        self._item = data.StructLayout(
            {
                "number": c.number_bits,
                "contract": 1,
                "tail": 1,  # the last block of the vector
                **({"absent": 1} if c.parts else {}),  # others send it: zeros
                **_FOR,
            }
        )
        super().__init__(
            {
                "job": In(stream.Signature(job_layout(c))),
                "member": In(MemberSignature()),
                "window": In(WindowSignature()),
                "begin": Out(BeginSignature(c)),
                "next": Out(BlockSignature(c)),
                "agreed": In(1),
                "ask": In(stream.Signature(read_layout(c))),
                **dict.fromkeys(("o", "answers", "own"), Out(stream.Signature(FLIT))),
                "bus": Out(c.memory_bus.read),
                "flush": In(1),
                "busy": Out(1),
                "sending": Out(1),
                "active": Out(1),
                "waits": Out(1),
                "barrier": Out(1),
                "read": Out(1),
                "error": Out(1),
                **({"outside": Out(1)} if c.fixed_point else {}),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        sending = Signal()
        # A flush is heard a cycle later, and with it the new epoch: until then packets are of the
        # epoch before.
        self._flushes, self._epoch = Signal(name="flushes"), Signal.like(self.member.epoch)
        m.d.sync += [self._flushes.eq(self.flush), self._epoch.eq(self.member.epoch)]
        clear = ResetInserter(self._flushes & ~sending)
        items = StreamFIFO(self._item, c.read_ahead, memory=False)
        m.submodules.items = clear(items)
        self._job: Any = Signal(job_layout(c))
        reader = self._read(m, items)
        payload = StreamFIFO(FLIT_BITS, _PACKETS * c.payload_flits, kept=True)
        m.submodules.payload = clear(payload)
        headers = SkidBuffer(  # of two packets
            data.StructLayout({"number": c.number_bits, "contract": 1, "poison": 1, **_FOR})
        )
        m.submodules.headers = clear(headers)
        beats: Any = self._convert(m, reader) if c.fixed_point else reader.data
        self._gather(m, items, beats, payload, headers)
        left = self._send(m, payload, headers, sending)
        under_way, reads = Signal(range(c.read_ahead + 4)), Signal()
        moved = {
            "up": reader.cmd.valid & reader.cmd.ready, "down": self.read & reader.data.p.last,
        }
        m.d.sync += [
            under_way.eq(stepped(under_way, **moved)),
            reads.eq(~stepped_to(under_way, 0, **moved)),
        ]
        m.d.comb += [
            self.read.eq(reader.data.valid & reader.data.ready),
            self.error.eq(self.read & reader.data.p.error),
            self.busy.eq(reads | left),
            self.sending.eq(left),
        ]
        return m

    def _read(self, m: Module, items: StreamFIFO) -> AXI4Reader:
        """Walk over the vector as waves permit: an item and a read for each block that is pushed,
        or that is asked for."""
        c = self._config
        job = self._job
        beats = range(c.payload_flits + 1)
        m.submodules.reader = reader = AXI4Reader(**c.memory_master, beats_width=len(Signal(beats)))
        connect(m, reader.bus, flipped(self.bus))
        block, place, asked = self.next.block, Signal(32), self.ask.p
        contract, pushes = Signal(), Signal()
        final = Signal()  # the next block that is no contract is the vector's last one
        tail = Mux(pushes, final, asked.tail)
        after = Signal(32)  # the block after that one: the first, if that is the contract
        # As the job begins its contract does, so this is known in time.
        m.d.sync += final.eq(block == job.final)
        wanted = self.active & (contract | ~job.pull | self.agreed)
        begins = Signal()
        use = Mux(pushes, Use.PUSH, Mux(asked.own, Use.OWN, Use.ANSWER))
        there = Mux(pushes, wanted & self.begin.ready, self.ask.valid & ~self._flushes)
        reads = ~(pushes & contract)
        if c.parts:
            absent = (job.part == Part.SEND) & ~in_part(job, place)
            m.d.comb += items.i.p.absent.eq(absent)
            reads = reads & ~absent
        m.d.comb += [
            self.job.ready.eq(~self.active & ~items.o.valid & ~self.flush & ~self._flushes),
            self.begin.first.eq(contract),
            # Blocks are pushed, or loads ask for them; never both at a time.
            pushes.eq(self.active & (contract | ~job.pull)),
            place.eq(Mux(pushes, block, asked.block)),
            begins.eq(
                wanted & self.begin.ready
                & (~pushes | (items.i.ready & (~reads | reader.cmd.ready)))
            ),
            self.begin.take.eq(begins),
            self.next.first.eq(contract),
            self.next.number.eq(self.begin.number),
            self.next.begins.eq(begins),
            self.waits.eq(wanted & ~self.begin.ready),
            self.barrier.eq(self.active & ~contract & job.pull & ~self.agreed),
            self.ask.ready.eq(~pushes & items.i.ready & (~reads | reader.cmd.ready)),
            items.i.valid.eq(there & (reader.cmd.ready | ~reads)),
            items.i.p.number.eq(Mux(pushes, self.begin.number, asked.number)),
            items.i.p.contract.eq(pushes & contract),
            items.i.p.tail.eq(tail),
            items.i.p.use.eq(use),
            items.i.p.requester.eq(asked.requester),
            items.i.p.tag.eq(Mux(pushes, 0, asked.tag)),
            reader.cmd.valid.eq(there & items.i.ready & reads),
            reader.cmd.p.address.eq(job.source + self._scaled(place * c.payload_bytes)),
            reader.cmd.p.beats.eq(Mux(tail, job.tail_beats + 1, self._scaled(c.payload_flits))),
        ]
        with m.If(begins):
            m.d.sync += [
                contract.eq(0),
                block.eq(after),
                after.eq(after + c.links),
                self.active.eq(after <= job.final),
                final.eq(after == job.final),
                self.next.tail.eq(final & ~contract),
            ]
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [
                job.eq(self.job.payload),
                self.active.eq(1),
                self.next.tail.eq(0),
                contract.eq(1),
                block.eq(self._link),
                after.eq(self._link),
            ]
        with m.If(self._flushes):
            m.d.sync += self.active.eq(0)
        return reader

    def _scaled(self, amount: Any, *, words: Any = 0) -> Value:
        """*amount*, or half of it if elements have 16 bits and are not *words*."""
        amount = Value.cast(amount)
        if not self._config.half:
            return amount
        return Mux(halved(self._job) & ~Value.cast(words), amount >> 1, amount)

    def _convert(self, m: Module, reader: AXI4Reader) -> stream.Interface:
        """Convert beats that were read to integers, if the job sums integers."""
        converter = FloatToFixed(self._config.lanes)
        m.submodules.converter = ResetInserter(self._flushes)(converter)
        m.d.comb += [
            converter.fixed.eq(self._job.fixed),
            converter.unit.eq(self._job.unit),
            converter.reach.eq(reach(self.member.node.members)),
            converter.i.valid.eq(reader.data.valid),
            converter.i.p.data.eq(reader.data.p.data),
            converter.i.p.error.eq(reader.data.p.error),
            reader.data.ready.eq(converter.i.ready | self._flushes),
        ]
        return converter.o

    def _gather(
        self, m: Module, items: StreamFIFO, beats: stream.Interface, payload: StreamFIFO,
        headers: SkidBuffer,
    ) -> None:
        """Make payloads of beats read, contract and zeros; queue a header for each complete one."""
        c = self._config
        job = self._job
        place = Signal(range(c.payload_flits))
        poison = Signal()
        item = items.o.p
        final = place == (self._scaled(c.payload_flits, words=item.contract) - 1)
        read = ~(item.contract | item.absent) if c.parts else ~item.contract
        # Of the place as it is: comparisons of the one before, or of the same.
        in_tail, ends_tail = Signal(init=1), Signal()
        present = read & (~item.tail | in_tail)
        short = item.tail & ends_tail
        lanes = Cat(
            ~short | (job.tail_lanes >= lane if lane else 1) for lane in range(FLIT_BITS // 32)
        )
        words: Value = Cat(
            Mux(used, beats.p.data.word_select(lane, 32), 0) for lane, used in enumerate(lanes)
        )
        if c.half:
            halves = [~short | (job.tail_lanes >= lane) for lane in range(FLIT_BITS // 16)]
            words = Mux(
                halved(job),
                Cat(Mux(used, beats.p.data.word_select(lane, 16), 0)
                    for lane, used in enumerate(halves)),
                words,
            )
        contract = Array([*contract_flits(job, self.member.node.members, self.window),
                          *[0] * (c.payload_flits - 2)])
        there = items.o.valid & (~present | beats.valid) & (~final | headers.i.ready)
        moves = there & payload.i.ready
        refused = present & beats.p.error
        if c.fixed_point:
            outside = present & (beats.p.outside & lanes).any()
            refused = refused | outside
            m.d.comb += self.outside.eq(moves & outside)
        m.d.comb += [
            payload.i.valid.eq(there),
            payload.i.payload.eq(
                Mux(present, words, Mux(item.contract, contract[place], 0))
            ),
            beats.ready.eq((moves & present) | self._flushes),
            items.o.ready.eq(moves & final),
            headers.i.valid.eq(moves & final),
            headers.i.p.number.eq(item.number),
            headers.i.p.contract.eq(item.contract),
            headers.i.p.poison.eq(poison | refused),
            *(headers.i.p[name].eq(item[name]) for name in _FOR),
        ]
        after = Signal.like(place)
        m.d.comb += after.eq(Mux(final, 0, place + 1) if c.half else place + 1)
        m.d.sync += [
            in_tail.eq(Mux(moves, after <= job.tail_beats, place <= job.tail_beats)),
            ends_tail.eq(Mux(moves, after == job.tail_beats, place == job.tail_beats)),
        ]
        with m.If(moves):
            m.d.sync += [
                place.eq(after),
                poison.eq(Mux(final, 0, poison | refused)),
            ]
        with m.If(self._flushes):
            m.d.sync += [place.eq(0), poison.eq(0)]

    def _send(
        self, m: Module, payload: StreamFIFO, headers: SkidBuffer, sending: Signal
    ) -> Value:
        """Send packets, each by its output; return whether one is in progress."""
        c = self._config
        left = Signal(range(c.payload_flits + 1))
        final = Signal()  # one is
        header: Any = Signal(HEADER)
        about = headers.o.p
        kept, use = Signal(Use), Signal(Use)
        ways = {Use.PUSH: self.o, Use.ANSWER: self.answers, Use.OWN: self.own}
        shown: Any = stream.Signature(FLIT).create(path=("shown",))
        leaves: Value = sending
        leaves_for: Value = Value.cast(use)
        held = shown
        if c.bfp:
            m.submodules.compress = compress = CompressPackets(
                payload_flits=c.payload_flits, half=False, bfp=True, aside=len(leaves_for)
            )
            connect(m, shown, compress.i)
            m.d.comb += compress.beside.eq(use)
            leaves, leaves_for, held = sending | ~compress.empty, compress.along, compress.o
        for each, way in ways.items():
            chosen = (leaves_for & each.value).any()
            m.d.comb += [way.valid.eq(held.valid & chosen), way.payload.eq(held.payload)]
            with m.If(chosen):
                m.d.comb += held.ready.eq(way.ready)
        moves = shown.valid & shown.ready
        m.d.comb += [
            header.offload.eq(1),
            use.eq(Mux(sending, kept, about.use)),
            header.kind.eq(Mux(about.use == Use.PUSH, Kind.PUSH, Kind.RESPONSE)),
            header.op.eq(
                Mux(about.contract, ReduceOp.MAX_F32.value, Value.cast(self._job.op))
            ),
            header.region.eq(self.member.node.region),
            header.address.eq(address_of(c, self._epoch, about.number)),
            header.tag.eq(about.tag),
            header.source.eq(self.member.node.endpoint),
            header.destination.eq(Mux(about.use == Use.PUSH, 0, about.requester)),
            header.count.eq(1),
            header.epoch.eq(self._epoch),
            header.poison.eq(about.poison),
            shown.p.first.eq(~sending),
            shown.p.last.eq(final),
            shown.p.data.eq(Mux(sending, payload.o.payload, header.as_value())),
            shown.valid.eq(Mux(sending, payload.o.valid, headers.o.valid & ~self._flushes)),
            headers.o.ready.eq(shown.ready & ~sending & ~self._flushes),
            payload.o.ready.eq(shown.ready & sending),
        ]
        with m.If(moves):
            data_flits = self._scaled(c.payload_flits, words=about.contract)
            m.d.sync += [
                left.eq(Mux(sending, left - 1, data_flits)), kept.eq(use),
                sending.eq(~final), final.eq(Mux(sending, left == 2, data_flits == 1)),
            ]
        if c.lengths:
            m.d.comb += header.format.eq(Mux(about.contract, 0, Value.cast(self._job.format)))
        return leaves
