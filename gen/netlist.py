# SPDX-License-Identifier: Apache-2.0
"""Amaranth's path from a component to RTLIL, with its hot spots rewritten for wide designs.

Amaranth keeps every bit as an object and visits them one by one. An engine of 64 lanes has
millions. The classes here do the same with sets, slices and maps of whole vectors. The text is the
same to the byte: `tests/gen/test_netlist.py` compares the two. Errors in a design are noticed here
and reported by Amaranth's own code, which then runs again.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count, repeat
from typing import Any

import amaranth
import amaranth.hdl
from amaranth.lib import data

__all__ = ["FITS", "check_netlist", "convert", "lean_values"]

# The stubs do not describe these modules.
_ast: Any = amaranth.hdl._ast
_ir: Any = amaranth.hdl._ir
_nir: Any = amaranth.hdl._nir
_rtlil: Any = importlib.import_module("amaranth.back.rtlil")
_Flow = _nir.ModuleNetFlow

FITS = vars(amaranth)["__version__"] == "0.5.10"
"""True if the installed Amaranth is the version this is written for; others use their own code."""


def convert(
    component: Any,
    *,
    name: str,
    platform: object,
    ports: Mapping[str, Any],
    more_ports: Callable[[Any], Mapping[str, Any]] | None = None,
    check: Callable[[Any], None] | None = None,
) -> str:
    """Return or raise the same as ``amaranth.back.rtlil.convert(..., emit_src=False)``.

    *more_ports* is called with the elaborated fragment, may change it, and returns ports to add to
    *ports*; *check* is called with the prepared design.
    """
    with lean_values():
        fragment = elaborated(component, platform)
        if more_ports is not None:
            ports = {**ports, **more_ports(fragment)}
        design = fragment.prepare(ports=ports, hierarchy=(name,))
        if check is not None:
            check(design)
        with contextlib.suppress(_Refused):
            if FITS:
                return _write(_build(design))
    text: str = _rtlil.convert_fragment(design, emit_src=False)[0]
    return text


def elaborated(component: Any, platform: object) -> Any:
    """The fragment of *component*; one that is an instance and nothing else gets a module around
    it."""
    fragment = _ir.Fragment.get(component, platform)
    if isinstance(fragment, _ir.Instance):
        instance, fragment = fragment, _ir.Fragment()
        fragment.origins, instance.origins = instance.origins, None
        fragment.add_subfragment(instance, "macro")
    return fragment


def check_netlist(design: Any) -> None:
    """Raise Amaranth's error if a prepared design has a loop or a net with two drivers."""
    with lean_values(), contextlib.suppress(_Refused):
        if FITS:
            _connected(design)
            return
    _rtlil.convert_fragment(design, emit_src=False)


class _Refused(Exception):
    """The netlist is wrong, or may be."""


# Values and dictionaries


class _SignalDict(_ast.SignalDict):  # type: ignore[misc]
    """`SignalDict` without an object per key."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = ()) -> None:
        self._signals: dict[Any, Any] = {}
        self._values: dict[Any, Any] = {}
        for key, value in pairs:
            self[key] = value

    @staticmethod
    def _key(signal: Any) -> Any:
        return signal.duid if type(signal) is _ast.Signal else _ast.SignalKey(signal)

    def __getitem__(self, signal: Any) -> Any:
        return self._values[self._key(signal)]

    def __setitem__(self, signal: Any, value: Any) -> None:
        key = self._key(signal)
        self._signals[key] = signal
        self._values[key] = value

    def __delitem__(self, signal: Any) -> None:
        key = self._key(signal)
        del self._signals[key], self._values[key]

    def __contains__(self, signal: object) -> bool:
        return self._key(signal) in self._values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._signals.values())

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> Any:
        return zip(self._signals.values(), self._values.values(), strict=True)

    def values(self) -> Any:
        return self._values.values()


def _new_value(cls: Any, nets: Any = ()) -> Any:
    return tuple.__new__(cls, (nets,) if isinstance(nets, _nir.Net) else nets)


def _part_of_value(self: Any, index: Any) -> Any:
    part = tuple.__getitem__(self, index)
    return tuple.__new__(type(self), part) if type(index) is slice else part


def _sizes_once(layout: type) -> property:
    """The property *size* of a class of layouts, computed once for each layout."""
    compute = vars(layout)["size"].fget
    known: dict[int, tuple[Any, int]] = {}

    def size(self: Any) -> int:
        found = known.get(id(self))
        if found is None:
            found = known[id(self)] = self, compute(self)  # kept, so that the id stays taken
        return found[1]

    return property(size)


_LAYOUTS = (data.StructLayout, data.UnionLayout, data.ArrayLayout)
_patching = threading.RLock()


@contextlib.contextmanager
def lean_values() -> Iterator[None]:
    """Let values skip the check of each bit's class, and use the dictionaries and layouts above.

    Concurrent users of Amaranth see no difference.
    """
    changes: list[tuple[Any, str, Any]] = [
        (_nir.Value, "__new__", _new_value),
        (_nir.Value, "__getitem__", _part_of_value),
        (_ast, "SignalDict", _SignalDict),
        (_nir, "SignalDict", _SignalDict),
        *((layout, "size", _sizes_once(layout)) for layout in _LAYOUTS),
    ]
    if not FITS:
        yield
        return
    with _patching:
        before = [(owner, name, vars(owner)[name]) for owner, name, _ in changes]
        try:
            for owner, name, new in changes:
                setattr(owner, name, new)
            yield
        finally:
            for owner, name, old in before:
                setattr(owner, name, old)


def _nets(start: int, stop: int) -> Any:
    return tuple.__new__(_nir.Value, map(_nir.Net, range(start, stop)))


# The netlist


class _Netlist(_nir.Netlist):  # type: ignore[misc]
    last_late_net: int

    def add_value_cell(self, width: int, cell: Any) -> Any:
        if width >= 1 << 16:
            raise _Refused
        first = self.add_cell(cell) << 16
        return _nets(first, first + width)

    def alloc_late_value(self, signal: Any) -> Any:
        stop = self.last_late_net
        start = stop - len(signal)
        self.last_late_net = start
        return _nets(start, stop)

    def resolve_net(self, net: Any) -> Any:
        return self.connections.get(net, net)

    def resolve_value(self, value: Any) -> Any:
        if not value or min(value) >= 0:
            return value
        return tuple.__new__(_nir.Value, map(self.connections.get, value, value))

    def resolve_all_nets(self) -> None:
        final = self.connections
        for late, net in final.items():
            if net < 0:
                chain_of = [late]
                while net < 0:
                    chain_of.append(net)
                    net = final[net]
                    if len(chain_of) > len(final):
                        raise _Refused  # signals that are only assigned to each other
                for each in chain_of:
                    final[each] = net
        super().resolve_all_nets()

    def check_comb_cycles(self) -> None:
        """Refuse the netlist, which must be resolved, if it may have a combinational cycle."""
        suspects = self._in_loops_of_cells()
        comb_edges = {index: self.cells[index].comb_edges_to for index in suspects}
        done: set[int] = set()
        for index in suspects:
            for start in self.cells[index].output_nets(index):
                if start in done:
                    continue
                path: dict[int, None] = {}
                stack = [(start, iter(comb_edges[index](start.bit)))]
                path[start] = None
                while stack:
                    net, sources = stack[-1]
                    for source, _ in sources:
                        if source < 2 or source in done or source >> 16 not in comb_edges:
                            continue
                        if source in path:
                            raise _Refused
                        path[source] = None
                        edges = comb_edges[source >> 16](source & 0xFFFF)
                        stack.append((source, iter(edges)))
                        break
                    else:
                        stack.pop()
                        del path[net]
                        done.add(net)

    def _in_loops_of_cells(self) -> list[int]:
        """Cells that may be in a loop, taking every output to depend on every input."""
        sources: dict[int, set[int]] = {}
        for index, cell in enumerate(self.cells):
            found = {net >> 16 for net in _comb_inputs(cell)}
            found.discard(0)
            if found:
                sources[index] = found
        for _ in range(2):  # drop first what no loop leads to, then what leads to none
            users: dict[int, list[int]] = {}
            waiting = dict.fromkeys(sources, 0)
            for index, found in sources.items():
                for source in found:
                    if source in sources:
                        users.setdefault(source, []).append(index)
                        waiting[index] += 1
            ready = [index for index, number in waiting.items() if not number]
            while ready:
                index = ready.pop()
                del waiting[index]
                for user in users.get(index, ()):
                    waiting[user] -= 1
                    if not waiting[user]:
                        ready.append(user)
            turned: dict[int, set[int]] = {index: set() for index in waiting}
            for index in waiting:
                for source in sources[index]:
                    if source in turned:
                        turned[source].add(index)
            sources = turned
        return sorted(sources)


_SEQUENTIAL = (_nir.Top, _nir.SyncReadPort, _nir.Instance, _nir.Memory)


def _comb_inputs(cell: Any) -> Any:
    if isinstance(cell, _nir.FlipFlop):
        return {cell.clk, cell.arst}
    return () if isinstance(cell, _SEQUENTIAL) else cell.input_nets()


class _Emitter(_ir.NetlistEmitter):  # type: ignore[misc]
    def emit_signal(self, signal: Any) -> Any:
        signals = self.netlist.signals
        if signal in signals:
            return signals[signal]
        value = signals[signal] = self.netlist.alloc_late_value(signal)
        return value

    def connect(self, lhs: Any, rhs: Any, *, src_loc: Any) -> None:
        connections = self.netlist.connections
        wanted = len(connections) + len(lhs)
        connections.update(zip(lhs, rhs, strict=True))
        if len(connections) != wanted:
            raise _Refused  # several drivers

    def extend(self, value: Any, signed: bool, width: int) -> Any:
        missing = width - len(value)
        if missing <= 0:
            return value if type(value) is _nir.Value else _nir.Value(value)
        return _nir.Value(chain(value, repeat(value[-1] if signed else _nir.Net(0), missing)))


def _build(design: Any) -> Any:
    netlist = _connected(design)
    _find_ports(netlist)
    _ir._compute_ionet_dirs(netlist)
    _ir._compute_io_ports(netlist, design.ports)
    return netlist


def _connected(design: Any) -> Any:
    """The netlist of a design, checked for loops; modules have no ports yet."""
    netlist = _Netlist()
    try:
        _Emitter(netlist, design).emit_fragment(design.fragment, None)
    except _ir.DriverConflict:
        raise _Refused from None
    netlist.resolve_all_nets()
    netlist.check_comb_cycles()
    return netlist


def _find_ports(netlist: Any) -> None:
    """Give every module its ports: what it needs from outside and what others need from it."""
    modules = netlist.modules
    defined: list[set[Any]] = [set() for _ in modules]
    for index, cell in enumerate(netlist.cells):
        defined[cell.module_idx] |= cell.output_nets(index)
    used: list[set[Any]] = [set() for _ in modules]
    for cell in netlist.cells:
        used[cell.module_idx] |= cell.input_nets()
    for module, nets in zip(modules, used, strict=True):
        for signal in module.signal_names:
            nets.update(netlist.signals[signal])
        nets -= {0, 1}
    # From the leaves up: modules are numbered in the order in which they are met from the top.
    inside = [set(nets) for nets in defined]
    inputs = [set(nets) for nets in used]
    for index in reversed(range(len(modules))):
        inputs[index] -= inside[index]
        parent = modules[index].parent
        if parent is not None:
            inside[parent] |= inside[index]
            inputs[parent] |= inputs[index]
    outputs: list[set[Any]] = [set() for _ in modules]
    for index, module in enumerate(modules):
        if module.submodules:
            wanted = outputs[index] | used[index]
            wanted = wanted.union(*(inputs[child] for child in module.submodules))
            for child in module.submodules:
                outputs[child] = inside[child] & wanted
    starts = _port_starts(netlist)
    for index, module in enumerate(modules):
        if index:
            _name_ports(netlist, module, inputs[index], outputs[index], starts)
    top = netlist.top
    for name, (start, width) in top.ports_i.items():
        modules[0].ports[name] = _nets(start, start + width), _Flow.Input
    for name, value in top.ports_o.items():
        modules[0].ports[name] = value, _Flow.Output


def _port_starts(netlist: Any) -> set[int]:
    """Nets at which a port begins although the net before is one of the same cell."""
    starts = {start for start, _ in netlist.top.ports_i.values()}
    for index, cell in enumerate(netlist.cells):
        if isinstance(cell, _nir.Instance):
            starts.update((index << 16) | start for start, _ in cell.ports_o.values())
    return starts


def _name_ports(
    netlist: Any, module: Any, inputs: set[Any], outputs: set[Any], starts: set[int]
) -> None:
    named: dict[Any, str] = {}
    for signal, name in module.signal_names.items():
        if not name.startswith("$"):
            named.setdefault(netlist.signals[signal], name)
    runs: list[list[Any]] = []
    last = -2
    for net in sorted(inputs | outputs):
        # The next number is a net of the same cell, as each has less than 1 << 16 of them; so both
        # are inputs or both outputs.
        if net == last + 1 and net not in starts:
            runs[-1].append(net)
        else:
            runs.append([net])
        last = net
    for nets in runs:
        value = _nir.Value(nets)
        name = named.get(value) or f"port${nets[0].cell}${nets[0].bit}"
        module.ports[name] = value, _Flow.Input if nets[0] in inputs else _Flow.Output


# The text


class _ModuleEmitter(_rtlil.ModuleEmitter):  # type: ignore[misc]
    nets: dict[Any, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wires: list[Any] = []
        self._place: dict[Any, int] = {}
        self._known: dict[Any, str] = {}

    def emit_driven_wire(self, value: Any) -> Any:
        name = self.value_names.get(value)
        if name is None:
            wire = self.builder.wire(len(value), attrs=self.value_attrs.get(value, {}))
        else:
            wire, _ = self.sigport_wires[name]
            self.driven_sigports.add(name)
        self.nets.update(zip(value, zip(repeat(wire), count()), strict=False))
        return wire

    def emit_connects(self) -> None:
        numbers: dict[int, int] = {}
        for wire, _ in self.nets.values():
            if id(wire) not in numbers:
                numbers[id(wire)] = len(self._wires) << 20
                self._wires.append(wire)
        self._place = {net: numbers[id(wire)] + bit for net, (wire, bit) in self.nets.items()}
        super().emit_connects()

    def sigspec(self, *parts: Any) -> str:
        value = parts[0] if len(parts) == 1 and type(parts[0]) is _nir.Value else None
        if value is None:
            value = tuple(chain(*((p,) if isinstance(p, _nir.Net) else p for p in parts)))
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._sigspec(value)
        return known

    def _sigspec(self, value: Any) -> str:
        if value and min(value) > 1:
            places = list(map(self._place.__getitem__, value))
            if places == list(range(places[0], places[0] + len(places))):
                return self._chunk(places[0], len(places))
        chunks: list[str] = []
        bits: list[str] = []
        first, width = -1, 0
        for net in value:
            if net < 2:
                if width:
                    chunks.append(self._chunk(first, width))
                    width = 0
                bits.append("1" if net else "0")
                continue
            if bits:
                chunks.append(f"{len(bits)}'{''.join(reversed(bits))}")
                bits = []
            place = self._place[net]
            if width and place == first + width:
                width += 1
                continue
            if width:
                chunks.append(self._chunk(first, width))
            first, width = place, 1
        if width:
            chunks.append(self._chunk(first, width))
        if bits:
            chunks.append(f"{len(bits)}'{''.join(reversed(bits))}")
        return chunks[0] if len(chunks) == 1 else "{ " + " ".join(reversed(chunks)) + " }"

    def _chunk(self, place: int, width: int) -> str:
        name, start = self._wires[place >> 20].name, place & 0xFFFFF
        if width == 1:
            return f"{name} [{start}]"
        return f"{name} [{start + width - 1}:{start}]"

    def shorten_operand(self, value: Any, *, signed: bool) -> Any:
        width = len(value)
        if signed:
            while width > 1 and value[width - 1] == value[width - 2]:
                width -= 1
        else:
            while width and value[width - 1] == 0:
                width -= 1
        return value if width == len(value) else value[:width]


def _write(netlist: Any) -> str:
    empty = _rtlil.EmptyModuleChecker(netlist)
    builder = _rtlil.Design(emit_src=False)
    names = _ast.SignalDict()
    for index, module in enumerate(netlist.modules):
        if empty.is_empty(index):
            continue
        made = builder.module(".".join(module.name), src_loc=module.src_loc)
        if index == 0:
            made.attribute("top", 1)
        _ModuleEmitter(made, netlist, module, names, empty_checker=empty).emit()
    return str(builder)
