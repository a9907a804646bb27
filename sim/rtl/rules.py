"""What an engine supports, which its drivers and its cycle models both ask."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from sim.cycles.ring import Command, RingSettings

__all__ = ["EngineRules"]


class EngineRules(ABC):
    """What an engine supports, at whatever level it runs."""

    in_order: ClassVar[bool]
    """Whether collectives complete in the order in which they were started."""

    @classmethod
    @abstractmethod
    def check(cls, config: Any, settings: RingSettings) -> None:
        """Raise a ``ValueError`` for a ring that the engine does not support."""

    @classmethod
    @abstractmethod
    def check_command(cls, config: Any, settings: RingSettings, command: Command) -> None:
        """Raise a ``ValueError`` for a command that the engine does not have."""

    @classmethod
    @abstractmethod
    def outstanding(cls, config: Any) -> int:
        """Commands that an engine takes before the first is completed."""

    @classmethod
    def count(cls, config: Any, settings: RingSettings) -> int:
        """What can be at a level of its own: ranks, and what stands behind them in numbers."""
        return settings.nodes

    @classmethod
    def sender(cls, config: Any, rank: int, port: int) -> int:
        """What sends on the *port*-th link that is counted with a rank, by its number."""
        return rank

    @classmethod
    @abstractmethod
    def link_ports(cls, config: Any, rank: int) -> int:
        """Ports of an engine, or whatever links are counted with it."""
