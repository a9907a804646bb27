# SPDX-License-Identifier: Apache-2.0
"""The banked SRAM and its crossbar."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.arbiter import RoundRobinArbiter
from hw.common.signature import ParametricSignature
from hw.common.sram import SRAMBank

__all__ = ["READ_LATENCY", "BankedSRAM", "SRAMReadSignature", "SRAMWriteSignature"]

# Cycles from a granted read to its data: one in the bank, one in the register behind the crossbar.
READ_LATENCY = 2


class SRAMReadSignature(ParametricSignature):
    """One reader, seen from the reader.

    Members
    -------
    enable : ``Out(1)``
        Asks for a read of ``row``, until it is granted.
    row : ``Out(range(depth))``
        Row to read.
    grant : ``In(1)``
        The read happens in this cycle.
    data : ``In(width)``
        The row, ``READ_LATENCY`` cycles after ``grant``.
    """

    def __init__(self, *, depth: int, width: int) -> None:
        super().__init__(
            {"enable": Out(1), "row": Out(range(depth)), "grant": In(1), "data": In(width)},
            depth=depth,
            width=width,
        )


class SRAMWriteSignature(ParametricSignature):
    """One writer, seen from the writer.

    Members
    -------
    enable : ``Out(1)``
        Asks for a write, until it is granted.
    row, data : ``Out(range(depth))``, ``Out(width)``
        Row to write, and its data; with ``enable``.
    grant : ``In(1)``
        The write happens in this cycle.
    """

    def __init__(self, *, depth: int, width: int) -> None:
        super().__init__(
            {"enable": Out(1), "row": Out(range(depth)), "data": Out(width), "grant": In(1)},
            depth=depth,
            width=width,
        )


class BankedSRAM(wiring.Component):
    """SRAM of several banks behind a full crossbar.

    Row ``r`` lies in bank ``r % banks``, so streams that walk through rows fall into step and stop
    colliding. With an *interleave* below *banks* these are ``banks / interleave`` groups, each with
    as many rows in one piece: the top bits of a row are its group, the lowest ones the bank in that
    group, those between the address in the bank.

    Each bank serves one reader and one writer per cycle (``1r1w``) or one of either (``1rw``),
    round robin.

    Timing: a grant answers in the same cycle, data follows a granted read ``READ_LATENCY`` cycles
    later. With ``1r1w`` a row is written in the cycle after the grant: a read that is granted with
    the write returns the old data, one a cycle later is undefined, and one two cycles later
    returns the new data. A request waits for at most one of each rival for its bank.

    Parameters
    ----------
    depth, width : int
        Rows in all banks together, bits per row.
    banks : int
        A power of two.
    interleave : int or None
        Banks of a group, a power of two up to *banks*; *depth* is one, too, if they are fewer.
        None: *banks*.
    bank_ports : str
        ``"1r1w"`` or ``"1rw"``.
    readers, writers : int
        Ports of the crossbar.

    Members
    -------
    read : ``In(SRAMReadSignature).array(readers)``
        The readers.
    write : ``In(SRAMWriteSignature).array(writers)``
        The writers.
    """

    read: list
    write: list

    def __init__(
        self, *, depth: int, width: int, banks: int, interleave: int | None = None,
        bank_ports: str, readers: int, writers: int,
    ) -> None:
        self._depth = depth
        self._width = width
        self._banks = banks
        self._interleave = banks if interleave is None else interleave
        self._bank_ports = bank_ports
        super().__init__(
            {
                "read": In(SRAMReadSignature(depth=depth, width=width)).array(readers),
                "write": In(SRAMWriteSignature(depth=depth, width=width)).array(writers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shared = self._bank_ports == "1rw"
        read_grants: list[list[Value]] = [[] for _ in self.read]
        write_grants: list[list[Value]] = [[] for _ in self.write]
        outputs = []
        held: list[tuple[Signal, Signal]] = []  # rows that may have been granted, and their data
        if not shared:
            for n, port in enumerate(self.write):
                row = Signal.like(port.row, name=f"row_{n}", reset_less=True)
                value = Signal.like(port.data, name=f"data_{n}", reset_less=True)
                m.d.sync += [row.eq(port.row), value.eq(port.data)]
                held.append((row, value))
        for index in range(self._banks):
            bank = SRAMBank(
                depth=self._depth // self._banks, width=self._width, ports=self._bank_ports
            )
            m.submodules[f"bank_{index}"] = bank
            reads = Cat(p.enable & (self._bank(p.row) == index) for p in self.read)
            writes = Cat(p.enable & (self._bank(p.row) == index) for p in self.write)
            if shared:
                arbiter = RoundRobinArbiter(len(self.read) + len(self.write))
                m.submodules[f"arbiter_{index}"] = arbiter
                m.d.comb += [arbiter.requests.eq(Cat(reads, writes)), arbiter.advance.eq(1)]
                read_grant = arbiter.grant[: len(self.read)]
                write_grant = arbiter.grant[len(self.read) :]
            else:
                read_arbiter = RoundRobinArbiter(len(self.read))
                write_arbiter = RoundRobinArbiter(len(self.write))
                m.submodules[f"read_arbiter_{index}"] = read_arbiter
                m.submodules[f"write_arbiter_{index}"] = write_arbiter
                m.d.comb += [
                    read_arbiter.requests.eq(reads),
                    read_arbiter.advance.eq(1),
                    write_arbiter.requests.eq(writes),
                    write_arbiter.advance.eq(1),
                ]
                read_grant = read_arbiter.grant
                write_grant = write_arbiter.grant
            m.d.comb += bank.r_en.eq(read_grant.any())
            for n, port in enumerate(self.read):
                read_grants[n].append(read_grant[n])
                with m.If(read_grant[n]):
                    m.d.comb += (bank.addr if shared else bank.r_addr).eq(self._address(port.row))
            for n, of_port in enumerate(write_grants):
                of_port.append(write_grant[n])
            rows = [(port.row, port.data) for port in self.write]
            if not shared:
                # Who writes is known late, and then selects among wide rows.
                writer = Signal.like(write_grant, name=f"writer_{index}")
                m.d.sync += writer.eq(write_grant)
                write_grant, rows = writer, held
            m.d.comb += bank.w_en.eq(write_grant.any())
            for n, (row, value) in enumerate(rows):
                with m.If(write_grant[n]):
                    m.d.comb += (bank.addr if shared else bank.w_addr).eq(self._address(row))
                    m.d.comb += bank.w_data.eq(value)
            outputs.append(bank.r_data)

        for n, port in enumerate(self.read):
            m.d.comb += port.grant.eq(Cat(read_grants[n]).any())
            granted = Signal(name=f"granted_{n}")
            bank_of = Signal(range(max(2, self._banks)), name=f"bank_of_{n}")
            m.d.sync += granted.eq(port.grant)
            with m.If(port.grant):
                place = self._bank(port.row) if self._banks > 1 else port.row[:1]
                m.d.sync += bank_of.eq(Mux(self._banks > 1, place, 0))
            with m.If(granted):
                m.d.sync += port.data.eq(Array(outputs)[bank_of])
        for n, port in enumerate(self.write):
            m.d.comb += port.grant.eq(Cat(write_grants[n]).any())
        return m

    def _bank(self, row: Signal) -> Value:
        within, group = self._cuts(row)
        return Cat(row[:within], row[group:])

    def _address(self, row: Signal) -> Value:
        within, group = self._cuts(row)
        return row[within:group]

    def _cuts(self, row: Signal) -> tuple[int, int]:
        """First bits of the address and of the group."""
        groups = self._banks // self._interleave
        return exact_log2(self._interleave), len(row) - exact_log2(groups)
