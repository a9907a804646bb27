# SPDX-License-Identifier: Apache-2.0
"""Wave control: which blocks may be under way."""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.count import stepped, stepped_to
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.interfaces import (
    AnswerSignature,
    BeginSignature,
    PartSignature,
    WaitedSignature,
    WindowSignature,
)
from hw.switch_dma.layouts import pick

__all__ = ["WaveControl"]


class WaveControl(wiring.Component):
    """Numbers blocks and limits how many are under way.

    A *wave* is the blocks whose numbers agree but for their low ``size_log2`` bits, or those of
    them that an all-reduce has. It is begun when the counter that it falls to is free, and at most
    ``outstanding`` waves are under way. A counter is free when all blocks of its wave are done. So
    all blocks under way fit into a window of ``config.slots`` successive numbers.

    Every region has numbers of its own. The counters are those of the region whose all-reduce runs,
    one at a time; of the others no block is under way.

    Answers depend on the inputs of the same cycle; counters follow a cycle later.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    row : ``In(range(regions))``, only with several
        The region whose all-reduce runs. Changes only while idle.
    window : ``In(WindowSignature())``
        Blocks of a wave, at most ``wave_blocks``; waves under way, 1 to ``waves``. Changes only
        while idle.
    begin : ``In(BeginSignature(config))``
        Blocks as they are begun.
    waited : ``In(WaitedSignature(config))``
        Blocks that are done.
    sent : ``In(stream.Signature(number_bits, always_ready=True))``
        High for one cycle when the load of a block that is under way goes out, with its number.
    answer : ``In(AnswerSignature(config))``
        Blocks that others load.
    part : ``In(PartSignature(config))``
        Blocks of which parts of sums come.
    clear : ``In(regions)``
        Forget all of a region, and number from 0.
    idle : ``Out(1)``
        No block is under way; always valid.
    """

    row: Signal
    window: Any
    begin: Any
    waited: Any
    sent: stream.Interface
    answer: Any
    part: Any
    clear: Signal
    idle: Signal

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "window": In(WindowSignature()),
                "begin": In(BeginSignature(c)),
                "waited": In(WaitedSignature(c)),
                "sent": In(stream.Signature(c.number_bits, always_ready=True)),
                "answer": In(AnswerSignature(c)),
                "part": In(PartSignature(c)),
                "clear": In(c.regions),
                **({"row": In(range(c.regions))} if c.regions > 1 else {}),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        begin, part = self.begin, self.part
        numbers = [Signal(c.number_bits, name=f"number_{k}") for k in range(c.regions)]
        row: Value = C(0, 1)
        next_part: Value = begin.number  # the next block of the region that a part is of
        same_row: Value = C(1, 1)
        if c.regions > 1:
            row, next_part = self.row, pick(numbers, part.row)
            same_row = part.row == self.row
        clear = self.clear.bit_select(row, 1)
        m.d.comb += begin.number.eq(pick(numbers, row))
        # The wave of each region's next block, one-hot, and whether the block is its first one.
        places = [Signal(c.waves, name=f"place_{k}", init=1) for k in range(c.regions)]
        firsts = [Signal(name=f"first_{k}", init=1) for k in range(c.regions)]
        for k, (number, place, first) in enumerate(zip(numbers, places, firsts)):
            takes, after = begin.take & (row == k), (number + 1)[: len(number)]
            with m.If(self.clear[k]):
                m.d.sync += [number.eq(0), place.eq(1), first.eq(1)]
            with m.Else():
                with m.If(takes):
                    m.d.sync += number.eq(after)
                m.d.sync += [
                    place.eq(Mux(takes, self._wave_of(after), self._wave_of(number))),
                    first.eq(Mux(takes, self._is_first(after), self._is_first(number))),
                ]
        self._count(m, pick(places, row), pick(firsts, row), clear)
        self._know(m, next_part, same_row, clear)
        return m

    def _of_size(self, values: Iterable[Any]) -> Value:
        """The one of *values* that is of the size of waves, from the smallest on."""
        each = [Value.cast(value) for value in values]
        return Array(each)[self.window.size_log2[: (len(each) - 1).bit_length()]]

    def _wave_of(self, number: Value) -> Value:
        """The counter of the wave that the block falls to, one-hot."""
        c = self._config
        bits = exact_log2(c.waves)
        sizes = range(exact_log2(c.wave_blocks) + 1)
        return (1 << self._of_size(number[k : k + bits] for k in sizes))[: c.waves]

    def _is_first(self, number: Value) -> Value:
        """High if no block of its wave has a lower number."""
        sizes = range(exact_log2(self._config.wave_blocks) + 1)
        return self._of_size((number[:k] == 0) if k else 1 for k in sizes)

    def _count(self, m: Module, next_wave: Value, boundary: Value, clear: Value) -> None:
        """Count blocks of each wave, and waves."""
        c = self._config
        begin, waited = self.begin, self.waited
        outstanding = self.window.outstanding[: c.waves.bit_length()]
        done_wave = Signal(c.waves)
        m.d.comb += done_wave.eq(self._wave_of(waited.over))
        counts = [Signal(range(c.wave_blocks + 1), name=f"count_{k}") for k in range(c.waves)]
        busy = Signal(c.waves)  # counts that are not 0
        under_way = Signal(range(c.waves + 1))  # waves
        some, few = Signal(), Signal(init=1)  # of them; fewer than may be
        free = ~(busy & next_wave).any()
        m.d.comb += [
            begin.ready.eq(~(begin.first | boundary) | (free & few)),
            self.idle.eq(~some),
        ]
        # The first block of a wave that is not under way, the last of one that is.
        rises = begin.take & free
        same = begin.take & (next_wave & done_wave).any()
        falls = waited.done & (Cat(count == 1 for count in counts) & done_wave).any() & ~same
        m.d.sync += [
            under_way.eq(Mux(clear, 0, stepped(under_way, up=rises, down=falls))),
            some.eq(~clear & ~stepped_to(under_way, 0, up=rises, down=falls)),
            few.eq(
                clear
                | Mux(rises, Mux(falls, under_way < outstanding, under_way + 1 < outstanding),
                      Mux(falls, under_way <= outstanding, under_way < outstanding))
            ),
        ]
        for k, count in enumerate(counts):
            up, down = begin.take & next_wave[k], waited.done & done_wave[k]
            m.d.sync += [
                count.eq(Mux(clear, 0, stepped(count, up=up, down=down))),
                busy[k].eq(~clear & ~stepped_to(count, 0, up=up, down=down)),
            ]

    def _know(self, m: Module, next_part: Value, same_row: Value, clear: Value) -> None:
        """Keep what is known of the blocks begun last, and answer what is asked of them."""
        c = self._config
        begin, waited, answer, part = self.begin, self.waited, self.answer, self.part
        slot_bits = exact_log2(c.slots)
        pending = Signal(c.slots)
        open_ = Signal(c.slots)  # under way, no contract, and no load was answered
        age = Signal(c.number_bits)  # blocks begun since the one asked for
        newest = Signal(32)  # place of the block begun last in its all-reduce
        m.d.comb += [
            age.eq(begin.number - waited.number - 1),
            waited.position.eq(newest - age),
            waited.first.eq(age == newest),
            waited.newest.eq(age == 0),
            waited.known.eq(
                (age < c.slots) & pending.bit_select(waited.number[:slot_bits], 1)
            ),
            answer.due.eq(open_.bit_select(answer.number[:slot_bits], 1)),
        ]
        loading = Signal(c.slots)  # under way, and its load went out
        lead, past = Signal(c.number_bits), Signal(c.number_bits)
        there = part.number[:slot_bits]
        begun_here = Signal()
        m.d.comb += [
            lead.eq(part.number - next_part),
            past.eq(next_part - part.number - 1),
            part.ahead.eq(~lead[-1]),
            begun_here.eq(same_row & (past < c.slots) & pending.bit_select(there, 1)),
            part.near.eq(Mux(part.ahead, lead < c.slots, begun_here)),
            part.asked_for.eq(~part.ahead & part.near & loading.bit_select(there, 1)),
        ]
        with m.If(self.sent.valid):
            m.d.sync += loading.bit_select(self.sent.payload[:slot_bits], 1).eq(1)
        with m.If(waited.done):
            m.d.sync += [
                each.bit_select(waited.over[:slot_bits], 1).eq(0)
                for each in (pending, open_, loading)
            ]
        with m.If(answer.answered):
            m.d.sync += open_.bit_select(answer.number[:slot_bits], 1).eq(0)
        with m.If(begin.take):
            m.d.sync += [
                pending.bit_select(begin.number[:slot_bits], 1).eq(1),
                open_.bit_select(begin.number[:slot_bits], 1).eq(~begin.first),
                newest.eq(Mux(begin.first, 0, newest + 1)),
            ]
        with m.If(clear):
            m.d.sync += [pending.eq(0), open_.eq(0), loading.eq(0)]
