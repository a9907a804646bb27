# SPDX-License-Identifier: Apache-2.0
"""Packets between a node in RTL and nodes that are models: real headers, golden payload."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.link.packet import FLIT_BYTES, PacketKind
from sim.collectives.fsm_program import Instruction
from sim.collectives.golden import torus_partial
from sim.cycles.ace.model import program_of
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.writes import ready_fields
from sim.rtl.exchange import PayloadError
from sim.workload.graph import CollectiveKind

__all__ = ["Boundary"]


class Boundary:
    """Packets into and out of one rank of a ring.

    Parameters
    ----------
    config : AceConfig
    ring : Surroundings
    commands : sequence of Command
    inputs : sequence of arrays, ranks x elements
        Data of each command, as ``sim.runs.scripts`` takes it.
    rank : int
    """

    def __init__(
        self,
        config: AceConfig,
        ring: Surroundings,
        commands: Sequence[Command],
        inputs: Sequence[Sequence[NDArray[Any]]],
        rank: int,
    ) -> None:
        self._config = config
        self._commands = commands
        self._program = program_of(config, ring)
        self._inputs = inputs
        self._rank = rank
        self._partials: dict[int, tuple[NDArray[Any], ...]] = {}
        self._stacked: dict[int, NDArray[Any]] = {}

    @cached_property
    def _fields(self) -> dict[str, tuple[int, int]]:
        layout = self._config.format.layout
        return {name: (field.offset, field.width) for name, field in layout}

    def _passing(self, number: int) -> tuple[NDArray[Any], ...]:
        """Vectors arriving, leaving and whole of a command."""
        if number not in self._partials:
            command = self._commands[number]
            if command.collective is CollectiveKind.ALL_GATHER:
                whole = np.concatenate(list(self._inputs[number]))
                self._partials[number] = whole, whole, whole
            else:
                self._partials[number] = self._program.partials(
                    np.asarray(self._inputs[number]), rank=self._rank, op=command.op,
                    block=command.block, collective=command.collective,
                )
        return self._partials[number]

    def _payload(
        self, number: int, *, fsm: int, chunk: int, step: int, offset: int, to: int
    ) -> tuple[Instruction, NDArray[Any]]:
        """The instruction of rank *to*, this one or a neighbour, that a packet is for, and its
        elements."""
        instruction, run = self._instruction(number, fsm=fsm, rank=to, step=step)
        command, program = self._commands[number], self._program
        cut = program.cut(
            command.elements, block=command.block, collective=command.collective
        )
        place = program.packet(
            cut, chunk=chunk, block=instruction.block, run=run, offset=offset
        )
        if program.torus is not None and command.collective is not CollectiveKind.ALL_GATHER:
            path = program.way(fsm)
            parts = program.torus.parts_of(command.collective, path)
            element = np.arange(place.start, place.stop)
            blocks = cut.block_of(element)
            payload = np.empty(len(element), self._vectors(number).dtype)
            for block in np.unique(blocks).tolist():
                here = blocks == block
                payload[here] = torus_partial(
                    self._vectors(number)[:, element[here]], program.torus, path=path,
                    owner=parts[block], operands=instruction.arriving, rank=to,
                    chain=bool(instruction.op.value & 1), op=command.op,
                )
            return instruction, payload
        arriving, leaving, whole = self._passing(number)
        if not instruction.op.value & 1:
            return instruction, whole[place]
        return instruction, (arriving if to == self._rank else leaving)[place]

    def _vectors(self, number: int) -> NDArray[Any]:
        """Data of a command, ranks x elements."""
        if number not in self._stacked:
            self._stacked[number] = np.asarray(self._inputs[number])
        return self._stacked[number]

    def _instruction(
        self, number: int, *, fsm: int, rank: int, step: int
    ) -> tuple[Instruction, int]:
        """An instruction, and the blocks of its run."""
        code = self._program.code(self._commands[number].collective, fsm=fsm, rank=rank)
        found = code.instructions[step]
        assert isinstance(found, Instruction)  # packets do not name the ends of phases
        return found, code.run_of(step)

    def ready(
        self, *, source: int, sequence: int, number: int, chunk: int, fsm: int, context: int
    ) -> bytes:
        """The flit of a READY packet from a neighbour."""
        command = self._commands[number]
        header = self._config.format.encode(
            {
                "offload": 1, "kind": PacketKind.READY.value, "collective": number % 256,
                "chunk": chunk, "fsm": fsm, "context": context, "source": source,
                "sequence": sequence,
                **ready_fields(
                    self._program, command.collective,
                    self._program.settings(
                        command.elements, block=command.block, collective=command.collective
                    ),
                    op=command.op,
                ),
            }
        )
        return header.to_bytes(FLIT_BYTES, "little")

    def data(
        self,
        *,
        source: int,
        sequence: int,
        number: int,
        chunk: int,
        fsm: int,
        context: int,
        step: int,
        offset: int,
    ) -> bytes:
        """The flits of a DATA packet from a neighbour: header, then payload."""
        command = self._commands[number]
        instruction, payload = self._payload(
            number, fsm=fsm, chunk=chunk, step=step, offset=offset, to=self._rank
        )
        header = self._config.format.encode(
            {
                "offload": 1, "kind": PacketKind.DATA.value, "op": command.op.value,
                "collective": number % 256, "chunk": chunk, "fsm": fsm, "context": context,
                "step": step, "offset": offset, "length": ELEMENT_BYTES * len(payload),
                "source": source, "sequence": sequence,
                "contributions": instruction.arriving % (1 << self._config.format.node),
            }
        )
        flits = -(-ELEMENT_BYTES * len(payload) // FLIT_BYTES)
        return header.to_bytes(FLIT_BYTES, "little") + payload.tobytes().ljust(
            flits * FLIT_BYTES, b"\0"
        )

    def parse(self, flit: bytes) -> dict[str, int]:
        """Header fields of a packet from the engine.

        Raises
        ------
        PayloadError
            If its checksum is wrong.
        """
        header = self._config.format.decode(int.from_bytes(flit, "little"))
        if header is None:
            raise PayloadError(f"rank {self._rank} sent a header with a wrong checksum")
        return header

    def check(self, header: dict[str, int], payload: bytes, *, to: int) -> None:
        """Compare a DATA packet from the engine to rank *to* with the golden model.

        Raises
        ------
        PayloadError
            If a bit of the payload, the length or the contributions differ.
        """
        number = header["collective"]
        fsm = header["fsm"]
        instruction, payload_due = self._payload(
            number, fsm=fsm, chunk=header["chunk"], step=header["step"], offset=header["offset"],
            to=to,
        )
        expected = payload_due.tobytes()
        if (
            header["length"] != len(expected)
            or (instruction.arriving - header["contributions"])
            % (1 << self._config.format.node)
            or header["source"] != self._rank
            or header["poison"]
            or payload[: len(expected)] != expected
        ):
            raise PayloadError(
                f"rank {self._rank} sent a packet of collective {number}, chunk "
                f"{header['chunk']}, step {header['step']}, offset {header['offset']} that is not "
                "the golden one"
            )
