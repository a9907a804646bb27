# SPDX-License-Identifier: Apache-2.0
"""Failures of engines as exceptions, as their completions and registers report them."""

__all__ = [
    "CommandRefusedError",
    "DisagreementError",
    "GivenUpError",
    "MemoryAccessError",
    "NoProgressError",
    "PacketDroppedError",
    "PacketLostError",
    "PoisonedError",
]


class CommandRefusedError(ValueError):
    """An engine refused a command; the engine stays usable."""


class MemoryAccessError(RuntimeError):
    """Memory answered a DMA with an error, so the result of a collective is not valid."""


class PacketDroppedError(RuntimeError):
    """A packet was dropped and a collective given up; the ring is ready for the next one."""


class GivenUpError(PacketDroppedError):
    """All collectives were given up, for a reason that an engine reports; the ring is ready for the
    next one."""


class DisagreementError(GivenUpError):
    """The ranks were given different collectives."""


class NoProgressError(GivenUpError):
    """A collective made no progress for as long as the watchdog was set to.

    Parameters
    ----------
    text : str
    progress : tuple of int
        How far the rank has come, where its engine tells; less is nearer to the cause.
    """

    def __init__(self, text: str, *, progress: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.progress = progress


class PacketLostError(GivenUpError):
    """A packet was lost on the way to another node."""


class PoisonedError(MemoryAccessError):
    """Memory of another node answered with an error."""
