# SPDX-License-Identifier: Apache-2.0
"""The smart NIC: ring all-reduces beside the computer, compressed on the wire.

Block by block as in ``hw/smartnic``: a node's operands are read over the host bus once and added to
the data that arrive from the ring, and the result is written back once. Data are compressed on
links only. Computation loses nothing but the memory bandwidth of these reads and writes.
"""

from dataclasses import dataclass

from hw.bfp.format import PRESETS, BlockFormat, preset
from sim.collectives.program import Plan, Receipt, Source
from sim.endpoint.endpoint import ComputeShare, EndpointModel, HardwareRing, Stage, Unit
from sim.fields import check, check_at_least, check_fields, check_positive
from sim.network.network import Network
from sim.units import PCIE_GEN3_X8
from sim.workload.graph import CollectiveKind

__all__ = ["SmartNicEndpoint"]


@dataclass(frozen=True, kw_only=True)
class SmartNicEndpoint:
    """A NIC on the host bus of every node; all-reduces only.

    Parameters
    ----------
    lanes : int
        Adders, and elements of a bus beat: 8 for 40 Gbit/s, 16 for 100, 64 for 400.
    clock_hz : float
    host_bytes_per_s : float
        Bandwidth of the host bus in one direction.
    half_duplex : bool
        Reads and writes of the host share that bandwidth.
    codec : str
        Preset of `hw.bfp.format` in which data travel; ``none`` for binary32.
    hop_cycles : float
        Cycles from the arrival of a block's first beat to its departure: decoder, adder, encoder,
        framing together. The default is a parameter, an estimate, as the paper gives none; with a
        preset it is that of `EventLatencies`.
    host_latency_s : float
        Latency of a read of host memory.
    memory_bytes_per_s : float
        Memory bandwidth of the host, shared by computation and NIC.
    ring : HardwareRing or None
        Model of a hardware NIC; collectives follow it, whatever the parameters above are.
    """

    lanes: int = 8
    clock_hz: float = 200e6
    host_bytes_per_s: float = PCIE_GEN3_X8
    half_duplex: bool = False
    codec: str = "none"
    hop_cycles: float = 40
    host_latency_s: float = 1e-6
    memory_bytes_per_s: float = 140.8e9
    overlaps: bool = True
    ring: HardwareRing | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(self, "lanes", "host_bytes_per_s", "memory_bytes_per_s")
        check_at_least(self, 1, "clock_hz")
        check_at_least(self, 0, "hop_cycles", "host_latency_s")
        codecs = ["none", *PRESETS]
        check("codec", self.codec, f"one of {', '.join(codecs)}", self.codec in codecs)

    @property
    def format(self) -> BlockFormat | None:
        """The block format that `codec` names; None for ``none``."""
        return None if self.codec == "none" else preset(self.codec)

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        if self.ring is not None:
            return self.ring.model(kind)
        if kind is not CollectiveKind.ALL_REDUCE:
            raise ValueError(f"the smart NIC does all_reduce only, not {kind.value}")
        cycle = 1 / self.clock_hz
        add = Stage(
            unit="adders",
            s_per_byte=cycle / (4 * self.lanes),
            latency_s=self.hop_cycles * cycle,
        )
        on_arrival = Stage(unit="adders", s_per_byte=add.s_per_byte)
        names = ("host bus",) * 2 if self.half_duplex else ("host read", "host write")
        per_byte = 1 / self.host_bytes_per_s
        return EndpointModel(
            units=tuple(Unit(name=name) for name in (*dict.fromkeys(names), "adders")),
            before={
                # The block with which a node begins passes through the adders, too.
                Source.FRESH: (add,),
                Source.REDUCED: (add,),
                Source.FORWARD: (Stage(unit=None, latency_s=self.hop_cycles * cycle),),
            },
            after={Receipt.REDUCE: (on_arrival,)},
            load=(Stage(unit=names[0], s_per_byte=per_byte, latency_s=self.host_latency_s),),
            store=(Stage(unit=names[1], s_per_byte=per_byte),),
            wire_factor=1.0 if self.format is None else 1 / self.format.ratio,
        )

    def share(self) -> ComputeShare:
        taken = self.host_bytes_per_s * (1 if self.half_duplex else 2)
        return ComputeShare(
            compute=1.0, memory_bytes_per_s=max(0.0, self.memory_bytes_per_s - taken)
        )
