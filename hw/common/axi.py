"""Signatures of the AXI buses, and the rule by which transfers are cut into bursts."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.params import require_int

__all__ = [
    "BOUNDARY_BYTES",
    "AXI4LiteSignature",
    "AXI4Signature",
    "AXIBurst",
    "AXIResponse",
    "BurstSplitter",
    "check_burst_parameters",
]

BOUNDARY_BYTES = 4096
"""No AXI burst may cross a multiple of this address."""


class AXIBurst(enum.Enum, shape=2):
    """Address sequence of a burst."""

    FIXED = 0
    INCR = 1
    WRAP = 2


class AXIResponse(enum.Enum, shape=2):
    """Outcome of a transfer. Bit 1 is set in the two that are errors."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


def _require_data_width(owner: str, value: Any, maximum: int) -> int:
    return require_int(f"{owner} data_width", value, minimum=8, maximum=maximum, power_of_two=True)


class AXI4Signature(wiring.Signature):
    """AXI4 bus seen from the master, without the optional lock, cache, protection, QoS signals.

    Parameters
    ----------
    addr_width : int
        Bits of an address, from 1 to 64.
    data_width : int
        Bits of a data beat, a power of two from 8 to 1024.
    id_width : int
        Bits of a transaction identifier, at least 1.
    """

    def __init__(self, *, addr_width: int, data_width: int, id_width: int = 1) -> None:
        self._addr_width = require_int("AXI4Signature addr_width", addr_width, maximum=64)
        self._data_width = _require_data_width("AXI4Signature", data_width, 1024)
        self._id_width = require_int("AXI4Signature id_width", id_width)
        address = {
            "id": id_width,
            "addr": addr_width,
            "len": 8,
            "size": 3,
            "burst": 2,
        }
        super().__init__(
            {
                **{f"aw{name}": Out(width) for name, width in address.items()},
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(data_width),
                "wstrb": Out(data_width // 8),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(id_width),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                **{f"ar{name}": Out(width) for name, width in address.items()},
                "arvalid": Out(1),
                "arready": In(1),
                "rid": In(id_width),
                "rdata": In(data_width),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )

    @property
    def addr_width(self) -> int:
        """Bits of an address."""
        return self._addr_width

    @property
    def data_width(self) -> int:
        """Bits of a data beat."""
        return self._data_width

    @property
    def id_width(self) -> int:
        """Bits of a transaction identifier."""
        return self._id_width

    def __repr__(self) -> str:
        return (
            f"AXI4Signature(addr_width={self.addr_width}, data_width={self.data_width}, "
            f"id_width={self.id_width})"
        )


class AXI4LiteSignature(wiring.Signature):
    """AXI4-Lite bus seen from the master.

    Parameters
    ----------
    addr_width : int
        Bits of an address, from 1 to 64.
    data_width : int
        Bits of a word, 32 or 64.
    """

    def __init__(self, *, addr_width: int, data_width: int = 32) -> None:
        self._addr_width = require_int("AXI4LiteSignature addr_width", addr_width, maximum=64)
        self._data_width = require_int(
            "AXI4LiteSignature data_width", data_width, minimum=32, maximum=64, power_of_two=True
        )
        super().__init__(
            {
                "awaddr": Out(addr_width),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(data_width),
                "wstrb": Out(data_width // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(addr_width),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(data_width),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )

    @property
    def addr_width(self) -> int:
        """Bits of an address."""
        return self._addr_width

    @property
    def data_width(self) -> int:
        """Bits of a word."""
        return self._data_width

    def __repr__(self) -> str:
        return f"AXI4LiteSignature(addr_width={self.addr_width}, data_width={self.data_width})"


def check_burst_parameters(
    *, addr_width: Any, data_width: Any, max_burst: Any, beats_width: Any
) -> None:
    """Raise an error that names the parameter if :class:`BurstSplitter` would refuse it."""
    require_int("AXI4 addr_width", addr_width, minimum=13, maximum=64)
    _require_data_width("AXI4", data_width, 1024)
    require_int("AXI4 max_burst", max_burst, maximum=256, power_of_two=True)
    require_int("AXI4 beats_width", beats_width, maximum=32)


class BurstSplitter(wiring.Component):
    """Cuts transfers into bursts that an AXI4 bus accepts.

    A burst ends at every multiple of *max_burst* beats of address, or of 4 KiB where that is less,
    so no burst is longer than *max_burst* and none crosses a 4 KiB boundary. A transfer of *k*
    bursts takes *k* + 1 cycles while ``o`` is not stalled: one to accept it (the only cycle in
    which ``cmd`` is ready), then a burst per cycle. All outputs depend on registers only.

    Parameters
    ----------
    addr_width : int
        Bits of a byte address.
    data_width : int
        Bits of a data beat.
    max_burst : int
        Most beats in a burst, a power of two up to 256.
    beats_width : int
        Bits of the length of a transfer.

    Members
    -------
    cmd : ``In(stream.Signature({address, beats}))``
        Transfer of ``beats`` beats from byte address ``address``, whose bits below the beat size
        are ignored. One of zero beats is accepted and yields no burst.
    o : ``Out(stream.Signature({address, length, final}))``
        Burst of ``length`` + 1 beats (the encoding of AXI); ``final`` if it ends its transfer.
    """

    cmd: stream.Interface
    o: stream.Interface

    def __init__(
        self, *, addr_width: int, data_width: int, max_burst: int = 16, beats_width: int = 16
    ) -> None:
        check_burst_parameters(
            addr_width=addr_width,
            data_width=data_width,
            max_burst=max_burst,
            beats_width=beats_width,
        )
        self._beat_bits = exact_log2(data_width // 8)
        self._cut = min(exact_log2(max_burst), exact_log2(BOUNDARY_BYTES) - self._beat_bits)
        command = data.StructLayout({"address": addr_width, "beats": beats_width})
        burst = data.StructLayout({"address": addr_width, "length": 8, "final": 1})
        super().__init__({"cmd": In(stream.Signature(command)), "o": Out(stream.Signature(burst))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        row = Signal(unsigned(len(self.cmd.p.address) - self._beat_bits))  # address, in beats
        remaining = Signal.like(self.cmd.p.beats)
        room = Signal(range((1 << self._cut) + 1))  # beats up to the next cut
        taken = Signal.like(room)
        final = Signal()
        m.d.comb += [
            room.eq((1 << self._cut) - row[: self._cut]),
            final.eq(remaining <= room),
            taken.eq(Mux(final, remaining, room)),
            self.o.p.address[self._beat_bits :].eq(row),
            self.o.p.length.eq((taken - 1)[: len(taken)]),
            self.o.p.final.eq(final),
            self.o.valid.eq(remaining != 0),
            self.cmd.ready.eq(remaining == 0),
        ]
        with m.If(self.cmd.valid & self.cmd.ready):
            m.d.sync += [
                row.eq(self.cmd.p.address[self._beat_bits :]),
                remaining.eq(self.cmd.p.beats),
            ]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [row.eq(row + taken), remaining.eq(remaining - taken)]
        return m
