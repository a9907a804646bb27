# SPDX-License-Identifier: Apache-2.0
"""The abort protocol between smart NICs as a transition system: `hw/smartnic/abort.py`.

Hosts give one collective after another, each once all NICs are idle. In each, every node sends one
data frame to the next node and needs one from the previous node. A host whose NIC has aborted does
not give the command any more, for the NIC would refuse it; one whose NIC was reset sets it up when
all that was on the way to or from it has arrived, and aborts once. Until then it takes no frame.
Time is left out: every step may come at any time or wait as long as it likes, but for the timer
that tells a neighbour again, which is longer than any frame takes. Faults come in any step of the
first collectives, as many as there is a budget for; the last collectives have none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.hw.ace_formal.explorer import Exploration, Violation, explore

__all__ = ["AbortModel"]

NEXT, PREVIOUS = 0, 1
BOTH = 0b11
ABORT, DATA = "abort", "data"


class Frame(NamedTuple):
    """A frame on its way."""

    kind: str
    epoch: int
    wanted: bool = False  # of an abort: an answer is
    fresh: bool = False  # and the epoch has just begun
    sequence: int = 0  # of data

    def __str__(self) -> str:
        marks = [name for name in ("wanted", "fresh") if getattr(self, name)]
        return f"{' '.join((*marks, self.kind))}({self.epoch})"


class Nic(NamedTuple):
    """What the protocol knows of one NIC."""

    epoch: int = 0  # while flushing the one to come
    flushing: bool = False
    waiting: int = 0  # sides that have not been heard of in this epoch
    work: bool = False  # a command is outstanding, its frame was sent
    got: bool = False  # the previous node's frame
    sent: int = 0  # data frames in this epoch
    received: int = 0
    told_host: bool = False  # ghost: the present collective is complete or was given up
    done: bool = False  # ghost: and which of them
    recover: bool = False  # it was reset and is not yet set up

    @property
    def idle(self) -> bool:
        return not (self.flushing or self.waiting or self.work or self.recover)


class State(NamedTuple):
    """All of the ring."""

    nics: tuple[Nic, ...]
    links: tuple[tuple[Frame, ...], ...]  # by sender and side
    left: int  # collectives after it
    aborts: int
    resets: int
    losses: int


@dataclass(frozen=True, kw_only=True)
class AbortModel:
    """A ring of NICs and their hosts.

    Parameters
    ----------
    epochs : tuple of int
        Of each node, at the start.
    collectives, clean : int
        How many in all, and how many of them at the end without faults. The last one must be
        complete on all nodes; all must end.
    aborts, resets, losses : int
        Faults: aborts of any node, nodes that are reset, abort frames that are lost.
    planted : frozenset of str
        Changes of the protocol: ``"deaf"``: frames are ignored while flushing. ``"one way"``: only
        the next node is told. ``"mute"``: earlier epochs are never answered. ``"hasty"``: nobody
        waits to be answered. ``"blind"``: data of other epochs are only dropped. ``"once"``:
        nobody is told again. ``"stale"``: a neighbour that comes to one's own epoch later than it
        should is not noticed. ``"serial"``: epochs are numbers modulo 8, and the one less than half
        the way round ahead is the later one.
    """

    epochs: tuple[int, ...] = (0, 0)
    collectives: int = 2
    clean: int = 1
    aborts: int = 0
    resets: int = 0
    losses: int = 0
    planted: frozenset[str] = field(default=frozenset())

    def without(self, *planted: str) -> "AbortModel":
        """The same with changes."""
        return replace(self, planted=frozenset(planted))

    def explore(self) -> Exploration:
        """Check all runs."""
        nodes = len(self.epochs)
        start = State(
            nics=tuple(Nic(epoch=epoch) for epoch in self.epochs),
            links=((),) * (2 * nodes),
            left=self.collectives - 1,
            aborts=self.aborts,
            resets=self.resets,
            losses=self.losses,
        )
        return explore(start, self.successors, self.is_final)

    def is_final(self, state: State) -> bool:
        """The last collective is complete everywhere, and nothing is under way."""
        if state.left or any(state.links):
            return False
        if not all(nic.idle and nic.told_host for nic in state.nics):
            return False
        return all(nic.done for nic in state.nics)

    # ---- Steps.

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        nics = state.nics
        if not state.left and any(nic.told_host and not nic.done for nic in nics):
            raise Violation("the last collective is given up although nothing went wrong")
        if state.left and all(n.idle and n.told_host for n in nics):
            yield "next collective", state._replace(
                nics=tuple(n._replace(told_host=False, done=False) for n in nics),
                left=state.left - 1,
            )
        # A host gives its command when all are idle, or others have theirs already.
        begun = any(n.work or n.told_host for n in nics)
        for rank, nic in enumerate(nics):
            free = not (nic.told_host or nic.work or nic.recover)
            if free and (begun or all(n.idle for n in nics)):
                frame = Frame(DATA, nic.epoch, sequence=nic.sent)
                given = _complete(nic._replace(work=True, sent=nic.sent + 1))
                yield f"host {rank} gives", _send(_with(state, rank, given), rank, NEXT, frame)
            yield from self._own_steps(state, rank, nic)
        for link, frames in enumerate(state.links):
            if frames:
                rank, side = _end(link, len(nics))
                rest = _put(state.links, link, frames[1:])
                nic, due = self._hear(nics[rank], side, frames[0])
                taken = _with(state._replace(links=rest), rank, nic)
                yield f"node {rank} gets {frames[0]}", _tell(taken, rank, due)
        if state.left >= self.clean:
            yield from self._faults(state)

    def _own_steps(self, state: State, rank: int, nic: Nic) -> Iterator[tuple[str, State]]:
        if nic.flushing:
            tell = 1 << NEXT if "one way" in self.planted else BOTH
            flushed = _with(state, rank, nic._replace(flushing=False))
            yield f"node {rank} is flushed", _tell(flushed, rank, tell, fresh=True)
            return
        ends = (2 * rank, 2 * rank + 1, *(_start(rank, side, len(state.nics)) for side in (0, 1)))
        if nic.recover and not any(state.links[link] for link in ends):
            aborted = self._abort(nic, nic.epoch + 1)._replace(recover=False)
            yield f"host {rank} aborts after the reset", _with(state, rank, aborted)
        if nic.waiting and "once" not in self.planted and not any(state.links):
            if not any(n.flushing or n.recover for n in state.nics):
                yield f"node {rank} tells again", _tell(state, rank, nic.waiting)

    def _faults(self, state: State) -> Iterator[tuple[str, State]]:
        for rank, nic in enumerate(state.nics):
            if state.aborts and not nic.flushing and not nic.recover:
                less = state._replace(aborts=state.aborts - 1)
                aborted = self._abort(nic, nic.epoch + 1)
                yield f"host {rank} aborts", _with(less, rank, aborted)
            if state.resets:
                less = state._replace(resets=state.resets - 1)
                reset = Nic(told_host=nic.told_host or nic.work, done=nic.done, recover=True)
                yield f"node {rank} is reset", _with(less, rank, reset)
        if state.losses:
            for link, frames in enumerate(state.links):
                if frames and frames[0].kind == ABORT:
                    less = state._replace(
                        losses=state.losses - 1, links=_put(state.links, link, frames[1:])
                    )
                    yield f"{frames[0]} is lost", less

    # ---- What a NIC does with a frame.

    def _hear(self, nic: Nic, side: int, frame: Frame) -> tuple[Nic, int]:
        """The NIC after a frame, and the sides that it tells of its epoch."""
        if nic.recover:
            return nic, 0
        abort = frame.kind == ABORT
        ahead = frame.epoch - nic.epoch
        if "serial" in self.planted:
            ahead = (ahead + 4) % 8 - 4
        if nic.flushing:
            follows = abort and ahead > 0 and "deaf" not in self.planted
            return (nic._replace(epoch=frame.epoch) if follows else nic), 0
        awaited = nic.waiting >> side & 1
        if ahead > 0:
            if abort:
                return self._abort(nic, frame.epoch), 0
            return (nic if "blind" in self.planted else self._abort(nic, frame.epoch + 1)), 0
        if ahead < 0:
            if "mute" in self.planted or (not abort and "blind" in self.planted):
                return nic, 0
            if awaited or "hasty" in self.planted:
                return nic, 1 << side
            return self._abort(nic, nic.epoch + 1), 0
        unnoticed = {"stale", "hasty", "one way"}
        if frame.fresh and not awaited and not self.planted & unnoticed:
            return self._abort(nic, nic.epoch + 1), 0
        nic = nic._replace(waiting=nic.waiting & ~(1 << side))
        if abort:
            return nic, 1 << side if frame.wanted else 0
        if frame.sequence > nic.received:
            return self._abort(nic, nic.epoch + 1), 0
        if frame.sequence < nic.received:
            return nic, 0
        return _complete(nic._replace(got=True, received=nic.received + 1)), 0

    def _abort(self, nic: Nic, epoch: int) -> Nic:
        """Give up whatever there is."""
        if "serial" in self.planted:
            epoch %= 8
        return Nic(
            epoch=epoch,
            flushing=True,
            waiting=0 if self.planted & {"hasty", "one way"} else BOTH,
            told_host=True,
            done=nic.done and nic.told_host,
            recover=nic.recover,
        )


def _complete(nic: Nic) -> Nic:
    """The command is complete once both halves of it are."""
    if nic.work and nic.got:
        return nic._replace(work=False, got=False, told_host=True, done=True)
    return nic


def _end(link: int, nodes: int) -> tuple[int, int]:
    """Receiver of a link, and the side on which it comes in."""
    sender, side = divmod(link, 2)
    return ((sender + 1) % nodes, PREVIOUS) if side == NEXT else ((sender - 1) % nodes, NEXT)


def _start(rank: int, side: int, nodes: int) -> int:
    """The link that comes in on a side."""
    sender = (rank + (1 if side == NEXT else -1)) % nodes
    return 2 * sender + (PREVIOUS if side == NEXT else NEXT)


def _send(state: State, rank: int, side: int, frame: Frame) -> State:
    link = 2 * rank + side
    return state._replace(links=_put(state.links, link, (*state.links[link], frame)))


def _tell(state: State, rank: int, due: int, *, fresh: bool = False) -> State:
    """Tell one side, both, or none."""
    nic = state.nics[rank]
    for side in (NEXT, PREVIOUS):
        if due >> side & 1:
            wanted = bool(nic.waiting >> side & 1)
            frame = Frame(ABORT, nic.epoch, wanted=wanted, fresh=fresh)
            state = _send(state, rank, side, frame)
    return state


def _with(state: State, rank: int, nic: Nic) -> State:
    return state._replace(nics=_put(state.nics, rank, nic))


def _put(items: tuple, index: int, value: object) -> tuple:
    return (*items[:index], value, *items[index + 1 :])
