# SPDX-License-Identifier: Apache-2.0
"""Epochs of a region as a transition system: endpoints, and switches that know the region's epoch.

One region and one block of data, which every member pushes once an epoch as soon as it is ready.
Time is left out: every step may come at any time or wait as long as it likes, so an entry of a
table may be given up at any moment. Notices keep their order on a wire; a packet of data may be
looked at before notices that came earlier, for they wait in a buffer, but never after later ones.
What a switch has accepted leaves in any order.

Every operand has its sender's epoch in full and whether its sender was reset since, which no rule
of the protocol looks at; the check is that operands which meet have the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.hw.ace_formal.explorer import Exploration, Violation, explore

__all__ = ["EpochModel"]

HOME = 0
"""The member that adds what tables give up, and its switch reduces."""

TABLE = -1
"""Where packets go that are for the table."""


class Notice(NamedTuple):
    """A SYNC."""

    source: int
    epoch: int
    fresh: bool = False
    settled: bool = False

    def __str__(self) -> str:
        marks = [name for name in ("fresh", "settled") if getattr(self, name)]
        return f"{' '.join((*marks, 'notice'))}({self.source}: {self.epoch})"


class Operand(NamedTuple):
    """What became part of a sum: whose it is, its true epoch, and a ghost: its sender was reset
    since, or had been ready in this epoch before it was reset."""

    member: int
    epoch: int
    lost: bool = False
    again: bool = False


class Data(NamedTuple):
    """A packet of operands."""

    kind: str
    epoch: int  # of which headers have the low bits
    operands: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{self.kind}({self.epoch} of {', '.join(str(o.member) for o in self.operands)})"


class Member(NamedTuple):
    """An endpoint."""

    epoch: int = 0
    joined: bool = False
    flush: bool = False
    told: int = 0  # planes by which its notice has gone
    fresh: int = 0  # planes by which it has not yet said that it joined
    asks: int = 0  # planes by which the switch has not yet answered
    settled: int = 0  # planes by which it has said that it heard all
    heard: tuple[int, ...] = ()  # members, by plane
    others: int = 0  # members that are settled
    ready: bool = False
    sent: int = 0  # planes by which its operand has gone
    done: int = 0  # planes of which it has the result
    store: tuple[tuple[Operand, ...], ...] = ()  # of the home endpoint, by plane
    before: int = -1  # ghost: last epoch in which it was ready before it was reset


class Switch(NamedTuple):
    """A switch of a plane."""

    epoch: int = 0
    purging: bool = False
    current: int = 0  # ports
    told: int = 0
    waiting: tuple[tuple[int, Notice], ...] = ()  # for the end of the purge, with their ports
    entries: tuple[Data, ...] = ()
    held: tuple[tuple[int, Data], ...] = ()  # with the port by which they leave


class State(NamedTuple):
    """All of the system."""

    members: tuple[Member, ...]
    switches: tuple[Switch, ...]  # of all planes
    wires: tuple[tuple[Notice | Data, ...], ...]
    answers: tuple[tuple[Notice, ...], ...]  # by wire: what a switch answers to its port
    aborts: int
    resets: int


class Port(NamedTuple):
    """An end of a link at a switch."""

    incoming: int  # wires
    outgoing: int
    member: int  # -1: another switch


@dataclass(frozen=True, kw_only=True)
class EpochModel:
    """Members, planes of switches, and faults.

    Parameters
    ----------
    places : tuple of int
        For each member the switch of a plane, 0 or 1, at which it is. Both are joined by a link.
    planes : int
    aborts, resets : int
        Faults: aborts of any member, members that are reset, at any time.
    bits : int
        Of the epoch in headers of data.
    entries : int
        Of a table.
    start : int
        0: the system as it comes up. Else all are ready in this epoch.
    planted : frozenset of str
        Changes of the protocol: ``"no purge"``: a switch forgets nothing when it comes to a later
        epoch; ``"tables alone"``: only the entries of its tables; ``"buffers alone"``: all but
        these. ``"hasty"``: it passes a notice on before that. ``"stays current"``: it goes on to
        take packets from all ports. ``"no tracker"``: it knows no epochs. ``"one phase"``:
        endpoints are ready when they have heard all others. ``"never closed"``: they take data
        before that. ``"settled by one"``: they say that they are settled by one plane alone.
        ``"unasked"``: who joins does not wait for the answer of its switches, which pass on what
        he says when they know nothing of him; others reply to it.
    """

    places: tuple[int, ...] = (0, 0)
    planes: int = 1
    aborts: int = 0
    resets: int = 0
    bits: int = 2
    entries: int = 2
    start: int = 0
    planted: frozenset[str] = field(default=frozenset())

    def without(self, *planted: str) -> "EpochModel":
        """The same with changes."""
        return replace(self, planted=frozenset(planted))

    def explore(self, limit: int = 20_000_000) -> Exploration:
        """Check all runs."""
        self._lay_out()
        return explore(self._first(), self.successors, self.is_final, limit=limit)

    def _lay_out(self) -> None:
        """Number switches and wires."""
        ports: list[tuple[Port, ...]] = []
        up: list[list[int]] = []  # of each plane, by member
        ends: list[tuple[str, int, int]] = []  # of each wire: ("switch", number, port) or
        # ("member", number, plane)
        count = max(self.places) + 1
        for plane in range(self.planes):
            first = len(ports)
            made: list[list[Port]] = [[] for _ in range(count)]
            ups = []
            for member, place in enumerate(self.places):
                wire = len(ends)
                ends.append(("switch", first + place, len(made[place])))
                ends.append(("member", member, plane))
                made[place].append(Port(wire, wire + 1, member))
                ups.append(wire)
            if count == 2:
                wire = len(ends)
                ends.append(("switch", first, len(made[0])))
                ends.append(("switch", first + 1, len(made[1])))
                made[0].append(Port(wire, wire + 1, -1))
                made[1].append(Port(wire + 1, wire, -1))
            ports += map(tuple, made)
            up.append(ups)
        put = object.__setattr__
        put(self, "_ports", tuple(ports))
        put(self, "_up", up)
        put(self, "_ends", tuple(ends))
        put(self, "_count", count)
        put(self, "_low", (1 << self.bits) - 1)

    def _first(self) -> State:
        n = len(self.places)
        everybody = (1 << n) - 1
        members = []
        for member in range(n):
            new = self._new()
            if self.start:
                others = everybody & ~(1 << member)
                all_planes = (1 << self.planes) - 1
                new = new._replace(
                    epoch=self.start, joined=True, told=all_planes, settled=all_planes,
                    heard=(others,) * self.planes, others=others, ready=True,
                )
            members.append(new)
        switches = []
        for ports in self._ports:
            everyone = (1 << len(ports)) - 1
            told = everyone if self.start else 0
            switches.append(Switch(epoch=self.start, current=everyone, told=told))
        return State(
            members=tuple(members), switches=tuple(switches), wires=((),) * len(self._ends),
            answers=((),) * len(self._ends), aborts=self.aborts, resets=self.resets,
        )

    def _new(self) -> Member:
        return Member(heard=(0,) * self.planes, store=((),) * self.planes)

    def is_final(self, state: State) -> bool:
        """All are ready in one epoch, have the result, and nothing is under way."""
        if state.aborts or state.resets or any(state.wires) or any(state.answers):
            return False
        all_planes = (1 << self.planes) - 1
        first = state.members[0].epoch
        if any(
            not m.ready or m.settled != all_planes or m.done != all_planes or m.epoch != first
            for m in state.members
        ):
            return False
        return not any(s.purging or s.entries or s.held or s.waiting for s in state.switches)

    # ---- Steps.

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        for number, member in enumerate(state.members):
            yield from self._own_steps(state, number, member)
        for wire, packets in enumerate(state.wires):
            if packets:
                yield from self._arrivals(state, wire, packets)
        for wire, answers in enumerate(state.answers):
            if answers:
                after = state._replace(answers=_put(state.answers, wire, answers[1:]))
                yield f"answer {answers[0]} leaves", _send(after, wire, answers[0])
        for number, switch in enumerate(state.switches):
            yield from self._switch_steps(state, number, switch)
        yield from self._faults(state)

    def _own_steps(self, state: State, number: int, m: Member) -> Iterator[tuple[str, State]]:
        n = len(self.places)
        if not m.joined:
            every = (1 << self.planes) - 1
            asks = 0 if "unasked" in self.planted else every
            joined = m._replace(joined=True, fresh=every, told=0, flush=False, asks=asks)
            yield f"member {number} joins", _with(state, number, joined)
            return
        if m.flush:
            yield f"member {number} is flushed", _with(state, number, m._replace(flush=False))
            return
        others = ((1 << n) - 1) & ~(1 << number)
        every = (1 << self.planes) - 1
        if m.asks:
            for plane in range(self.planes):
                if m.fresh >> plane & 1:
                    notice = Notice(number, m.epoch, True)
                    said = m._replace(fresh=m.fresh & ~(1 << plane))
                    yield f"member {number} sends {notice}", _send(
                        _with(state, number, said), self._up[plane][number], notice)
            return
        all_heard = m.told == every and all(heard == others for heard in m.heard)
        for plane in range(self.planes):
            bit = 1 << plane
            wire = self._up[plane][number]
            if not m.told & bit:
                notice = Notice(number, m.epoch, bool(m.fresh & bit))
                told = m._replace(told=m.told | bit, fresh=m.fresh & ~bit)
                yield f"member {number} sends {notice}", _send(
                    _with(state, number, told), wire, notice)
            elif all_heard and not m.settled & bit and (
                plane == 0 or "settled by one" not in self.planted
            ):
                notice = Notice(number, m.epoch, False, True)
                told = m._replace(settled=m.settled | bit)
                told = self._readied(number, told)
                yield f"member {number} sends {notice}", _send(
                    _with(state, number, told), wire, notice)
            if m.ready and not m.sent & bit:
                again = m.before >= m.epoch
                data = Data("operand", m.epoch, (Operand(number, m.epoch, again=again),))
                sent = m._replace(sent=m.sent | bit)
                yield f"member {number} sends {data}", _send(
                    _with(state, number, sent), wire, data)
            if len(m.store[plane]) == n:
                self._take(number, m, plane, m.store[plane])
                data = Data("result", m.epoch, m.store[plane])
                gone = m._replace(store=_put(m.store, plane, ()), done=m.done | bit)
                yield f"home sends {data}", _send(_with(state, number, gone), wire, data)

    def _readied(self, number: int, m: Member) -> Member:
        """Whether it may send, after something has changed."""
        if m.ready or m.flush or not m.joined:
            return m
        others = ((1 << len(self.places)) - 1) & ~(1 << number)
        every = (1 << self.planes) - 1
        ready = m.told == every and all(heard == others for heard in m.heard)
        if "one phase" not in self.planted:
            ready = ready and m.others == others
        return m._replace(ready=True) if ready else m

    def _faults(self, state: State) -> Iterator[tuple[str, State]]:
        for number, m in enumerate(state.members):
            if state.aborts and m.joined and not m.flush:
                less = state._replace(aborts=state.aborts - 1)
                yield f"member {number} aborts", _with(less, number, self._begin(m, m.epoch + 1))
            if state.resets and m.joined:
                less = state._replace(resets=state.resets - 1)
                before = max(m.before, m.epoch) if m.ready else m.before
                new = self._new()._replace(before=before)
                yield f"member {number} is reset", _lose(_with(less, number, new), number)

    # ---- Endpoints.

    def _begin(self, m: Member, epoch: int, heard: tuple[int, ...] | None = None, others: int = 0
               ) -> Member:
        """Give everything up and come to an epoch."""
        return Member(
            epoch=epoch, joined=True, flush=True, fresh=m.fresh, asks=m.asks,
            heard=heard or (0,) * self.planes, others=others,
            store=((),) * self.planes, before=m.before,
        )

    def _hear(self, number: int, m: Member, plane: int, notice: Notice) -> Member:
        """An endpoint after a notice."""
        if not m.joined:
            return m
        source, epoch, fresh, settled = notice
        bit = 1 << source
        if m.asks:
            asks = m.asks
            if source == number and not m.fresh >> plane & 1:
                asks &= ~(1 << plane)
            return m._replace(epoch=max(epoch, m.epoch), asks=asks)
        if source == number:
            return self._begin(m, epoch) if epoch > m.epoch else m
        if fresh and m.heard[plane] & bit:
            return self._begin(m, max(m.epoch, epoch) + 1)
        if epoch > m.epoch:
            heard = _put((0,) * self.planes, plane, bit)
            return self._begin(m, epoch, heard, bit if settled else 0)
        if epoch == m.epoch:
            m = m._replace(
                heard=_put(m.heard, plane, m.heard[plane] | bit),
                others=m.others | (bit if settled else 0),
            )
            if fresh:
                m = m._replace(told=0)
        return m

    def _receive(self, number: int, m: Member, plane: int, data: Data) -> Member:
        """An endpoint after a packet of data."""
        others = ((1 << len(self.places)) - 1) & ~(1 << number)
        is_open = m.heard[plane] == others or "never closed" in self.planted
        if not m.joined or m.flush or not is_open:
            return m
        if (data.epoch ^ m.epoch) & self._low:
            return m
        bit = 1 << plane
        if data.kind == "partial":
            if m.done & bit:
                return m
            both = self._add(m.store[plane], data.operands)
            return m._replace(store=_put(m.store, plane, both))
        if not m.sent & bit or m.done & bit:
            return m  # nobody waits for it
        self._take(number, m, plane, data.operands)
        return m._replace(done=m.done | bit)

    def _add(self, first: tuple[Operand, ...], second: tuple[Operand, ...]) -> tuple:
        """A sum. Operands of another all-reduce must not meet."""
        both = tuple(sorted(first + second))
        if len({each.epoch for each in both}) > 1:
            raise Violation(f"operands of different epochs meet: {both}")
        if len({each.member for each in both}) < len(both):
            raise Violation(f"operands of one member meet: {both}")
        if len(both) > 1 and any(each.again for each in both):
            raise Violation(f"an operand of a member that was ready before its reset: {both}")
        return both

    def _take(self, number: int, m: Member, plane: int, operands: tuple[Operand, ...]) -> None:
        """A result must be that of the all-reduce that is under way."""
        if any(each.epoch != m.epoch for each in operands):
            raise Violation(f"member {number} takes a result of another epoch")
        if len(operands) < len(self.places):
            raise Violation(f"member {number} takes a sum that is not complete")
        if any(each.member == number and (each.lost or each.again) for each in operands):
            raise Violation(f"member {number} takes a result of before its reset")

    # ---- Packets on wires.

    def _arrivals(
        self, state: State, wire: int, packets: tuple[Notice | Data, ...]
    ) -> Iterator[tuple[str, State]]:
        kind, number, where = self._ends[wire]
        first = next((k for k, each in enumerate(packets) if isinstance(each, Data)), None)
        if first is not None:
            data = packets[first]
            rest = packets[:first] + packets[first + 1 :]
            after = state._replace(wires=_put(state.wires, wire, rest))
            if kind == "member":
                m = self._receive(number, state.members[number], where, data)
                yield f"member {number} gets {data}", _with(after, number, m)
            else:
                switch = self._accept(state.switches[number], number, where, data)
                yield f"switch {number} gets {data}", _with_switch(after, number, switch)
        if isinstance(packets[0], Notice):
            notice = packets[0]
            after = state._replace(wires=_put(state.wires, wire, packets[1:]))
            if kind == "member":
                m = self._hear(number, state.members[number], where, notice)
                m = self._readied(number, m)
                yield f"member {number} hears {notice}", _with(after, number, m)
            else:
                yield f"switch {number} hears {notice}", self._track(
                    after, number, where, notice)

    # ---- Switches.

    def _accept(self, switch: Switch, number: int, port: int, data: Data) -> Switch:
        """A switch after a packet of data: dropped, or held for each of its targets."""
        if "no tracker" not in self.planted:
            if switch.purging or not switch.current >> port & 1:
                return switch
        ports = self._ports[number]
        if data.kind == "result":
            targets = [k for k in range(len(ports)) if k != port]
        else:
            targets = [self._way_home(number, data.kind == "operand")]
        held = switch.held + tuple((target, data) for target in targets)
        return switch._replace(held=tuple(sorted(held)))

    def _way_home(self, number: int, to_table: bool) -> int:
        ports = self._ports[number]
        if number % self._count == self.places[HOME]:
            if to_table:
                return TABLE
            return next(k for k, each in enumerate(ports) if each.member == HOME)
        return len(ports) - 1

    def _switch_steps(self, state: State, number: int, s: Switch) -> Iterator[tuple[str, State]]:
        if s.purging:
            held = s.held if "tables alone" in self.planted else ()
            kept = s.entries if "buffers alone" in self.planted else ()
            waiting = s.waiting
            ended = s._replace(purging=False, waiting=(), held=held, entries=kept)
            after = _with_switch(state, number, ended)
            for port, notice in waiting:
                after = self._pass_on(after, number, port, notice)
            yield f"switch {number} is purged", after
        seen = set()
        for k, (target, data) in enumerate(s.held):
            if (target, data) in seen:
                continue
            seen.add((target, data))
            rest = s._replace(held=s.held[:k] + s.held[k + 1 :])
            if target == TABLE:
                yield f"switch {number} adds {data}", _with_switch(
                    state, number, self._reduce(rest, number, data))
            else:
                wire = self._ports[number][target].outgoing
                yield f"switch {number} sends {data} by {target}", _send(
                    _with_switch(state, number, rest), wire, data)
        for k, data in enumerate(s.entries):
            rest = s._replace(entries=s.entries[:k] + s.entries[k + 1 :])
            yield f"switch {number} gives up {data}", _with_switch(
                state, number, self._give_up(rest, number, data))

    def _give_up(self, s: Switch, number: int, data: Data) -> Switch:
        target = self._way_home(number, False)
        partial = data._replace(kind="partial")
        return s._replace(held=tuple(sorted((*s.held, (target, partial)))))

    def _reduce(self, s: Switch, number: int, data: Data) -> Switch:
        for k, each in enumerate(s.entries):
            if not (each.epoch ^ data.epoch) & self._low:
                both = self._add(each.operands, data.operands)
                entries = s.entries[:k] + s.entries[k + 1 :]
                s = s._replace(entries=entries)
                if len(both) < len(self.places):
                    entry = each._replace(operands=both)
                    return s._replace(entries=tuple(sorted((*entries, entry))))
                result = Data("result", data.epoch, both)
                out = tuple((port, result) for port in range(len(self._ports[number])))
                return s._replace(held=tuple(sorted(s.held + out)))
        if len(s.entries) == self.entries:
            s = self._give_up(s._replace(entries=s.entries[1:]), number, s.entries[0])
        return s._replace(entries=tuple(sorted((*s.entries, data))))

    def _pass_on(self, state: State, number: int, port: int, notice: Notice) -> State:
        for k, each in enumerate(self._ports[number]):
            if k != port:
                state = _send(state, each.outgoing, notice)
        return state

    def _track(self, state: State, number: int, port: int, notice: Notice) -> State:
        """A switch after a notice."""
        s = state.switches[number]
        if "no tracker" in self.planted:
            return self._pass_on(state, number, port, notice)
        here = self._ports[number][port]
        bit = 1 << port
        told = bool(s.told & bit)
        old = notice.epoch < s.epoch or (notice.epoch == s.epoch and told)
        if notice.fresh and here.member == notice.source and (old or "unasked" not in self.planted):
            answer = Notice(notice.source, max(notice.epoch, s.epoch + told))
            answers = (*state.answers[here.outgoing], answer)
            return state._replace(answers=_put(state.answers, here.outgoing, answers))
        if notice.epoch > s.epoch:
            kept = s.current if "stays current" in self.planted else 0
            s = s._replace(
                epoch=notice.epoch, current=bit | kept, told=bit,
                purging="no purge" not in self.planted,
            )
        elif notice.epoch == s.epoch:
            s = s._replace(current=s.current | bit, told=s.told | bit)
        if s.purging and notice.epoch == s.epoch and "hasty" not in self.planted:
            s = s._replace(waiting=(*s.waiting, (port, notice)))
            return _with_switch(state, number, s)
        return self._pass_on(_with_switch(state, number, s), number, port, notice)


def _lose(state: State, number: int) -> State:
    """A member was reset: what it has sent is of before."""
    def lost(packet):
        if isinstance(packet, Notice):
            return packet
        return packet._replace(operands=tuple(
            o._replace(lost=True) if o.member == number else o for o in packet.operands
        ))

    return state._replace(
        wires=tuple(tuple(map(lost, wire)) for wire in state.wires),
        switches=tuple(
            s._replace(
                entries=tuple(map(lost, s.entries)),
                held=tuple(sorted((target, lost(data)) for target, data in s.held)),
            )
            for s in state.switches
        ),
        members=tuple(
            m._replace(store=tuple(
                tuple(o._replace(lost=True) if o.member == number else o for o in store)
                for store in m.store
            ))
            for m in state.members
        ),
    )


def _send(state: State, wire: int, packet: Notice | Data) -> State:
    return state._replace(wires=_put(state.wires, wire, (*state.wires[wire], packet)))


def _with(state: State, number: int, member: Member) -> State:
    return state._replace(members=_put(state.members, number, member))


def _with_switch(state: State, number: int, switch: Switch) -> State:
    return state._replace(switches=_put(state.switches, number, switch))


def _put(items: tuple, index: int, value: object) -> tuple:
    return (*items[:index], value, *items[index + 1 :])
