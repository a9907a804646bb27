# SPDX-License-Identifier: Apache-2.0
"""One bank of static RAM: a memory in simulation, a macro in emitted Verilog."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import ClockSignal, Instance, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.common.params import require, require_choice, require_int

__all__ = [
    "MACRO_BITS", "UNUSED_IF_WRITTEN", "BankShape", "SRAMBank", "block_memory", "buffer_rows",
]

MACRO_BITS = 4096
"""From this size on, block memory is an SRAM macro, since in an ASIC anything else is registers; a
smaller one would be mostly decoders."""

UNUSED_IF_WRITTEN = {"no_rw_check": "1"}
"""Attribute of a memory of which no word is used that is read while it is written. Without it Yosys
adds a register for each bit, and a comparison, to return the old word."""

# Simulators see zeros at first, as with the Amaranth memory. Synthesis must not: initial contents
# would keep it from using a RAM that has none.
_BODY = """\
module {name} (
  input wire clk,
  input wire r_en,
{ports}\
  output reg [{last_bit}:0] r_data,
  input wire [{last_part}:0] w_en,
  input wire [{last_bit}:0] w_data
);
  (* no_rw_check *)  // a word read while it is written is not used
  reg [{last_bit}:0] words [0:{last_row}];
{declaration}\
  always @(posedge clk) begin
    if ({read}) r_data <= words[{read_row}];
    {write}
  end
`ifndef SYNTHESIS
  integer row;
  initial begin
    r_data = 0;
    for (row = 0; row < {depth}; row = row + 1) words[row] = 0;
  end
`endif
endmodule
"""


@dataclass(frozen=True, kw_only=True)
class BankShape:
    """Rows and ports of an `SRAMBank`, whose parameters these are.

    A bank is described by it, as for an estimate, without being made.
    """

    depth: int
    width: int
    ports: str = "1r1w"
    granularity: int | None = None

    def __post_init__(self) -> None:
        require_int("SRAMBank depth", self.depth, minimum=2)
        require_int("SRAMBank width", self.width)
        require_choice("SRAMBank ports", self.ports, ["1r1w", "1rw"])
        require_int("SRAMBank granularity", self.part_width)
        require(
            self.width % self.part_width == 0,
            "SRAMBank granularity",
            f"a divisor of the width of {self.width}",
            self.granularity,
        )

    @property
    def part_width(self) -> int:
        """Bits that are written together."""
        return self.width if self.granularity is None else self.granularity

    @property
    def bits(self) -> int:
        """Capacity in bits."""
        return self.depth * self.width

    @property
    def macro_name(self) -> str:
        """Name of the macro module; it tells all parameters."""
        partial = "" if self.part_width == self.width else f"_w{self.part_width}"
        return f"sram_{self.ports}_{self.depth}x{self.width}{partial}"


class SRAMBank(wiring.Component):
    """Synchronous static RAM with one read and one write port, or one port for either.

    A read takes 1 cycle: ``r_data`` follows in the cycle after ``r_en`` and stays until the next
    read. One read and, with ``"1r1w"``, one write per cycle; a row that is written in the cycle in
    which it is read yields its old contents in simulation, on silicon anything. With ``"1rw"`` a
    cycle with ``w_en`` writes, and ``r_en`` has no effect in it. Contents start as zero in
    simulation and undefined on silicon. Rows past *depth* must not be addressed.

    Elaborated for a platform with an attribute ``sram_macros`` (a dictionary), the bank is nothing
    but an instance of a macro module, and ``sram_macros[macro_name]`` is set to a behavioural body
    of that module. An FPGA flow infers block RAM from the body; an ASIC flow supplies its own
    module of this name. Elsewhere it is an Amaranth memory.

    Parameters
    ----------
    depth : int
        Number of rows, at least 2.
    width : int
        Bits per row.
    ports : str
        ``"1r1w"`` or ``"1rw"``.
    granularity : int or None
        Number of bits that each bit of ``w_en`` writes; must divide *width*. ``None``: the row.

    Members
    -------
    r_en : ``In(1)``
        Read a row.
    r_addr : ``In(range(depth))``, only with ``"1r1w"``
        Row to read.
    r_data : ``Out(width)``
        Contents of the row read last.
    w_en : ``In(width // granularity)``
        Parts of the row to write.
    w_addr : ``In(range(depth))``, only with ``"1r1w"``
        Row to write.
    w_data : ``In(width)``
        Data to write.
    addr : ``In(range(depth))``, only with ``"1rw"``
        Row to read or to write.
    """

    r_en: Signal
    r_addr: Signal
    r_data: Signal
    w_en: Signal
    w_addr: Signal
    w_data: Signal
    addr: Signal

    def __init__(
        self, *, depth: int, width: int, ports: str = "1r1w", granularity: int | None = None
    ) -> None:
        self._shape = BankShape(depth=depth, width=width, ports=ports, granularity=granularity)
        row = In(range(self.depth))
        addresses = {"addr": row} if ports == "1rw" else {"r_addr": row, "w_addr": row}
        super().__init__(
            {
                "r_en": In(1),
                "r_data": Out(self.width),
                "w_en": In(self.width // self._shape.part_width),
                "w_data": In(self.width),
                **addresses,
            }
        )

    @property
    def depth(self) -> int:
        """Number of rows."""
        return self._shape.depth

    @property
    def width(self) -> int:
        """Bits per row."""
        return self._shape.width

    @property
    def bits(self) -> int:
        """Capacity in bits."""
        return self._shape.bits

    @property
    def macro_name(self) -> str:
        """Name of the macro module; it tells all parameters."""
        return self._shape.macro_name

    def macro_verilog(self) -> str:
        """Behavioural body of the macro module, in Verilog-2001."""
        address = f"[{ceil_log2(self.depth) - 1}:0]"
        parts = self.width // self._shape.part_width
        if self._shape.ports == "1rw":
            ports = f"  input wire {address} addr,\n"
            read, read_row, write_row = "r_en && w_en == 0", "addr", "addr"
        else:
            ports = f"  input wire {address} r_addr,\n  input wire {address} w_addr,\n"
            read, read_row, write_row = "r_en", "r_addr", "w_addr"
        if parts == 1:
            write = f"if (w_en[0]) words[{write_row}] <= w_data;"
        else:
            bits = f"[part * {self._shape.part_width} +: {self._shape.part_width}]"
            write = (
                f"for (part = 0; part < {parts}; part = part + 1)\n"
                f"      if (w_en[part]) words[{write_row}]{bits} <= w_data{bits};"
            )
        return _BODY.format(
            name=self.macro_name,
            ports=ports,
            last_bit=self.width - 1,
            last_part=parts - 1,
            depth=self.depth,
            last_row=self.depth - 1,
            declaration="" if parts == 1 else "  integer part;\n",
            read=read,
            read_row=read_row,
            write=write,
        )

    def elaborate(self, platform: Any) -> Module | Instance:
        macros = getattr(platform, "sram_macros", None)
        if macros is None:
            return self._memory()
        macros[self.macro_name] = self.macro_verilog()
        return self._macro()

    def _memory(self) -> Module:
        m = Module()
        rows: Memory = Memory(shape=self.width, depth=self.depth, init=[])
        m.submodules.rows = rows
        write = rows.write_port(granularity=self._shape.part_width)
        read = rows.read_port()
        single = self._shape.ports == "1rw"
        m.d.comb += [
            read.en.eq(self.r_en & ~self.w_en.any() if single else self.r_en),
            read.addr.eq(self.addr if single else self.r_addr),
            self.r_data.eq(read.data),
            write.en.eq(self.w_en),
            write.addr.eq(self.addr if single else self.w_addr),
            write.data.eq(self.w_data),
        ]
        return m

    def _macro(self) -> Instance:
        if self._shape.ports == "1rw":
            addresses = {"i_addr": self.addr}
        else:
            addresses = {"i_r_addr": self.r_addr, "i_w_addr": self.w_addr}
        return Instance(
            self.macro_name,
            i_clk=ClockSignal(),
            i_r_en=self.r_en,
            o_r_data=self.r_data,
            i_w_en=self.w_en,
            i_w_data=self.w_data,
            **addresses,
        )


def block_memory(depth: int, width: int) -> BankShape | None:
    """A bank for *depth* rows of *width* bits with a port to read and one to write; None where an
    Amaranth memory serves better, below `MACRO_BITS`."""
    if depth < 2 or depth * width < MACRO_BITS:
        return None
    return BankShape(depth=depth, width=width)


def buffer_rows(
    m: Module, depth: int, value: Value, *, write: Value, free: Value, row: Value, read: Value
) -> Value:
    """Rows of a buffer: *value* is written at *free*; *row* is read and seen in the next cycle,
    undefined if it is written in this one. It stays while there is no *read* in a bank, and is
    undefined then in a memory."""
    width = len(value)
    if block_memory(depth, width) is None:
        rows: Memory = Memory(shape=width, depth=depth, init=[], attrs=UNUSED_IF_WRITTEN)
        m.submodules.rows = rows
        w_port, r_port = rows.write_port(), rows.read_port()
        m.d.comb += [
            w_port.addr.eq(free), w_port.data.eq(value), w_port.en.eq(write), r_port.addr.eq(row)
        ]
        return r_port.data
    m.submodules.bank = bank = SRAMBank(depth=depth, width=width)
    m.d.comb += [
        bank.w_en.eq(write), bank.w_addr.eq(free), bank.w_data.eq(value),
        bank.r_en.eq(read), bank.r_addr.eq(row),
    ]
    return bank.r_data
