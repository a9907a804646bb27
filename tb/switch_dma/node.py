"""A compiled endpoint with its memory and a host that reads and writes its registers."""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gen.compile import CompiledModel, Instance
from hw.common.register_map import Register
from hw.fp.ops import ReduceOp
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.registers import COUNTERS, register_map
from sim.cycles.stalls import MEMORY, stall_key, stalled, threshold
from sim.rtl.switch.writes import FieldWrite, command_writes, member_writes

__all__ = ["WRITE_LATENCY", "DmaNode", "Memory"]

SLVERR = 2
WRITE_LATENCY = 2
"""Cycles from the last beat of a write burst to its response."""

_CHANNELS = ("ar", "aw", "w", "r", "b")  # in the order in which stalls are drawn
_AHEAD = 4096


class Pins:
    """Inputs and outputs of an instance; an input is set only when it changes."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.get = instance.get
        self._last: dict[str, int] = {}

    def set(self, name: str, value: int) -> None:
        if self._last.get(name) != value:
            self._last[name] = value
            self.instance.set(name, value)


class Memory:
    """Memory behind the ports of an endpoint; stalls at random and refuses bad ranges.

    Parameters
    ----------
    size : int
        Bytes.
    rng : random.Random or None
        Draws stalls; None: they follow from seed, node and cycle, as in the cycle model.
    seed, node : int
    stalls : float
        Probability of a stall, per cycle and channel.
    latency : int
        Cycles from an address to its first beat.
    """

    def __init__(
        self, size: int, *, rng: random.Random | None = None, seed: int = 1, node: int = 0,
        stalls: float = 0.0, latency: int = 4,
    ) -> None:
        self.bytes = np.zeros(size, np.uint8)
        self.seed, self.node, self.stalls, self.latency = seed, node, stalls, latency
        self.rng = rng
        self.bad_reads: list[range] = []  # addresses
        self.bad_writes: list[range] = []
        self.frozen = False

    @staticmethod
    def refuses(ranges: Iterable[range], address: int) -> bool:
        return any(address in each for each in ranges)


class Port:
    """An AXI4 slave: one memory port of an endpoint."""

    def __init__(self, pins: Pins, number: int, memory: Memory) -> None:
        self.pins, self.number, self.memory = pins, number, memory
        self.name = {
            each: f"mem_{number}_{each}"
            for each in (
                "arvalid", "araddr", "arlen", "arready", "rvalid", "rdata", "rresp", "rlast",
                "rready", "awvalid", "awaddr", "awlen", "awready", "wvalid", "wdata", "wstrb",
                "wlast", "wready", "bvalid", "bresp", "bready",
            )
        }
        self.cycle = 0
        self.asleep = [np.zeros(0, bool)] * len(_CHANNELS)  # by cycle
        self.reads: deque[tuple[int, int, bool]] = deque()  # cycle, address, last
        self.writes: deque[tuple[int, int]] = deque()  # address, beats
        self.answers: deque[tuple[int, int]] = deque()  # cycle, response
        self.offers = False  # a beat of read data
        self.failed = False
        self.offset = 0
        self.answering = False

    def get(self, name: str) -> int:
        return self.pins.get(self.name[name])

    def set(self, name: str, value: int) -> None:
        self.pins.set(self.name[name], value)

    def awake(self, channel: str) -> bool:
        """True if the memory does not stall a channel in this cycle."""
        memory, k = self.memory, _CHANNELS.index(channel)
        if memory.rng is not None:
            idle = memory.stalls > 0 and not memory.frozen and memory.rng.random() < memory.stalls
            return not memory.frozen and not idle
        if self.cycle >= len(self.asleep[k]):
            key = stall_key(memory.seed, memory.node, self.number, MEMORY + k)
            cycles = np.arange(2 * self.cycle + _AHEAD)
            drawn = stalled(key, threshold(memory.stalls), cycles)
            self.asleep[k] = np.broadcast_to(drawn, cycles.shape)
        return not memory.frozen and not self.asleep[k][self.cycle - 1]

    def step(self) -> None:
        """Before the edge: set the inputs of this cycle, and do its transfers."""
        self.cycle += 1
        self._read()
        self._write()
        self._addresses()

    def _addresses(self) -> None:
        for channel in ("ar", "aw"):
            ready = self.awake(channel)
            self.set(f"{channel}ready", ready)
            if not (ready and self.get(f"{channel}valid")):
                continue
            address = self.get(f"{channel}addr")
            beats = self.get(f"{channel}len") + 1
            assert address // 4096 == (address + 16 * beats - 1) // 4096, "a burst crosses 4 KiB"
            if channel == "ar":
                due = self.cycle + self.memory.latency
                self.reads.extend(
                    (due, address + 16 * k, k == beats - 1) for k in range(beats)
                )
            else:
                self.writes.append((address, beats))

    def _read(self) -> None:
        memory = self.memory
        due = self.reads and self.reads[0][0] <= self.cycle
        if not self.offers and due and self.awake("r"):
            _, address, last = self.reads.popleft()
            bad = memory.refuses(memory.bad_reads, address)
            data = memory.bytes[address : address + 16].tobytes()
            self.offers = True
            self.set("rdata", 0 if bad else int.from_bytes(data, "little"))
            self.set("rresp", SLVERR if bad else 0)
            self.set("rlast", last)
        self.set("rvalid", self.offers)
        if self.offers and self.get("rready"):
            self.offers = False

    def _write(self) -> None:
        memory = self.memory
        ready = bool(self.writes) and self.awake("w")
        self.set("wready", ready)
        if ready and self.get("wvalid"):
            address, beats = self.writes[0]
            place = address + 16 * self.offset
            data, strobes = self.get("wdata"), self.get("wstrb")
            bad = memory.refuses(memory.bad_writes, place)
            self.failed |= bad
            if not bad:
                for k in range(16):
                    if strobes >> k & 1:
                        memory.bytes[place + k] = data >> 8 * k & 255
            self.offset += 1
            assert self.get("wlast") == (self.offset == beats)
            if self.offset == beats:
                self.writes.popleft()
                due = self.cycle + WRITE_LATENCY
                self.answers.append((due, SLVERR if self.failed else 0))
                self.offset, self.failed = 0, False
        if not self.answering and self.answers and self.answers[0][0] <= self.cycle:
            self.answering = self.awake("b")
            self.set("bresp", self.answers[0][1])
        self.set("bvalid", self.answering)
        if self.answering and self.get("bready"):
            self.answers.popleft()
            self.answering = False


@dataclass(frozen=True)
class _Access:
    """A register access of the host: of a *word* to write, or a read. The *answer* has the fields
    read, or the ``response`` to a write that may be refused."""

    register: Register
    address: int
    word: int | None = None
    refusable: bool = False
    answer: dict[str, int] = field(default_factory=dict)


class DmaNode:
    """An endpoint, its memory, and its host, with one register access at a time.

    Parameters
    ----------
    model : CompiledModel
    config : SwitchDmaConfig
    number : int
    memory : Memory
    """

    def __init__(
        self, model: CompiledModel, config: SwitchDmaConfig, number: int, memory: Memory
    ) -> None:
        self.model, self.config, self.number, self.memory = model, config, number, memory
        self.map = register_map(config)
        self.rows: dict[int, int] = {}  # region -> the endpoint's row
        self.accesses: deque[_Access] = deque()
        self.restart()

    def restart(self) -> None:
        """Reset: all state of the endpoint and its host is gone, memory stays."""
        self.pins = Pins(self.model.instance())
        self.ports = [Port(self.pins, k, self.memory) for k in range(self.config.links)]
        self.accesses.clear()
        self.waiting: _Access | None = None

    # ---- Links.

    def shown(self, k: int) -> tuple[int | None, int]:
        """Flit and credits that link *k* sends in this cycle."""
        get = self.pins.get
        flit = get(f"link_{k}_tx_payload") if get(f"link_{k}_tx_valid") else None
        return flit, get(f"link_{k}_rx_credit")

    def give(self, k: int, flit: int | None, credit: int) -> None:
        """Drive the flit and credits that arrive by link *k* in this cycle."""
        self.pins.set(f"link_{k}_rx_valid", flit is not None)
        if flit is not None:
            self.pins.set(f"link_{k}_rx_payload", flit)
        self.pins.set(f"link_{k}_tx_credit", credit)

    def step(self) -> None:
        for port in self.ports:
            port.step()
        self._host()
        self.pins.instance.cycle()

    # ---- Registers.

    def write(self, name: str, index: int | None = None, **fields: int) -> None:
        """Queue a write."""
        self.accesses.append(self._write(name, index, fields))

    def try_write(self, name: str, index: int | None = None, **fields: int) -> dict[str, int]:
        """Queue a write that may be refused; the response will be in the dictionary returned."""
        access = replace(self._write(name, index, fields), refusable=True)
        self.accesses.append(access)
        return access.answer

    def _write(self, name: str, index: int | None, fields: dict[str, int]) -> _Access:
        register = self.map.registers[name]
        return _Access(register, self.map.offset(name, index), register.pack(**fields))

    def read(self, name: str, index: int | None = None) -> dict[str, int]:
        """Queue a read; its fields will be in the dictionary that is returned."""
        access = _Access(self.map.registers[name], self.map.offset(name, index))
        self.accesses.append(access)
        return access.answer

    def _host(self) -> None:
        pins = self.pins
        # The slave is ready when nothing else is under way.
        fresh = self.waiting is None and bool(self.accesses)
        if fresh:
            self.waiting = access = self.accesses.popleft()
            if access.word is not None:
                pins.set("csr_awaddr", access.address)
                pins.set("csr_wdata", access.word)
                pins.set("csr_wstrb", 15)
            else:
                pins.set("csr_araddr", access.address)
        waiting = self.waiting
        is_write = waiting is not None and waiting.word is not None
        pins.set("csr_awvalid", fresh and is_write)
        pins.set("csr_wvalid", fresh and is_write)
        pins.set("csr_arvalid", fresh and not is_write)
        pins.set("csr_bready", 1)
        pins.set("csr_rready", 1)
        if waiting is None:
            return
        if is_write and pins.get("csr_bvalid"):
            response = pins.get("csr_bresp")
            if waiting.refusable:
                waiting.answer["response"] = response
            else:
                assert response == 0, f"write to {waiting.address:#x} refused"
            self.waiting = None
        elif not is_write and pins.get("csr_rvalid"):
            waiting.answer.update(waiting.register.unpack(pins.get("csr_rdata")))
            self.waiting = None

    # ---- Commands.

    def configure(
        self, *, members: int, region: int = 0, row: int = 0, watchdog: int = 0, tries: int = 0,
        abort: int = 1, own: int = 0,
    ) -> None:
        self.rows = {r: k for r, k in self.rows.items() if k != row} | {region: row}
        self._perform(
            member_writes(self.map, self.number, members=members, region=region, row=row, own=own,
                          watchdog=watchdog, tries=tries, abort=abort)
        )

    def join(self) -> None:
        for row in self.rows.values():
            self.write("control", row, join=1)

    def all_reduce(
        self, op: ReduceOp, elements: int, *, source: int, destination: int, region: int = 0,
        **fields: Any,
    ) -> None:
        if self.config.regions > 1:
            fields["region"] = self.rows[region]
        self._perform(
            command_writes(op, elements, source=source, destination=destination, **fields)
        )

    def _perform(self, writes: Iterable[FieldWrite]) -> None:
        for name, index, fields in writes:
            self.write(name, index, **fields)

    def put(self, address: int, words: NDArray[Any]) -> None:
        raw = np.ascontiguousarray(words).view(np.uint8)
        self.memory.bytes[address : address + len(raw)] = raw

    def words(self, address: int, count: int, dtype: DTypeLike) -> NDArray[Any]:
        end = address + np.dtype(dtype).itemsize * count
        return self.memory.bytes[address:end].view(dtype).copy()

    COUNTERS = tuple(COUNTERS)
