"""Configuration of the ACE engine, and the named configurations."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

from hw.common.axi import AXI4Signature
from hw.link.packet import FLIT_BYTES, PacketFormat

__all__ = ["ELEMENT_BYTES", "PRESETS", "AceConfig", "preset"]

ELEMENT_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class AceConfig:
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
        Size of the whole SRAM, all banks and partitions.
    banks : int
        SRAM banks, a power of two; consecutive beats lie in consecutive banks.
    bank_ports : str
        ``"1r1w"``: a bank reads and writes in the same cycle; ``"1rw"``: it does one of both.
    alus : int
        ALUs of ``bus_bytes / 4`` lanes. Ports share them evenly; a port never needs more than one.
    alu_stages : int
        Pipeline stages of an adder lane.
    fsms : int
        Programmable FSMs, up to 16.
    contexts : int
        Chunks that an FSM works on at a time, up to 16. Each owns a slot of the source partition.
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

    Raises
    ------
    ValueError
        Naming the parameter, its value and what is allowed.
    """

    ports: int = 6
    bus_bytes: int = 64
    packet_bytes: int = 256
    sram_bytes: int = 4 << 20
    banks: int = 4
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

    def __post_init__(self) -> None:
        def check(name: str, allowed: str, ok: bool) -> None:
            if not ok:
                raise ValueError(f"{name} must be {allowed}, not {getattr(self, name)!r}")

        for field in fields(self):
            if field.type in ("int", int):
                value = getattr(self, field.name)
                check(
                    field.name, "an integer", isinstance(value, int) and not isinstance(value, bool)
                )
        check("ports", "from 1 to 8", 1 <= self.ports <= 8)
        check("bus_bytes", "16, 32, 64 or 128", self.bus_bytes in (16, 32, 64, 128))
        check(
            "packet_bytes",
            f"a power-of-two multiple, 1 to 16, of the {self.bus_bytes} bus bytes, up to 2048",
            self.packet_bytes in [self.bus_bytes << n for n in range(5)]
            and self.packet_bytes <= 2048,
        )
        check("banks", "a power of two from 1 to 64", self.banks in [1 << n for n in range(7)])
        check("bank_ports", "'1r1w' or '1rw'", self.bank_ports in ("1r1w", "1rw"))
        check("alus", f"from 1 to the {self.ports} ports", 1 <= self.alus <= self.ports)
        check("alu_stages", "from 1 to 5", 1 <= self.alu_stages <= 5)
        check("fsms", "from 1 to 16", 1 <= self.fsms <= 16)
        check("contexts", "from 1 to 16", 1 <= self.contexts <= 16)
        check(
            "program_words",
            "a power of two from 64 to 4096",
            self.program_words in [64 << n for n in range(7)],
        )
        check(
            "memory_ports", f"from 1 to the {self.fsms} FSMs", 1 <= self.memory_ports <= self.fsms
        )
        check("rx_packets", "from 2 to 4096", 2 <= self.rx_packets <= 4096)
        check("tx_packets", "from 2 to 256", 2 <= self.tx_packets <= 256)
        check("max_nodes", "from 2 to 1024", 2 <= self.max_nodes <= 1024)
        check("address_bits", "from 24 to 64", 24 <= self.address_bits <= 64)
        check("commands", "from 1 to 16", 1 <= self.commands <= 16)
        check(
            "sram_bytes",
            f"a multiple of {self.banks} banks x {self.bus_bytes} bytes",
            self.sram_bytes > 0 and self.sram_bytes % (self.banks * self.bus_bytes) == 0,
        )
        check(
            "sram_bytes",
            f"at least {4 * self.slots * self.packet_bytes} bytes, two packets for each of "
            f"2 x {self.fsms} x {self.contexts} slots",
            self.slot_beats >= 2 * self.packet_beats,
        )
        packets = 1 << self.format.offset
        check(
            "sram_bytes",
            f"at most {4 * self.slots * self.packet_bytes * packets} bytes, {packets} packets for "
            "each block (half a slot)",
            self.block_packets <= packets,
        )

    @cached_property
    def format(self) -> PacketFormat:
        """The packet header of this engine."""
        return PacketFormat(payload_bytes=self.packet_bytes)

    @property
    def memory_bus(self) -> AXI4Signature:
        """An AXI4 master of this engine."""
        return AXI4Signature(addr_width=self.address_bits, data_width=8 * self.bus_bytes)

    @property
    def flits(self) -> int:
        """16-byte flits per beat."""
        return self.bus_bytes // FLIT_BYTES

    @property
    def lanes(self) -> int:
        """Elements per beat."""
        return self.bus_bytes // ELEMENT_BYTES

    @property
    def packet_beats(self) -> int:
        """Payload beats of a full packet."""
        return self.packet_bytes // self.bus_bytes

    @property
    def packet_elements(self) -> int:
        """Elements of a full packet."""
        return self.packet_bytes // ELEMENT_BYTES

    @property
    def alu_latency(self) -> int:
        """Cycles from operands to result."""
        return self.alu_stages

    @property
    def sram_beats(self) -> int:
        """Bus-wide words of SRAM."""
        return self.sram_bytes // self.bus_bytes

    @property
    def slots(self) -> int:
        """Slots of a partition: every context of every FSM owns one."""
        return self.fsms * self.contexts

    @property
    def slot_beats(self) -> int:
        """Beats of one slot. A single-phase collective has two partitions of equal size (source,
        results)."""
        beats = self.sram_beats // (2 * self.slots)
        return beats - beats % self.packet_beats

    @property
    def slot_elements(self) -> int:
        """Elements of one slot: the largest chunk."""
        return self.slot_beats * self.lanes

    @property
    def block_packets(self) -> int:
        """Most packets of a block: half a slot, since a collective has at least two blocks."""
        return -(-(self.slot_beats // 2) // self.packet_beats)

    def describe(self) -> dict[str, int | str]:
        """Parameters by name, for report headers."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_TEST = AceConfig(
    ports=2,
    bus_bytes=16,
    packet_bytes=64,
    sram_bytes=16 << 10,
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
)

PRESETS: dict[str, AceConfig] = {
    # The smallest engine: one FSM, one bank, four lanes.
    "test": _TEST,
    # Two FSMs, one for each direction of a ring.
    "duo": replace(_TEST, alus=2, banks=2, fsms=2, sram_bytes=32 << 10, memory_ports=2),
    # A bidirectional ring at full rate over links of up to 500 cycles: 8 banks, receive buffers of
    # one round trip.
    "ring": AceConfig(
        ports=2,
        alus=2,
        banks=8,
        sram_bytes=2 << 20,
        fsms=4,
        contexts=8,
        memory_ports=2,
        rx_packets=256,
        max_nodes=8,
    ),
    # 64 lanes: a node of a two-dimensional torus.
    "wide": AceConfig(ports=4, banks=8, sram_bytes=512 << 10, fsms=8, memory_ports=2, max_nodes=8),
    # The published size (ISCA 2021): 6 ports, 4 x 1 MB, 16 FSMs, 4 x 16 lanes.
    "isca21": AceConfig(),
}


def preset(name: str) -> AceConfig:
    """The configuration called *name*.

    Raises
    ------
    ValueError
        If there is none, with the names that exist.
    """
    try:
        return PRESETS[name]
    except KeyError:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}") from None
