# SPDX-License-Identifier: Apache-2.0
"""Buffer of whole packets at an input of the crossbar, from which they are replicated."""

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.arbiter import in_turn
from hw.common.params import require_int
from hw.common.select import any_below, index_of, lowest, marked
from hw.common.sram import SRAMBank
from hw.link.packet import FLIT_BITS
from hw.switch.formats import length_shape, rest_of
from hw.switch.layouts import StoreSignature
from hw.switch.packet import FLIT, HEADER, MOST_PASSED

__all__ = ["Reachable", "SendBuffer", "parts_of"]

_PARTS = 3


def parts_of(outputs: int) -> int:
    """Registers of ``SendBuffer.took``: grants come late, and so one LUT4 for each finds those of
    few outputs."""
    return min(outputs, _PARTS)


class _Entry:
    """A packet of a channel: the outputs that it has still to reach, or the number of the only one;
    the code of its length; its slot; its age, if the buffer has ages; its row and whether it lasts,
    if packets are killed."""

    def __init__(
        self, outputs: ShapeLike, lengths: range, slots: int, ages: int, rows: int, name: str
    ) -> None:
        self.rest = Signal(outputs, name=f"rest_{name}")
        self.length = Signal(lengths, name=f"packet_length_{name}")
        self.slot = Signal(range(max(2, slots)), name=f"packet_slot_{name}")
        self.age = [Signal(ages, name=f"age_{name}")] if ages else []
        self.row = Signal(range(max(1, rows)), name=f"packet_row_{name}")
        self.lasting = Signal(name=f"lasting_{name}")
        self._kills = [self.row, self.lasting] if rows else []

    @property
    def data(self) -> Value:
        """All but the outputs."""
        return Cat(self.length, self.slot, *self.age, *self._kills)


class _Line:
    """Packets of a channel in the order of arrival, and a bit for each place that has one."""

    def __init__(self, entries: list[_Entry], name: str) -> None:
        self.there = Signal(len(entries), name=f"there_{name}")
        self.entries = entries


class _Choice:
    """A packet of a buffer, and outputs for it: channel and place in its line, one-hot each."""

    def __init__(self, buffer: "SendBuffer", name: str) -> None:
        self.valid = Signal(name=f"{name}_valid")
        self.outputs = Signal.like(buffer.request, name=f"{name}_outputs")
        self.channel = Signal(buffer.channels, name=f"{name}_channel")
        self.place = Signal(buffer.places, name=f"{name}_place")

    def of(self, values: Sequence[Sequence[Value]]) -> Value:
        """The value of the packet, of those of all lines."""
        places = len(self.place)
        return marked(
            self.channel,
            [marked(self.place, line[:places]) if places > 1 else line[0] for line in values],
        )


class Reachable(wiring.Component):
    """Finds whether some of the *outputs* that are `wanted` are `available`. A block of its own, so
    that what is known late has a short way through it."""

    available: Signal
    wanted: Signal
    o: Signal

    def __init__(self, outputs: int) -> None:
        super().__init__({"available": In(outputs), "wanted": In(outputs), "o": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.o.eq((self.available & self.wanted).any())
        return m


class SendBuffer(wiring.Component):
    """Holds packets of several channels and sends each to all outputs that it is for.

    The oldest packet of a channel asks for all of its outputs that are free and have room for a
    packet; those that are granted get it at the same time, the others later (partial progress). A
    packet leaves the buffer when all were served. Channels take turns.

    A *passing* channel offers to every output the oldest packet that this has still to get, so
    packets for an output stay in order and none waits for another's outputs. Of those with an
    output that is available the oldest asks. When the oldest of all has been passed *most_passed*
    times, nobody else asks before it, unless all the outputs that it has still to reach have
    *stopped*.

    With *kills* packets can be discarded. While there are such that are killed, or of which all
    outputs are closed, nothing new is asked for; when what was asked for before has been granted or
    not, and read to its end, one leaves in every cycle, in whatever order.

    Requests are registers: a packet is chosen in one cycle, asks in the next, and if it is granted
    the buffer changes in the third. So latency from ``commit`` to a request is 3 cycles, from a
    grant to the first flit 3; then flits come in successive cycles, one packet after the other
    without a gap. A header alone is followed at once by a packet of another channel, which is
    chosen while it asks; a channel has a packet in 3 cycles at most. ``freed`` follows the last
    flit's read by a cycle.

    Parameters
    ----------
    channels : int
        Channels, each with room of its own.
    outputs : int
        Outputs of the crossbar.
    packets : int
        Packets of each channel.
    flits : int
        Flits of a packet with data, at least 2; other packets are one flit.
    short : sequence of int
        Flits of packets with less data, each at least 2.
    passing : collection of int
        Channels whose packets may pass older ones that are for other outputs.
    most_passed : int
        How often in a row the oldest packet of such a channel is passed.
    ages : int
        Bits of the number of a packet's block that the buffer shows, 0 for none.
    rows : int
        Rows by which packets are told apart.
    kills : bool
        Whether they can be discarded.
    unicast : bool
        Whether every packet is for one output, of which the number is stored in place of a set.
        Closed outputs are looked at for the oldest packets alone.

    Members
    -------
    store : ``In(StoreSignature(channels, outputs, rows, unicast))``
        Packets to hold; *rows* only with *kills*. ``targets`` must not be empty at ``commit``.
    available : ``In(outputs).array(channels)``
        Which outputs could take a packet of the channel in the next cycle.
    request : ``Out(outputs)``
        Those of them that are asked for, in the next cycle, all for one channel.
    channel : ``Out(range(channels))``
        This channel.
    wanted : ``Out(outputs)``, asking : ``Out(channels)``
        `request` where nothing that `took` stands against it, and its channel, a bit for each.
        Registers.
    length : ``Out(length_shape(short))``
        The code of the length of what is asked for, see `hw.switch.formats`.
    grant : ``In(outputs)``
        Those of them that take the packet. While nothing asks, grants are not for this buffer.
    hold : ``In(1)``
        Nothing is asked for in the next cycle.
    offers : ``Out(1)``
        Something is, or would be without `hold`, or if it were not `busy` or to discard packets.
    busy : ``Out(1)``
        Nothing can be, since a packet is being read, or is to be.
    granted : ``Out(1)``
        A packet was granted in the cycle before.
    took : ``Out(parts_of(outputs))``
        If any bit is set: a packet with data was granted in the cycle before, and what asks now is
        not to be granted. Registers.
    flit : ``Out(FLIT)``, valid : ``Out(1)``
        What is sent.
    roomy : ``Out(channels)``
        Channels that have room for two packets.
    freed : ``Out(channels)``
        Room for a packet has become free.
    stopped : ``In(outputs).array(channels)``, only if some are *passing*
        Outputs that take none of the channel's packets in the next cycle and have not for long.
    kill : ``In(rows)``, only with *kills*
        Packets of these rows are discarded but those that last.
    closed : ``In(outputs)``, only with *kills*
        Packets are not for these outputs, which must not be available in the next cycle, any more.
    holds : ``Out(rows)``, only with *kills*
        A packet is held that does not last: from a cycle after ``commit`` until it has been read.
    discarded : ``Out(1)``, only with *kills*
        High for one cycle for every packet discarded.
    empty : ``Out(1)``
        No packet is held.
    age : ``Out(ages)``, only with *ages*
        The number of the oldest packet of the first channel, modulo a power of two.
    """

    store: Any
    available: Any
    request: Signal
    channel: Signal
    wanted: Signal
    asking: Signal
    length: Signal
    grant: Signal
    hold: Signal
    offers: Signal
    busy: Signal
    granted: Signal
    took: Signal
    flit: Any
    valid: Signal
    freed: Signal
    roomy: Signal
    empty: Signal
    age: Signal
    stopped: Any
    kill: Signal
    closed: Signal
    holds: Signal
    discarded: Signal

    def __init__(
        self, *, channels: int, outputs: int, packets: int, flits: int,
        short: Sequence[int] = (), passing: Collection[int] = (),
        most_passed: int = MOST_PASSED, ages: int = 0, rows: int = 1, kills: bool = False,
        unicast: bool = False,
    ) -> None:
        self.channels = require_int("SendBuffer channels", channels)
        self._outputs = require_int("SendBuffer outputs", outputs)
        self.packets = require_int("SendBuffer packets", packets)
        self._flits = require_int("SendBuffer flits", flits, minimum=2)
        self._short = tuple(
            require_int("SendBuffer short", each, minimum=2, maximum=flits) for each in short
        )
        self._passing = frozenset(passing)
        self.places = self.packets if self._passing else 1  # of a line, which may ask
        self._most_passed = require_int("SendBuffer most_passed", most_passed)
        self._ages = require_int("SendBuffer ages", ages, minimum=0)
        rows = require_int("SendBuffer rows", rows)
        self._rows = rows if kills else 0
        self._unicast = unicast
        discards = {
            "kill": In(rows), "closed": In(outputs), "holds": Out(rows), "discarded": Out(1),
        }
        super().__init__(
            {
                "store": In(
                    StoreSignature(
                        channels=channels, outputs=outputs, rows=self._rows, unicast=unicast
                    )
                ),
                "available": In(outputs).array(channels),
                "request": Out(outputs),
                "channel": Out(range(max(2, channels))),
                "wanted": Out(outputs),
                "asking": Out(channels),
                "length": Out(length_shape(self._short)),
                "grant": In(outputs),
                "hold": In(1),
                "offers": Out(1),
                "busy": Out(1),
                "granted": Out(1),
                "took": Out(parts_of(outputs)),
                "flit": Out(FLIT),
                "valid": Out(1),
                "freed": Out(channels),
                "roomy": Out(channels),
                "empty": Out(1),
                **({"age": Out(self._ages)} if self._ages else {}),
                **({"stopped": In(outputs).array(channels)} if self._passing else {}),
                **(discards if kills else {}),
            }
        )

    def room_beside(self, channel: int, ends: Value) -> Value:
        """High if a channel has room for a packet that is stored from the next cycle on; *ends*:
        the last flit of another one of the channel is being stored in this."""
        return self.store.room[channel] & ~(ends & ~self.roomy[channel])

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        slots = self.slots = self.channels * self.packets
        m.submodules.rows = rows = SRAMBank(depth=slots * self._flits, width=FLIT_BITS)
        gone = Signal(range(max(2, slots)))  # the slot that becomes free
        entry, comes = self._write(m, rows, gone)
        lines = [
            _Line([self._entry(f"{k}_{i}") for i in range(self.packets)], str(k))
            for k in range(self.channels)
        ]
        reading = Signal()
        dead = self._judge(m, lines)
        asked, taken = _Choice(self, "asked"), _Choice(self, "taken")  # that were granted
        discards: Value = Const(0)  # nothing new is asked for
        clears: Value = Const(0)  # a packet leaves that is discarded
        if self._rows:
            discards, clears, settled = Signal(), Signal(), Signal()
            m.d.sync += settled.eq(discards)  # what asks, did so before
            m.d.comb += [
                discards.eq(Cat(dead).any()),
                clears.eq(discards & settled & ~taken.valid & ~reading),
            ]
        offers, choices, asks, finishing, slot, row = [], [], [], [], [], []
        for k, line in enumerate(lines):
            passed = Signal(range(self._most_passed + 1), name=f"passed_{k}")
            late = Signal(name=f"late_{k}")  # so often as it may be
            asking = line.entries[:1]
            waits: Value = Const(0)
            if k in self._passing:
                asking = line.entries
                # Of the cycle before: another packet is the oldest only after it was served, and
                # then none has been passed, or when one is discarded.
                moves = Signal(name=f"moves_{k}")
                m.d.sync += moves.eq(~self._none_but(asking[0], self.stopped[k]))
                waits = late & moves
            choice, offer = self._offer(m, line, asking, waits, self.available[k], str(k))
            offers.append(offer)
            choices.append(choice)
            single = self._unicast or self._outputs == 1
            asks.append(choice.any() if single else self._reached(m, k, asking, waits))
            chosen, served = taken.place[: len(asking)], Signal(self._outputs, name=f"served_{k}")
            m.d.comb += served.eq(Mux(taken.channel[k], taken.outputs, 0))
            done = Signal(name=f"finishing_{k}")
            if k in self._passing:
                with m.If(served.any()):
                    m.d.sync += [
                        passed.eq(Mux(chosen[0], 0, Mux(late, passed, passed + 1))),
                        late.eq(~chosen[0] & (late | (passed == self._most_passed - 1))),
                    ]
            left: Value = Const(0)
            if not self._unicast:
                left = marked(chosen, [each.rest for each in asking]) & ~served
            m.d.comb += done.eq(served.any() & ~left.any())
            leaves, goes = chosen, done
            if self._rows:
                leaves = Signal(self.packets, name=f"leaves_{k}")
                goes = Signal(name=f"goes_{k}")
                m.d.comb += [
                    leaves.eq(Mux(taken.valid, chosen, dead[k])),
                    goes.eq(done | (dead[k].any() & clears)),
                ]
                slot.append(Signal.like(gone, name=f"leaving_slot_{k}"))
                row.append(Signal(self._rows, name=f"leaving_row_{k}"))
                marks = (
                    Mux(each.lasting, 0, 1 << each.row)[: self._rows] if self._rows > 1
                    else ~each.lasting for each in line.entries
                )
                m.d.comb += [
                    slot[k].eq(marked(leaves, [each.slot for each in line.entries])),
                    row[k].eq(marked(leaves, marks)),
                ]
            finishing.append(goes)
            self._advance(m, line, chosen, served, leaves, goes, entry, comes[k], str(k))
            if self._ages and k == 0:
                m.d.comb += self.age.eq(line.entries[0].age[0])
        # Lines in which a packet may be leaving: of what is being granted now, if that is a header
        # alone, as nothing else is read behind packets with data; of what was granted before.
        changing = Mux(self.length == 1, asked.channel, 0) | Mux(taken.valid, taken.channel, 0)
        requests, preferred, turn = (
            Signal(self.channels, name=name) for name in ("requests", "preferred", "turn")
        )
        m.d.comb += [
            requests.eq(Cat(asks) & ~changing),
            turn.eq(in_turn(requests, preferred)),
            self.offers.eq(requests.any()),
        ]
        with m.If(taken.valid):
            m.d.sync += preferred.eq(any_below(taken.channel))
        self._ask(m, asked, taken, turn, offers, choices, lines, discards)
        slot_of, row_of = Signal.like(gone), Signal(self._rows)
        if self._rows:
            whose = Mux(taken.valid, taken.channel, Cat(each.any() for each in dead))
            m.d.sync += self.discarded.eq(clears)
            m.d.comb += [row_of.eq(marked(whose, row)), slot_of.eq(marked(whose, slot))]
        self._taken, self._comes = taken.valid, (entry, comes.any())
        self._send(m, rows, reading, finishing, slot_of, row_of, gone)
        return m

    def _ask(
        self, m: Module, asked: "_Choice", taken: "_Choice", turn: Value, offers: list[Signal],
        choices: list[Signal], lines: list[_Line], discards: Value,
    ) -> None:
        """Ask a cycle later, as *asked*, for what the channel whose turn it is offers; *taken*,
        another cycle later, is what was granted of it."""
        # Of a packet that asks, which stays in its place until it is taken.
        self._length, self._taken_slot = Signal.like(self.length), Signal(range(max(2, self.slots)))
        stops = self.busy | self.hold | discards
        own, data = Signal(name="grants_are_own"), Signal(name="asks_for_data")
        granted = Signal.like(self.took, name="granted_by")
        m.d.comb += [taken.valid.eq(granted.any()), self.granted.eq(taken.valid)]
        m.d.comb += [own.eq(asked.channel.any()), data.eq(own & (self.length != 1))]
        m.d.sync += [
            asked.outputs.eq(Mux(stops, 0, marked(turn, offers))),
            asked.channel.eq(Mux(stops, 0, turn)),
            asked.place.eq(marked(turn, choices)),
            *(
                parts[k].eq(self.grant[k :: len(parts)].any() & wants)
                for parts, wants in ((self.took, data), (granted, own))
                for k in range(len(parts))
            ),
            taken.outputs.eq(Mux(own, self.grant, 0)),
            taken.channel.eq(asked.channel),
            taken.place.eq(asked.place),
            self._length.eq(self.length),
            self._taken_slot.eq(asked.of([[each.slot for each in line.entries] for line in lines])),
        ]
        m.d.comb += [
            self.request.eq(Mux(self.took.any(), 0, asked.outputs)),
            self.channel.eq(index_of(asked.channel)),
            self.wanted.eq(asked.outputs),
            self.asking.eq(asked.channel),
            self.length.eq(asked.of([[each.length for each in line.entries] for line in lines])),
        ]

    def _judge(self, m: Module, lines: list[_Line]) -> list[Value]:
        """The packet that is discarded, by channel: the first of those that are to be."""
        if not self._rows:
            return [Const(0, self.packets) for _ in lines]
        found: Value = Const(0)
        first: list[Value] = []
        for k, line in enumerate(lines):
            dead = Signal(self.packets, name=f"dead_{k}")
            killed = Cat(self.kill.bit_select(each.row, 1) & ~each.lasting for each in line.entries)
            looked = line.entries[:1] if self._unicast else line.entries
            closed = Cat(self._none_but(each, self.closed) for each in looked)
            doomed = Signal(self.packets, name=f"doomed_{k}")
            m.d.comb += [
                dead.eq(line.there & (killed | closed)),
                doomed.eq(Mux(found, 0, dead & -dead)),
            ]
            first.append(doomed)
            found = found | dead.any()
        return first

    def _none_but(self, entry: _Entry, outputs: Value) -> Value:
        """High if all outputs that a packet has still to reach are among *outputs*."""
        if self._unicast:
            return Array(outputs)[entry.rest]
        return ~(entry.rest & ~outputs).any()

    def _count(self, m: Module, entry: _Entry, comes: Value, gone: Value) -> None:
        """Count packets of each row that do not last; *entry*: one that was committed in the cycle
        before, if one *comes*; *gone*: rows of which one has left."""
        for number in range(self._rows):
            held = Signal(range(self.channels * self.packets + 1), name=f"held_{number}")
            enters = comes & ~entry.lasting
            if self._rows > 1:
                enters &= entry.row == number
            m.d.sync += held.eq(held + enters - gone[number])
            m.d.comb += self.holds[number].eq(enters | (held != 0))

    def _entry(self, name: str) -> _Entry:
        slots = self.channels * self.packets
        lengths = length_shape(self._short)
        outputs = range(self._outputs) if self._unicast else self._outputs
        return _Entry(outputs, lengths, slots, self._ages, self._rows, name)

    def _write(self, m: Module, rows: SRAMBank, gone: Signal) -> tuple[_Entry, Signal]:
        """Store flits in a free slot of their channel. Returns a packet that was committed in the
        cycle before, and of which channel one was."""
        store = self.store
        slots = self.channels * self.packets
        used, freed = Signal(slots), Signal(slots)
        last_begun, writes = Signal(slots), Signal(slots)  # the slot, a bit for each
        index = Signal(range(self._flits))
        place = Signal.like(index)
        begun, slot = (Signal(range(max(2, slots)), name=name) for name in ("begun", "slot"))
        free = Signal(slots)  # the first free slot of the channel, a bit for each
        m.d.comb += free.eq(Cat(
            Mux(store.channel == k, lowest(~used.word_select(k, self.packets)), 0)
            for k in range(self.channels)
        ))
        commit = store.valid & store.commit
        m.d.comb += [
            place.eq(Mux(store.first, 0, index)),
            slot.eq(Mux(store.first, index_of(free), begun)),
            writes.eq(Mux(store.first, free, last_begun)),
            freed.eq(self.freed.any() << gone),
            self.empty.eq(~used.any()),
        ]
        first_row = Signal(range(rows.depth))
        m.d.comb += first_row.eq(marked(free, [self._row(number) for number in range(slots)]))
        # Written a cycle later, which is early enough.
        m.d.sync += [
            used.eq((used | Mux(commit, writes, 0)) & ~freed),
            rows.w_en.eq(store.valid), rows.w_data.eq(store.data),
            # The row behind the one that was written last, without waiting for `valid`.
            rows.w_addr.eq(Mux(store.valid & store.first, first_row, rows.w_addr + rows.w_en)),
        ]
        with m.If(store.valid):
            m.d.sync += [
                index.eq(Mux(store.first, 1, index + 1)), begun.eq(slot), last_begun.eq(writes),
            ]
        entry = self._entry("new")
        length: Value = store.first
        for code, flits in enumerate(self._short, 2):
            length = Mux(place == flits - 1, code, length)
        comes = Signal(self.channels)
        m.d.sync += [
            comes.eq(commit << store.channel),
            entry.rest.eq(store.targets),
            entry.length.eq(length),
            entry.slot.eq(slot),
        ]
        if self._rows:
            m.d.sync += [entry.row.eq(store.row), entry.lasting.eq(store.lasting)]
        if self._ages:
            begun_age = Signal(self._ages)
            low = exact_log2(self._flits - 1)
            header: Any = data.View(HEADER, store.data)
            age = Mux(store.first, header.address[low : low + self._ages], begun_age)
            m.d.sync += entry.age[0].eq(age)
            with m.If(store.valid):
                m.d.sync += begun_age.eq(age)
        for k in range(self.channels):
            own = used[k * self.packets : (k + 1) * self.packets]
            others = [Cat(own[:j], own[j + 1 :]) for j in range(len(own))]
            m.d.comb += [
                store.room[k].eq(~own.all()),
                self.roomy[k].eq(Cat(~each.all() for each in others).all()),
            ]
        return entry, comes

    def _row(self, slot: Any) -> Any:
        """First row of a slot."""
        return slot * self._flits

    def _reached(self, m: Module, channel: int, line: list[_Entry], waits: Value) -> Signal:
        """High if `_offer` finds a packet that asks. Which one does is found beside that."""
        first, *others = line
        rest = reduce(or_, (each.rest for each in others), Const(0, self._outputs))
        m.submodules[f"reached_{channel}"] = reached = Reachable(self._outputs)
        m.d.comb += [
            reached.available.eq(self.available[channel]),
            reached.wanted.eq(first.rest | Mux(waits, 0, rest)),
        ]
        return reached.o

    def _offer(
        self, m: Module, line: _Line, asking: list[_Entry], waits: Value, available: Value,
        name: str,
    ) -> tuple[Signal, Signal]:
        """Which of the packets *asking*, the first ones of a line, asks if it is the channel's
        turn, and for what, if any does; if all wait for the oldest, this one."""
        chosen = asks = Signal(len(asking), name=f"asks_{name}")
        offer = Signal(self._outputs, name=f"offer_{name}")
        if len(asking) > 1:
            chosen = Signal.like(asks, name=f"chosen_{name}")
            m.d.comb += chosen.eq(asks & -asks)  # the oldest
        if self._unicast:
            for i, each in enumerate(asking):
                before = Cat(other.rest == each.rest for other in asking[:i]).any()
                blocked = (before | waits) if i else Const(0)
                m.d.comb += asks[i].eq(line.there[i] & Array(available)[each.rest] & ~blocked)
            m.d.comb += offer.eq(1 << marked(chosen, [each.rest for each in asking]))
            return chosen, offer
        older: Value = Const(0, self._outputs)  # outputs for which there are older packets
        wanted: list[Value] = []
        for i, each in enumerate(asking):
            wanted.append(Signal(self._outputs, name=f"possible_{name}_{i}"))
            m.d.comb += wanted[i].eq(each.rest & available & ~older)
            if i + 1 < len(asking):
                behind = Signal(self._outputs, name=f"older_{name}_{i + 1}")
                m.d.comb += behind.eq(older | each.rest | waits.replicate(self._outputs))
                older = behind
        m.d.comb += [
            asks.eq(Cat(each.any() for each in wanted)), offer.eq(marked(chosen, wanted)),
        ]
        return chosen, offer

    def _advance(
        self, m: Module, line: _Line, chosen: Value, served: Value, leaves: Value, goes: Value,
        entry: _Entry, comes: Value, name: str,
    ) -> None:
        """Clear outputs that were served, close the gap of a packet that left, append a new one."""
        there, places = line.there, self.packets
        stays, comes_in, moves_up = (
            Signal(places, name=f"{what}_{name}") for what in ("stays", "comes_in", "moves_up")
        )
        behind = there >> 1
        # Only the first one leaves, or any.
        whole = len(leaves) == places
        from_here = leaves | any_below(leaves) if whole else leaves.replicate(places)
        m.d.comb += [
            stays.eq(Mux(goes, behind, there)),
            comes_in.eq(Mux(comes, Cat(Const(1, 1), stays[:-1]) & ~stays, 0)),
            moves_up.eq(Mux(goes, from_here, 0)),
        ]
        m.d.sync += there.eq(comes_in | (moves_up & behind) | (~moves_up & there))
        *others, last = line.entries
        for i, each in enumerate(others):
            with m.If(comes_in[i] | moves_up[i]):
                m.d.sync += each.data.eq(
                    Mux(comes_in[i], entry.data, line.entries[i + 1].data)
                )
        with m.If(comes_in[-1]):
            m.d.sync += last.data.eq(entry.data)
        for i, each in enumerate(line.entries):
            # Where no packet is, there are no outputs.
            after: Value = Const(0, len(each.rest)) if each is last else line.entries[i + 1].rest
            changes = comes_in[i] | moves_up[i]
            if i < len(chosen) and not self._unicast:
                # The packet that is served is in the enable: so a bit's next state is one LUT.
                after = Mux(moves_up[i], after, each.rest & ~served)
                changes = changes | chosen[i]
            with m.If(changes):
                m.d.sync += each.rest.eq(Mux(comes_in[i], entry.rest, after))

    def _send(
        self, m: Module, rows: SRAMBank, reading: Signal, finishing: Sequence[Value], slot: Value,
        row_of: Value, gone: Signal,
    ) -> None:
        """Read the packet that was granted, of row *row_of*; *slot*: of that, or of one that is
        discarded."""
        left = Signal(range(self._flits))
        row = Signal(range(rows.depth))
        first = Signal()
        ends = Signal(self.channels)  # the channel whose packet leaves the buffer with this one
        place = Signal.like(gone)
        taken = self._taken
        with m.If(taken):
            m.d.sync += [
                reading.eq(1), left.eq(rest_of(self._length, self._flits, self._short)),
                first.eq(1),
                row.eq(self._row(self._taken_slot)), ends.eq(Cat(finishing)),
                place.eq(self._taken_slot),
            ]
        with m.Elif(left == 0):
            m.d.sync += reading.eq(0)
        with m.Else():
            m.d.sync += [left.eq(left - 1), row.eq(row + 1), first.eq(0)]
        last = reading & (left == 0)
        m.d.comb += [
            # What is chosen now is read 3 cycles later.
            self.busy.eq(self.took.any() | (left > 2)),
            rows.r_en.eq(reading),
            rows.r_addr.eq(row),
            self.flit.data.eq(rows.r_data),
        ]
        freed: Value = Mux(last, ends, 0)
        leaves: Value = place
        if self._rows:  # what is discarded does so while nothing is read
            freed = Mux(reading, freed, Mux(taken, 0, Cat(finishing)))
            leaves = Mux(reading, place, slot)
            ended, row_gone = Signal(self._rows), Signal(self._rows)
            with m.If(taken):
                m.d.sync += ended.eq(row_of)
            m.d.sync += row_gone.eq(Mux(freed.any(), Mux(reading, ended, row_of), 0))
            self._count(m, *self._comes, row_gone)
        m.d.sync += [
            self.valid.eq(reading),
            self.flit.first.eq(first),
            self.flit.last.eq(last),
            self.freed.eq(freed),
            gone.eq(leaves),
        ]
