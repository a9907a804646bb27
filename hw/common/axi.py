# SPDX-License-Identifier: Apache-2.0
"""Signatures of the AXI buses, and the rule by which masters cut transfers into bursts."""

from abc import abstractmethod
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.params import require_int
from hw.common.signature import ParametricSignature

__all__ = [
    "ATTRIBUTES",
    "BOUNDARY_BYTES",
    "BURST_BEATS",
    "MEMORY_ALIGNMENT",
    "OUTSTANDING_BURSTS",
    "AXI4LiteSignature",
    "AXI4Signature",
    "AXIBurst",
    "AXIReadSignature",
    "AXIResponse",
    "AXIWriteSignature",
    "BurstMaster",
    "BurstSplitter",
    "aligned",
    "check_burst_parameters",
    "constants",
]

BURST_BEATS, OUTSTANDING_BURSTS = 16, 8
"""Of masters that are built without saying so: most beats of a burst, and bursts under way."""
BOUNDARY_BYTES = 4096
"""No AXI burst may cross a multiple of this address."""


MEMORY_ALIGNMENT = 1024 // 8
"""Bytes of the widest data beat: what begins at a multiple of it is aligned for every engine."""


def aligned(size_bytes: int) -> int:
    """*size_bytes* rounded up to a multiple of `MEMORY_ALIGNMENT`."""
    return -(-size_bytes // MEMORY_ALIGNMENT) * MEMORY_ALIGNMENT


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


ATTRIBUTES = {"lock": (1, 0b0), "cache": (4, 0b0010), "prot": (3, 0b010), "qos": (4, 0b0000)}
"""Width and value of what every master says of every transaction.

``lock``: not exclusive. ``cache``: normal memory, not cached and not bufferable, so a write is
answered when others can see it, and a completion that follows the answer is true; modifiable, so an
interconnect may cut or join bursts. ``prot``: unprivileged, not secure, data, which is the least
that a master can ask for. ``qos``: no scheme. A shell that needs other values replaces the wires.
"""


def _widths(owner: str, addr_width: Any, data_width: Any, id_width: Any) -> dict[str, int]:
    """Checked parameters of a bus: AXI4-Lite if *id_width* is None."""
    lite = id_width is None
    widths = {
        "addr_width": require_int(f"{owner} addr_width", addr_width, maximum=64),
        "data_width": require_int(
            f"{owner} data_width",
            data_width,
            minimum=32 if lite else 8,
            maximum=64 if lite else 1024,
            power_of_two=True,
        ),
    }
    return widths if lite else widths | {"id_width": require_int(f"{owner} id_width", id_width)}


def _address(channel: str, addr_width: int, id_width: int | None) -> dict[str, Any]:
    """Members of an address channel."""
    fields = {"addr": addr_width, "prot": 3}
    if id_width is not None:
        fields = {"id": id_width, "addr": addr_width, "len": 8, "size": 3, "burst": 2}
        fields |= {name: width for name, (width, _) in ATTRIBUTES.items()}
    return {
        **{f"{channel}{name}": Out(width) for name, width in fields.items()},
        f"{channel}valid": Out(1),
        f"{channel}ready": In(1),
    }


class _BusSignature(ParametricSignature):
    """An AXI bus or half of one."""

    @property
    def addr_width(self) -> int:
        """Bits of an address."""
        return int(self._parameters["addr_width"])

    @property
    def data_width(self) -> int:
        """Bits of a data beat."""
        return int(self._parameters["data_width"])


class _HalfSignature(_BusSignature):
    """The channels of one direction.

    `transparent`: the name of this half is no part of the names of its ports, since its members
    have the full names of AXI (``mem_0_awaddr``).
    """

    transparent = True


class AXIWriteSignature(_HalfSignature):
    """Channels AW, W and B of an `AXI4Signature`; without *id_width*, of an `AXI4LiteSignature`.

    Members
    -------
    awaddr, awvalid, awready and others
        Address channel; payload and ``awvalid`` stay until ``awready``.
    wdata, wstrb : ``Out(data_width)``, ``Out(data_width // 8)``
        A data beat, and its bytes that are written.
    wlast : ``Out(1)``, AXI4 only
        The beat ends its burst.
    wvalid, wready : ``Out(1)``, ``In(1)``
        There is a data beat; it is taken.
    bid : ``In(id_width)``, AXI4 only
        Identifier of the burst that is answered.
    bresp : ``In(2)``
        The answer, an `AXIResponse`.
    bvalid, bready : ``In(1)``, ``Out(1)``
        There is an answer; it is taken.
    """

    def __init__(self, *, addr_width: int, data_width: int, id_width: int | None = None) -> None:
        widths = _widths("AXIWriteSignature", addr_width, data_width, id_width)
        full = id_width is not None
        super().__init__(
            {
                **_address("aw", addr_width, id_width),
                "wdata": Out(data_width),
                "wstrb": Out(data_width // 8),
                **({"wlast": Out(1)} if full else {}),
                "wvalid": Out(1),
                "wready": In(1),
                **({"bid": In(id_width)} if full else {}),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            },
            **widths,
        )


class AXIReadSignature(_HalfSignature):
    """Channels AR and R of an `AXI4Signature`; without *id_width*, of an `AXI4LiteSignature`.

    Members
    -------
    araddr, arvalid, arready and others
        Address channel; payload and ``arvalid`` stay until ``arready``.
    rid : ``In(id_width)``, AXI4 only
        Identifier of the burst.
    rdata, rresp : ``In(data_width)``, ``In(2)``
        A data beat, and an `AXIResponse` for it.
    rlast : ``In(1)``, AXI4 only
        The beat ends its burst.
    rvalid, rready : ``In(1)``, ``Out(1)``
        There is a data beat; it is taken.
    """

    def __init__(self, *, addr_width: int, data_width: int, id_width: int | None = None) -> None:
        widths = _widths("AXIReadSignature", addr_width, data_width, id_width)
        full = id_width is not None
        super().__init__(
            {
                **_address("ar", addr_width, id_width),
                **({"rid": In(id_width)} if full else {}),
                "rdata": In(data_width),
                "rresp": In(2),
                **({"rlast": In(1)} if full else {}),
                "rvalid": In(1),
                "rready": Out(1),
            },
            **widths,
        )


class _WholeBusSignature(_BusSignature):
    """A bus of two halves, which share no signal: a writer may own one and a reader the other.

    Members
    -------
    write : ``Out(AXIWriteSignature)``
        Half that writes.
    read : ``Out(AXIReadSignature)``
        Half that reads.
    """

    def __init__(self, **widths: int) -> None:
        super().__init__(
            {"write": Out(AXIWriteSignature(**widths)), "read": Out(AXIReadSignature(**widths))},
            **widths,
        )

    @property
    def write(self) -> wiring.Signature:
        """Signature of the half that writes."""
        return self.members["write"].signature

    @property
    def read(self) -> wiring.Signature:
        """Signature of the half that reads."""
        return self.members["read"].signature


class AXI4Signature(_WholeBusSignature):
    """AXI4 bus seen from the master, without the optional region and user signals.

    Members are its halves ``write`` and ``read``. A master drives the `constants` of either.

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
        require_int("AXI4Signature id_width", id_width)  # not None, as AXI4-Lite has it
        widths = _widths("AXI4Signature", addr_width, data_width, id_width)
        super().__init__(**widths)

    @property
    def id_width(self) -> int:
        """Bits of a transaction identifier."""
        return int(self._parameters["id_width"])


class AXI4LiteSignature(_WholeBusSignature):
    """AXI4-Lite bus seen from the master. Members are its halves ``write`` and ``read``.

    Parameters
    ----------
    addr_width : int
        Bits of an address, from 1 to 64.
    data_width : int
        Bits of a word, 32 or 64.
    """

    def __init__(self, *, addr_width: int, data_width: int = 32) -> None:
        widths = _widths("AXI4LiteSignature", addr_width, data_width, None)
        super().__init__(**widths)


def constants(bus: Any, channel: str) -> list[Any]:
    """Statements that drive what is the same in all bursts of *channel* (``"ar"`` or ``"aw"``).

    Whole beats of the width of *bus* at rising addresses, under identifier 0, with `ATTRIBUTES`.
    """
    data_width = bus.signature.data_width
    values = {"id": 0, "size": exact_log2(data_width // 8), "burst": AXIBurst.INCR}
    values |= {name: value for name, (_, value) in ATTRIBUTES.items()}
    return [getattr(bus, f"{channel}{name}").eq(value) for name, value in values.items()]


def check_burst_parameters(
    *, addr_width: Any, data_width: Any, max_burst: Any, beats_width: Any
) -> None:
    """Raise an error that names the parameter if :class:`BurstSplitter` would refuse it."""
    require_int("AXI4 addr_width", addr_width, minimum=13, maximum=64)
    require_int("AXI4 data_width", data_width, minimum=8, maximum=1024, power_of_two=True)
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
        busy, idle = Signal(), Signal(init=1)
        final = Signal()
        first = self.cmd.p.address[self._beat_bits :]
        m.d.comb += [
            final.eq(remaining <= room),
            self.o.p.address[self._beat_bits :].eq(row),
            self.o.p.length.eq((Mux(final, remaining, room) - 1)[: len(room)]),
            self.o.p.final.eq(final),
            self.o.valid.eq(busy),
            self.cmd.ready.eq(idle),
        ]
        with m.If(idle):
            begins = self.cmd.valid & (self.cmd.p.beats != 0)
            m.d.sync += [
                row.eq(first),
                room.eq((1 << self._cut) - first[: self._cut]),
                remaining.eq(self.cmd.p.beats),
                busy.eq(begins),
                idle.eq(~begins),
            ]
        with m.Elif(self.o.ready):
            # From now on, bursts begin at cuts. After the final one none of this counts.
            m.d.sync += [
                row.eq(Cat(Const(0, self._cut), row[self._cut :] + 1)),
                room.eq(1 << self._cut),
                remaining.eq(remaining - room),
                busy.eq(~final),
                idle.eq(final),
            ]
        return m


class BurstMaster(wiring.Component):
    """An AXI4 master of one direction, whose commands are cut into bursts.

    Parameters
    ----------
    addr_width : int
        Bits of a byte address, from 13 to 64.
    data_width : int
        Bits of a data beat, a power of two from 8 to 1024.
    max_burst : int
        Most beats in a burst, a power of two up to 256. Bursts end at multiples of it.
    outstanding : int
        Most bursts under way, at least 1.
    beats_width : int
        Bits of the length of a command, up to 32.
    """

    def __init__(
        self,
        *,
        addr_width: int,
        data_width: int,
        max_burst: int = BURST_BEATS,
        outstanding: int = OUTSTANDING_BURSTS,
        beats_width: int = 16,
    ) -> None:
        self._outstanding = require_int("AXI4 outstanding", outstanding)
        self._cutting = {
            "addr_width": addr_width,
            "data_width": data_width,
            "max_burst": max_burst,
            "beats_width": beats_width,
        }
        check_burst_parameters(**self._cutting)
        command = {"address": addr_width, "beats": beats_width}
        bus = AXI4Signature(addr_width=addr_width, data_width=data_width)
        super().__init__(self._members(command, bus))

    @abstractmethod
    def _members(self, command: dict[str, Any], bus: AXI4Signature) -> dict[str, Any]:
        """The members, from the fields of a command and the whole bus."""
