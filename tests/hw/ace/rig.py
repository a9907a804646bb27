# SPDX-License-Identifier: Apache-2.0
"""One compiled engine driven by hand: its memory, its software and its neighbours are Python."""

import random
from collections import deque
from typing import Any

import numpy as np

from hw.ace.config import AceConfig
from hw.ace.registers import register_map
from hw.link.packet import FLIT_BITS, FLIT_BYTES, PacketKind
from sim.collectives.ace_program import AceProgram
from sim.rtl.ace.ring import AceRing
from sim.rtl.ace.writes import set_up_writes, start_writes
from sim.workload.graph import CollectiveKind

__all__ = ["MEMORY_BYTES", "Link", "Rig"]

MEMORY_BYTES = 1 << 16
_DECERR = 3
_CONTROL = {kind.value for kind in (PacketKind.HALT, PacketKind.SYNC, PacketKind.ACK)}
_BEAT = 16  # a bus of one flit keeps the neighbours simple: a beat is a flit


class Link:
    """The far end of one link: packets to the engine under its credits, packets from it."""

    def __init__(self, config: AceConfig) -> None:
        self.to_send: deque[list[int]] = deque()  # packets as flits
        self.sending: deque[tuple[int, bool]] = deque()  # flits of the present packet, is header
        self.credits = config.rx_packets
        self.sequence = 0  # number of the next packet
        self.owed = 0  # credits for the engine's packets, not given back yet
        self.received: list[tuple[dict[str, int], bytes]] = []
        self.due = 0  # number of the engine's next packet
        self.control: list[dict[str, int]] = []  # control packets of the engine
        self.answers: deque[int] = deque()  # control packets to the engine
        self.raw: list[tuple[dict[str, int], bytes]] = []  # all packets, payload in whole flits
        self.beats_out = self.beats_in = 0
        self.miserly = False  # no credits are returned
        self.syncing = False  # a SYNC to the engine has no answer yet
        self.deaf = False  # SYNC packets stay without an answer
        self.collected: list[int] = []


class Rig:
    """An engine of a 16-byte bus with one memory port, and all that surrounds it.

    ``step`` is one cycle; ``write`` and ``read`` are register accesses; all of them let memory and
    links go on. Every ready and every response is held back at random with probability ``stalls``.
    """

    def __init__(self, config: AceConfig, *, seed: int, stalls: float = 0.2) -> None:
        assert config.bus_bytes == _BEAT and config.memory_ports == 1
        self.config = config
        self.registers = register_map(config)
        self.memory = np.zeros(MEMORY_BYTES, np.uint8)
        self.links = [Link(config) for _ in range(config.ports)]
        self.random = random.Random(seed)
        self.stalls = stalls
        self.silent = False  # memory takes what comes and answers nothing
        self.cycle = 0
        self.epoch = 0  # of the packets of the neighbours
        self.engine = AceRing.compiled(config).instance()
        self.reset()

    # ---- Software.

    def set_up(self, *, rank: int, nodes: int, memory_bytes: int = MEMORY_BYTES) -> None:
        """Make the engine a rank of a ring: port 0 to the next rank, port 1 to the previous one."""
        for register, word in set_up_writes(
            self.registers, self.program(nodes), rank=rank, memory_bytes=memory_bytes
        ):
            self.write(register, word)

    def program(self, nodes: int) -> AceProgram:
        """Program of a ring of *nodes*, in one direction."""
        return AceProgram(
            config=self.config, nodes=nodes, queues=self.config.fsms, bidirectional=False
        )

    def reset(self) -> None:
        """Reset the engine alone; its memory forgets what was under way, its neighbours nothing."""
        self._reads: deque[tuple[int, bool]] = deque()  # addresses of beats, last of its burst
        self._bursts: deque[list[int]] = deque()  # write bursts: address, error so far
        self._responses: deque[int] = deque()
        self._r_moved = self._b_moved = True
        for link in self.links:
            link.collected = []
        for name in ("csr_awvalid", "csr_wvalid", "csr_bready", "csr_arvalid", "csr_rready",
                     "mem_0_rvalid", "mem_0_bvalid", *(f"link_{n}_{each}" for n in range(
                         self.config.ports) for each in ("rx_tvalid", "tx_credit"))):
            self.engine.set(name, 0)
        self.engine.set("rst", 1)
        self.engine.cycle(4)
        self.engine.set("rst", 0)

    def restart_links(self, epoch: int) -> None:
        """What the neighbours do when their software aborts: forget, and bring links into step."""
        self.epoch = epoch
        for link in self.links:
            link.to_send.clear()
            link.syncing = True
            sync = {"offload": 1, "kind": PacketKind.SYNC.value, "epoch": epoch}
            link.answers.append(self.config.format.encode(sync))

    def start(self, collective: CollectiveKind, partition: Any, **options: Any) -> None:
        """Write the parameters and the command of one collective."""
        settings = partition.settings
        for register, word in start_writes(self.registers, collective, settings, **options):
            self.write(register, word)

    def write(self, register: str, word: int = 0, **fields: Any) -> int:
        """Write a register, a word or fields by name; the AXI response."""
        word = self.registers.registers[register].pack(**fields) if fields else word
        set_, get = self.engine.set, self.engine.get
        set_("csr_awaddr", self.registers.offset(register))
        set_("csr_wdata", word)
        set_("csr_wstrb", 15)
        set_("csr_awvalid", 1)
        set_("csr_wvalid", 1)
        while True:
            accepted = get("csr_awready"), get("csr_wready")
            self.step()
            for name, done in zip(("csr_awvalid", "csr_wvalid"), accepted, strict=True):
                if done:
                    set_(name, 0)
            if get("csr_bvalid"):
                break
        response = get("csr_bresp")
        set_("csr_bready", 1)
        self.step()
        set_("csr_bready", 0)
        return response

    def read(self, register: str, index: int | None = None) -> dict[str, int]:
        """Read a register, field by field."""
        set_, get = self.engine.set, self.engine.get
        set_("csr_araddr", self.registers.offset(register, index))
        set_("csr_arvalid", 1)
        while True:
            accepted = get("csr_arready")
            self.step()
            if accepted:
                set_("csr_arvalid", 0)
            if get("csr_rvalid"):
                break
        word = get("csr_rdata")
        set_("csr_rready", 1)
        self.step()
        set_("csr_rready", 0)
        return self.registers.registers[register].unpack(word)

    def settle(self, cycles: int = 200) -> None:
        """Let *cycles* pass."""
        for _ in range(cycles):
            self.step()

    def until(self, condition: Any, *, limit: int = 20_000, why: str = "") -> None:
        """Step until *condition* holds."""
        for _ in range(limit):
            if condition():
                return
            self.step()
        raise AssertionError(f"not within {limit} cycles: {why or condition}")

    @property
    def owes(self) -> bool:
        """Memory has still to answer a burst."""
        return bool(self._reads or self._bursts or self._responses)

    def until_idle(self) -> None:
        """Step until the engine says that it is idle, with all links and memory at rest."""

        def at_rest() -> bool:
            quiet = not any(
                link.to_send or link.sending or link.owed or link.answers or link.syncing
                for link in self.links
            )
            idle = self.engine.get("idle") == 1
            assert not (idle and self.owes), "idle, and memory has still to answer"
            return quiet and idle

        self.until(at_rest, why="idle")

    # ---- Neighbours.

    def send(self, port: int, payload: bytes = b"", **fields: int) -> None:
        """Queue a packet for the engine: header fields by name; ``length`` from the payload and
        ``sequence`` the next one unless given."""
        link = self.links[port]
        usual = {
            "offload": 1, "length": len(payload), "sequence": link.sequence, "epoch": self.epoch
        }
        header = self.config.format.encode(usual | fields)
        if "sequence" not in fields:
            link.sequence = (link.sequence + 1) % (1 << self.config.format.sequence)
        padded = payload + bytes(-len(payload) % FLIT_BYTES)
        flits = [
            int.from_bytes(padded[at : at + FLIT_BYTES], "little")
            for at in range(0, len(padded), FLIT_BYTES)
        ]
        link.to_send.append([header, *flits])

    def take(self, port: int) -> list[tuple[dict[str, int], bytes]]:
        """Packets that the engine has sent on *port* since the last call."""
        received, self.links[port].received = self.links[port].received, []
        return received

    # ---- A cycle.

    def step(self) -> None:
        """One cycle of everything."""
        for port, link in enumerate(self.links):
            self._transmitter(port, link)
            self._receiver(port, link)
        self._read_channel()
        self._write_channel()
        self.engine.cycle()
        self.cycle += 1

    def _free(self) -> bool:
        return self.random.random() >= self.stalls

    def _transmitter(self, port: int, link: Link) -> None:
        """What the engine sends."""
        get, set_ = self.engine.get, self.engine.set
        name = f"link_{port}_tx_"
        ready = self._free()
        set_(name + "tready", ready)
        give = link.owed > 0 and not link.miserly and self._free()
        link.owed -= give
        set_(name + "credit", give)
        if not (get(name + "tvalid") and ready):
            return
        link.beats_out += 1
        flit, start = get(name + "tdata"), get(name + "tuser")
        assert get(name + "tkeep") == 1
        if start:
            assert not link.collected, "a header came inside a packet"
        else:
            assert link.collected, "payload came without a header"
        link.collected.append(flit)
        fields = self.config.format.decode(link.collected[0])
        assert fields is not None, "header with a wrong checksum"
        assert fields["length"] <= self.config.packet_bytes
        if len(link.collected) == 1 + -(-fields["length"] // FLIT_BYTES):
            payload = b"".join(f.to_bytes(FLIT_BYTES, "little") for f in link.collected[1:])
            link.raw.append((fields, payload))
            link.collected = []
            if fields["kind"] in _CONTROL:
                self._control(link, fields)
                return
            assert fields["sequence"] == link.due, "packets are not numbered in order"
            link.due = (link.due + 1) % (1 << self.config.format.sequence)
            link.received.append((fields, payload[: fields["length"]]))
            link.owed += 1

    def _control(self, link: Link, fields: dict[str, int]) -> None:
        """A SYNC is answered: all credits are with the engine, and packets numbered from 0."""
        link.control.append(fields)
        if fields["kind"] == PacketKind.ACK.value and link.syncing:
            assert fields["epoch"] == self.epoch
            link.syncing = False
            link.credits, link.sequence = self.config.rx_packets, 0
        if fields["kind"] == PacketKind.SYNC.value and not link.deaf:
            link.owed = link.due = 0
            answer = {"offload": 1, "kind": PacketKind.ACK.value, "epoch": fields["epoch"]}
            link.answers.append(self.config.format.encode(answer))

    def _receiver(self, port: int, link: Link) -> None:
        """What the engine receives."""
        get, set_ = self.engine.get, self.engine.set
        name = f"link_{port}_rx_"
        assert get(name + "tready"), "the engine refuses a beat though its credits are obeyed"
        if get(name + "credit") and not link.syncing:
            link.credits += 1
            assert link.credits <= self.config.rx_packets, "a credit too many"
        if not link.sending and link.answers:
            link.sending.append((link.answers.popleft(), True))
        if not link.sending and link.to_send and link.credits and not link.syncing:
            link.credits -= 1
            packet = link.to_send.popleft()
            link.sending.extend((flit, n == 0) for n, flit in enumerate(packet))
        valid = bool(link.sending) and self._free()
        set_(name + "tvalid", valid)
        if valid:
            link.beats_in += 1
            flit, start = link.sending.popleft()
            set_(name + "tdata", flit)
            set_(name + "tkeep", 1)
            set_(name + "tuser", start)

    def _read_channel(self) -> None:
        get, set_ = self.engine.get, self.engine.set
        ready = self._free()
        set_("mem_0_arready", ready)
        valid = get("mem_0_rvalid") and not self._r_moved
        if not valid:
            valid = bool(self._reads) and not self.silent and self._free()
            set_("mem_0_rvalid", valid)
            if valid:
                address, last = self._reads[0]
                inside = address + _BEAT <= MEMORY_BYTES
                beat = self.memory[address : address + _BEAT].tobytes() if inside else bytes(_BEAT)
                set_("mem_0_rdata", int.from_bytes(beat, "little"))
                set_("mem_0_rresp", 0 if inside else _DECERR)
                set_("mem_0_rlast", last)
        self._r_moved = bool(valid and get("mem_0_rready"))
        if self._r_moved:
            self._reads.popleft()
        if get("mem_0_arvalid") and ready:
            address, beats = get("mem_0_araddr"), get("mem_0_arlen") + 1
            self._reads.extend((address + _BEAT * n, n == beats - 1) for n in range(beats))

    def _write_channel(self) -> None:
        get, set_ = self.engine.get, self.engine.set
        address_ready, data_ready = self._free(), bool(self._bursts) and self._free()
        set_("mem_0_awready", address_ready)
        set_("mem_0_wready", data_ready)
        valid = get("mem_0_bvalid") and not self._b_moved
        if not valid:
            valid = bool(self._responses) and not self.silent and self._free()
            set_("mem_0_bvalid", valid)
            if valid:
                set_("mem_0_bresp", self._responses[0])
        self._b_moved = bool(valid and get("mem_0_bready"))
        if self._b_moved:
            self._responses.popleft()
        if get("mem_0_wvalid") and data_ready:
            burst = self._bursts[0]
            address, data, strobe = burst[0], get("mem_0_wdata"), get("mem_0_wstrb")
            if address + _BEAT <= MEMORY_BYTES:
                for n, byte in enumerate(data.to_bytes(_BEAT, "little")):
                    if strobe >> n & 1:
                        self.memory[address + n] = byte
            else:
                burst[1] = _DECERR
            burst[0] += _BEAT
            if get("mem_0_wlast"):
                self._responses.append(burst[1])
                self._bursts.popleft()
        if get("mem_0_awvalid") and address_ready:
            self._bursts.append([get("mem_0_awaddr"), 0])


assert FLIT_BITS == 8 * _BEAT
