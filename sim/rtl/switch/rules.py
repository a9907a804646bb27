# SPDX-License-Identifier: Apache-2.0
"""Rules for endpoints at switches that reduce."""

from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BYTES
from hw.switch.packet import Format
from sim.cycles.switch.hosts import Assembly
from sim.fields import FieldError, check_type
from sim.hosts.command import Command
from sim.hosts.rules import EngineRules
from sim.hosts.surroundings import Surroundings
from sim.workload.graph import CollectiveKind

__all__ = ["SwitchRules"]


class SwitchRules(EngineRules):
    """All-reduces, one after the other, through the switches of an `Assembly`."""

    in_order = True

    @classmethod
    def check(cls, config: Assembly, settings: Surroundings) -> None:
        check_type("config", config, "an Assembly", isinstance(config, Assembly))
        settings.refuse_folded("endpoints at switches")
        members = len(config.fabric.places)
        if settings.nodes != members:
            raise FieldError(
                "nodes", f"must be {members}, those of the fabric, not {settings.nodes}"
            )
        if settings.wiring is not None:
            raise FieldError("wiring", "must be None for switches, which the fabric links")
        if settings.link_stalls:
            raise FieldError("link_stalls", f"must be 0 for switches, not {settings.link_stalls!r}")
        if settings.bad_wires and settings.retry is None:
            raise ValueError(
                "link_loss, link_repetition and link_damage must be 0 without retry on links"
            )

    @classmethod
    def check_command(cls, config: Assembly, settings: Surroundings, command: Command) -> None:
        if command.collective is not CollectiveKind.ALL_REDUCE:
            raise FieldError(
                "collective", "must be all_reduce: at levels 'cycles' and 'rtl' switches do no "
                f"{command.collective.value} (level 'events' does)"
            )
        if config.system.format is not Format.WORDS and command.op is ReduceOp.SUM_I32:
            names = ", ".join(op.name.lower() for op in ReduceOp if op is not ReduceOp.SUM_I32)
            raise FieldError(
                "op", f"must be one of {names} with format {config.system.format_name}, not "
                f"{command.op.name.lower()}: integers travel as words"
            )
        dma = config.system.dma
        most = (1 << dma.number_bits) * dma.links * dma.block_elements
        if command.elements > most:
            raise FieldError(
                "elements", f"must be at most {most}, which addresses in a region count, not "
                f"{command.elements}"
            )
        if command.end > 1 << dma.address_bits:
            raise FieldError(
                "vectors", f"must end at {1 << dma.address_bits} at most, what address_bits = "
                f"{dma.address_bits} reach, not at {command.end}"
            )
        for name in ("source", "destination"):
            if (address := getattr(command, name)) % FLIT_BYTES:
                raise FieldError(name, f"must be a multiple of {FLIT_BYTES}, not {address}")

    @classmethod
    def outstanding(cls, config: Assembly) -> int:
        return config.system.dma.descriptors

    @classmethod
    def count(cls, config: Assembly, settings: Surroundings) -> int:
        """Number of endpoints, and of switches, which are numbered after them."""
        return settings.nodes + config.fabric.switches

    @classmethod
    def sender(cls, config: Assembly, rank: int, port: int) -> int:
        first = config.links[rank][port][1][0]
        if isinstance(first, int):
            return first // config.system.dma.links
        return len(config.fabric.places) + first[0]

    @classmethod
    def link_ports(cls, config: Assembly, rank: int) -> int:
        return len(config.links[rank])
