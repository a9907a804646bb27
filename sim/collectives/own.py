# SPDX-License-Identifier: Apache-2.0
"""Checks of the functions of algorithms that users write, with the line of the function.

Built-in algorithms are tested instead: checks would slow down large groups.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

__all__ = ["AlgorithmError", "checked", "is_own", "place_of"]

MOST_SHOWN = 60  # characters of a value


class AlgorithmError(ValueError):
    """An algorithm of a user that fails; the text starts with file and line of its function."""


def is_own(function: Callable[..., Any]) -> bool:
    """Return True unless Foldwire has that function."""
    return not (getattr(function, "__module__", None) or "").startswith("sim.collectives.")


def place_of(function: Any, error: BaseException | None = None) -> str:
    """File and line of a function, or of its line that has raised *error*."""
    function = getattr(function, "func", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{getattr(function, '__module__', '')}.{type(function).__name__}"
    import traceback

    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    lines = [each.lineno for each in frames if each.filename == code.co_filename]
    return f"{code.co_filename}:{lines[-1] if lines else code.co_firstlineno}"


def checked(
    function: Callable[[Any], Any], group: Any, *, what: str, blocks: int
) -> tuple[Any, ...]:
    """Return the rounds that *function* makes for a group, whose blocks are checked when asked for.

    Parameters
    ----------
    what : str
        Name of the algorithm and the collective, for errors.
    blocks : int
        Blocks that there are.

    Raises
    ------
    AlgorithmError
        The function fails, or returns what is no list of rounds between members of the group.
    """
    what = f"{what} in a group of {group.size}"
    try:
        made = function(group)
        rounds = tuple(made) if isinstance(made, Iterable) else made
    except Exception as error:
        raise _failed(function, error, what) from error
    where = f"{place_of(function)}: {what}"
    if not isinstance(rounds, tuple) or not all(hasattr(each, "peers") for each in rounds):
        raise AlgorithmError(f"{where}: must return a list of Round, not {_short(made)}")
    if not rounds and group.size > 1:
        raise AlgorithmError(f"{where}: must return at least one Round, not {_short(made)}")
    for number, each in enumerate(rounds):
        try:
            times = operator.index(each.times)
        except TypeError:
            times = 0
        if times < 1 or isinstance(each.times, bool):
            text = f"times must be an integer of at least 1, not {_short(each.times)}"
            raise AlgorithmError(f"{where}: round {number}: {text}")
        for peer in each.peers:
            _check_peer(peer, group, f"{where}: round {number}")
    return tuple(
        replace(each, send=_Sends(each.send, f"{what}: round {number}", blocks))
        for number, each in enumerate(rounds)
    )


def _check_peer(peer: Any, group: Any, where: str) -> None:
    """Refuse a peer that is no member of the group."""
    if not hasattr(peer, "ranks"):
        kinds = "Neighbour, Shift, Exchange or Listed"
        raise AlgorithmError(f"{where}: to must be of {kinds}, not {_short(peer)}")
    where = f"{where}: to = {_short(peer)}"
    try:
        ranks = np.asarray(peer.ranks(group))
    except Exception as error:
        raise AlgorithmError(f"{where}: {type(error).__name__}: {error}") from error
    if ranks.shape != (group.size,):
        raise AlgorithmError(f"{where}: must be a peer for each of {group.size}, not {ranks.size}")
    none = hasattr(peer, "members")
    wrong = np.flatnonzero((ranks >= group.size) | (ranks < -none))
    if len(wrong):
        allowed = f"from 0 to {group.size - 1}{', or -1 for none' if none else ''}"
        text = f"the peer of rank {wrong[0]} must be {allowed}, not {ranks[wrong[0]]}"
        raise AlgorithmError(f"{where}: {text}")


class _Sends:
    """The ``send`` of a round, whose blocks are checked."""

    def __init__(self, send: Callable[[Any], Any], what: str, blocks: int) -> None:
        self.send, self._what, self._blocks = send, what, blocks
        self._count: int | None = None

    def __call__(self, at: Any) -> Any:
        try:
            sent = self.send(at)
            rows = np.atleast_2d(np.asarray(sent))
        except Exception as error:
            raise _failed(self.send, error, self._what) from error
        if rows.dtype.kind not in "iu":
            raise self._wrong(f"must return whole numbers of blocks, not {_short(sent)}")
        members = len(at.rank)
        if rows.ndim != 2 or len(rows) not in (1, members) or not rows.size:
            text = f"must return a number, a column or a row for each of {members} members"
            raise self._wrong(f"{text}, not an array of shape {np.shape(sent)}")
        self._count = self._count or rows.shape[1]
        if rows.shape[1] != self._count:
            text = f"must return as many blocks in every step, {self._count}"
            raise self._wrong(f"{text}, not {rows.shape[1]} in step {at.step}")
        outside = ((rows < 0) | (rows >= self._blocks)) & (at.peer >= 0)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            block = np.broadcast_to(rows, outside.shape)[row, column]
            text = f"must return blocks from 0 to {self._blocks - 1}, not {block}"
            raise self._wrong(f"{text} for rank {at.rank[row, 0]} in step {at.step}")
        return rows

    def _wrong(self, text: str) -> AlgorithmError:
        return AlgorithmError(f"{place_of(self.send)}: {self._what}: send {text}")


def _failed(function: Any, error: Exception, what: str) -> AlgorithmError:
    if isinstance(error, AlgorithmError):
        return error
    text = f"{type(error).__name__}: {error}"
    return AlgorithmError(f"{place_of(function, error)}: {what}: {' '.join(text.split())}")


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
