# SPDX-License-Identifier: Apache-2.0
"""Pull: loads the sums that this endpoint is the requester of, and finds what others load."""

from typing import Any

from amaranth.hdl import C, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.count import stepped
from hw.common.params import require_int
from hw.switch.packet import FLIT, HEADER, Kind
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.interfaces import AnswerSignature, BlockSignature, MemberSignature
from hw.switch_dma.layouts import (
    address_of,
    job_layout,
    number_of,
    pick,
    read_layout,
)

__all__ = ["Loads"]

_KEPT = ("final", "op", "pull")
"""Fields of a job that loads need."""


class Loads(wiring.Component):
    """Sends a LOAD for every block whose sum this endpoint requests, and hears those of others.

    The members are the requesters of successive blocks in turn: that of block *n* is the member
    with rank *n* modulo their number. Blocks are walked over after `WaveControl` has begun them, so
    what is under way never waits for room to send a load.

    A LOAD that comes is answered once its block has been begun here, until which it waits; a block
    that is done, or answered already, is not answered. **It waits for results alone**: its sender
    has begun the block, by the same rules as hold here, so what keeps the block from being begun
    here are blocks whose results are on their way. No LOAD comes of a region whose all-reduce does
    not run: nobody loads before this endpoint has begun, and it ends when all it was asked for has
    come back as results. Turns go on where the region's all-reduce before has left them.

    A block is walked over in a cycle, a LOAD that comes takes 4.

    Parameters
    ----------
    config : SwitchDmaConfig
    link : int
        Number of this link.

    Members
    -------
    begun : ``In(stream.Signature(job_layout(config), always_ready=True))``
        High for one cycle when a job begins.
    row : ``In(range(regions))``, only with several
        The region whose all-reduce runs.
    member : ``In(MemberSignature())``, rank : ``In(range(endpoints))``
        Who this is in that region, and how many members come before it.
    whole : ``In(1)``
        Own operands travel too: a LOAD asks for those of all members.
    next : ``In(BlockSignature(config))``
        The next block to be begun.
    answer : ``Out(AnswerSignature(config))``
        The block of a load that came.
    i, o : ``In(stream.Signature(FLIT))``, ``Out(stream.Signature(FLIT))``
        LOAD packets of others, and own ones, without checksum.
    ask : ``Out(stream.Signature(read_layout(config)))``
        Operands to be read: own ones for the home store, and for others.
    flush : ``In(regions)``
        Forget everything of a region.
    walking : ``Out(1)``
        Blocks that were begun are still to be walked over.
    empty : ``Out(1)``
        No LOAD and no operand to be read is held.
    sent : ``Out(stream.Signature(number_bits, always_ready=True))``
        High for one cycle per LOAD sent, with the number of its block.
    stale, unknown : ``Out(1)``
        High for one cycle per LOAD dropped: of another epoch, not to be answered.
    """

    begun: stream.Interface
    row: Signal
    member: Any
    rank: Signal
    whole: Signal
    next: Any
    answer: Any
    i: stream.Interface
    o: stream.Interface
    ask: stream.Interface
    flush: Signal
    walking: Signal
    empty: Signal
    sent: stream.Interface
    stale: Signal
    unknown: Signal

    def __init__(self, config: SwitchDmaConfig, *, link: int) -> None:
        c = self._config = config
        self._link = require_int("Loads link", link, minimum=0, maximum=c.links - 1)
        super().__init__(
            {
                "begun": In(stream.Signature(job_layout(c), always_ready=True)),
                "member": In(MemberSignature()),
                "rank": In(range(c.endpoints)),
                "whole": In(1),
                "next": In(BlockSignature(c)),
                "answer": Out(AnswerSignature(c)),
                "i": In(stream.Signature(FLIT)),
                "o": Out(stream.Signature(FLIT)),
                "ask": Out(stream.Signature(read_layout(c))),
                "flush": In(c.regions),
                **({"row": In(range(c.regions))} if c.regions > 1 else {}),
                **dict.fromkeys(("walking", "empty", "stale", "unknown"), Out(1)),
                "sent": Out(stream.Signature(c.number_bits, always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = read_layout(self._config)
        kept = {name: dict(job_layout(self._config))[name].shape for name in _KEPT}
        job: Any = Signal(data.StructLayout(kept))
        self._job = job
        self._row = self.row if self._config.regions > 1 else C(0, 1)
        self._flush = self.flush.bit_select(self._row, 1)
        with m.If(self.begun.valid):
            m.d.sync += [job[name].eq(self.begun.p[name]) for name in _KEPT]
        with m.Elif(self._flush):
            m.d.sync += self._job.pull.eq(0)
        asks = [stream.Signature(layout).create(path=(name,)) for name in ("own", "heard")]
        self._walk(m, asks[0])
        held = self._hear(m, asks[1])
        self._ask(m, *asks)
        m.d.comb += self.empty.eq(~held & ~self.ask.valid)
        return m

    def _ask(self, m: Module, own: stream.Interface, heard: stream.Interface) -> None:
        """Ask for operands in turn, in every other cycle at most: each takes longer to be read.
        Neither waits for whether it is there itself, nor the own one for what came in this
        cycle."""
        free = ~self.ask.valid
        heard_first, heard_waits = Signal(), Signal()
        m.d.sync += heard_waits.eq(heard.valid & heard_first)
        m.d.comb += [
            own.ready.eq(free & ~heard_waits),
            heard.ready.eq(free & (heard_waits | ~own.valid)),
        ]
        takes_own = own.valid & ~heard_waits
        takes = takes_own | heard.valid
        with m.If(free):
            m.d.sync += [
                self.ask.valid.eq(takes),
                self.ask.payload.eq(Mux(takes_own, own.payload, heard.payload)),
            ]
            with m.If(takes):
                m.d.sync += heard_first.eq(takes_own)
        with m.Elif(self.ask.ready):
            m.d.sync += self.ask.valid.eq(0)
        with m.If(self._flush):
            m.d.sync += self.ask.valid.eq(0)

    def _walk(self, m: Module, ask: stream.Interface) -> None:
        """Load the blocks whose turn is this endpoint's; then read the own operand."""
        c = self._config
        numbers = [Signal(c.number_bits, name=f"number_{k}") for k in range(c.regions)]
        # Blocks that were begun and not walked over, and whether there are any.
        ahead = [Signal(c.number_bits, name=f"ahead_{k}") for k in range(c.regions)]
        some = Signal(c.regions)
        turns = [Signal(range(c.endpoints), name=f"turn_{k}") for k in range(c.regions)]
        number, turn = pick(numbers, self._row), pick(turns, self._row)
        place = Signal(32)
        contract, loaded = Signal(), Signal()  # loaded: it walks, and the block is its own
        own, steps = Signal(), Signal()
        next_turn = Signal.like(turns[0])
        ours = Signal()  # it is this endpoint's turn
        header: Any = Signal(HEADER)
        m.d.comb += [
            self.walking.eq(some.bit_select(self._row, 1)),
            own.eq(self._job.pull & ~contract & ours),
            next_turn.eq(Mux(turn + 1 == self.member.node.members, 0, turn + 1)),
            self.o.valid.eq(self.walking & own & ~loaded & ~self._flush),
            self.o.p.first.eq(1),
            self.o.p.last.eq(1),
            self.o.p.data.eq(header.as_value()),
            self.sent.valid.eq(self.o.valid & self.o.ready),
            self.sent.payload.eq(number),
            ask.valid.eq(loaded & ~self.whole),
            ask.p.number.eq(number),
            ask.p.block.eq(place),
            ask.p.tail.eq(self.next.tail & (pick(ahead, self._row) == 1)),
            ask.p.own.eq(1),
            ask.p.requester.eq(self.member.node.endpoint),
            steps.eq(Mux(loaded, self.whole | ask.ready, self.walking & ~own)),
            header.offload.eq(1),
            header.kind.eq(Kind.LOAD),
            header.op.eq(Value.cast(self._job.op)),
            header.region.eq(self.member.node.region),
            header.address.eq(address_of(c, self.member.epoch, number)),
            header.source.eq(self.member.node.endpoint),
            header.count.eq(self.member.node.members - ~self.whole),
            header.epoch.eq(self.member.epoch),
        ]
        m.d.sync += ours.eq(Mux(steps, next_turn == self.rank, turn == self.rank))
        with m.If(self.sent.valid):
            m.d.sync += loaded.eq(1)
        with m.If(steps):
            m.d.sync += [contract.eq(0), loaded.eq(0)]
            with m.If(~contract):
                m.d.sync += place.eq(place + c.links)
        with m.If(self.begun.valid):
            m.d.sync += [contract.eq(1), place.eq(self._link)]
        with m.If(self._flush):
            m.d.sync += loaded.eq(0)
        for k, (number_k, turn_k, ahead_k) in enumerate(zip(numbers, turns, ahead)):
            here = self._row == k
            up, down = self.next.begins & here, steps & here
            with m.If(self.flush[k]):
                m.d.sync += [each.eq(0) for each in (number_k, turn_k, ahead_k, some[k])]
            with m.Else():
                m.d.sync += [
                    ahead_k.eq(stepped(ahead_k, up=up, down=down)),
                    some[k].eq(Mux(down, up | (ahead_k > 1), up | (ahead_k != 0))),
                ]
            with m.If(down & ~self.flush[k]):
                m.d.sync += [number_k.eq(number + 1), turn_k.eq(next_turn)]

    def _hear(self, m: Module, ask: stream.Interface) -> Signal:
        """Judge a LOAD that came, from the second cycle on, and answer it when its block has been
        begun. Returns whether there is one."""
        c = self._config
        slot_bits = exact_log2(c.slots)
        held, judges = Signal(), Signal()
        load: Any = Signal(HEADER)
        given: Any = Signal(HEADER)
        takes = self.i.valid & self.i.ready
        number, new = (number_of(c, each.address) for each in (load, given))
        begins, members = self.next.begins, self.member.node.members
        # Blocks begun after this one; negative if it is still to be begun, -1 for the next. What
        # follows from it is as it was in the cycle before.
        since = Signal(c.number_bits)
        stale, sound, early, begun, due, inside = (
            Signal(name=name) for name in ("is_stale", "sound", "early", "begun", "due", "inside")
        )
        place = Signal(32)
        stays = Signal()
        m.d.comb += [
            Value.cast(given).eq(self.i.p.data),
            self.i.ready.eq(~held),
            self.answer.number.eq(number),
            place.eq(self.next.block + (~since).as_signed() * c.links),
            self.stale.eq(judges & stale),
            ask.valid.eq(judges & ~stale & sound & due),
            ask.p.number.eq(number),
            ask.p.block.eq(place),
            ask.p.tail.eq(self.next.tail & begun & (since[:slot_bits] == 0)),
            ask.p.requester.eq(load.source),
            ask.p.tag.eq(load.tag),
            self.answer.answered.eq(ask.valid & ask.ready),
            self.unknown.eq(judges & ~stale & ~(sound & ((early & inside) | due))),
            stays.eq(held & ~(self.answer.answered | self.stale | self.unknown | self._flush)),
        ]
        m.d.sync += [held.eq(stays | (takes & ~self._flush)), judges.eq(stays)]
        ours: Any = load.region == self.member.node.region if c.regions > 1 else C(1, 1)
        count = (load.count == members) | (load.count + 1 == members)
        rest = since[slot_bits:]
        in_window = ~rest.any()  # of the blocks begun last
        with m.If(takes):
            m.d.sync += [
                load.eq(given),
                since.eq(
                    Mux(begins, self.next.number - new, self.next.number + ~new)[: len(since)]
                ),
            ]
        with m.Elif(begins):
            m.d.sync += since.eq(since + 1)
        m.d.sync += [
            stale.eq(ours & (load.epoch != self.member.epoch)),
            sound.eq(
                ours & self._job.pull & ~self.next.first
                & (load.op == Value.cast(self._job.op)) & count
            ),
            early.eq(rest.all()),
            begun.eq(in_window),
            inside.eq(place <= self._job.final),
            due.eq(self.answer.due & in_window),
        ]
        return held
