# SPDX-License-Identifier: Apache-2.0
"""Contents of packets of switches and their endpoints, from the logged orders of additions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Const
from amaranth.lib import data as layouts
from amaranth.utils import exact_log2
from numpy.typing import NDArray

from gen.waves import TracedSignal
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BYTES
from hw.switch.layouts import TAKEN
from hw.switch.packet import Format
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.home import TOOK
from hw.switch_dma.layouts import NODE, contract_flits, job_layout, window_layout
from sim.cycles.switch.hosts import Assembly
from sim.hosts.command import Command
from sim.rtl.harness.signals import SignalTrace
from sim.rtl.switch.formats import rounded
from sim.rtl.switch.orders import (
    Part,
    Spot,
    dtype_of,
    folded,
    note_home,
    note_table,
    pulled,
    pushed,
    replay,
    switches_between,
)

__all__ = ["REGION", "Log", "Sums", "planes_of", "trace_ports"]

REGION = 0
"""The region that endpoints in RTL are members of."""

Words = NDArray[Any]


def trace_ports(name: str, count: int, width: int) -> tuple[TracedSignal, ...]:
    """The trace ports of a model."""
    return tuple(
        TracedSignal(path=(f"{name}_{k}",), port=f"{name}_{k}", width=width) for k in range(count)
    )


@dataclass
class Log:
    """See `sim.rtl.switch.orders.Orders`."""

    taken: dict[Any, list[int]] = field(default_factory=dict)
    answers: dict[Any, list[Part]] = field(default_factory=dict)
    took: dict[Any, dict[int, list[Part]]] = field(default_factory=dict)
    noted: dict[int, int] = field(default_factory=dict)
    """By part, words of its trace that are in the log."""

    def clear(self) -> None:
        """Forget all additions up to now."""
        for each in (self.taken, self.answers, self.took):
            each.clear()

    def note(
        self, trace: SignalTrace, part: int, switch: int, planes: Mapping[int, int]
    ) -> None:
        """Add what was traced at *part*, which is an endpoint or, if that is 0 or more, *switch*.
        """
        if not trace.complete:
            raise RuntimeError(
                f"node {part} has added more operands than there is room to note: the "
                "order of its sums is not known"
            )
        begin, self.noted[part] = self.noted.get(part, 0), len(trace.samples)
        for _, place, value in replace(trace, samples=trace.samples[begin:]).changes():
            kind, _, number = trace.signals[place].port.partition("_")
            if value & 1 and kind == "taken":
                note_table(self, switch, planes[switch], TAKEN.from_bits(value))
            elif value & 1 and kind == "took":
                of: Any = TOOK.from_bits(value)
                note_home(self, part, int(number), of.region, of)


class Sums:
    """The words of every packet, in numpy, from the operands of all members.

    Parameters
    ----------
    config : Assembly
        With one region.
    commands : sequence of Command
        All-reduces, in their order.
    data : sequence of sequences of arrays
        For each, a vector per rank.
    log : Log
        Additions of all switches and endpoints up to now.
    """

    def __init__(
        self,
        config: Assembly,
        commands: Sequence[Command],
        data: Sequence[Sequence[Words]],
        log: Log,
    ) -> None:
        self._config, self._log, self._commands = config, log, commands
        self._dma = config.system.dma
        self._pull = config.system.mode != "push"
        self._padded = [self._pad(each, arrays) for each, arrays in zip(commands, data)]
        # By command and link, the number of the block that is its contract.
        self._contracts: list[list[int]] = []
        before = [0] * self._dma.links
        for padded in self._padded:
            self._contracts.append(before)
            blocks = padded.shape[1] // self._dma.block_elements
            links = self._dma.links
            before = [at + 1 + len(range(k, blocks, links)) for k, at in enumerate(before)]
        self.most_blocks = max(before)
        peer = {a: b for cable in config.fabric.cables for a, b in (cable, cable[::-1])}
        places = config.fabric.places

        @cache
        def way(plane: int, source: int, requester: int) -> list[int]:
            return switches_between(peer, places[source][plane][0], places[requester][plane][0])

        self._way = way
        self._whole: dict[tuple[int, int], Words] = {}

    def _pad(self, command: Command, arrays: Sequence[Words]) -> Words:
        size = self._dma.block_elements
        blocks = -(-command.elements // size)
        padded: Words = np.zeros((len(arrays), blocks * size), dtype_of(command.op))
        for rank, array in enumerate(arrays):
            padded[rank, : command.elements] = array
        return np.array([self._rounded(each) for each in padded])

    def _rounded(self, words: Words) -> Words:
        """*words* as operands and results carry them on the links."""
        format = self._config.system.format
        return words if format is Format.WORDS else rounded(format, words)

    def address(self, number: int) -> int:
        """Address of a block in the region."""
        return (number & (1 << self._dma.number_bits) - 1) * self._dma.payload_flits

    def operands(self, plane: int, number: int) -> tuple[ReduceOp, bool, Mapping[int, Words]]:
        """For a block of a link: its operation, True if it is pulled, and the operand of each
        member."""
        at = max(
            n for n, firsts in enumerate(self._contracts) if firsts[plane] <= number
        )
        padded, size = self._padded[at], self._dma.block_elements
        command, place = self._commands[at], number - self._contracts[at][plane]
        if place == 0:
            words = contract_words(
                self._dma, command, number=at, members=len(padded), pull=self._pull
            )
            return ReduceOp.MAX_F32, False, dict.fromkeys(range(len(padded)), words)
        block = (place - 1) * self._dma.links + plane
        own = padded[:, block * size : (block + 1) * size]
        return command.op, self._pull, dict(enumerate(own))

    def whole(self, plane: int, number: int) -> Words:
        """The result of a block, once all operands are in it."""
        key = plane, number
        if key not in self._whole:
            op, pull, words = self.operands(plane, number)
            address = self.address(number)
            if pull:
                to = number % len(words)
                self._whole[key] = pulled(
                    self._log, lambda source: self._way(plane, source, to),
                    plane, REGION, address, to, op, words,
                )
            else:
                self._whole[key] = pushed(self._log, plane, REGION, address, op, words)
        return self._whole[key]

    def answer(
        self, plane: int, number: int, requester: int, part: Part, beyond: int | None
    ) -> tuple[Words, list[int]]:
        """An answer to a load, and the endpoints whose operands are in it.

        Parameters
        ----------
        part : (source, count)
        beyond : int or None
            The switch that receives it; None: the requester does.
        """
        op, _, words = self.operands(plane, number)
        key = (REGION, self.address(number), requester, 0)
        return replay(
            self._log.answers, lambda source: self._way(plane, source, requester), key, part, op,
            words, beyond=beyond,
        )

    def order(self, plane: int, number: int) -> list[int]:
        """Endpoints whose operands the table of a block that is pushed has taken, in its order."""
        return self._log.taken.get((plane, REGION, self.address(number)), [])

    def partial(self, plane: int, number: int, endpoints: Sequence[int]) -> Words:
        """Sum that a table has made of the operands of *endpoints*."""
        op, _, words = self.operands(plane, number)
        chosen = [each for each in self.order(plane, number) if each in endpoints]
        assert len(chosen) == len(endpoints), "an operand that no table has taken"
        return folded(op, [words[each] for each in chosen])

    def result(self, number: int) -> Words:
        """Result of a command: sums of words, rounded once."""
        dma, command = self._dma, self._commands[number]
        size, firsts = dma.block_elements, self._contracts[number]
        total = np.zeros(self._padded[number].shape[1], self._padded[number].dtype)
        for block in range(len(total) // size):
            plane = block % dma.links
            at = firsts[plane] + 1 + block // dma.links
            total[block * size : (block + 1) * size] = self.whole(plane, at)
        return self._rounded(total)[: command.elements]


def contract_words(
    dma: SwitchDmaConfig, command: Command, *, number: int, members: int, pull: bool
) -> Words:
    """The contract of a command, as `hw.switch_dma.operands` makes it with the settings of a
    reset."""

    def view(layout: layouts.StructLayout, fields: Mapping[int | str, Any]) -> Any:
        return layouts.View(layout, Const.cast(layout.const(fields)))

    job = view(job_layout(dma), {
        "elements": command.elements, "op": command.op.value, "tag": number % 256,
        "pull": int(pull),
    })
    window = view(window_layout(), {
        "size_log2": exact_log2(dma.wave_blocks) if pull else 0,
        "outstanding": dma.waves if pull else 0,
    })
    flits = contract_flits(job, view(NODE, {"members": members}).members, window)
    bits = Const.cast(Cat(*flits)).value.to_bytes(FLIT_BYTES * len(flits), "little")
    return np.frombuffer(bits.ljust(dma.payload_bytes, b"\0"), np.float32)


def planes_of(places: Sequence[Sequence[Spot]], cables: Sequence[tuple[Spot, Spot]]) -> dict[
    int, int
]:
    """The plane of each switch."""
    found = {s: k for spots in places for k, (s, _) in enumerate(spots)}
    for (s, _), (t, _) in cables:
        for a, b in ((s, t), (t, s)):
            if a in found:
                found.setdefault(b, found[a])
    return found
