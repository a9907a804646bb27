# SPDX-License-Identifier: Apache-2.0
"""Systems of RTL endpoints and switches, all-reduces on them, and their expected results."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig
from hw.switch.formats import HALVES
from hw.switch.packet import Format
from hw.switch.recount import GUARD_CYCLES
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import Part
from sim.cycles.switch.fabric import Fabric
from sim.rtl.switch.formats import packed, rounded
from sim.rtl.switch.orders import dtype_of, pulled, pushed, switches_between
from sim.rtl.switch.stepped import EndpointNode, SteppedFabric
from sim.rtl.switch.sums import Log
from tb.switch_dma import fixed_point
from tb.switch_dma.fixed_point import largest_exponent

__all__ = [
    "SOURCE",
    "AllReduce",
    "Placement",
    "Restriction",
    "flat",
    "join",
    "shares",
    "smallest",
    "two_levels",
]

SOURCE = 0x1000
"""Address of operands in memory; results follow at the next multiple of 4 KiB."""

Words: TypeAlias = NDArray[Any]

_UNTOUCHED = 0xA5
"""Initial value of every byte of a result."""


def flat(
    switch: SwitchConfig, dma: SwitchDmaConfig, members: int, **options: Any
) -> SteppedFabric:
    """Members at one switch per plane, all of them in region 0, or in a region per *group*."""
    return _system(switch, dma, Fabric.flat(members, planes=dma.links), **options)


def two_levels(
    switch: SwitchConfig, dma: SwitchDmaConfig, members: int, *, leaf: int | None = None,
    **options: Any,
) -> SteppedFabric:
    """Members at leaves of up to *leaf*, ``ports - 1`` by default, these at a root; one such tree
    per plane."""
    leaf = switch.ports - 1 if leaf is None else leaf
    fabric = Fabric.two_levels(members, leaf=leaf, planes=dma.links)
    return _system(switch, dma, fabric, **options)


def _system(
    switch: SwitchConfig, dma: SwitchDmaConfig, fabric: Fabric, *, timeout: int = 200,
    groups: Sequence[Sequence[int]] | None = None, **options: Any,
) -> SteppedFabric:
    system = SteppedFabric(switch, dma, fabric, **options)
    for region, members in enumerate([range(len(fabric.places))] if groups is None else groups):
        links = system.pruned(members)
        homes = [home for home in fabric.homes[0] if home in members]
        system.region(members, links=links, region=region, timeout=timeout, homes=homes)
    system.program(system.route_rows())
    system.timeout = timeout
    return system


def join(system: SteppedFabric, **settings: int) -> SteppedFabric:
    """Configure all endpoints and make them members; all are ready afterwards. Rows of an endpoint
    hold its regions in ascending order."""
    if system.retry is not None:
        system.run(lambda: all(system.links("up")))
    for node in system.nodes:
        node.rows.clear()
    for region, members in sorted(system.groups.items()):
        for node in (system.nodes[k] for k in members):
            node.configure(members=len(members), region=region, row=len(node.rows),
                           own=int(system.mode == "whole"), **settings)
    system.settle(quiet=5)
    for node in system.nodes:
        node.join()
    system.settle(quiet=GUARD_CYCLES + 60 + 4 * system.latency)  # credits are counted
    for node, status in zip(system.nodes, system.ask("status")):
        assert status["ready"] == (1 << len(node.rows)) - 1, "not all have joined"
    assert not any(any(each.values()) for each in system.ask("interrupt"))
    return system


class Placement(NamedTuple):
    """Addresses in memory: operands at *source*, results in their place or, unless *in_place*, from
    the next multiple of 4 KiB on."""

    source: int = SOURCE
    in_place: bool = False


class Restriction(NamedTuple):
    """The step, sending or storing, that endpoints restrict to their parts; *spans* are the first
    and the end element of every endpoint's part."""

    step: Part = Part.NONE
    spans: Sequence[tuple[int, int]] = ()


_AT_SOURCE, _WHOLE = Placement(), Restriction()


class AllReduce:
    """An all-reduce of all nodes of a region: puts operands into memory and checks the results.

    Parameters
    ----------
    system : SteppedFabric
    op : ReduceOp
    elements : int
    seed : int
    tag : int
    region : int
    mode : str or None
        Mode of reduction; by default that of the system.
    at : Placement
    fixed : bool or int
        Sum FP32 in fixed point, within the window that the operands need; or of this exponent.
    only : Restriction
    format : Format
        Format of operands and results on links; 16-bit numbers have it in memory, too.
    """

    def __init__(
        self, system: SteppedFabric, op: ReduceOp, elements: int, *, seed: int = 1, tag: int = 1,
        region: int = 0, mode: str | None = None, at: Placement = _AT_SOURCE,
        fixed: bool | int = False, only: Restriction = _WHOLE, format: Format = Format.WORDS,
    ) -> None:
        self.system, self.op, self.elements, self.tag = system, op, elements, tag
        self.mode = system.mode if mode is None else mode
        self.format = format
        self.memory_type: np.dtype[Any] = np.dtype(dtype_of(op))
        if format in HALVES:
            self.memory_type = np.dtype(np.uint16)
        self.region, self.members = region, system.groups[region]
        self.nodes = [system.nodes[k] for k in self.members]
        rng = np.random.default_rng(seed)
        self.inputs = [self._draw(rng) for _ in self.nodes]
        self.exponent = largest_exponent(self.inputs) if fixed is True else int(fixed)
        self.part, self.parts = only.step, list(only.spans)
        room = -(-4 * elements // 4096) * 4096
        self.source = at.source
        self.destination = at.source if at.in_place else at.source + room + 4096
        for node, words in zip(self.nodes, self.inputs):
            end = self.destination + room + 4096
            assert end <= len(node.memory), "the memory is too small"
            node.memory[self.destination : end] = _UNTOUCHED
            node.put(self.source, self._stored(words))

    def _stored(self, values: Words) -> Words:
        """Operands in their format in memory."""
        if self.format not in HALVES:
            return values
        return np.frombuffer(packed(self.format, values), np.uint16)

    def _draw(self, rng: np.random.Generator) -> Words:
        if self.op is ReduceOp.SUM_I32:
            return rng.integers(-(1 << 31), 1 << 31, self.elements).astype(np.int32)
        top = 3 if self.format is Format.FP16 else 7  # sums are finite
        exponents = rng.integers(-6, top, self.elements)
        return (rng.standard_normal(self.elements) * 10.0**exponents).astype(np.float32)

    def start(self, nodes: Iterable[EndpointNode] | None = None, **changes: Any) -> None:
        """Give the command to *nodes*, all by default."""
        what = {"op": self.op, "elements": self.elements, "source": self.source,
                "destination": self.destination, "tag": self.tag,
                "pull": int(self.mode != "push"), "region": self.region,
                **({} if self.format is Format.WORDS else {"format": self.format}), **changes}
        if self.exponent:
            what = {"fixed": 1, "exponent": self.exponent, **what}
        op, elements = what.pop("op"), what.pop("elements")
        for node in self.nodes if nodes is None else nodes:
            given = dict(what)
            if self.part is not Part.NONE:
                begin, end = self.parts[self.nodes.index(node)]
                if elements < self.elements:  # changed: a part beyond it would be refused
                    end = min(end, elements)
                    begin, end = (begin, end) if begin < end else (0, 0)
                given |= {"part": self.part, "begin": begin, "end": end, **what}
            node.all_reduce(op, elements, **given)

    @property
    def added_as(self) -> ReduceOp:
        """The operation of tables and home endpoints: parts that are sent are added as integers."""
        return ReduceOp.SUM_I32 if self.part is Part.SEND else self.op

    def sent(self) -> list[Words]:
        """Operands of every node for the operation `added_as`; zero outside its part, if only that
        is sent."""
        if self.part is not Part.SEND:
            return self.inputs
        return [np.where([begin <= k < end for k in range(self.elements)], words.view(np.int32), 0)
                for words, (begin, end) in zip(self.inputs, self.parts)]

    def results(self) -> list[Words]:
        """Results in the memory of every node."""
        return [node.words(self.destination, self.elements, self.memory_type)
                for node in self.nodes]

    def beyond(self) -> list[Words]:
        """Bytes behind each result, which must not be touched."""
        end = self.destination + self.memory_type.itemsize * self.elements
        return [node.memory[end : end + 256] for node in self.nodes]

    def golden(self, *, base: Sequence[int], epoch: int) -> Words:
        """Replay the order that tables, home endpoints and requesters logged; return the result. In
        fixed point it is the sum, whatever that order was.

        Parameters
        ----------
        base : list of int
            Number of the contract on each link: blocks before it in this epoch.
        epoch : int
        """
        dma, log = self.system.dma, self.system.log
        size = dma.block_elements
        blocks = -(-self.elements // size)
        total: Words = np.zeros(blocks * size, dtype_of(self.added_as))
        for block in range(blocks):
            plane = block % dma.links
            number = base[plane] + 1 + block // dma.links
            address = ((epoch & 7) << dma.number_bits | number) * dma.payload_flits
            part = slice(block * size, (block + 1) * size)
            words: dict[int, Words] = {}
            for member, each in zip(self.members, self.sent()):
                piece = each[part]
                words[member] = np.zeros(size, each.dtype)
                words[member][: len(piece)] = piece
                if self.format is not Format.WORDS:
                    words[member] = rounded(self.format, words[member])
            if self.mode == "push":
                total[part] = pushed(log, plane, self.region, address, self.added_as, words)
            else:
                requester = self.members[number % len(words)]
                total[part] = self._pulled(log, plane, address, requester, words)
            if self.format is not Format.WORDS:
                total[part] = rounded(self.format, total[part])
        if self.exponent:
            unit = fixed_point.unit_of(self.exponent, len(self.inputs))
            return fixed_point.total(self.inputs, unit)
        if self.added_as is ReduceOp.SUM_I32:
            assert np.array_equal(total[: self.elements], sum(self.sent())), "not the sum"
        return self._stored(total[: self.elements].view(dtype_of(self.op)))

    def expected(self, golden: Words) -> list[Words]:
        """Expected results in the memory of every node, from the *golden* one."""
        if self.part is not Part.STORE:
            return [golden] * len(self.nodes)
        every: list[Words] = []
        for part in self.parts:
            every.append(np.full(golden.nbytes, _UNTOUCHED, np.uint8).view(golden.dtype))
            every[-1][slice(*part)] = golden[slice(*part)]
        return every

    def _pulled(
        self, log: Log, plane: int, address: int, requester: int, words: Mapping[int, Words]
    ) -> Words:
        system = self.system
        where = system.places[requester][plane][0]

        def path(source: int) -> list[int]:
            return switches_between(system.peer, system.places[source][plane][0], where)

        return pulled(log, path, plane, self.region, address, requester, self.added_as, words)

    def check(self, *, base: Sequence[int] | None = None, epoch: int = 0) -> None:
        """Check that all nodes have the golden result, bit for bit, and wrote nothing else."""
        golden = self.golden(base=[0] * self.system.dma.links if base is None else base,
                             epoch=epoch)
        for number, (words, right) in enumerate(zip(self.results(), self.expected(golden))):
            assert words.tobytes() == right.tobytes(), f"endpoint {number}"
        whole = all((each == _UNTOUCHED).all() for each in self.beyond())
        assert whole, "written beyond the vector"


def shares(system: SteppedFabric, elements: int) -> list[tuple[int, int]]:
    """Parts of equal blocks, in the order of the members; the last ones may be shorter."""
    size, members = system.dma.block_elements, len(system.nodes)
    blocks = -(-elements // size)
    ends = [min(-(-blocks * k // members) * size, elements) for k in range(members + 1)]
    return list(itertools.pairwise(ends))


def smallest(
    switch: SwitchConfig, dma: SwitchDmaConfig
) -> tuple[SwitchConfig, SwitchDmaConfig]:
    """Both configurations with tables of one entry and buffers of one packet."""
    return (
        replace(switch, entries=1, buffer_packets=1, credits=1, queue_packets=1),
        replace(dma, buffer_packets=1, credits=1),
    )
