"""A compiled endpoint with its memory and a host that reads and writes its registers."""

from collections import deque

import numpy as np

from hw.switch_dma.registers import COUNTERS, register_map
from sim.cycles.stalls import MEMORY, stall_key, stalled, threshold
from sim.rtl.switch_writes import command_writes, member_writes

__all__ = ["WRITE_LATENCY", "DmaNode", "Memory"]

SLVERR = 2
WRITE_LATENCY = 2
"""Cycles from the last beat of a write burst to its response."""

_CHANNELS = ("ar", "aw", "w", "r", "b")  # in the order in which stalls are drawn
_AHEAD = 4096


class Pins:
    """Inputs and outputs of an instance; an input is set only when it changes."""

    def __init__(self, instance):
        self.instance = instance
        self.get = instance.get
        self._last = {}

    def set(self, name, value):
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

    def __init__(self, size, *, rng=None, seed=1, node=0, stalls=0.0, latency=4):
        self.bytes = np.zeros(size, np.uint8)
        self.seed, self.node, self.stalls, self.latency = seed, node, stalls, latency
        self.rng = rng
        self.bad_reads, self.bad_writes = [], []  # ranges of addresses
        self.frozen = False

    @staticmethod
    def refuses(ranges, address):
        return any(address in each for each in ranges)


class Port:
    """An AXI4 slave: one memory port of an endpoint."""

    def __init__(self, pins, number, memory):
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
        self.reads = deque()  # (cycle, address, last)
        self.writes = deque()  # (address, beats)
        self.answers = deque()  # (cycle, response)
        self.beat = None
        self.failed = False
        self.offset = 0
        self.answering = False

    def get(self, name):
        return self.pins.get(self.name[name])

    def set(self, name, value):
        self.pins.set(self.name[name], value)

    def awake(self, channel):
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

    def step(self):
        """Before the edge: set the inputs of this cycle, and do its transfers."""
        self.cycle += 1
        self._read()
        self._write()
        self._addresses()

    def _addresses(self):
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

    def _read(self):
        memory = self.memory
        due = self.reads and self.reads[0][0] <= self.cycle
        if self.beat is None and due and self.awake("r"):
            _, address, last = self.reads.popleft()
            bad = memory.refuses(memory.bad_reads, address)
            data = memory.bytes[address : address + 16].tobytes()
            self.beat = True
            self.set("rdata", 0 if bad else int.from_bytes(data, "little"))
            self.set("rresp", SLVERR if bad else 0)
            self.set("rlast", last)
        self.set("rvalid", self.beat is not None)
        if self.beat is not None and self.get("rready"):
            self.beat = None

    def _write(self):
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


class DmaNode:
    """An endpoint, its memory, and its host, with one register access at a time.

    Parameters
    ----------
    model : CompiledModel
    config : SwitchDmaConfig
    number : int
    memory : Memory
    """

    def __init__(self, model, config, number, memory):
        self.model, self.config, self.number, self.memory = model, config, number, memory
        self.map = register_map(config)
        self.rows = {}  # region -> the endpoint's row
        self.accesses = deque()
        self.restart()

    def restart(self):
        """Reset: all state of the endpoint and its host is gone, memory stays."""
        self.pins = Pins(self.model.instance())
        self.ports = [Port(self.pins, k, self.memory) for k in range(self.config.links)]
        self.accesses.clear()
        self.waiting = None

    # ---- Links.

    def shown(self, k):
        """Flit and credits that link *k* sends in this cycle."""
        get = self.pins.get
        flit = get(f"link_{k}_tx_payload") if get(f"link_{k}_tx_valid") else None
        return flit, get(f"link_{k}_rx_credit")

    def give(self, k, flit, credit):
        """Drive the flit and credits that arrive by link *k* in this cycle."""
        self.pins.set(f"link_{k}_rx_valid", flit is not None)
        if flit is not None:
            self.pins.set(f"link_{k}_rx_payload", flit)
        self.pins.set(f"link_{k}_tx_credit", credit)

    def step(self):
        for port in self.ports:
            port.step()
        self._host()
        self.pins.instance.cycle()

    # ---- Registers.

    def write(self, name, index=None, **fields):
        """Queue a write."""
        word = self.map.registers[name].pack(**fields)
        self.accesses.append((True, self.map.offset(name, index), word, None))

    def try_write(self, name, index=None, **fields):
        """Queue a write that may be refused; the response will be in the dictionary returned."""
        self.write(name, index, **fields)
        *access, _ = self.accesses.pop()
        self.accesses.append((*access, {}))
        return self.accesses[-1][3]

    def read(self, name, index=None):
        """Queue a read; its fields will be in the dictionary that is returned."""
        answer = {}
        self.accesses.append((False, self.map.offset(name, index), name, answer))
        return answer

    def _host(self):
        pins = self.pins
        if self.waiting is None and self.accesses:
            self.waiting = [*self.accesses.popleft(), True]
            is_write, address, word, _, _ = self.waiting
            if is_write:
                pins.set("csr_awaddr", address)
                pins.set("csr_wdata", word)
                pins.set("csr_wstrb", 15)
            else:
                pins.set("csr_araddr", address)
        access = self.waiting
        fresh = access is not None and access[4]
        is_write = access is not None and access[0]
        pins.set("csr_awvalid", bool(fresh and is_write))
        pins.set("csr_wvalid", bool(fresh and is_write))
        pins.set("csr_arvalid", bool(fresh and not is_write))
        pins.set("csr_bready", 1)
        pins.set("csr_rready", 1)
        if access is None:
            return
        access[4] = False  # the slave is ready when nothing else is under way
        if is_write and pins.get("csr_bvalid"):
            response = pins.get("csr_bresp")
            if access[3] is None:
                assert response == 0, f"write to {access[1]:#x} refused"
            else:
                access[3]["response"] = response
            self.waiting = None
        elif not is_write and pins.get("csr_rvalid"):
            access[3].update(self.map.registers[access[2]].unpack(pins.get("csr_rdata")))
            self.waiting = None

    # ---- Commands.

    def configure(self, *, members, region=0, row=0, watchdog=0, tries=0, abort=1, own=0):
        self.rows = {r: k for r, k in self.rows.items() if k != row} | {region: row}
        self._perform(
            member_writes(self.map, self.number, members=members, region=region, row=row, own=own,
                          watchdog=watchdog, tries=tries, abort=abort)
        )

    def join(self):
        for row in self.rows.values():
            self.write("control", row, join=1)

    def all_reduce(self, op, elements, *, source, destination, region=0, **fields):
        if self.config.regions > 1:
            fields["region"] = self.rows[region]
        self._perform(
            command_writes(op, elements, source=source, destination=destination, **fields)
        )

    def _perform(self, writes):
        for name, index, fields in writes:
            self.write(name, index, **fields)

    def put(self, address, words):
        raw = np.ascontiguousarray(words).view(np.uint8)
        self.memory.bytes[address : address + len(raw)] = raw

    def words(self, address, count, dtype):
        end = address + np.dtype(dtype).itemsize * count
        return self.memory.bytes[address:end].view(dtype).copy()

    COUNTERS = tuple(COUNTERS)
