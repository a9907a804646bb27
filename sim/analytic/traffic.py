# SPDX-License-Identifier: Apache-2.0
"""Traffic of a hierarchical all-reduce per byte of payload, sent and read, and its ceiling.

Two algorithms (ASTRA-SIM, section III; ACE v1, Table 5): the *baseline* all-reduces the whole
vector in one dimension after the other; the *enhanced* one reduce-scatters it in the first
dimension, all-reduces the share that is left in every other dimension, and all-gathers in the
first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sim.fields import FieldError

__all__ = [
    "Ceiling",
    "PhaseTraffic",
    "all_reduce_phases",
    "endpoint_ceiling",
    "engine_reads_per_byte_sent",
    "host_reads_per_byte_sent",
    "ring_host_reads",
    "sent_per_byte",
]


@dataclass(frozen=True, kw_only=True)
class PhaseTraffic:
    """One phase: its name, its dimension, and bytes sent per byte of the whole vector."""

    name: str
    dimension: int
    sent: Fraction


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """The rate at which an endpoint can inject when phases are pipelined and links set the pace.

    ``sent_per_byte``: bytes sent per byte of payload; ``injection_bytes_per_s``: over all links of
    a node; ``dimension``: the one that limits it; memory reads that a host and an engine need.
    """

    sent_per_byte: Fraction
    injection_bytes_per_s: float
    dimension: int
    host_reads_bytes_per_s: float
    engine_reads_bytes_per_s: float

    @property
    def read_ratio(self) -> float:
        """Memory reads of a host over those of an engine."""
        return self.host_reads_bytes_per_s / self.engine_reads_bytes_per_s


def all_reduce_phases(shape: Sequence[int], algorithm: str = "enhanced") -> list[PhaseTraffic]:
    """Phases of an all-reduce on dimensions of these sizes, those of size 1 left out.

    Parameters
    ----------
    shape : sequence of int
        Local dimension first.
    algorithm : str
        ``"baseline"`` or ``"enhanced"``.
    """
    if not shape or any(size < 1 for size in shape):
        raise FieldError("shape", f"must hold sizes of at least 1, not {tuple(shape)!r}")
    if algorithm not in ("baseline", "enhanced"):
        raise FieldError("algorithm", f"must be baseline or enhanced, not {algorithm!r}")
    if algorithm == "baseline":
        return [
            PhaseTraffic(name="all-reduce", dimension=d, sent=Fraction(2 * (k - 1), k))
            for d, k in enumerate(shape)
            if k > 1
        ]
    local, *others = shape
    half = PhaseTraffic(name="reduce-scatter", dimension=0, sent=Fraction(local - 1, local))
    phases = [half] if local > 1 else []
    for d, k in enumerate(others, 1):
        if k > 1:
            sent = Fraction(2 * (k - 1), k * local)
            phases.append(PhaseTraffic(name="all-reduce", dimension=d, sent=sent))
    if local > 1:
        phases.append(PhaseTraffic(name="all-gather", dimension=0, sent=half.sent))
    return phases


def sent_per_byte(
    shape: Sequence[int],
    algorithm: str = "enhanced",
    *,
    dimensions: Sequence[int] | None = None,
) -> Fraction:
    """Bytes that a node sends per byte of payload, into some dimensions or into all (None)."""
    return sum(
        (
            phase.sent
            for phase in all_reduce_phases(shape, algorithm)
            if dimensions is None or phase.dimension in dimensions
        ),
        Fraction(0),
    )


def ring_host_reads(size: int) -> tuple[Fraction, Fraction]:
    """Bytes read and bytes sent, per byte of payload, by a ring all-reduce run by the host.

    The first of the ``size - 1`` messages of the reduce-scatter is read from the vector; every
    later one is the sum of a received and a local message, so two are read. The last received
    message is summed likewise, and that sum is the first message of the all-gather, whose other
    ``size - 2`` messages are received ones, read once. In all ``1 + 2 (size-2) + 2 + (size-2)``.
    """
    if size < 2:
        raise FieldError("size", f"must be at least 2, not {size!r}")
    reads = 1 + 2 * (size - 2) + 2 + (size - 2)
    return Fraction(reads, size), Fraction(2 * (size - 1), size)


def host_reads_per_byte_sent(*, first_step: bool = True) -> Fraction:
    """Memory reads of a host per byte that it sends, the same for every ring and hierarchy.

    ``first_step=False`` leaves the first step of reduce-scatter out, as the ISCA'21 paper does: 2
    in the rest of it, 1 in the all-gather, which sends as much. Both counts give 3/2.
    """
    if first_step:
        reads, sent = ring_host_reads(4)
        return reads / sent
    return (Fraction(2) + Fraction(1)) / 2


def engine_reads_per_byte_sent(shape: Sequence[int]) -> Fraction:
    """Memory reads of an engine that reads every byte once and keeps it: 1/2.25 on 4x4x4."""
    return 1 / sent_per_byte(shape)


def endpoint_ceiling(
    shape: Sequence[int],
    bandwidths_bytes_per_s: Sequence[float],
    *,
    efficiency: float = 1.0,
    algorithm: str = "enhanced",
) -> Ceiling:
    """The injection rate at which the busiest dimension is full.

    Parameters
    ----------
    shape, algorithm
        See :func:`all_reduce_phases`.
    bandwidths_bytes_per_s
        A node's bandwidth into each dimension, all of its links there together.
    efficiency
        Share of the bandwidth that carries payload, the same on all links.
    """
    if len(shape) != len(bandwidths_bytes_per_s):
        raise FieldError(
            "bandwidths_bytes_per_s", f"must have {len(shape)} entries, "
            f"not {len(bandwidths_bytes_per_s)}"
        )
    seconds = [
        float(sent_per_byte(shape, algorithm, dimensions=[d])) / (rate * efficiency)
        for d, rate in enumerate(bandwidths_bytes_per_s)
    ]
    slowest = max(range(len(shape)), key=seconds.__getitem__)
    if not seconds[slowest]:
        raise FieldError("shape", f"must have more than one node, not {tuple(shape)!r}")
    sent = sent_per_byte(shape, algorithm)
    injection = float(sent) / seconds[slowest]
    return Ceiling(
        sent_per_byte=sent,
        injection_bytes_per_s=injection,
        dimension=slowest,
        host_reads_bytes_per_s=injection * float(host_reads_per_byte_sent()),
        engine_reads_bytes_per_s=injection / float(sent),
    )
