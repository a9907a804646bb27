# SPDX-License-Identifier: Apache-2.0
"""An Ethernet switch in Python, and the frames that cross it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cocotb
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from sim.rtl.smartnic.writes import ethernet_address
from tb.common.streams import pauses

__all__ = ["ETHERTYPE", "Frame", "Switch"]

ETHERTYPE = b"\x88\xb5"
KINDS = {1: "reduce", 2: "gather", 3: "credit", 4: "abort", 5: "recall"}


@dataclass(frozen=True)
class Frame:
    """A frame as bytes on the wire, read without the hardware's own layout."""

    octets: bytes

    @property
    def destination(self) -> bytes:
        return self.octets[0:6]

    @property
    def source(self) -> bytes:
        return self.octets[6:12]

    @property
    def ethertype(self) -> bytes:
        return self.octets[12:14]

    @property
    def kind(self) -> str:
        return KINDS[self.octets[14] >> 4]

    @property
    def block_end(self) -> bool:
        return bool(self.octets[15] & 1)

    @property
    def payload_bytes(self) -> int:
        return int.from_bytes(self.octets[16:18], "little")

    @property
    def sequence(self) -> int:
        return int.from_bytes(self.octets[18:20], "little")

    @property
    def epoch(self) -> int:
        return int.from_bytes(self.octets[20:24], "little")

    @property
    def payload(self) -> bytes:
        return self.octets[32:]

    def changed(self, offset: int, *octets: int) -> "Frame":
        """The same with other bytes from *offset* on."""
        end = offset + len(octets)
        return Frame(self.octets[:offset] + bytes(octets) + self.octets[end:])


class Switch:
    """Stores every frame as a whole and forwards it to the port with its address.

    Sending ports are stalled at random; receiving ports of the NICs are never stalled, but see gaps
    within frames. ``on_frame(port, frame)`` sees every frame and returns what is sent in its place:
    a list of frames, empty to lose it. Frames for no port are lost.

    Parameters
    ----------
    dut
        The :class:`tb.smartnic.nics.NicGroup`.
    nodes : int
    chance : float
        Probability that a port pauses in a cycle.
    rng
        Random generator of the pauses.
    """

    def __init__(self, dut: Any, nodes: int, *, chance: float, rng: random.Random) -> None:
        self.on_frame: Callable[[int, Frame], list[Frame]] = lambda _, frame: [frame]
        self.seen: list[tuple[int, Frame]] = []
        self._sources = []
        self._ports = {ethernet_address(rank).to_bytes(6, "little"): rank for rank in range(nodes)}
        for rank in range(nodes):
            sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, f"net_{rank}_tx"), dut.clk, dut.rst)
            source = AxiStreamSource(
                AxiStreamBus.from_prefix(dut, f"net_{rank}_rx"), dut.clk, dut.rst
            )
            for end in (sink, source):
                end.set_pause_generator(pauses(chance, random.Random(rng.randrange(1 << 32))))
            self._sources.append(source)
            cocotb.start_soon(self._forward(rank, sink))

    async def _forward(self, rank: int, sink: AxiStreamSink) -> None:
        while True:
            frame = Frame(bytes((await sink.recv()).tdata))
            self.seen.append((rank, frame))
            for each in self.on_frame(rank, frame):
                if each.destination in self._ports:
                    self.inject(self._ports[each.destination], each)

    def inject(self, rank: int, frame: Frame, *, damaged: bool = False) -> None:
        """Send *frame* to a port, whatever its address; *damaged*: the MAC's verdict on it."""
        self._sources[rank].send_nowait(
            AxiStreamFrame(frame.octets, tuser=[int(damaged)] * len(frame.octets))
        )
