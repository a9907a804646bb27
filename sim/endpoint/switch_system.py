# SPDX-License-Identifier: Apache-2.0
"""Switches that reduce and their endpoints as hardware: configuration, and the cycles it costs.

Cycle models are built from it, and the event endpoint takes its packets, waves and tables from it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from hw.link.packet import FLIT_BYTES
from hw.switch.config import MOST_CREDITS, SwitchConfig
from hw.switch.formats import data_flits
from hw.switch.packet import Format
from hw.switch_dma.config import SwitchDmaConfig
from sim.endpoint.background import Background
from sim.endpoint.latencies import EventLatencies
from sim.fields import FieldError

__all__ = ["FORMATS", "Held", "SwitchSystem", "held_by"]

FORMATS: Mapping[str, Format] = {
    "fp32": Format.WORDS, "fp16": Format.FP16, "bf16": Format.BF16, "bfp16": Format.BFP,
}
"""Formats of data on links by the names that descriptions use; words are integers, too."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """Places for packets, as built.

    Parameters
    ----------
    entries : int
        Entries in the reduction table of a port.
    window, wave : int
        Blocks that a link of an endpoint may have in flight, and blocks of a wave.
    credits_up, credits_down : int
        Credits of each class on a link to a switch, and on one to an endpoint.
    reads : int
        Operands read ahead for a link, at most.
    """

    entries: int
    window: int
    wave: int
    credits_up: int
    credits_down: int
    reads: int


def held_by(switch: SwitchConfig, dma: SwitchDmaConfig) -> Held:
    """Places for packets in cycle models and in events: one reading of the configurations."""
    return Held(
        entries=switch.entries,
        window=dma.slots,
        wave=dma.wave_blocks,
        credits_up=dma.credits,
        credits_down=switch.credits,
        reads=dma.read_ahead,
    )


@dataclass(frozen=True, kw_only=True)
class SwitchSystem:
    """Switches and endpoints of one configuration each.

    Parameters
    ----------
    switch : SwitchConfig
    dma : SwitchDmaConfig
        Configuration of the endpoints; it fits the switches.
    mode : str
        ``push`` or ``pull``.
    clock_hz : float
        A link carries a flit of 16 bytes in each cycle.
    timeout_cycles : int
        Period after which a table entry to which nothing was added is sent to its home endpoint.
    acknowledged : bool
        Beside each packet with data a link carries a header that acknowledges one of the other
        direction, as in the published system. Our RTL has no such packets.
    background : Background or None
        Ordinary packets beside reductions, in cycle models only.
    format : Format
        Format of operands and results on the links; switches and endpoints are built for it (RTL).
    """

    switch: SwitchConfig
    dma: SwitchDmaConfig
    mode: str
    clock_hz: float
    timeout_cycles: int
    acknowledged: bool = False
    background: Background | None = None
    format: Format = Format.WORDS

    def __post_init__(self) -> None:
        for name, config in (("switch", self.switch), ("dma", self.dma)):
            if self.format not in (Format.WORDS, *config.lengths):
                found = ", ".join(each.name for each in (Format.WORDS, *config.lengths))
                what = f"must be {found}, as {name} is built, not {self.format.name}"
                raise FieldError("format", what)

    @property
    def held(self) -> Held:
        """Places for packets."""
        return held_by(self.switch, self.dma)

    @property
    def bus_bytes(self) -> int:
        """Bytes that a link carries in a cycle."""
        return FLIT_BYTES

    @property
    def packet_cycles(self) -> int:
        """Cycles for which a packet of an operand or a result keeps a link busy."""
        return 1 + self._data_flits + self.acknowledged

    @property
    def payload_share(self) -> float:
        """Share of payload in a link's time where packets follow each other."""
        return self._data_flits / self.packet_cycles

    @property
    def wire_factor(self) -> float:
        """Size of operands and results on the links over their size as words."""
        return self._data_flits / self.switch.payload_flits

    @property
    def _data_flits(self) -> int:
        return data_flits(self.format, self.switch.payload_flits)

    def round_trip_cycles(self, latency_cycles: int, router_cycles: int) -> int:
        """Cycles from a packet's begin on a link to the return of its credit: it arrives, leaves
        the buffer there, and its credit comes back."""
        own = self.switch.packet_flits + self.packet_cycles + EventLatencies.stored().switch_credit
        return 2 * latency_cycles + router_cycles + own

    def short_of_credits(
        self, latency_cycles: int, router_cycles: int = 0, *, cables: bool = False
    ) -> str:
        """Name the credits that keep links from being full, and how many would suffice; '' if none.

        Parameters
        ----------
        latency_cycles : int
            Latency of the longest link.
        router_cycles : int
            Delay before a switch.
        cables : bool
            There are links between switches.
        """
        up = self.round_trip_cycles(latency_cycles, router_cycles)
        down = self.round_trip_cycles(latency_cycles, router_cycles if cables else 0)
        given = {"switch.credits": (self.held.credits_down, down),
                 "switch.buffer_packets": (self.held.credits_up, up)}
        short = {
            f"{name} = {value}": cycles for name, (value, cycles) in given.items()
            if value * self.packet_cycles < cycles
        }
        if not short:
            return ""
        cycles = max(short.values())
        wanted = -(-cycles // self.packet_cycles)
        possible = "" if wanted <= MOST_CREDITS else f", more than the {MOST_CREDITS} there can be"
        return (
            f"links wait for credits: {' and '.join(short)} "
            f"{'do' if len(short) > 1 else 'does'} not cover a round trip of "
            f"{cycles} cycles, {wanted} would{possible}"
        )

    @property
    def own_switch_cycles(self) -> int:
        """Least cycles from the first flit of a packet into a switch to its first one out: packets
        are stored whole."""
        return self.switch.packet_flits + EventLatencies.stored().switch_pass

    def switch_s(self, stated_s: float) -> float:
        """Seconds from a packet's last flit into a switch to its first one out, where a switch
        takes *stated_s* altogether."""
        passes = EventLatencies.stored().switch_pass
        return (passes + self.router_cycles(stated_s)) / self.clock_hz

    def router_cycles(self, stated_s: float) -> int:
        """Cycles of delay before a switch that make a passage take *stated_s* altogether."""
        return max(0, round(stated_s * self.clock_hz) - self.own_switch_cycles)

    @property
    def format_name(self) -> str:
        """Name of the format in `FORMATS`."""
        return next(name for name, each in FORMATS.items() if each is self.format)

    def describe(self) -> dict[str, float | str]:
        """Parameters by name, for report headers."""
        beside = asdict(self.background) if self.background else {}
        return {
            "mode": self.mode,
            "timeout_cycles": self.timeout_cycles,
            "acknowledged": int(self.acknowledged),
            **({} if self.format is Format.WORDS else {"format": self.format_name}),
            **{f"background.{name}": value for name, value in beside.items()},
            **{f"switch.{name}": value for name, value in self.switch.describe().items()},
            **{f"endpoint.{name}": value for name, value in self.dma.describe().items()},
        }
