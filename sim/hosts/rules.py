# SPDX-License-Identifier: Apache-2.0
"""Rules for rings and commands of an engine, shared by its drivers and its cycle models."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings

__all__ = ["EngineRules"]


class EngineRules(ABC):
    """Rings and commands that an engine supports, at whatever level it runs."""

    in_order: ClassVar[bool]
    """True if collectives complete in the order in which they were started."""

    @classmethod
    @abstractmethod
    def check(cls, config: Any, settings: Surroundings) -> None:
        """Raise a ``ValueError`` for a ring that the engine does not support."""

    @classmethod
    @abstractmethod
    def check_command(cls, config: Any, settings: Surroundings, command: Command) -> None:
        """Raise a ``ValueError`` for a command that the engine does not have."""

    @classmethod
    @abstractmethod
    def outstanding(cls, config: Any) -> int:
        """Commands that an engine takes before the first is completed."""

    @classmethod
    def count(cls, config: Any, settings: Surroundings) -> int:
        """Number of parts that can have their own level: engines, and switches numbered after
        them."""
        return settings.engines

    @classmethod
    def sender(cls, config: Any, rank: int, port: int) -> int:
        """Number of the part that sends on the *port*-th link counted with a rank."""
        return rank

    @classmethod
    @abstractmethod
    def link_ports(cls, config: Any, rank: int) -> int:
        """Number of ports of an engine, or of links that are counted with it."""
