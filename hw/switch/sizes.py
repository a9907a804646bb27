# SPDX-License-Identifier: Apache-2.0
"""Sizes of the in-switch reduction that hardware and simulator share."""

from dataclasses import dataclass

from hw.common.params import FieldError

__all__ = ["SwitchSizes"]


@dataclass(frozen=True, kw_only=True)
class SwitchSizes:
    """The packets of switches that reduce.

    Defaults are those of Klenk et al. (ISCA 2020) for the DGX-2: 128 bytes of data behind a header
    of 16.

    Parameters
    ----------
    payload_bytes, header_bytes : int
        Sizes of a packet. Requests and acknowledgements are a header alone.
    """

    payload_bytes: int = 128
    header_bytes: int = 16

    def __post_init__(self) -> None:
        for name in ("payload_bytes", "header_bytes"):
            value, least = getattr(self, name), int(name != "header_bytes")
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise FieldError(name, f"must be an integer of at least {least}, not {value!r}")

    @property
    def payload_share(self) -> float:
        """Share of a link's time that carries payload, with equal traffic both ways: each packet
        with data goes beside the acknowledgement of, or request for, one of the other way."""
        return self.payload_bytes / (self.payload_bytes + 2 * self.header_bytes)
