"""The load of links over time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["LinkSeries"]


@dataclass(frozen=True, kw_only=True)
class LinkSeries:
    """Shares of the capacity that one direction of a link carried, one per interval."""

    name: str
    header: npt.NDArray[np.float64]
    payload: npt.NDArray[np.float64]

    @property
    def total(self) -> npt.NDArray[np.float64]:
        return self.header + self.payload
