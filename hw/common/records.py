# SPDX-License-Identifier: Apache-2.0
"""Completion records of an engine: one per command, in a queue that software reads."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.fifo import StreamFIFO
from hw.common.register_map import Field, Register

__all__ = ["RecordQueue", "record_registers"]


class RecordQueue(wiring.Component):
    """Keeps the last *depth* records that software has not taken.

    A host that does not read its records loses the oldest ones: the next record that it reads says
    so (``overrun``). Nothing waits for software.

    Parameters
    ----------
    layout : StructLayout
        Of a record.
    depth : int

    Members
    -------
    i : ``In(stream.Signature(layout, always_ready=True))``
        A record is written.
    oldest : ``Out(layout)``, valid : ``Out(1)``, overrun : ``Out(1)``
        The record to be read, 0 without; there is one; some before it were lost.
    pop : ``In(1)``
        It has been read.
    """

    i: stream.Interface
    oldest: Any
    valid: Signal
    overrun: Signal
    pop: Signal

    def __init__(self, layout: data.StructLayout, depth: int) -> None:
        self._layout, self._depth = layout, depth
        super().__init__(
            {
                "i": In(stream.Signature(layout, always_ready=True)),
                "oldest": Out(layout),
                "valid": Out(1),
                "overrun": Out(1),
                "pop": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # One place more: the oldest record leaves in the cycle in which one too many comes.
        m.submodules.records = records = StreamFIFO(self._layout, self._depth + 1)
        lost = Signal()
        m.d.comb += [
            lost.eq(self.i.valid & (records.level == self._depth) & ~self.pop),
            records.i.valid.eq(self.i.valid),
            records.i.p.eq(self.i.p),
            records.o.ready.eq(self.pop | lost),
            self.valid.eq(records.o.valid),
            self.oldest.eq(Mux(records.o.valid, records.o.p.as_value(), 0)),
        ]
        with m.If(lost):
            m.d.sync += self.overrun.eq(1)
        with m.Elif(self.pop):
            m.d.sync += self.overrun.eq(0)
        return m


def record_registers(
    *, causes: Mapping[str, str], errors: type, tag: str, no_record: str
) -> list[Register]:
    """Registers ``completion`` and ``completion_taken``.

    Parameters
    ----------
    causes : mapping of str to str
        Why a result may not be valid, and what that says.
    errors : enumeration
        Why a command may be refused.
    tag : str
        Field of 8 bits that names a command.
    no_record : str
        Which commands have none, for the document.
    """
    return [
        Register(
            "completion",
            "ro",
            [
                Field("valid", 1, "There is a record."),
                Field("overrun", 1, "Records before this one were lost, since nobody took them."),
                *(Field(name, 1, doc) for name, doc in causes.items()),
                Field("error", errors, "Why the command was refused, if it was."),
                Field(tag, 8, "The command."),
            ],
            "The oldest record of a command that is over. The result is valid if all fields "
            f"between `valid` and `{tag}` are 0. {no_record}",
        ),
        Register(
            "completion_taken",
            "wo",
            [Field("taken", 1, "The record has been read: go on to the next.")],
            "Any write takes the record.",
        ),
    ]
