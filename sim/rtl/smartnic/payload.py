# SPDX-License-Identifier: Apache-2.0
"""Frames between NICs in RTL and NICs that are models: real headers, golden payload."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from numpy.typing import NDArray

from hw.smartnic.config import HEADER_BYTES, SmartNicConfig
from hw.smartnic.layouts import COUNT_BITS, ETHERTYPE, VERSION, FrameKind, HeaderLayout
from sim.collectives.golden import nic_ring_sums
from sim.collectives.partition import NicPartition
from sim.cycles.smartnic.words import (
    BLOCK_END,
    CREDIT,
    credit_word,
    frame_word,
    freed_of,
    kind_of,
    payload_of,
)
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.exchange import PayloadError
from sim.rtl.smartnic.writes import ethernet_address

__all__ = ["Frames", "Golden"]

_LAYOUT: Any = HeaderLayout
_FIELDS = {name: (field.offset, field.width) for name, field in _LAYOUT.as_shape()}
_DATA = {FrameKind.REDUCE.value: 0, FrameKind.GATHER.value: 1}
_PORT = 40  # bit of an address at which the number of a port is added


class Golden:
    """Data that all NICs of a ring send, by command, flow and block.

    Parameters
    ----------
    config : SmartNicConfig
    ring : Surroundings
    commands : sequence of Command
    inputs : sequence of arrays, ranks x elements
        Data of each command.
    """

    def __init__(
        self,
        config: SmartNicConfig,
        ring: Surroundings,
        commands: Sequence[Command],
        inputs: Sequence[Sequence[NDArray[Any]]],
    ) -> None:
        self.config, self.ring, self.commands = config, ring, commands
        self._inputs = inputs
        self._sums = cache(self._of_command)

    def _of_command(self, number: int, rank: int) -> tuple[NDArray[Any], NDArray[Any]]:
        command = self.commands[number]
        return nic_ring_sums(
            self._inputs[number], self.config, rank=rank, op=command.op, compress=command.compress
        )

    def frames(
        self, rank: int, engine: int, flow: int
    ) -> Iterator[tuple[bytes, bool, dict[str, int]]]:
        """Payload of the data frames of a rank in order, each with True if it ends a block, and
        further fields of its header, if any."""
        c, nodes = self.config, self.ring.nodes
        for number, command in enumerate(self.commands):
            plan = NicPartition(elements=command.elements, nodes=nodes, config=c)
            values = self._sums(number, rank)[flow]
            longest = c.compressed_frame_beats if command.compress else c.frame_beats
            size = longest * c.bus_bytes
            start = self._contract(number, rank) if (engine, flow) == (0, 0) else {}
            blocks = [c.block_beats] * plan.rounds + [plan.rest_beats] * (plan.rest_beats > 0)
            for turn in range(engine, len(blocks), c.engines):
                beats = blocks[turn]
                for passed in range(nodes - 1):
                    index = (rank + flow - passed) % nodes
                    first = (turn * nodes * c.block_beats + index * beats) * c.lanes
                    raw = self._wire(values[first : first + beats * c.lanes], command.compress)
                    for at in range(0, len(raw), size):
                        yield raw[at : at + size], at + size >= len(raw), start
                        start = {}

    def _contract(self, number: int, rank: int) -> dict[str, int]:
        """Header fields by which the first frame of a command describes it."""
        command = self.commands[number]
        return {
            "start": 1,
            "detail": command.elements,
            "tag": number % 256,
            "coding": self.config.wire_format(compress=command.compress),
            "last_rank": self.ring.nodes - 1,
            "rank": rank,
            "op": command.op.value,
        }

    def _wire(self, block: NDArray[Any], compress: bool) -> bytes:
        fmt = self.config.codec_format
        if not compress or fmt is None:
            return block.tobytes()
        raw = fmt.pack(fmt.encode(block))
        return raw.ljust(-(-len(raw) // self.config.bus_bytes) * self.config.bus_bytes, b"\0")


class Frames:
    """Frames that one engine of a rank sends, as they are on the wire and as the model's words.

    Parameters
    ----------
    golden : Golden
    rank, engine : int
        Those of the sender.
    """

    def __init__(self, golden: Golden, *, rank: int, engine: int) -> None:
        self._config = golden.config
        self._nodes = golden.ring.nodes
        self._rank, self._engine = rank, engine
        self._data = [golden.frames(rank, engine, flow) for flow in range(2)]
        self._sent = [0, 0]

    def _address(self, rank: int) -> int:
        return ethernet_address(rank % self._nodes) + (self._engine << _PORT)

    def _header(self, kind: int, payload_bytes: int, **fields: int) -> bytes:
        if self._config.ethernet:
            step = -1 if kind == CREDIT else 1
            fields |= {
                "destination": self._address(self._rank + step),
                "source": self._address(self._rank),
                "ethertype": ETHERTYPE >> 8 | (ETHERTYPE & 0xFF) << 8,
            }
        fields |= {"version": VERSION, "kind": kind, "payload_bytes": payload_bytes}
        word: int = sum(value << _FIELDS[name][0] for name, value in fields.items())
        return word.to_bytes(HEADER_BYTES, "little").ljust(self._config.bus_bytes, b"\0")

    def frame(self, token: int) -> bytes:
        """The next frame, which the word *token* describes."""
        kind = kind_of(token)
        size = payload_of(token) * self._config.bus_bytes
        if kind == CREDIT:
            freed = freed_of(token, 0) | freed_of(token, 1) << COUNT_BITS
            return self._header(kind, size, detail=freed) + bytes(size)
        flow = _DATA[kind]
        payload, ends, fields = next(self._data[flow], (b"", False, {}))
        if len(payload) != size or ends != bool(token & BLOCK_END):
            raise PayloadError(
                f"rank {self._rank} sends a frame of {size} bytes where {len(payload)} are due"
            )
        sequence = self._sent[flow] & 0xFFFF
        self._sent[flow] += 1
        return (
            self._header(kind, size, sequence=sequence, block_end=int(ends), **fields) + payload
        )

    def word(self, beat: bytes) -> int:
        """The model's word for a frame, from its first beat."""
        bits = int.from_bytes(beat[:HEADER_BYTES], "little")
        header = {name: bits >> at & (1 << width) - 1 for name, (at, width) in _FIELDS.items()}
        kind, freed = header["kind"], header["detail"]
        beats = header["payload_bytes"] // self._config.bus_bytes
        if kind not in (CREDIT, *_DATA):
            raise PayloadError(f"rank {self._rank} sent a frame of kind {kind}")
        word: int = (
            credit_word(beats, freed & (1 << COUNT_BITS) - 1, freed >> COUNT_BITS)
            if kind == CREDIT
            else frame_word(kind, beats, header["block_end"])
        )
        return word

    def check(self, frame: bytes) -> None:
        """Compare a frame of the engine with the golden one, header and payload.

        Raises
        ------
        PayloadError
            If a bit differs.
        """
        word = self.word(frame)
        if frame != self.frame(word):
            what = FrameKind(kind_of(word)).name.lower()
            number = sum(self._sent) - 1
            raise PayloadError(
                f"rank {self._rank} sent a frame ({what}, data frame {number} of its port) that "
                "is not the golden one"
            )
