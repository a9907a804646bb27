# SPDX-License-Identifier: Apache-2.0
"""The rules of sessions, explored: copies of every SYNC live for ever and come at any time."""

import random
from dataclasses import dataclass

from hw.link.retry_frame import RetryConfig
from tests.hw.link.retry_model import CONTENT, SYNC, ModelEnd, control

CONFIG = RetryConfig(slots=2, timeout_cycles=16, tries=1)
RESETS = 3
ENDS = (0, 1)


@dataclass(frozen=True)
class State:
    """Numbers of both ends, whether they have a session, what each has ever sent, resets to come.

    ``left``: times that each end has left a session since the last reset. ``over``: sessions that
    an end had when it was reset; ``relapsed``: it, or its peer, has begun one of them again.
    """

    ends: tuple = ((0, 0, False), (0, 0, False))
    sent: tuple = (frozenset(), frozenset())
    resets: int = RESETS
    left: tuple = (0, 0)
    over: frozenset = frozenset()
    relapsed: bool = False


def end_of(numbers, kind=ModelEnd):
    end = kind(payload_flits=1, credits=1, config=CONFIG, rng=random.Random(1))
    end.mine, end.peer, end.joined = numbers
    end.awake = True
    return end


def replaced(pair, k, value):
    return tuple(value if n == k else each for n, each in enumerate(pair))


def session(numbers, k):
    """Of end *k*: the numbers of both ends in order."""
    return tuple(numbers[:2]) if k == 0 else (numbers[1], numbers[0])


def after(state, k, content, kind):
    """End *k* hears a SYNC, or *content* is None and it sends one as it does now and then."""
    end = end_of(state.ends[k], kind)
    if content is None:
        end._announce()
    else:
        end._sync(content)
    left = state.ends[k][2] and not end.joined
    joins = end.joined and not state.ends[k][2]
    numbers = (end.mine, end.peer, end.joined)
    said = {end._content(*reply) & CONTENT for reply in end.replies}
    return State(
        ends=replaced(state.ends, k, numbers),
        sent=replaced(state.sent, k, state.sent[k] | said),
        resets=state.resets,
        left=replaced(state.left, k, state.left[k] + left),
        over=state.over,
        relapsed=state.relapsed or (joins and session(numbers, k) in state.over),
    )


def steps(state, kind):
    for k in ENDS:
        if not state.ends[k][2]:
            yield after(state, k, None, kind)
        for content in state.sent[1 - k]:
            yield after(state, k, content, kind)
        if state.resets:
            # The end is silent until what was on the wire has come.
            ended = {session(each, n) for n, each in enumerate(state.ends) if each[2]}
            alive = {session(state.ends[1 - k], 1 - k)} if state.ends[1 - k][2] else set()
            yield State(
                ends=replaced(state.ends, k, (0, 0, False)), resets=state.resets - 1,
                over=frozenset(ended) if alive else frozenset(),
            )


def settles(state, kind):
    """Whether both ends have one session when what they say now comes, each in its turn."""
    for _ in range(12):
        for k in ENDS:
            mine, peer, joined = state.ends[k]
            now = control(SYNC, heard=int(joined), session=mine, echo=peer)
            state = after(state, 1 - k, now, kind)
    (a, b, up), (c, d, also) = state.ends
    return up and also and (a, b) == (d, c)


def explore(kind=ModelEnd):
    """Every state that can be reached; what is wrong with one, or ''."""
    seen, waiting = {State()}, [State()]
    while waiting:
        state = waiting.pop()
        # Nobody leaves a session but for a peer that was reset, and once.
        if any(state.left[k] > (state.resets < RESETS) for k in ENDS):
            return f"a session was left: {state}", len(seen)
        if state.relapsed:
            return f"a session that was over began again: {state}", len(seen)
        if not settles(state, kind):
            return f"no session: {state}", len(seen)
        for found in steps(state, kind):
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return "", len(seen)


def test_no_copy_ends_a_session_and_every_state_leads_to_one():
    wrong, states = explore()
    assert not wrong and states > 500, states


class Credulous(ModelEnd):
    """Planted bug: a session is left for any SYNC of another number."""

    def _sync(self, content):
        if self.joined and content >> 22 & 65535 != self.peer and not content >> 7 & 1:
            self.joined = False
        super()._sync(content)


class Forgetful(ModelEnd):
    """Planted bug: an end does not learn which number it had before it was reset."""

    def _sync(self, content):
        before = self.mine
        super()._sync(content)
        self.mine = before or 1


def test_planted_bugs_are_found():
    assert "was left" in explore(Credulous)[0]
    assert "began again" in explore(Forgetful)[0]
