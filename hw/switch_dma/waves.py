"""Wave control: which blocks may be under way."""

from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.switch_dma.config import SwitchDmaConfig
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

    `ready` and `known` depend on the inputs of the same cycle; counters follow a cycle later.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    row : ``In(range(regions))``, only with several
        The region whose all-reduce runs. Changes only while idle.
    size_log2 : ``In(...)``, outstanding : ``In(...)``
        Blocks of a wave as a power of two, at most ``wave_blocks``; waves under way, at least 1.
        Change only while idle.
    first : ``In(1)``
        The next block is the first of an all-reduce.
    ready : ``Out(1)``
        The next block may be begun.
    take : ``In(1)``
        It is; only with `ready`.
    number : ``Out(number_bits)``
        Number of the next block.
    asked : ``In(number_bits)``
        A block's number ...
    known : ``Out(1)``
        ... and whether it is under way.
    done : ``In(1)``
        Block `asked` is done; only with `known`.
    position : ``Out(32)``
        Its place in its all-reduce; the first block's is 0.
    loaded : ``In(number_bits)``
        A block's number in a load ...
    due : ``Out(1)``
        ... and whether it is under way and was not answered yet.
    answered : ``In(1)``
        The load of block `loaded` is answered; only with `due`.
    sent : ``In(1)``, sending : ``In(number_bits)``
        The load of a block that is under way goes out.
    part : ``In(number_bits)``
        A block's number in a part of its sum ...
    part_row : ``In(range(regions))``, only with several
        ... of this region ...
    ahead : ``Out(1)``
        ... whether it is still to be begun here, while others may have begun it ...
    near : ``Out(1)``
        ... whether it is under way, or less than ``config.slots`` blocks ahead ...
    asked_for : ``Out(1)``
        ... and whether it is under way and its load went out.
    clear : ``In(regions)``
        Forget all of a region, and number from 0.
    idle : ``Out(1)``
        No block is under way.
    """

    row: Signal
    size_log2: Signal
    outstanding: Signal
    first: Signal
    ready: Signal
    take: Signal
    number: Signal
    asked: Signal
    known: Signal
    done: Signal
    position: Signal
    loaded: Signal
    due: Signal
    answered: Signal
    sent: Signal
    sending: Signal
    part: Signal
    part_row: Signal
    ahead: Signal
    near: Signal
    asked_for: Signal
    clear: Signal
    idle: Signal

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "size_log2": In(range(exact_log2(c.wave_blocks) + 1)),
                "outstanding": In(range(c.waves + 1)),
                "first": In(1),
                "ready": Out(1),
                "take": In(1),
                "number": Out(c.number_bits),
                "asked": In(c.number_bits),
                "known": Out(1),
                "done": In(1),
                "position": Out(32),
                "loaded": In(c.number_bits),
                "due": Out(1),
                "answered": In(1),
                "sent": In(1),
                "sending": In(c.number_bits),
                "part": In(c.number_bits),
                **dict.fromkeys(("ahead", "near", "asked_for"), Out(1)),
                "clear": In(c.regions),
                **(dict.fromkeys(("row", "part_row"), In(range(c.regions)))
                   if c.regions > 1 else {}),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        sizes = range(exact_log2(c.wave_blocks) + 1)
        wave_bits, slot_bits = exact_log2(c.waves), exact_log2(c.slots)
        numbers = [Signal(c.number_bits, name=f"number_{k}") for k in range(c.regions)]
        row: Value = C(0, 1)
        next_part: Value = self.number  # the next block of the region that a part is of
        same_row: Value = C(1, 1)
        if c.regions > 1:
            row, next_part = self.row, pick(numbers, self.part_row)
            same_row = self.part_row == self.row
        clear = self.clear.bit_select(row, 1)
        m.d.comb += self.number.eq(pick(numbers, row))

        def wave_of(number: Signal, name: str) -> Signal:
            wave = Signal(range(max(2, c.waves)), name=name)
            if wave_bits:
                m.d.comb += wave.eq(
                    Array(number[k : k + wave_bits] for k in sizes)[self.size_log2]
                )
            return wave

        next_wave = wave_of(self.number, "next_wave")
        asked_wave = wave_of(self.asked, "asked_wave")
        counts = [Signal(range(c.wave_blocks + 1), name=f"count_{k}") for k in range(c.waves)]
        busy = Cat(count != 0 for count in counts)
        begins = Signal()
        under_way = Signal(range(c.waves + 1))  # waves
        boundary = Array((self.number[:k] == 0) if k else 1 for k in sizes)[self.size_log2]
        m.d.comb += [
            begins.eq(self.first | boundary),
            self.ready.eq(
                ~begins | (~busy.bit_select(next_wave, 1) & (under_way < self.outstanding))
            ),
            self.idle.eq(under_way == 0),
        ]
        # The first block of a wave that is not under way, the last of one that is.
        rises = self.take & ~busy.bit_select(next_wave, 1)
        same = self.take & (next_wave == asked_wave)
        falls = self.done & (Array(counts)[asked_wave] == 1) & ~same
        m.d.sync += under_way.eq(Mux(clear, 0, under_way + rises - falls))
        for k, count in enumerate(counts):
            up = self.take & (next_wave == k)
            down = self.done & (asked_wave == k)
            m.d.sync += count.eq(Mux(clear, 0, count + up - down))

        pending = Signal(c.slots)
        open_ = Signal(c.slots)  # under way, and no load was answered
        age = Signal(c.number_bits)  # blocks begun since the one asked for
        begun = Signal(32)  # blocks of the all-reduce
        m.d.comb += [
            self.position.eq(begun - 1 - age),
            age.eq(self.number - self.asked - 1),
            self.known.eq(
                (age < c.slots) & pending.bit_select(self.asked[:slot_bits], 1)
            ),
        ]
        since = Signal(c.number_bits)
        m.d.comb += [
            since.eq(self.number - self.loaded - 1),
            self.due.eq((since < c.slots) & open_.bit_select(self.loaded[:slot_bits], 1)),
        ]
        loading = Signal(c.slots)  # under way, and its load went out
        lead, past = Signal(c.number_bits), Signal(c.number_bits)
        there = self.part[:slot_bits]
        begun_here = Signal()
        m.d.comb += [
            lead.eq(self.part - next_part),
            past.eq(next_part - self.part - 1),
            self.ahead.eq(~lead[-1]),
            begun_here.eq(same_row & (past < c.slots) & pending.bit_select(there, 1)),
            self.near.eq(Mux(self.ahead, lead < c.slots, begun_here)),
            self.asked_for.eq(~self.ahead & self.near & loading.bit_select(there, 1)),
        ]
        with m.If(self.sent):
            m.d.sync += loading.bit_select(self.sending[:slot_bits], 1).eq(1)
        with m.If(self.done):
            m.d.sync += [
                each.bit_select(self.asked[:slot_bits], 1).eq(0)
                for each in (pending, open_, loading)
            ]
        with m.If(self.answered):
            m.d.sync += open_.bit_select(self.loaded[:slot_bits], 1).eq(0)
        with m.If(self.take):
            m.d.sync += [
                pending.bit_select(self.number[:slot_bits], 1).eq(1),
                open_.bit_select(self.number[:slot_bits], 1).eq(1),
                begun.eq(Mux(self.first, 1, begun + 1)),
            ]
        for k, number in enumerate(numbers):
            with m.If(self.clear[k]):
                m.d.sync += number.eq(0)
            with m.Elif(self.take & (row == k)):
                m.d.sync += number.eq(number + 1)
        with m.If(clear):
            m.d.sync += [pending.eq(0), open_.eq(0), loading.eq(0)]
        return m
