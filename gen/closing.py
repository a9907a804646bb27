"""What is closed at the end of a ``with`` block."""

from types import TracebackType
from typing import Self

__all__ = ["Closing"]


class Closing:
    """Base of what has ``close()``: a ``with`` block gives it and closes it."""

    def close(self) -> None:
        """Let go of what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()
