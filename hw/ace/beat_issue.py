# SPDX-License-Identifier: Apache-2.0
"""Issues the beats of packets: each one waits here until SRAM reads its operand."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.reduce_path import issue_layout
from hw.ace.sram import SRAMReadSignature
from hw.common.skid import ReadySkid

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
    """Issues beats in order, each in the cycle in which SRAM grants the read of its operand.

    Grants come late in the cycle. A beat without one is kept, and what comes behind it is held up a
    cycle later (`ReadySkid`).

    Timing: a beat is issued in the cycle in which it is offered if there is ``room`` and SRAM
    grants its read, otherwise as soon as that is so. Stalls: SRAM bank conflicts.

    Members
    -------
    beat : ``In(stream.Signature(beat_layout(config)))``
        The next beat; taken unless one is kept.
    room : ``In(1)``
        There is a place for its result.
    operand : ``Out(SRAMReadSignature)``
        Reads the operand of a beat that is reduced.
    reads : ``Out(1)``, payload_row : ``Out(range(rx_beats))``
        A beat is in front, issued or not; row of its payload.
    issued : ``Out(stream.Signature(issue_layout(), always_ready=True))``
        A beat that is issued.
    waits : ``Out(1)``
        A beat that is reduced is kept.
    ended : ``Out(1)``
        The last beat of a packet was issued in the cycle before.
    """

    beat: stream.Interface
    room: Signal
    reads: Signal
    payload_row: Signal
    issued: stream.Interface
    waits: Signal
    ended: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "beat": In(stream.Signature(beat_layout(c))),
                "room": In(1),
                "operand": Out(SRAMReadSignature(depth=c.sram_beats, width=8 * c.bus_bytes)),
                "reads": Out(1),
                "payload_row": Out(range(c.rx_beats)),
                "issued": Out(stream.Signature(issue_layout(), always_ready=True)),
                "waits": Out(1),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.beats = beats = ReadySkid(beat_layout(self._config))
        wiring.connect(m, wiring.flipped(self.beat), beats.i)
        front = beats.o.p
        reduce = front.issue.reduce
        issue = self.issued.valid
        m.d.comb += [
            self.reads.eq(beats.o.valid),
            self.operand.enable.eq(beats.o.valid & reduce & self.room),
            self.operand.row.eq(front.operand_row),
            self.payload_row.eq(front.payload_row),
            issue.eq(beats.o.valid & self.room & (~reduce | self.operand.grant)),
            beats.o.ready.eq(issue),
            self.issued.p.eq(front.issue),
            self.waits.eq(~beats.i.ready & reduce),
        ]
        m.d.sync += self.ended.eq(issue & front.issue.last)
        return m
