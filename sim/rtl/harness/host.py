# SPDX-License-Identifier: Apache-2.0
"""A node as software sees it: its memory, its registers, its interrupt."""

import ctypes
from collections.abc import Sequence

import numpy as np

from sim.fields import FieldError, FoldError
from sim.rtl.harness.library import OPERATION, OUTCOME, Harness, NodeShape, array_at

__all__ = ["CHANNELS", "Node", "Ticket"]

CHANNELS = ("ar", "aw", "w", "r", "b")
"""Channels of a memory port, in the order of memory.hpp."""

_WRITE, _READ, _WAIT_REGISTER, _WAIT_IRQ, _DELAY, _WAIT_AT_LEAST = range(
    6
)  # in the order of host.hpp


class Ticket:
    """Outcome of one host operation; its values exist once a run has completed it."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._index: int | None = None

    @property
    def done(self) -> bool:
        return self._index is not None and self._index < self._node._count()

    @property
    def value(self) -> int:
        """The register's value, for reads and waits for a register."""
        return int(self._outcome()["value"])

    @property
    def cycle(self) -> int:
        """The cycle in which the operation was completed."""
        return int(self._outcome()["cycle"])

    @property
    def response(self) -> int:
        """The AXI response, 0 for OKAY; 4 for a wait that was given up."""
        return int(self._outcome()["response"])

    def _outcome(self) -> np.void:
        if not self.done or self._index is None:
            raise RuntimeError("the operation is not completed yet: call System.run first")
        return self._node._outcome(self._index)


class Node:
    """One node's memory and host. Host operations run in the order in which they were called."""

    def __init__(
        self, harness: Harness, number: int, memory: np.ndarray, shape: NodeShape, *,
        stands_for: int = 1,
    ) -> None:
        self._harness = harness
        self._stands_for = stands_for
        self._waiting: list[tuple[Ticket, tuple[int, ...]]] = []
        self._sent = 0
        self.number = number
        self.memory = memory
        self.memory_ports = int(shape.memory_ports)
        self.link_ports = int(shape.link_ports)
        self.bus_bytes = int(shape.bus_bytes)
        self._has_host = bool(shape.has_host)

    def check_alone(self, what: str) -> None:
        """Refuse *what* befalls this node where it stands for others.

        Raises
        ------
        FoldError
        """
        if self._stands_for > 1:
            raise FoldError(
                what, f"cannot befall one node of {self._stands_for} that are simulated as one: it "
                "needs a system that is not folded"
            )

    def write(self, address: int, value: int, *, allow_error: bool = False) -> Ticket:
        """Writes a 32-bit register. An error response ends the run unless allowed."""
        return self._add(_WRITE, address=address, value=value, allow_error=allow_error)

    def read(self, address: int, *, allow_error: bool = False) -> Ticket:
        """Reads a 32-bit register; see :attr:`Ticket.value`."""
        return self._add(_READ, address=address, allow_error=allow_error)

    def wait_register(
        self, address: int, *, value: int, mask: int = 0xFFFFFFFF, poll_cycles: int = 16
    ) -> Ticket:
        """Reads a register every ``poll_cycles`` until its bits under ``mask`` equal ``value``."""
        if value & ~mask:
            raise ValueError(f"value {value:#x} has bits outside mask {mask:#x}: it never matches")
        return self._add(
            _WAIT_REGISTER, address=address, value=value, mask=mask, cycles=poll_cycles
        )

    def wait_at_least(
        self, address: int, *, value: int, mask: int = 0xFFFFFFFF, poll_cycles: int = 16
    ) -> Ticket:
        """Reads a register every ``poll_cycles`` until its bits under ``mask``, as a number, are
        at least ``value``."""
        if value > mask:
            raise ValueError(f"value {value:#x} is above mask {mask:#x}: it is never reached")
        return self._add(
            _WAIT_AT_LEAST, address=address, value=value, mask=mask, cycles=poll_cycles
        )

    def wait_irq(self) -> Ticket:
        """Waits until the interrupt output is high."""
        return self._add(_WAIT_IRQ)

    def delay(self, cycles: int) -> Ticket:
        """Waits for a number of cycles."""
        return self._add(_DELAY, cycles=cycles)

    def fail_memory(
        self, address: int, size_bytes: int, *, reads: bool = True, writes: bool = True
    ) -> None:
        """From now on, answer accesses to these bytes with SLVERR: reads give zeros, writes have
        no effect."""
        self.check_alone("fail_memory")
        if address < 0 or size_bytes < 1:
            raise FieldError(
                "address", f"must be at least 0 and size_bytes at least 1, "
                f"not {address!r} and {size_bytes!r}"
            )
        self._harness.check(
            "fail_memory", self.number, address, address + size_bytes, int(reads), int(writes)
        )

    def heal_memory(self) -> None:
        """Undo all calls of `fail_memory`."""
        self._harness.check("fail_memory", self.number, 0, 0, 0, 0)

    def pace_memory(self, every: int = 1, channels: Sequence[str] = CHANNELS) -> None:
        """From now on, let *channels* (of `CHANNELS`) of all memory ports move in every *every*-th
        cycle alone; 0: not at all."""
        self.check_alone("pace_memory")
        for channel in channels:
            self._harness.call("pace_memory", self.number, CHANNELS.index(channel), every)

    def reset_engine(self, *, host: bool = False) -> None:
        """Reset the engine alone, in no time: its work in progress is lost, its memory stays. With
        *host*, operations that are not completed are given up."""
        self.check_alone("reset_engine")
        if host:
            self.send_operations(0)
        self._harness.check("reset_engine", self.number, int(host))

    def output(self, name: str) -> int:
        """The present value of one of the engine's outputs, its low 64 bits."""
        value = ctypes.c_uint64()
        self._harness.check("get_output", self.number, name.encode(), ctypes.byref(value))
        return value.value

    @property
    def done(self) -> bool:
        """True if all operations handed over are completed."""
        return self._count() == self._sent

    @property
    def last_cycle(self) -> int | None:
        """The cycle in which the last operation was completed, None before the first run."""
        return int(self._outcome(self._sent - 1)["cycle"]) if self._sent else None

    def _add(
        self,
        kind: int,
        *,
        address: int = 0,
        value: int = 0,
        mask: int = 0,
        cycles: int = 0,
        allow_error: bool = False,
    ) -> Ticket:
        for name, number in (("address", address), ("value", value), ("mask", mask)):
            if not 0 <= number < 2**32:
                raise FieldError(name, f"must be in 0 to 0xffffffff, not {number:#x}")
        if cycles < 0:
            raise FieldError("cycles", f"must be at least 0, not {cycles!r}")
        if kind not in (_WAIT_IRQ, _DELAY) and not self._has_host:
            raise ValueError(f"node {self.number} has no csr port")
        ticket = Ticket(self)
        self._waiting.append((ticket, (kind, address, value, mask, cycles, int(allow_error), 0)))
        return ticket

    def send_operations(self, skew_cycles: int) -> None:
        """Hands the operations called so far to the harness; the system does so in every run."""
        if not self._waiting:
            return
        if skew_cycles:
            delay = (_DELAY, 0, 0, 0, skew_cycles, 0, 0)
            self._waiting.insert(0, (Ticket(self), delay))
        for index, (ticket, _) in enumerate(self._waiting):
            ticket._index = self._sent + index
        operations = np.array([fields for _, fields in self._waiting], OPERATION)
        self._harness.call("push", self.number, operations.ctypes.data, len(operations))
        self._sent += len(self._waiting)
        self._waiting.clear()

    def _count(self) -> int:
        return self._outcomes()[0]

    def _outcome(self, index: int) -> np.void:
        _, address = self._outcomes()
        outcome: np.void = array_at(address + index * OUTCOME.itemsize, 1, OUTCOME)[0]
        return outcome

    def _outcomes(self) -> tuple[int, int]:
        """Number of completed operations, and the address of their outcomes."""
        address = ctypes.c_void_p()
        count = self._harness.call("outcomes", self.number, ctypes.byref(address))
        return int(count), address.value or 0
