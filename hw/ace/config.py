# SPDX-License-Identifier: Apache-2.0
"""Configuration of the ACE engine, and the named configurations."""

from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import NamedTuple

from hw.common.engine import ELEMENT_BYTES, EngineConfig
from hw.common.params import (
    preset_of,
    require,
    require_choice,
    require_field,
    require_int,
    require_type,
)
from hw.fp.adder import MAX_STAGES
from hw.link.packet import FLIT_BYTES, PacketFormat

__all__ = ["ELEMENT_BYTES", "PRESETS", "RANK_BITS", "AceConfig", "Slots", "preset"]

RANK_BITS = 17
"""Bits of a rank, of a number of nodes and of that of a block."""


_MOST_SRAM = 1 << 30

_MOST_PHASES = 15


class Slots(NamedTuple):
    """Slots of an FSM in the SRAM, one behind the other: first row, beats of each, how many."""

    row: int
    beats: int
    number: int


@dataclass(frozen=True, kw_only=True)
class AceConfig(EngineConfig):
    """Everything that is fixed when an engine is built.

    Names and defaults follow the ACE papers (ISCA 2021, sections 4 and 6; papers' Table 6): 64-byte
    buses, 256-byte packets, 4 x 1 MB of SRAM, 16 FSMs of 8 KB, 4 ALUs of 16 binary32 lanes.

    Parameters
    ----------
    ports : int
        Physical links, 1 to 8.
    bus_bytes : int
        Width of every bus (link, SRAM bank, memory port): 16, 32, 64 or 128.
    packet_bytes : int
        Largest payload of a packet; 1 to 16 bus beats.
    sram_bytes : int
        Size of the whole SRAM, all banks.
    banks : int
        SRAM banks, a power of two; consecutive beats lie in consecutive banks.
    interleave : int
        Banks that consecutive beats take turns in, a power of two; 0: all. Fewer than ``banks``
        make groups, each with its own part of the SRAM in one piece. Slots are a power of two of
        beats then, so that none lies in two groups.
    bank_ports : str
        ``"1r1w"``: a bank reads and writes in the same cycle; ``"1rw"``: it does one of both.
    alus : int
        ALUs of ``bus_bytes / 4`` lanes. Ports share them evenly; a port never needs more than one.
    alu_stages : int
        Pipeline stages of an adder lane.
    fsms : int
        Programmable FSMs, up to 16.
    contexts : int
        Chunks that an FSM works on at a time, up to 16. Each owns a slot of the SRAM, in which its
        data stay from their load to their store or, with partitions by phase, for that phase.
    program_words : int
        Instructions (64 bits each) in the program store of an FSM; 1024 are 8 KB.
    memory_ports : int
        AXI4 masters; FSM ``f`` uses port ``f % memory_ports``.
    rx_packets : int
        Packets that the receive buffer of a port holds. One round trip of the link sustains the
        full rate.
    tx_packets : int
        Packets in each of the two transmit queues of a port.
    max_nodes : int
        Most blocks that a chunk is cut into.
    address_bits : int
        Width of a memory address.
    commands : int
        Collectives that may be queued or running at a time.
    partitions : str
        ``"slot"``: a chunk keeps one slot from its load to its store, and every FSM runs all of its
        phases. ``"phase"``: as published, the SRAM has a partition for each phase and one for
        results, an FSM runs one phase of each chunk, and a chunk moves on from partition to
        partition.
    phases : int
        Phases of the programs, 1 to 15 with ``partitions = "phase"``, else 0.
    phase_fsms : tuple of int
        FSMs of each phase, the first ones those of the first phase; none given: evenly.
    partition_bytes : tuple of int
        Size of the ``phases + 1`` partitions, the last one that of results; none given: equal.
    partition_slots : tuple of int
        Slots of an FSM in the partition of its phase, and of an FSM of the last phase in that of
        results; at most ``contexts``, which it is if none is given.

    Raises
    ------
    ValueError, TypeError
        Naming the parameter, its value and what is allowed.
    """

    ports: int = 6
    bus_bytes: int = 64
    packet_bytes: int = 256
    sram_bytes: int = 4 << 20
    banks: int = 4
    interleave: int = 0
    bank_ports: str = "1r1w"
    alus: int = 4
    alu_stages: int = 3
    fsms: int = 16
    contexts: int = 4
    program_words: int = 1024
    memory_ports: int = 2
    rx_packets: int = 64
    tx_packets: int = 8
    max_nodes: int = 64
    address_bits: int = 40
    commands: int = 4
    partitions: str = "slot"
    phases: int = 0
    phase_fsms: tuple[int, ...] = ()
    partition_bytes: tuple[int, ...] = ()
    partition_slots: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        number = partial(require_field, self)
        number("ports", 1, 8)
        require_choice("bus_bytes", self.bus_bytes, (16, 32, 64, 128))
        packet_beats = [beats for beats in (1, 2, 4, 8, 16) if beats * self.bus_bytes <= 2048]
        require_choice(
            "packet_bytes", self.packet_bytes, [beats * self.bus_bytes for beats in packet_beats]
        )
        number("banks", 1, 64, power_of_two=True)
        shares = [1 << bit for bit in range(self.banks.bit_length())]
        require_choice("interleave", self.interleave, [0, *shares])
        require_choice("bank_ports", self.bank_ports, ("1r1w", "1rw"))
        number("alus", 1, 8)
        require(self.alus <= self.ports, "alus", f"from 1 to the {self.ports} ports", self.alus)
        number("alu_stages", 1, MAX_STAGES)
        number("fsms", 1, 16)
        number("contexts", 1, 16)
        number("program_words", 64, 8192, power_of_two=True)
        number("memory_ports", 1, 16)
        require(
            self.memory_ports <= self.fsms,
            "memory_ports",
            f"from 1 to the {self.fsms} FSMs",
            self.memory_ports,
        )
        number("rx_packets", 2, 4096)
        number("tx_packets", 2, 256)
        number("max_nodes", 2, (1 << RANK_BITS) - 1)
        number("address_bits", 24, 64)
        number("commands", 1, 16)
        require_choice("partitions", self.partitions, ("slot", "phase"))
        if self.phased:
            number("phases", 1, _MOST_PHASES)
            self._check_phases()
        else:
            for name in ("phase_fsms", "partition_bytes", "partition_slots"):
                value = getattr(self, name)
                require(value == (), name, "left out beside partitions = 'slot'", value)
            require_int("phases", self.phases, minimum=0)
            require(self.phases == 0, "phases", "0 beside partitions = 'slot'", self.phases)
        self._check_sram()

    def _check_phases(self) -> None:
        """Every phase has FSMs, and every partition room."""
        phases = self.phases
        require(
            phases <= self.fsms, "phases", f"at most the {self.fsms} FSMs, one for each", phases
        )
        lists = {"phase_fsms": phases, "partition_bytes": phases + 1, "partition_slots": phases + 1}
        for name, length in lists.items():
            values = require_type(name, getattr(self, name), tuple)
            require(
                len(values) in (0, length), name,
                f"{length} numbers for {phases} phases, or none", values,
            )
            for each in values:
                require_int(name, each)
        require(
            not self.phase_fsms or sum(self.phase_fsms) == self.fsms, "phase_fsms",
            f"numbers whose sum is the {self.fsms} FSMs", self.phase_fsms,
        )
        require(
            self.phase_fsms or self.fsms % phases == 0, "phases",
            f"a divisor of the {self.fsms} FSMs, unless phase_fsms says how many each has", phases,
        )
        require(
            max(self.partition_slots, default=0) <= self.contexts, "partition_slots",
            f"at most the {self.contexts} contexts of an FSM", self.partition_slots,
        )
        require(
            self.interleave in (0, self.banks), "interleave",
            "0 beside partitions = 'phase'", self.interleave,
        )

    def _check_sram(self) -> None:
        """A slot holds two packets at least, and all of it is something that can be simulated."""
        require(
            require_int("sram_bytes", self.sram_bytes) % (self.banks * self.bus_bytes) == 0,
            "sram_bytes",
            f"a multiple of {self.banks} banks x {self.bus_bytes} bytes",
            self.sram_bytes,
        )
        require(
            self.sram_bytes <= _MOST_SRAM, "sram_bytes", f"at most {_MOST_SRAM} bytes",
            self.sram_bytes,
        )
        require(
            self.sram_beats >= 2 * self.banks, "sram_bytes",
            f"at least {2 * self.banks * self.bus_bytes} bytes, two beats for each bank",
            self.sram_bytes,
        )
        if self.phased:
            self._check_partitions()
            return
        least = 2 * self.slots * self.packet_bytes
        require(
            self.slot_beats >= 2 * self.packet_beats,
            "sram_bytes",
            f"at least {least} bytes, two packets for each of "
            f"{self.fsms} x {self.contexts} slots",
            self.sram_bytes,
        )
        self._check_groups()

    def _check_partitions(self) -> None:
        """Partitions lie in the SRAM, and each of their slots holds a packet."""
        require(
            sum(self.partition_bytes) <= self.sram_bytes, "partition_bytes",
            f"sizes that add up to at most {self.sram_bytes} bytes of SRAM", self.partition_bytes,
        )
        for each in self.partition_bytes:
            require(
                each % self.bus_bytes == 0, "partition_bytes",
                f"multiples of {self.bus_bytes} bytes", self.partition_bytes,
            )
        for number, slots in enumerate(self._slots):
            require(
                slots.beats >= self.packet_beats,
                "partition_bytes" if self.partition_bytes else "sram_bytes",
                f"large enough for a packet of {self.packet_bytes} bytes in each of the "
                f"{self._partition_fsms[number]} x {slots.number} slots of partition {number}",
                self.partition_bytes or self.sram_bytes,
            )

    def _check_groups(self) -> None:
        """Groups of banks share the rows evenly, and a slot lies in one of them."""
        if self.groups == 1:
            return
        require(
            self.sram_beats & (self.sram_beats - 1) == 0,
            "interleave",
            f"0 or all {self.banks} banks for an SRAM of {self.sram_beats} beats, which are no "
            "power of two",
            self.interleave,
        )
        require(
            self.slot_beats <= self.group_beats,
            "interleave",
            f"a power of two from {self.banks * self.slot_beats // self.sram_beats} to "
            f"{self.banks}, so that each of the {self.slots} slots lies in one group of banks",
            self.interleave,
        )

    @cached_property
    def format(self) -> PacketFormat:
        """The packet header of this engine."""
        return PacketFormat(payload_bytes=self.packet_bytes)

    @property
    def memory_master(self) -> dict[str, int]:
        """Parameters of what drives it, a `hw.common.axi.BurstMaster`."""
        return {
            "addr_width": self.address_bits,
            "data_width": 8 * self.bus_bytes,
            "beats_width": self.slot_beats.bit_length(),
        }

    @property
    def flits(self) -> int:
        """16-byte flits per beat."""
        return self.bus_bytes // FLIT_BYTES

    @property
    def packet_beats(self) -> int:
        """Payload beats of a full packet."""
        return self.packet_bytes // self.bus_bytes

    @property
    def rx_beats(self) -> int:
        """Payload beats that a receive buffer holds."""
        return self.rx_packets * self.packet_beats

    @property
    def packet_elements(self) -> int:
        """Elements of a full packet."""
        return self.packet_bytes // ELEMENT_BYTES

    @property
    def alu_latency(self) -> int:
        """Cycles from operands to result: those of an ALU that ports share are chosen in front of a
        register."""
        return self.alu_stages + (self.alus < self.ports)

    @property
    def sram_requesters(self) -> int:
        """Parts that may ask for the SRAM in a cycle."""
        return 3 * self.ports + 2 * self.memory_ports + 2 * self.phased

    @property
    def sram_beats(self) -> int:
        """Bus-wide words of SRAM."""
        return self.sram_bytes // self.bus_bytes

    @property
    def sram_port(self) -> dict[str, int]:
        """Parameters of a port of the SRAM."""
        return {"depth": self.sram_beats, "width": 8 * self.bus_bytes, "banks": self.banks}

    @property
    def group_banks(self) -> int:
        """Banks of a group: consecutive beats take turns in them."""
        return self.interleave or self.banks

    @property
    def groups(self) -> int:
        """Groups of banks."""
        return self.banks // self.group_banks

    @property
    def group_beats(self) -> int:
        """Beats of a group of banks, which are consecutive."""
        return self.sram_beats // self.groups

    @property
    def slot_banks(self) -> int:
        """Banks that slots lie in: all but those of groups without slots."""
        if self.phased:
            return self.banks
        return self.group_banks * -(-self.slots * self.slot_beats // self.group_beats)

    @property
    def phased(self) -> bool:
        """True if chunks move on from partition to partition."""
        return self.partitions == "phase"

    @cached_property
    def fsms_by_phase(self) -> tuple[int, ...]:
        """FSMs of each phase; all of them if there is none."""
        if not self.phased:
            return (self.fsms,)
        return self.phase_fsms or (self.fsms // self.phases,) * self.phases

    @property
    def first_fsms(self) -> int:
        """FSMs that chunks enter."""
        return self.fsms_by_phase[0]

    def phase_of(self, fsm: int) -> tuple[int, int]:
        """Phase of an FSM, and its number among those of that phase."""
        if not self.phased:
            return 0, fsm
        for phase, count in enumerate(self.fsms_by_phase):
            if fsm < count:
                return phase, fsm
            fsm -= count
        raise IndexError(f"there are {self.fsms} FSMs")

    def fsms_of(self, phase: int) -> range:
        """FSMs of a phase."""
        first = sum(self.fsms_by_phase[:phase])
        return range(first, first + self.fsms_by_phase[phase])

    @property
    def _partition_fsms(self) -> tuple[int, ...]:
        """FSMs that have slots in each partition; those of the last phase share that of results."""
        return *self.fsms_by_phase, self.fsms_by_phase[-1]

    @cached_property
    def _slots(self) -> tuple[Slots, ...]:
        """Slots of the first FSM of each partition."""
        counts = self.partition_slots or (self.contexts,) * (self.phases + 1)
        equal = self.sram_beats // (self.phases + 1)
        sizes = [each // self.bus_bytes for each in self.partition_bytes]
        found, row = [], 0
        for size, fsms, count in zip(
            sizes or [equal] * (self.phases + 1), self._partition_fsms, counts, strict=True
        ):
            beats = size // (fsms * count)
            found.append(Slots(row, beats - beats % self.packet_beats, count))
            row += size
        return tuple(found)

    def slots_of(self, fsm: int) -> Slots:
        """Slots of the contexts of an FSM."""
        if not self.phased:
            return Slots(fsm * self.contexts * self.slot_beats, self.slot_beats, self.contexts)
        phase, number = self.phase_of(fsm)
        return self._partition(phase, number)

    def results_of(self, fsm: int) -> Slots:
        """Slots for results of an FSM of the last phase."""
        return self._partition(self.phases, self.phase_of(fsm)[1])

    def _partition(self, number: int, fsm: int) -> Slots:
        first = self._slots[number]
        return first._replace(row=first.row + fsm * first.number * first.beats)

    @property
    def partition_beats(self) -> tuple[int, ...]:
        """Beats of a slot of each partition."""
        return tuple(each.beats for each in self._slots)

    @property
    def targets(self) -> int:
        """Whom send commands are for: links, and the unit that copies to the next partition."""
        return self.ports + self.phased

    @property
    def slots(self) -> int:
        """Slots of the SRAM: every context of every FSM owns one, and so do results."""
        return sum(self.slots_by_partition) if self.phased else self.fsms * self.contexts

    @property
    def slots_by_partition(self) -> tuple[int, ...]:
        """Slots of each partition, of results the last one; of all if a chunk keeps its slot."""
        if not self.phased:
            return (self.slots,)
        counts = (each.number for each in self._slots)
        return tuple(a * b for a, b in zip(self._partition_fsms, counts, strict=True))

    @property
    def slot_beats(self) -> int:
        """Beats of one slot, of the largest one if partitions differ; packets start at its
        multiples."""
        if self.phased:
            return max(self.partition_beats)
        beats = self.sram_beats // self.slots
        if self.groups > 1:
            return 1 << beats.bit_length() >> 1
        return beats - beats % self.packet_beats

    @property
    def slot_elements(self) -> int:
        """Elements of one slot: the largest chunk."""
        return self.slot_beats * self.lanes

    @property
    def block_packets(self) -> int:
        """Most packets of a run of blocks: half a slot, since a collective has at least two, or as
        many as a header can number. What is copied to the next partition may fill a slot."""
        if self.phased:
            return min(1 << self.format.offset, -(-self.slot_beats // self.packet_beats))
        return min(1 << self.format.offset, -(-(self.slot_beats // 2) // self.packet_beats))

    def describe(self) -> dict[str, int | str | tuple[int, ...]]:
        """Parameters by name, for report headers."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_TEST = AceConfig(
    ports=2,
    bus_bytes=16,
    packet_bytes=64,
    sram_bytes=8 << 10,
    banks=1,
    alus=1,
    fsms=1,
    contexts=4,
    program_words=64,
    memory_ports=1,
    rx_packets=8,
    tx_packets=2,
    max_nodes=8,
    address_bits=32,
    alu_stages=8,
)

PRESETS: dict[str, AceConfig] = {
    # The smallest engine: one FSM, one bank, four lanes.
    "test": _TEST,
    # Two FSMs, one for each direction of a ring.
    "duo": replace(_TEST, alus=2, banks=2, fsms=2, sram_bytes=16 << 10, memory_ports=2),
    # A bidirectional ring at full rate over links of up to 500 cycles: 8 banks, receive buffers of
    # one round trip.
    "ring": AceConfig(
        ports=2,
        alus=2,
        banks=8,
        sram_bytes=1 << 20,
        fsms=4,
        contexts=8,
        memory_ports=2,
        rx_packets=256,
        max_nodes=8,
    ),
    # 64 lanes: a node of a two-dimensional torus.
    "wide": AceConfig(ports=4, banks=8, sram_bytes=256 << 10, fsms=8, memory_ports=2, max_nodes=8),
    # As published (ISCA 2021): 4 x 1 MB of SRAM with one port of 64 B each, 16 FSMs, 4 x 16 lanes,
    # and a partition for each phase of an all-reduce on a torus of three dimensions, with slots for
    # chunks of 64 KiB and their quarters. Its 200 GB/s link is two ports each way, so six links
    # take eight.
    "isca21": AceConfig(
        ports=8,
        bank_ports="1rw",
        contexts=8,
        partitions="phase",
        phases=4,
        partition_bytes=(1536 << 10, 512 << 10, 512 << 10, 256 << 10, 1024 << 10),
        partition_slots=(6, 8, 8, 4, 4),
    ),
    # As many FSMs and as much SRAM, in 16 banks that read and write at once, with 6 x 16 lanes and
    # 4 memory ports: fills the links of the published torus.
    "torus": AceConfig(
        ports=8,
        banks=16,
        interleave=4,
        alus=6,
        contexts=8,
        memory_ports=4,
        rx_packets=128,
        tx_packets=16,
    ),
}

preset = preset_of(PRESETS)
