# SPDX-License-Identifier: Apache-2.0
"""One link: everything between its memory port and its plane of switches."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw.common.count import stepped
from hw.common.demux import StreamDemux
from hw.switch.layouts import LinkSignature
from hw.switch.packet import FLIT, HEADER, Kind, Traffic, header_of
from hw.switch.recode import CompressPackets, ExpandPackets
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.fork import ResultFork
from hw.switch_dma.home import TOOK, HomeStore
from hw.switch_dma.interfaces import (
    CreditsSignature,
    MemberSignature,
    RegionSignature,
    SettingsSignature,
    WindowSignature,
    WorkSignature,
)
from hw.switch_dma.layouts import (
    each_region,
    events_layout,
    heard_layout,
    job_layout,
    per_region,
    pick,
)
from hw.switch_dma.loads import Loads
from hw.switch_dma.operands import Operands
from hw.switch_dma.packet_merge import PacketMerge
from hw.switch_dma.receive import Receive
from hw.switch_dma.results import Results
from hw.switch_dma.transmit import Transmit
from hw.switch_dma.waves import WaveControl

__all__ = ["IDLE_PARTS", "Lane"]

# Sources of what is sent, with their classes.
_SENT = {
    "operands": Traffic.REQUEST,
    "finished": Traffic.RESULT,
    "notices": Traffic.RESULT,
    "loads": Traffic.REQUEST,
    "answers": Traffic.PARTIAL,
}

IDLE_PARTS = 4
"""Bits that say that a lane is idle."""

_OWN = 1
"""Index of this endpoint among the sources of operands that are added."""

_ON_THE_WAY = 15
"""Limit of packets between the sources and the home store: more than there is room for."""

_MOVES = ("operand", "load", "answer", "partial", "result", "read_beat", "written_beat")
"""Events by which the watchdog sees that a job goes on."""


class Lane(wiring.Component):
    """All-reduce of this link's share of a vector: every ``links``-th block.

    Operands or loads go out as waves permit, loads of others are answered; partials and answers
    that come are added, and the sums that they complete are sent to all and stored here; results
    that come are stored.

    Parameters
    ----------
    config : SwitchDmaConfig
    link : int
        Number of this link.

    Members
    -------
    work : ``In(WorkSignature(config))``
        All-reduces, one at a time.
    member : ``In(MemberSignature())``, rank : ``In(range(endpoints))``, for each region
        Who this is, and the members with lower numbers, valid while a job runs.
    region : ``In(RegionSignature())``, for each region
        Its packets are to be taken, and forgotten.
    settings : ``In(SettingsSignature())``
        Of software.
    told : ``In(stream.Signature(FLIT))``
        Notices to send.
    heard : ``Out(stream.Signature(heard_layout(config)))``
        Notices that came.
    credits : ``In(CreditsSignature())``
        Those of the link, counted anew.
    link : ``Out(LinkSignature())``
        To a port of a switch.
    mem : ``Out(AXI4Signature)``
        Memory.
    idle : ``Out(IDLE_PARTS)``
        Bits, each of some parts: they hold nothing, and nothing is on its way.
    events : ``Out(events_layout(config))``
        Events of this cycle.
    moves : ``Out(1)``
        Something of a job moves in this cycle: it does not hang.
    took : ``Out(TOOK)``
        The partial that the home store adds, with a bit that says when it is valid.
    """

    work: Any
    member: Any
    rank: Signal
    region: Any
    settings: Any
    told: stream.Interface
    heard: stream.Interface
    credits: Any
    link: Any
    mem: Any
    idle: Signal
    events: Any
    moves: Signal
    took: Any

    def __init__(self, config: SwitchDmaConfig, *, link: int) -> None:
        c = self._config = config
        self._link = link
        super().__init__(
            {
                "work": In(WorkSignature(c)),
                "member": per_region(c, In(MemberSignature())),
                "rank": per_region(c, In(range(c.endpoints))),
                "region": per_region(c, In(RegionSignature())),
                "settings": In(SettingsSignature()),
                "told": In(stream.Signature(FLIT)),
                "heard": Out(stream.Signature(heard_layout(c))),
                "credits": In(CreditsSignature()),
                "link": Out(LinkSignature()),
                "mem": Out(c.memory_bus),
                "idle": Out(IDLE_PARTS),
                "events": Out(events_layout(c)),
                "moves": Out(1),
                "took": Out(TOOK),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.waves = waves = WaveControl(c)
        m.submodules.operands = operands = Operands(c, link=self._link)
        m.submodules.transmit = transmit = Transmit(
            c, classes=list(_SENT.values()), lasting=list(_SENT).index("notices"),
            # Operands that are compressed may wait there; others, and loads, hide in a flush.
            dropped=[0, 1, 4] if c.bfp else [1],
        )
        m.submodules.receive = receive = Receive(c, link=self._link)
        m.submodules.home = home = HomeStore(c)
        m.submodules.loads = loads = Loads(c, link=self._link)
        m.submodules.adds = adds = PacketMerge(2 + c.multicast_partials)
        m.submodules.results = results = Results(c, link=self._link)
        self._regions = each_region(c, self.region)
        self._flush = Cat(each.flush for each in self._regions)
        self._begun: Any = stream.Signature(job_layout(c), always_ready=True).create(
            path=("begun",)
        )
        row, ends = self._choose(m, waves, loads, receive, home, (operands, results, loads))
        self._limit_waves(m, waves, operands, results)
        # Which block may go out, and what is known of those under way.
        connect(m, operands.begin, waves.begin)
        connect(m, loads.sent, waves.sent)
        connect(m, loads.answer, waves.answer)
        connect(m, home.part, waves.part)
        connect(m, results.waited, waves.waited)
        # Sources of what is sent, in the order of `_SENT`.
        connect(m, operands.o, transmit.i[0])
        connect(m, flipped(self.told), transmit.i[2])
        connect(m, loads.o, transmit.i[3])
        connect(m, operands.answers, transmit.i[4])
        connect(m, loads.ask, operands.ask)
        connect(m, transmit.tx, flipped(self.link.tx))
        connect(m, flipped(self.link.rx), receive.rx)
        connect(m, flipped(self.credits), transmit.credits)
        connect(m, receive.asked, transmit.asked)
        m.d.comb += [
            transmit.credit.eq(self.link.tx_credit), self.link.rx_credit.eq(receive.credit),
        ]
        connect(m, receive.heard, flipped(self.heard))
        connect(m, receive.o[Traffic.REQUEST.value], loads.i)
        connect(m, receive.o[Traffic.PARTIAL.value], adds.i[0])
        connect(m, operands.own, adds.i[1])
        added = self._hold(m, adds)
        sums, finished, recodes, sends = self._recode(m, added, waves, home)
        connect(m, sums, home.i)
        m.submodules.fork = fork = ResultFork()
        connect(m, finished, fork.i)
        connect(m, fork.sent, transmit.i[1])
        connect(m, fork.stored, results.i[1])
        if c.multicast_partials:
            came = receive.o[Traffic.RESULT.value]
            m.submodules.sort = sort = StreamDemux(FLIT, 2)
            is_sum = Value.cast(header_of(came.p).kind) == Kind.SUBTOTAL.value
            partial = self._of_packet(m, came, is_sum)
            m.d.comb += sort.chosen.eq(Cat(~partial, partial))
            connect(m, came, sort.i)
            connect(m, sort.o[0], results.i[0])
            connect(m, sort.o[1], adds.i[2])
            m.d.comb += fork.stays.eq(
                self._of_packet(m, finished, header_of(finished.p).tag[0])
            )
        else:
            connect(m, receive.o[Traffic.RESULT.value], results.i[0])
        connect(m, operands.bus, flipped(self.mem.read))
        connect(m, results.bus, flipped(self.mem.write))
        quells = self._quell(m, ends, operands, results)
        m.d.comb += [
            transmit.row.eq(row), transmit.discard.eq(quells), transmit.kill.eq(self._flush)
        ]
        self._run_jobs(m, quells, waves, operands, loads, home, results)
        own = operands.sending | home.gives | sends | results.holds
        busy = home.busy | self._adds(m, adds, sums) | transmit.holds | (own << row)
        unanswered = (quells & (operands.busy | results.writing)) << row
        disagreed = home.mismatch | (results.disagreed << row)
        for k, region in enumerate(self._regions):
            m.d.comb += region.unanswered.eq(unanswered[k])
            # The end of a flush and reasons to end an epoch are heard a cycle later, as are events.
            m.d.sync += [
                region.busy.eq(busy[k]), region.disagreed.eq(disagreed[k]),
                region.overflow.eq(home.overflow[k]),
            ]
        reasons = Cat(each.disagreed | each.overflow for each in self._regions)
        m.d.comb += self.idle.eq(Cat(
            ~self.events.as_value().any() & ~reasons.any(),
            receive.idle & home.empty & ~home.busy.any() & ~recodes & ~sends & ~added.valid,
            transmit.empty & ~self.credits.counting,
            ~operands.active & ~operands.busy & ~results.writing & waves.idle & ~loads.walking
            & loads.empty & ~quells,
        ))
        self._report(m, operands, loads, transmit, receive, home, results)
        return m

    def _choose(
        self, m: Module, waves: WaveControl, loads: Loads, receive: Receive, home: HomeStore,
        parts: tuple[Any, ...],
    ) -> tuple[Value, Value]:
        """Give the *parts* the node and epoch of the region whose all-reduce runs, or ran last, and
        other parts those of all regions. Returns its row, and whether it is being flushed."""
        c = self._config
        row: Value = Const(0, 1)
        if c.regions > 1:
            row = Signal(range(c.regions), name="row")
            with m.If(self._begun.valid):
                m.d.sync += row.eq(self._begun.p.row)
            m.d.comb += [waves.row.eq(row), loads.row.eq(row)]
        members = each_region(c, self.member)
        chosen: Any = flipped(members[0])
        if c.regions > 1:
            chosen = MemberSignature().create(path=("chosen",))
            m.d.comb += [
                Value.cast(chosen.node).eq(pick([each.node for each in members], row)),
                chosen.epoch.eq(pick([each.epoch for each in members], row)),
            ]
        for member, node, of_home in zip(
            members, each_region(c, receive.node), each_region(c, home.member)
        ):
            m.d.comb += node.eq(member.node)
            connect(m, flipped(member), of_home)
        for part in parts:
            connect(m, chosen, part.member)
        m.d.comb += [
            loads.rank.eq(pick(each_region(c, self.rank), row)),
            receive.open.eq(Cat(each.open for each in self._regions)),
        ]
        return row, self._flush.bit_select(row, 1)

    def _limit_waves(
        self, m: Module, waves: WaveControl, operands: Operands, results: Results
    ) -> None:
        """Limit the window of waves, as software set it, to the room there is; 0 for push."""
        c = self._config
        most = exact_log2(c.wave_blocks)
        wanted = self.settings.window
        window: Any = WindowSignature().create(path=("window",))
        agreed: Any = WindowSignature().create(path=("agreed_window",))
        connect(m, window, waves.window)
        connect(m, agreed, operands.window)
        connect(m, agreed, results.window)
        pull = Signal()
        with m.If(self._begun.valid):
            m.d.sync += pull.eq(self._begun.p.pull)
        # Software changes them between all-reduces alone.
        m.d.sync += [
            window.size_log2.eq(Mux(wanted.size_log2 > most, most, wanted.size_log2)),
            window.outstanding.eq(
                Mux(wanted.outstanding > c.waves, c.waves,
                    Mux(wanted.outstanding == 0, 1, wanted.outstanding))
            ),
        ]
        # Used from two cycles after the job began on.
        m.d.sync += [
            agreed.size_log2.eq(Mux(pull, window.size_log2, 0)),
            agreed.outstanding.eq(Mux(pull, window.outstanding, 0)),
        ]

    def _recode(
        self, m: Module, packets: Any, waves: WaveControl, home: HomeStore
    ) -> tuple[Any, Any, Value, Value]:
        """Convert packets for the home store to words, its results to the format of the job. Also
        returns whether any of the former, and of the latter, are in progress."""
        c = self._config
        if not c.lengths:
            return packets, home.o, Const(0), Const(0)
        m.submodules.expand = expand = ExpandPackets(
            payload_flits=c.payload_flits, half=c.half, bfp=c.bfp
        )
        m.submodules.compress = compress = CompressPackets(
            payload_flits=c.payload_flits, half=c.half, bfp=c.bfp
        )
        connect(m, packets, expand.i)
        connect(m, home.o, compress.i)
        format = Signal(HEADER["format"].width)
        with m.If(self._begun.valid):
            m.d.sync += format.eq(Value.cast(self._begun.p.format))
        contract = Signal(c.number_bits)
        with m.If(waves.begin.take & waves.begin.first):
            m.d.sync += contract.eq(waves.begin.number)
        m.d.comb += [home.format.eq(format), home.contract.eq(contract)]
        return expand.o, compress.o, ~expand.empty, ~compress.empty

    @staticmethod
    def _hold(m: Module, adds: PacketMerge) -> Any:
        """Hold what is to be added in a register."""
        held: Any = stream.Signature(FLIT).create(path=("added",))
        m.d.comb += [adds.may.eq(~0), adds.o.ready.eq(~held.valid | held.ready)]
        with m.If(adds.o.ready):
            m.d.sync += [held.valid.eq(adds.o.valid), held.payload.eq(adds.o.payload)]
        return held

    @staticmethod
    def _of_packet(m: Module, source: Any, of_header: Value) -> Value:
        """Hold *of_header*, valid with the header, for all flits of the packet."""
        held = Signal()
        with m.If(source.valid & source.p.first):
            m.d.sync += held.eq(of_header)
        return Mux(source.p.first, of_header, held)

    def _quell(
        self, m: Module, ends: Value, operands: Operands, results: Results
    ) -> Value:
        """Drop what a job that *ends* has in flight. High until nothing is left, also at memory."""
        begun = Signal()
        quells = ends | begun
        m.d.sync += begun.eq(ends | (begun & (operands.busy | results.writing)))
        m.d.comb += [
            operands.flush.eq(quells),
            results.flush.eq(quells),
        ]
        return quells

    def _adds(self, m: Module, adds: Any, sums: Any) -> Value:
        """A bit per row: packets that came before its flush are on their way to the home store."""
        # Counted a cycle later, as early as it can leave.
        enters, own = Signal(), Signal()
        m.d.sync += [
            enters.eq(adds.o.valid & adds.o.ready & adds.o.p.first), own.eq(adds.owner[_OWN]),
        ]
        leaves = sums.valid & sums.ready & sums.p.first
        inside = Signal(range(_ON_THE_WAY + 1))
        after = Signal.like(inside)
        m.d.comb += after.eq(stepped(inside, up=enters, down=leaves))
        # In the cycles before, when some could still come.
        flushed, before_flushed = Signal.like(self._flush), Signal.like(self._flush)
        m.d.sync += [
            inside.eq(after), flushed.eq(self._flush), before_flushed.eq(flushed),
        ]
        before = [Signal.like(inside, name=f"before_{k}") for k in range(self._config.regions)]
        for k, count in enumerate(before):
            with m.If(~before_flushed[k] | (enters & own)):
                m.d.sync += count.eq(after)
            with m.Elif(leaves & (count != 0)):
                m.d.sync += count.eq(count - 1)
        return Cat(count != 0 for count in before) & self._flush

    def _run_jobs(
        self, m: Module, quells: Value, waves: WaveControl, operands: Operands, loads: Loads,
        home: HomeStore, results: Results,
    ) -> None:
        """Begin a job in all parts at once; it is done when all parts are, or is given up."""
        running = Signal()
        job = self.work.job
        connect(m, flipped(job), operands.job)
        connect(m, operands.next, loads.next)
        connect(m, self._begun, results.begun)
        connect(m, self._begun, loads.begun)
        m.d.comb += [
            self._begun.valid.eq(job.valid & job.ready),
            self._begun.payload.eq(job.payload),
            operands.agreed.eq(results.agreed),
            results.tail_begun.eq(operands.next.tail),
            waves.clear.eq(self._flush),
            loads.flush.eq(self._flush),
            loads.whole.eq(self.settings.whole),
            home.forget.eq(Cat(~each.open | each.flush for each in self._regions)),
            self.work.outcome.eq(results.outcome),
            self.took.eq(home.took),
        ]
        m.d.sync += self.work.done.eq(
            running & ~operands.active & waves.idle & ~results.writing & ~loads.walking
            & ~self._begun.valid & ~quells
        )
        with m.If(self._begun.valid):
            m.d.sync += running.eq(1)
        with m.If(quells):
            m.d.sync += running.eq(0)

    def _report(
        self, m: Module, operands: Operands, loads: Loads, transmit: Transmit,
        receive: Receive, home: HomeStore, results: Results,
    ) -> None:
        drops = Cat(receive.dropped, receive.stale | home.stale | results.stale | loads.stale,
                    results.unknown | loads.unknown | home.unknown, home.misled, home.excess)
        answered = operands.answers.valid & operands.answers.ready & operands.answers.p.first
        sent = operands.o.valid & operands.o.ready & operands.o.p.first
        m.d.sync += [
            self.events.operand.eq(sent),
            self.events.load.eq(loads.sent.valid),
            self.events.answer.eq(answered),
            self.events.partial.eq(home.added),
            self.events.finished.eq(home.finished),
            self.events.result.eq(results.stored),
            self.events.sent.eq(transmit.sent),
            self.events.starved.eq(transmit.starved),
            self.events.wave_wait.eq(operands.waits),
            self.events.barrier.eq(operands.barrier),
            self.events.read_beat.eq(operands.read),
            self.events.written_beat.eq(results.written),
            self.events.memory_error.eq(operands.error | results.error),
            self.events.dropped.eq(drops),
        ]
        m.d.comb += self.moves.eq(Cat(self.events[name] for name in _MOVES).any())
        if self._config.fixed_point:
            m.d.sync += self.events.outside.eq(operands.outside)
