# SPDX-License-Identifier: Apache-2.0
"""Waveforms of chosen signals from native models, under the names of the source.

The chosen signals become outputs of the model, called ``fw_trace_0`` and so on, so that only
traced signals cost anything. `Waveform` writes them as a VCD file while an instance runs,
`write_changes` writes recorded changes of several instances.
"""

from __future__ import annotations

import difflib
import fnmatch
import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import amaranth.hdl
from amaranth.hdl import Format, Signal, Value, ValueCastable
from amaranth.lib import wiring

from gen.closing import Closing

__all__ = [
    "Change", "TracedSignal", "UnknownSignalError", "Waveform", "traced_signals", "write_changes",
]

_xfrm: Any = amaranth.hdl._xfrm  # the stubs do not describe it
_PERIOD = 10  # nanoseconds of a cycle on the screen
_NEAR = 3



class UnknownSignalError(ValueError):
    """No signal of a design matches a pattern; *what* says which, and the nearest ones."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"trace: {self.what}"


Change: TypeAlias = tuple[int, int, int]
"""Cycle, index of the signal in the list of traced signals, value."""


class _Instance(Protocol):
    """Members of `gen.compile.Instance` that a waveform needs."""

    traced: tuple[TracedSignal, ...]

    def cycle(self, n: int = 1) -> None: ...

    def get(self, name: str) -> int: ...


@dataclass(frozen=True, kw_only=True)
class TracedSignal:
    """One signal that is traced.

    Members
    -------
    path:
        Names of the modules from the top's children on, and of the signal.
    port:
        The port of the model that has its value.
    width:
        In bits.
    names:
        Names of values, for an enumeration or the state of an FSM; else empty.
    """

    path: tuple[str, ...]
    port: str
    width: int
    names: Mapping[int, str] = field(default_factory=dict)

    @property
    def dotted(self) -> str:
        """The path as patterns see it, ``fsm_0.sender.count``."""
        return ".".join(self.path)


def traced_signals(
    fragment: Any, patterns: Sequence[str], ports: Mapping[str, Any]
) -> tuple[list[TracedSignal], dict[str, Signal]]:
    """The signals of an elaborated design that match one of *patterns*, and new ports for them.

    Parameters
    ----------
    fragment:
        The top, as Amaranth elaborates it.
    patterns:
        Patterns of dotted paths, with shell wildcards: ``fsm_0.*``, ``*.fsm_state``.
    ports:
        Name of each port of the top -> its signal; one that is traced needs no new port.

    Raises
    ------
    ValueError
        For a pattern that matches nothing; the message names the nearest paths.
    """
    if isinstance(patterns, str):
        raise TypeError(f"trace must be a sequence of patterns, not the text {patterns!r}")
    if not isinstance(patterns, Sequence) or not all(isinstance(each, str) for each in patterns):
        raise TypeError(f"trace must be a sequence of patterns, not {patterns!r}")
    known = dict(_all_signals(fragment))
    chosen: dict[tuple[str, ...], Signal] = {}
    for pattern in patterns:
        found = [path for path in known if fnmatch.fnmatchcase(".".join(path), pattern)]
        if not found:
            paths = [".".join(path) for path in known]
            near = difflib.get_close_matches(pattern, paths, n=_NEAR, cutoff=0)
            hint = f"; the nearest are {', '.join(map(repr, near))}" if near else ""
            raise UnknownSignalError(f"no signal matches {pattern!r}{hint}")
        chosen.update((path, known[path]) for path in found)
    port_of = {id(signal): name for name, signal in ports.items()}
    traced: list[TracedSignal] = []
    added: dict[str, Signal] = {}
    for path, signal in chosen.items():
        port = port_of.get(id(signal))
        if port is None:
            port = port_of[id(signal)] = f"fw_trace_{len(added)}"
            added[port] = signal
        traced.append(
            TracedSignal(path=path, port=port, width=len(signal), names=_value_names(signal))
        )
    return traced, added


def _all_signals(top: Any) -> Iterator[tuple[tuple[str, ...], Signal]]:
    """Every signal that has a name and a width, once, with its path.

    A member of a component has the path of that; any other signal, of the module that drives it.
    """
    modules: list[tuple[tuple[str, ...], Any]] = []
    _list_modules(top, (), modules)
    seen: set[int] = set()
    taken: set[tuple[str, ...]] = set()
    for signals_of in (_members, _driven):
        for path, fragment in modules:
            for signal in signals_of(fragment):
                if id(signal) in seen or not len(signal) or not signal.name:
                    continue
                seen.add(id(signal))
                name, number = signal.name, 0
                while (*path, name) in taken:
                    number += 1
                    name = f"{signal.name}_{number}"
                taken.add((*path, name))
                yield (*path, name), signal


def _list_modules(
    fragment: Any, path: tuple[str, ...], into: list[tuple[tuple[str, ...], Any]]
) -> None:
    into.append((path, fragment))
    for index, (inner, name, _) in enumerate(fragment.subfragments):
        _list_modules(inner, (*path, name or f"U{index}"), into)


def _members(fragment: Any) -> Iterator[Signal]:
    for origin in fragment.origins or ():
        if isinstance(origin, wiring.Component):
            for _, _, value in origin.signature.flatten(origin):
                signal = Value.cast(value) if isinstance(value, ValueCastable) else value
                if isinstance(signal, Signal):
                    yield signal


def _driven(fragment: Any) -> Iterator[Signal]:
    collector = _xfrm.LHSMaskCollector()
    for statements in fragment.statements.values():
        collector.visit_stmt(statements)
    for signal, _ in collector.masks():
        if isinstance(signal, Signal):  # and not the clock or the reset of a domain
            yield signal


def _value_names(signal: Any) -> dict[int, str]:
    if isinstance(signal._format, Format.Enum):
        variants: Any = vars(signal._format)["_variants"]
        return dict(variants)
    decoder = signal._decoder
    names = {}
    for number in range(1 << min(len(signal), 10)) if callable(decoder) else ():
        try:
            names[number] = str(decoder(number)).rsplit("/", 1)[0]
        except (KeyError, IndexError, ValueError):
            continue
    return names


class _Scope:
    """The variables of one instance in a VCD file."""

    def __init__(self, writer: Any, name: str, traced: Sequence[TracedSignal]) -> None:
        self._writer = writer
        self._variables = [
            (
                signal,
                writer.register_var(
                    ".".join((name, *signal.path[:-1])), signal.path[-1],
                    "string" if signal.names else "wire",
                    size=None if signal.names else signal.width,
                    init="" if signal.names else "x",
                ),
            )
            for signal in traced
        ]

    def change(self, time: int, place: int, value: int) -> None:
        """Write a value from *time* on; enumerations and states by name."""
        signal, variable = self._variables[place]
        shown = signal.names.get(value, str(value)) if signal.names else value
        self._writer.change(variable, time, shown)


def write_changes(
    path: Path | str,
    instances: Mapping[str, tuple[Sequence[TracedSignal], Iterable[Change]]],
    *,
    clock_hz: float,
) -> None:
    """Write recorded changes of several instances as a VCD file, each in a scope of its name.

    Changes must be in the order of their cycles; *clock_hz* gives the time of a cycle.
    """
    from vcd import VCDWriter  # imported only when a waveform is written

    with Path(path).open("w", encoding="utf-8") as file:
        writer: Any = VCDWriter(file, timescale="1 ps", comment="Foldwire", date="")
        scopes = [_Scope(writer, name, traced) for name, (traced, _) in instances.items()]
        rows = [
            zip(itertools.repeat(scope), changes)
            for scope, (_, changes) in zip(scopes, instances.values(), strict=True)
        ]
        last = 0
        for scope, (cycle, place, value) in heapq.merge(*rows, key=lambda row: row[1][0]):
            last = round(cycle * 1e12 / clock_hz)
            scope.change(last, place, value)
        writer.close(last)


class Waveform(Closing):
    """Writes the traced signals of one instance as a VCD file; use it in a ``with`` block.

    Parameters
    ----------
    instance:
        Instance of a model that was compiled with ``trace``.
    path:
        The file.

    Call its `cycle` in place of the instance's. The values after the n-th edge are at the time
    10 n ns, when the clock rises. Enumerations and states appear by name.
    """

    def __init__(self, instance: _Instance, path: Path | str) -> None:
        from vcd import VCDWriter  # imported only when a waveform is written

        self._instance = instance
        if not instance.traced:
            raise ValueError("the model has no traced signals: compile it with trace=[...]")
        self._file = Path(path).open("w", encoding="utf-8")
        self._writer = VCDWriter(self._file, timescale="1 ns", comment="Foldwire", date="")
        self._clock = self._writer.register_var("top", "clk", "wire", size=1, init=0)
        self._scope = _Scope(self._writer, "top", instance.traced)
        self._time = 0
        self._sample()

    def cycle(self, n: int = 1) -> None:
        """*n* rising edges with the inputs as set, each of them written."""
        for _ in range(n):
            self._instance.cycle()
            self._time += _PERIOD
            self._writer.change(self._clock, self._time, 1)
            self._sample()
            self._writer.change(self._clock, self._time + _PERIOD // 2, 0)

    def _sample(self) -> None:
        for place, signal in enumerate(self._instance.traced):
            self._scope.change(self._time, place, self._instance.get(signal.port))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close(self._time + _PERIOD)
        self._file.close()
