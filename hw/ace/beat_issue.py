# SPDX-License-Identifier: Apache-2.0
"""Issues the beats of packets: each one waits here until SRAM reads its operand."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.reduce_path import issue_layout
from hw.ace.request_buffer import RequestBuffer
from hw.ace.sram import SRAMReadSignature

__all__ = ["BeatIssue", "beat_layout"]


def beat_layout(c: AceConfig) -> data.StructLayout:
    """A beat to be issued, with the row of its operand in SRAM and that of its payload in the
    receive buffer."""
    return data.StructLayout(
        {
            "issue": issue_layout(),
            "operand_row": range(c.sram_beats),
            "payload_row": range(c.rx_beats),
        }
    )


class BeatIssue(wiring.Component):
    """Issues beats in order, each when SRAM has granted the read of its operand.

    Clients of one ALU never issue in the same cycle. Behind the last beat of a client, which may
    wait for SRAM, those of another one may be taken at once: they go *behind*, and ask for their
    operands when the other one's have been granted.

    Timing: a beat asks for its operand in the cycle after it was taken, and is issued a cycle after
    the grant, or 2 cycles after it was taken if it is not reduced. Stalls: SRAM bank conflicts.

    Members
    -------
    beat : ``In(stream.Signature(beat_layout(config)))``
        The next beat; taken while fewer than two wait, with ``room``.
    room : ``In(1)``
        There is a place for its result.
    ahead : ``In(1)``
        A beat of another client of the ALU waits.
    operand : ``Out(SRAMReadSignature)``
        Reads the operand of a beat that is reduced.
    reads : ``Out(1)``, payload_row : ``Out(range(rx_beats))``
        A beat is in front, granted or not; row of its payload, which is read in this cycle.
    issued : ``Out(stream.Signature(issue_layout(), always_ready=True))``
        A beat that is issued.
    waits : ``Out(1)``
        A beat that is reduced waits.
    behind : ``Out(1)``
        Those of this client go behind those that are *ahead*.
    ended : ``Out(1)``
        The last beat of a packet is issued.
    rests : ``Out(1)``
        No beat waits or is issued.
    """

    beat: stream.Interface
    room: Signal
    ahead: Signal
    reads: Signal
    payload_row: Signal
    issued: stream.Interface
    waits: Signal
    behind: Signal
    ended: Signal
    rests: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "beat": In(stream.Signature(beat_layout(c))),
                "room": In(1),
                "ahead": In(1),
                "operand": Out(SRAMReadSignature(**c.sram_port)),
                "reads": Out(1),
                "payload_row": Out(range(c.rx_beats)),
                "issued": Out(stream.Signature(issue_layout(), always_ready=True)),
                "waits": Out(1),
                "behind": Out(1),
                "ended": Out(1),
                "rests": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.beats = beats = RequestBuffer(
            c, {"issue": issue_layout(), "payload_row": range(c.rx_beats)}
        )
        beats.join(m, self.operand)
        beat, issued = self.beat.p, self.issued
        reduced = beats.i.valid & beats.i.ready & beat.issue.reduce
        m.d.comb += [
            beats.i.valid.eq(self.beat.valid & self.room),
            beats.i.p.access.eq(beat.issue.reduce),
            beats.i.p.row.eq(beat.operand_row),
            beats.i.p.issue.eq(beat.issue),
            beats.i.p.payload_row.eq(beat.payload_row),
            self.beat.ready.eq(beats.i.ready & self.room),
            beats.go.eq(~(self.behind & self.ahead)),
            self.reads.eq(~beats.empty),
            self.payload_row.eq(beats.front.payload_row),
            issued.valid.eq(beats.taken.valid),
            issued.p.eq(beats.taken.p.issue),
            self.waits.eq(beats.waits),
            self.ended.eq(issued.valid & issued.p.last),
            self.rests.eq(beats.empty & ~issued.valid),
        ]
        # None of this one's beats can wait when another client comes to be ahead: that client was
        # behind until then, which held this one back until the last of its own was granted.
        m.d.sync += self.behind.eq(self.ahead & (self.behind | reduced))
        return m
