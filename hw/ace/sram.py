# SPDX-License-Identifier: Apache-2.0
"""The banked SRAM and its crossbar."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.arbiter import RoundRobinArbiter
from hw.common.signature import ParametricSignature
from hw.common.sram import SRAMBank

__all__ = [
    "READ_LATENCY", "BankedSRAM", "SRAMReadSignature", "SRAMWriteSignature", "bank_bits",
]

# Cycles from a granted read to its data: one to the way to the bank, one in the bank, one in the
# register behind the crossbar.
READ_LATENCY = 3


def bank_bits(row: Value, *, banks: int, interleave: int) -> Value:
    """Number of the bank that *row* lies in; see `BankedSRAM`."""
    within, group = _cuts(row, banks, interleave)
    return Cat(row[:within], row[group:])


def _cuts(row: Value, banks: int, interleave: int) -> tuple[int, int]:
    """First bits of the address in a bank and of the group."""
    return exact_log2(interleave), len(row) - exact_log2(banks // interleave)


def _request(depth: int, banks: int) -> dict[str, Any]:
    """Members of a port that both readers and writers have."""
    return {"wants": Out(banks), "grant": In(1), "row": Out(range(depth))}


class SRAMReadSignature(ParametricSignature):
    """One reader, seen from the reader.

    Members
    -------
    wants : ``Out(banks)``
        One-hot: asks for a read in this bank, until it is granted.
    grant : ``In(1)``
        The read is granted in this cycle.
    row : ``Out(range(depth))``
        The row to read, in the cycle after ``grant``.
    data : ``In(width)``
        Its content, ``READ_LATENCY`` cycles after ``grant``.
    """

    def __init__(self, *, depth: int, width: int, banks: int) -> None:
        of_row = _request(depth, banks)
        super().__init__({**of_row, "data": In(width)}, depth=depth, width=width, banks=banks)


class SRAMWriteSignature(ParametricSignature):
    """One writer, seen from the writer.

    Members
    -------
    wants : ``Out(banks)``
        One-hot: asks for a write in this bank, until it is granted.
    grant : ``In(1)``
        The write is granted in this cycle.
    row, data : ``Out(range(depth))``, ``Out(width)``
        The row to write, and its content, in the cycle after ``grant``.
    """

    def __init__(self, *, depth: int, width: int, banks: int) -> None:
        of_row = _request(depth, banks)
        super().__init__({**of_row, "data": Out(width)}, depth=depth, width=width, banks=banks)


class BankedSRAM(wiring.Component):
    """SRAM of several banks behind a full crossbar.

    Row ``r`` lies in bank ``r % banks``, so streams that walk through rows fall into step and stop
    colliding. With an *interleave* below *banks* these are ``banks / interleave`` groups, each with
    as many rows in one piece: the top bits of a row are its group, the lowest ones the bank in that
    group, those between the address in the bank.

    Each bank serves one reader and one writer per cycle (``1r1w``) or one of either (``1rw``),
    round robin.

    Timing: a grant answers in the same cycle, data follows a granted read ``READ_LATENCY`` cycles
    later. A row is told in the cycle after the grant, and read in that one; it is written a cycle
    later in a bank of ``1r1w``. There, a read that is granted with a write of its row returns the
    old data, one in the cycle after it is undefined, and a later one returns the new data. A
    request waits for at most one of each rival for its bank.

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
                "read": In(
                    SRAMReadSignature(depth=depth, width=width, banks=banks)
                ).array(readers),
                "write": In(
                    SRAMWriteSignature(depth=depth, width=width, banks=banks)
                ).array(writers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shared = self._bank_ports == "1rw"
        read_grants: list[list[Value]] = [[] for _ in self.read]
        write_grants: list[list[Value]] = [[] for _ in self.write]
        outputs = []
        for index in range(self._banks):
            bank = SRAMBank(
                depth=self._depth // self._banks, width=self._width, ports=self._bank_ports
            )
            m.submodules[f"bank_{index}"] = bank
            reads = Cat(port.wants[index] for port in self.read)
            writes = Cat(port.wants[index] for port in self.write)
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
            for of_ports, grant in ((read_grants, read_grant), (write_grants, write_grant)):
                for n, of_port in enumerate(of_ports):
                    of_port.append(grant[n])
            # Who is granted is known late, and selects among wide rows a cycle later.
            reader = Signal(len(self.read), name=f"reader_{index}")
            writer = Signal(len(self.write), name=f"writer_{index}")
            m.d.sync += [reader.eq(read_grant), writer.eq(write_grant)]
            m.d.comb += bank.r_en.eq(reader.any())
            for n, port in enumerate(self.read):
                with m.If(reader[n]):
                    m.d.comb += (bank.addr if shared else bank.r_addr).eq(self._address(port.row))
            # A bank lies across many block memories: what is written has a register on its way,
            # unless reads share the port.
            of_write = m.d.comb if shared else m.d.sync
            of_write += bank.w_en.eq(writer.any())
            for n, port in enumerate(self.write):
                with m.If(writer[n]):
                    of_write += (bank.addr if shared else bank.w_addr).eq(self._address(port.row))
                    of_write += bank.w_data.eq(port.data)
            outputs.append(bank.r_data)

        for n, port in enumerate(self.read):
            m.d.comb += port.grant.eq(Cat(read_grants[n]).any())
            granted = Signal(2, name=f"granted_{n}")  # one and two cycles ago
            bank_of = Signal(range(max(2, self._banks)), name=f"bank_of_{n}")
            m.d.sync += [
                granted.eq(Cat(port.grant, granted)),
                bank_of.eq(
                    bank_bits(port.row, banks=self._banks, interleave=self._interleave)
                ),
            ]
            with m.If(granted[1]):
                m.d.sync += port.data.eq(Array(outputs)[bank_of])
        for n, port in enumerate(self.write):
            m.d.comb += port.grant.eq(Cat(write_grants[n]).any())
        return m

    def _address(self, row: Signal) -> Value:
        within, group = _cuts(row, self._banks, self._interleave)
        return row[within:group]
