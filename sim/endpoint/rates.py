# SPDX-License-Identifier: Apache-2.0
"""Best rates of an endpoint, from which lower bounds are computed."""

from dataclasses import dataclass

from sim.fields import FieldError

__all__ = ["EndpointRates"]


@dataclass(frozen=True, kw_only=True)
class EndpointRates:
    """Best rates of a node's endpoint; None means without limit.

    Parameters
    ----------
    read_bytes_per_s, write_bytes_per_s : float or None
        Memory bandwidth given to communication.
    reads_per_byte_sent, writes_per_byte_sent : float
        Memory traffic of an endpoint that goes to memory for every message, e.g. 1.5 reads for
        ring reduce-scatter and all-gather in software.
    loads_per_byte, stores_per_byte : float
        Memory traffic of an endpoint that keeps data on chip, per byte of its input and of its
        result that has to move: 1 and 1 where each is moved once.
    bus_bytes_per_s : float or None
        Bandwidth of the bus between memory and network interface, per direction; every byte sent
        crosses it where ``reads_per_byte_sent`` is above 0, else every byte of payload.
    reducer_bytes_per_s : float or None
        Sums produced, in bytes.
    message_s : float
        Time that every message spends in endpoints.
    """

    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    reads_per_byte_sent: float = 0.0
    writes_per_byte_sent: float = 0.0
    loads_per_byte: float = 0.0
    stores_per_byte: float = 0.0
    bus_bytes_per_s: float | None = None
    reducer_bytes_per_s: float | None = None
    message_s: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name.endswith("bytes_per_s"):
                if value is not None and not value > 0:
                    raise FieldError(name, f"must be above 0 or None, not {value!r}")
            elif not value >= 0:
                raise FieldError(name, f"must be at least 0, not {value!r}")
