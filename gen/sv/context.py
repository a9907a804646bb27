# SPDX-License-Identifier: Apache-2.0
"""State of one module while it is written: its names, declarations and expressions."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gen.rtlil import CLOCK, RESET, RESET_LOW
from gen.sv import ir, source
from gen.sv.blocks import pruned, reading, untangled
from gen.sv.expressions import Printer
from gen.sv.lists import Array, ListPlan, common, made_together, numbered, of_members
from gen.sv.names import Names, escaped, identifier, snake
from gen.sv.scope import Scope, assigned
from gen.sv.statements import Statements, static_targets, zero
from gen.sv.tree import (
    MOST_ZEROS,
    Assignment,
    Code,
    Line,
    ModuleText,
    Part,
    Ref,
    index,
    vector,
)
from gen.sv.types import ParityRow, Types

__all__ = ["Call", "Context", "Written", "roots"]

_BITS = 2  # of a signal from which on its type may be an enumeration
_MANY = 3  # elements from which on a field of them gets an array of its own


@dataclass(frozen=True)
class Call:
    """The start of an instance: name of the module, and values of its parameters."""

    name: str
    values: Mapping[str, int]


@dataclass(frozen=True)
class EnumType:
    """A type of named values: its name and width, and the label of each value."""

    name: str
    width: int
    labels: Mapping[int, str]


@dataclass
class Written:
    """A module as a tree, and what its parent needs to know.

    Attributes
    ----------
    text:
        Its comments, ports and statements.
    ports:
        Name and signals of each; one of several signals is an array.
    registers:
        Register -> its name, and its first bit if it is part of an array.
    names:
        Names of the signals that are declared in it.
    """

    text: ModuleText
    ports: list[tuple[str, tuple[ir.Var, ...]]]
    clocked: tuple[str, ...]
    registers: dict[ir.Var, tuple[str, int | None]] = field(default_factory=dict)
    instances: dict[ir.Module, str] = field(default_factory=dict)
    arrays: dict[ir.Memory, str] = field(default_factory=dict)
    clocked_bits: dict[ir.Var, int] = field(default_factory=dict)
    boxes: dict[ir.Box, str] = field(default_factory=dict)
    names: dict[ir.Var, str] = field(default_factory=dict)


def assigns(stmts: Iterable[ir.Stmt]) -> Iterator[ir.Assign]:
    """The assignments in *stmts*, at any depth."""
    for stmt in stmts:
        if isinstance(stmt, ir.Assign):
            yield stmt
        else:
            for case in stmt.cases:
                yield from assigns(case.body)


def roots(stmt: ir.Stmt) -> Iterator[ir.Expr]:
    """The expressions that *stmt* evaluates."""
    if isinstance(stmt, ir.Assign):
        yield stmt.rhs
        yield from _indices(stmt.lhs)
        return
    # Each condition of a chain is an expression of its own.
    yield from stmt.test.parts if isinstance(stmt.test, ir.Cat) else (stmt.test,)
    for case in stmt.cases:
        for inner in case.body:
            yield from roots(inner)


def _sliced(stmt: ir.Stmt) -> Iterator[ir.Var]:
    """Variables of which *stmt* reads or writes a part."""
    return (var for var, _, _ in _slices(stmt))


def _slices(stmt: ir.Stmt) -> Iterator[tuple[ir.Var, int, int]]:
    """Parts of variables that *stmt* reads or writes: first bit and width."""

    def visit(expr: ir.Expr) -> Iterator[tuple[ir.Var, int, int]]:
        if isinstance(expr, ir.Slice) and isinstance(expr.value, ir.Var):
            yield expr.value, expr.lo, expr.width
        elif isinstance(expr, ir.PartSelect) and isinstance(expr.value, ir.Var):
            yield expr.value, 0, expr.value.width
        for inner in ir.operands(expr):
            yield from visit(inner)

    if isinstance(stmt, ir.Assign):
        yield from visit(stmt.lhs)
        yield from visit(stmt.rhs)
        return
    yield from visit(stmt.test)
    for case in stmt.cases:
        for inner in case.body:
            yield from _slices(inner)


def _leaves(name: str, lo: int, fields: Iterable[ir.MemberField]) -> Iterator[ir.MemberField]:
    """Fields without subfields, at positions from the start of the whole."""
    for each in fields:
        path = f"{name}_{each.name}" if name else each.name
        if each.fields:
            yield from _leaves(path, lo + each.lo, each.fields)
        else:
            yield ir.MemberField(path, lo + each.lo, each.width)


def _field_at(fields: Iterable[ir.MemberField], lo: int, width: int) -> ir.MemberField | None:
    """The field that contains the bits; None if there is none."""
    for each in fields:
        if each.lo <= lo and lo + width <= each.lo + each.width:
            return each
    return None


def _uneven(given: Mapping[tuple[str, int], Call]) -> set[str]:
    """Lists in which a parameter neither is constant nor grows by a constant step."""
    values: dict[str, dict[int, tuple[int, ...]]] = defaultdict(dict)
    for (stem, number), call in given.items():
        values[stem][number] = tuple(call.values.values())
    found = set()
    for stem, members in values.items():
        columns = zip(*(members[number] for number in sorted(members)), strict=True)
        if any(len({b - a for a, b in pairwise(column)}) > 1 for column in columns):
            found.add(stem)
    return found


def _indices(lhs: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(lhs, ir.PartSelect):
        yield lhs.offset
    for inner in ir.operands(lhs):
        if not isinstance(lhs, ir.PartSelect) or inner is not lhs.offset:
            yield from _indices(inner)


class Context:
    """One module, with its statements as they will be written.

    Attributes
    ----------
    comb, sync:
        The statements that are left to write.
    names:
        Names of the signals; those in `hidden` have no declaration.
    mixed:
        Signals with both register bits and others -> the name of their register.
    wires, enums:
        Declarations that the expressions written so far need; `labels` are names of the latter,
        `used_labels` those that stand in the text, `typed` the types that signals have.
    reset_low:
        True if the reset is an active-low port.
    beside:
        Arrays made for the connections of lists, by type.
    joined:
        Arrays made for ports of the top, each with True if they are outputs.
    assembled:
        Structures that loops make of the fields of an element.
    plan:
        Findings of earlier attempts at this module.
    element:
        Signal -> the array that it is an element of, and its number there.
    listed:
        Submodules and boxes of a list -> name of the list, and number in it.
    """

    def __init__(
        self,
        module: ir.Module,
        scope: Scope,
        types: Types,
        children: Mapping[ir.Module, tuple[Call, Written]],
        reset_low: bool,
        plan: ListPlan,
    ) -> None:
        self.plan = plan
        self.element: dict[ir.Var, tuple[Array, int]] = {}
        self._by_field: dict[Array, bool] = {}
        self.lists: dict[str, tuple[int, ...]] = {}
        self.listed: dict[str, tuple[str, int]] = {}
        self.module, self.scope, self.types, self.children = module, scope, types, children
        self.doc = source.doc_of(module.origin) if module.origin is not None else None
        self.top = module is scope.top
        # A signal must not have the name of the module that it is in.
        name = scope.top.path[0]
        kind = snake(type(module.origin).__name__) if module.origin is not None else ""
        self.taken = Names(CLOCK, RESET, RESET_LOW, name, f"{name}_{kind}")
        self.names: dict[ir.Var, Ref] = {}
        self.comb, self.sync = scope.statements(module)
        self.memories = scope.memories(module)
        self.ports = scope.ports[module]
        self.local = scope.local[module]
        self.enums: dict[object, EnumType] = {}
        self.labels = Names()
        self.used_labels: set[str] = set()
        self.typed: set[str] = set()
        self.printer = Printer(
            self.name, self.fields, self.enum_constant, self.wire, self.lists, self.function
        )
        self.mixed: dict[ir.Var, str] = {}
        self.statements = Statements(self.printer, self.mixed, self.lists, self.taken.has)
        self.wires: list[Line] = []
        self.beside: dict[Code, list[str]] = {}
        self.joined: list[tuple[Array, bool]] = []
        self.assembled: set[Part] = set()
        self.hidden: set[ir.Var] = set()
        self.instances: dict[ir.Module, str] = {}
        self.boxes: dict[ir.Box, str] = {}
        self.arrays: dict[ir.Memory, str] = {}
        self.clocked = self._clocks()
        self.reset_low = reset_low and RESET in self.clocked
        parameters = (
            inspect.signature(type(module.origin).__init__).parameters if module.origin else {}
        )
        self.generic = "shape" in parameters
        self.counted: set[ir.Var] = set()
        self.accessed = self._accessed()
        self.comb, self.sync = (
            pruned(static_targets(stmts, self.printer), lambda var, *_: var in scope.live)
            for stmts in (self.comb, self.sync)
        )
        self.comb, parts = untangled(self.comb)
        self.local = [*self.local, *parts]

    def name(self, var: ir.Var) -> Ref:
        """The name of *var* in this module."""
        if var not in self.names:
            stem = var.name or source.function_of(var.loc) or "signal"
            self._call(var, self.taken.new(stem, var.longer))
        return self.names[var]

    def _call(self, var: ir.Var, name: str) -> None:
        self.names[var] = Ref(name)
        if var.width > 1 and not var.fields:
            self.lists[name] = (var.width,)

    def fields(self, var: ir.Var) -> tuple[ir.MemberField, ...]:
        """The structure that *var* is declared with; empty for a vector."""
        if self.top and var in self.scope.top_ports:
            return ()
        if var in self.element:
            return var.fields if self.by_field(self.element[var][0]) else ()
        if var not in self.accessed and (self.generic or var in self.counted):
            return ()
        return var.fields

    def enum_constant(self, enum: ir.Enum, value: int, width: int) -> str | None:
        """The label that stands for *value*; its type is declared on first use."""
        if value not in enum.members:
            return None
        label = self._type_of(enum, width).labels[value]
        self.used_labels.add(label)
        return label

    def _type_of(self, enum: ir.Enum, width: int) -> EnumType:
        members = {n: name for n, name in sorted(enum.members.items()) if 0 <= n < 1 << width}
        key = enum.name, width, tuple(members.items())
        if key not in self.enums:
            words = [snake(enum.name.rsplit(".", 1)[-1])] if enum.name else []
            labels = {}
            for number, member in members.items():
                base = identifier("_".join([*words, member])).upper()
                labels[number] = self.labels.new(base)
            self.enums[key] = EnumType(
                self.taken.new(f"{words[0] if words else 'state'}_e"), width, labels
            )
        return self.enums[key]

    def _has_labels_only(self, var: ir.Var) -> bool:
        """Return True if *var* has an enumeration and is only ever given labels of it."""
        enum = var.enum
        if (
            enum is None or var in self.element or var in self.mixed or var in self.accessed
            or var in self.ports or var in self.scope.top_ports or var.signed or var.width < _BITS
            or any(var in self.scope.ports[child] for child in self.children)
        ):
            return False

        def labels(value: ir.Expr) -> bool:
            if value in self.printer.shared:
                return False
            if isinstance(value, ir.Choice) and value.ternary:
                return all(map(labels, value.ternary))
            if isinstance(value, ir.Cast) and not value.value.signed:
                return value.width >= value.value.width and labels(value.value)
            return isinstance(value, ir.Const) and value.value in enum.members

        given = [stmt for stmt in assigns((*self.comb, *self.sync)) if var in stmt.writes]
        return bool(given) and var.init in enum.members and all(
            stmt.lhs is var and labels(stmt.rhs) for stmt in given
        )

    def wire(self, text: Part, width: int, expr: ir.Expr) -> Ref:
        """Declare a wire for *text*, named after *expr*; returns the name."""
        name = source.name_of(expr.loc)
        if name is None:
            name = next((var.name for var in ir.variables(expr) if var.name), "value")
        wire = self.taken.new(name)
        kind = Code("wire", *vector(width).parts[1:])
        self.wires.append(Line(Code(kind, " ", wire, " = ", text, ";"), source.where(expr.loc)))
        return Ref(wire)

    def function(self, expr: ir.Expr, sizes: Sequence[int], rows: Sequence[ParityRow]) -> str:
        """The function, shared by all modules, of which each bit is a parity of bits of words."""
        name = (source.function_of(expr.loc) or "parities").removesuffix("_of")
        return self.types.parities(name, sizes, rows)

    def array(self, memory: ir.Memory) -> str:
        if memory not in self.arrays:
            self.arrays[memory] = self.taken.new(memory.name)
        return self.arrays[memory]

    def row(self, memory: ir.Memory, addr: ir.Expr) -> Ref:
        """The row of *memory* at *addr*."""
        return Ref(self.array(memory), index(self.printer.full(addr)))

    def by_field(self, array: Array) -> bool:
        """Return True if fields of elements of *array* are read or written."""
        if array not in self._by_field:
            self._by_field[array] = any(
                var in self.accessed and var.fields for var in array.elements
            )
        return self._by_field[array]

    def declared(self, var: ir.Var) -> Code:
        if var in self.element:
            return self.element[var][0].declared()
        fields = self.fields(var)
        if not fields and var.enum is not None and self._has_labels_only(var):
            name = self._type_of(var.enum, var.width).name
            self.typed.add(name)
            return Code(name)
        return Code(self.types.name(fields)) if fields else vector(var.width)

    def initial(self, var: ir.Var) -> Part:
        if var.enum and var.enum.members and not self.fields(var):
            named = self.enum_constant(var.enum, var.init & ((1 << var.width) - 1), var.width)
            if named:
                return Ref(named)
        return zero(var, bool(self.fields(var)))

    @property
    def order(self) -> list[ir.Var]:
        return self.scope.order(self.module)

    def port_name(self, var: ir.Var) -> str:
        """The name of a port of the top, which is a plain vector even if it belongs to a list."""
        return escaped(self.scope.top_ports[var])

    def port_list(self) -> list[tuple[str, tuple[ir.Var, ...]]]:
        """The ports in their order; those of a list are one port."""
        if self.top:
            return [(self.port_name(var), (var,)) for var in self.order]
        found: list[tuple[str, tuple[ir.Var, ...]]] = []
        for var in self.order:
            array, number = self.element.get(var, (None, 0))
            if array is None:
                found.append((self.names[var].name, (var,)))
            elif number == 0:
                found.append((array.name, array.elements))
        return found

    def registers(self) -> list[tuple[ir.Var, Ref]]:
        """The registers with their names, those of clocked memory reads among them."""
        found = dict.fromkeys(var for stmt in self.sync for var in stmt.writes)
        for memory in self.memories:
            for port in memory.reads:
                if port.clocked:
                    found.update(dict.fromkeys(ir.variables(port.data)))
        return [(var, self.register(var)) for var in found]

    def register(self, var: ir.Var) -> Ref:
        """The name of *var* as a register."""
        return Ref(self.mixed[var]) if var in self.mixed else self.names[var]

    def starts(self, found: Iterable[tuple[ir.Var, Ref]], arrow: str) -> list[Line]:
        """Statements that initialise registers; a list that starts with zeros is one statement."""
        wanted = dict(found)
        made = []
        done: set[ir.Var] = set()
        for var, name in wanted.items():
            if var in done:
                continue
            array = self.element[var][0] if var in self.element else None
            both = [each for each in array.elements if each in wanted] if array else [var]
            done.update(both)
            whole = sum(each.width for each in both) <= MOST_ZEROS
            if (
                array and whole and len(both) == len(array.elements)
                and not any(v.init for v in both)
            ):
                made.append(Line(Assignment("", Ref(array.name), arrow, "'0")))
            else:
                made += [
                    Line(Assignment("", wanted[each] if array else name, arrow, self.initial(each)))
                    for each in both
                ]
        return made

    def is_output(self, var: ir.Var) -> bool:
        if self.top:
            return next(out for _, own, out in self.module.members if own is var)
        return self.ports[var]

    def name_all(self) -> None:
        for var, name in ((self.module.clk, CLOCK), (self.module.rst, RESET)):
            if var is not None:
                self.names[var] = Ref(name)
        for named in self.names.values():
            self.taken.new(named.name)
        if self.top:
            for name in self.scope.top_ports.values():
                if not self.taken.has(name):
                    self.taken.new(name)
        self._name_lists()
        if self.top:
            for var in self.scope.top_ports:
                if var not in self.names:
                    self.names[var] = Ref(self.port_name(var))
        for path, var, _ in self.module.members:
            if var in self.ports and var not in self.names:
                self._call(var, self.taken.new("_".join(map(str, path))))
        for child in self.children:
            for path, var, _ in child.members:
                if var not in self.names and (var in self.ports or var in self.local):
                    self._call(var, self.taken.new("_".join([child.name, *map(str, path)])))
        for box in self.module.boxes:
            for pin, value in (*box.inputs, *box.outputs):
                if isinstance(value, ir.Var) and value not in self.names and value in self.local:
                    self._call(value, self.taken.new(f"{box.name}_{pin}"))
        for memory in self.memories:
            for number, port in enumerate(memory.reads):
                behind = "" if len(memory.reads) == 1 else f"_{number}"
                self._name_port(memory, {"data": port.data, "addr": port.addr,
                                         "en": port.enable}, f"read{behind}")
            for number, write in enumerate(memory.writes):
                behind = "" if len(memory.writes) == 1 else f"_{number}"
                self._name_port(memory, {"data": write.data, "addr": write.addr,
                                         "en": write.enable}, f"write{behind}")

    def _name_lists(self) -> None:
        """Find the arrays, and name their elements."""
        clocked = assigned(self.sync)
        comb = assigned(self.comb)
        own: set[ir.Var] = set() if self.top else set(self.ports)
        by_field: set[ir.Var] = set()

        def allowed(var: ir.Var) -> bool:
            return not (
                var in self.names or var in self.plan.loose or var in by_field
                or (var in clocked and var in comb)
            )

        calls = {child.name: call for child, (call, _) in self.children.items()}
        names: dict[str, object] = {name: call.name for name, call in calls.items()}
        names |= {box.name: (box.module, box.parameters) for box in self.module.boxes}
        found = numbered(names)
        alike = numbered(dict.fromkeys(calls))  # what they connect to may be a list all the same
        uneven = _uneven({at: calls[name] for name, at in found.items() if name in calls})
        self.listed = {
            name: at for name, at in found.items() if at[0] not in self.plan.apart | uneven
        }

        def below() -> Iterator[tuple[tuple[str, ...], tuple[int, ...], tuple[str | int, ...],
                                      ir.Var]]:
            for child in self.children:
                stem, *number = alike.get(child.name, (child.name,))
                for path, var, _ in child.members:
                    if var in here and var not in self.element:
                        yield (str(stem),), tuple(map(int, number)), path, var

        if self.top and not self.plan.flat:
            self._name_top_lists(allowed, clocked)
        here = set(self.local)
        self._name_fields(of_members(below(), lambda var: var not in clocked), clocked)
        by_field = {var for stmt in self.sync for var in _sliced(stmt) if var.fields}
        members: list[tuple[tuple[str, ...], tuple[int, ...], tuple[str | int, ...], ir.Var]] = [
            ((), (), path, var) for path, var, _ in self.module.members if var in own
        ]
        self._add_lists(of_members(members, allowed), clocked)
        self._add_lists(of_members(below(), allowed), clocked)
        private = [
            var for var in self.local
            if var not in self.element and var not in self.names
            and not any(var in self.scope.ports[child] for child in self.children)
        ]
        called = {"_".join(map(str, path)) for path, _, _ in self.module.members}
        called.update(var.name for var in self.local)
        self._add_lists(made_together(private, allowed, called), clocked)

    def _name_top_lists(
        self, allowed: Callable[[ir.Var], bool], clocked: Mapping[ir.Var, int]
    ) -> None:
        """Make arrays for ports of the top that are a list; `join_lines` connects the two."""
        for out in (False, True):
            members: list[tuple[tuple[str, ...], tuple[int, ...], tuple[str | int, ...], ir.Var]]
            members = [
                ((), (), path, var) for path, var, flow in self.module.members
                if flow == out and var in self.scope.top_ports
            ]
            for name, dims, elements in of_members(members, allowed):
                ports = [self.scope.top_ports[var] for var in elements]
                if len(elements) >= _MANY:
                    known = set(self.element)
                    self._add_lists([(common(ports) or name, dims, elements)], clocked)
                    if self.element.keys() - known:
                        self.joined.append((self.element[elements[0]][0], out))

    def _name_fields(
        self,
        found: list[tuple[str, tuple[int, ...], tuple[ir.Var, ...]]],
        clocked: Mapping[ir.Var, int],
    ) -> None:
        """In a list of structures, give fields that clocked statements read their own arrays.

        An element of an array of structures is a vector, whose fields have no names in a statement.
        """
        reads: dict[ir.Var, set[tuple[int, int]]] = defaultdict(set)
        for stmt in (*self.comb, *self.sync):
            for var, lo, width in _slices(stmt):
                reads[var].add((lo, width))
        written = assigned(self.comb).keys()
        hard = {var for stmt in self.sync for var in _sliced(stmt)}
        named: dict[ir.Var, list[tuple[ir.MemberField, ir.Var]]] = defaultdict(list)
        copies: list[ir.Stmt] = []
        for name, dims, elements in found:
            fields = tuple(_leaves("", 0, elements[0].fields))
            read = set().union(*(reads[var] for var in elements))
            used = {_field_at(fields, lo, width) for lo, width in read}
            if len(elements) < _MANY or hard.isdisjoint(elements) or None in used:
                continue
            if not written.isdisjoint(elements):
                continue
            for each in fields:
                called = f"{name}_{each.name}"
                alone = tuple(
                    ir.Var(called, each.width, False, init=0, reset_less=True, loc=var.loc)
                    for var in elements
                )
                for var, one in zip(elements, alone, strict=True):
                    named[var].append((each, one))
                self.local += alone
                self.plan.kept.update(alone)
                self._add_lists([(called, dims, alone)], clocked)
            copies += [
                ir.Assign(ir.Cat(tuple(one for _, one in named[var])), var) for var in elements
            ]

        def other(expr: ir.Expr) -> ir.Expr | None:
            if isinstance(expr, ir.Slice) and isinstance(expr.value, ir.Var):
                for each, one in named.get(expr.value, ()):
                    if _field_at([each], expr.lo, expr.width):
                        return ir.slice_of(one, expr.lo - each.lo, expr.width, expr.loc)
            return None

        if named:
            done: dict[ir.Expr, ir.Expr] = {}
            self.sync = [reading(stmt, other, done) for stmt in self.sync]
            self.comb = [*(reading(stmt, other, done) for stmt in self.comb), *copies]

    def _add_lists(
        self,
        found: list[tuple[str, tuple[int, ...], tuple[ir.Var, ...]]],
        clocked: Mapping[ir.Var, int],
    ) -> None:
        for name, dims, elements in found:
            ways = {self.ports.get(var) for var in elements}
            if len(ways) > 1 or len({var in clocked for var in elements}) > 1:
                continue
            array = Array(self.taken.new(name), dims, elements)
            self.lists[array.name] = (*dims, array.width) if array.width > 1 else dims
            for number, (var, text) in enumerate(zip(elements, array.names(), strict=True)):
                self.element[var] = array, number
                self.names[var] = text

    def _name_port(self, memory: ir.Memory, values: dict[str, ir.Expr], port: str) -> None:
        for part, value in values.items():
            own = isinstance(value, ir.Var) and value not in self.names and value in self.local
            if own and isinstance(value, ir.Var):
                self.names[value] = Ref(self.taken.new(f"{memory.name}_{port}_{part}"))

    def find_mixed(self) -> None:
        """Name the registers of signals that have both register bits and others."""
        comb = {var for stmt in self.comb for var in stmt.writes}
        sync = {var: None for stmt in self.sync for var in stmt.writes}
        self.mixed |= {
            var: self.taken.new(f"{self.name(var)}_q") for var in sync if var in comb
        }

    def _clocks(self) -> tuple[str, ...]:
        module = self.module
        if self.top:
            return tuple(n for n, v in ((CLOCK, module.clk), (RESET, module.rst)) if v is not None)
        names = {name for child in self.children.values() for name in child[1].clocked}
        if any(not var.reset_less for stmt in self.sync for var in stmt.writes):
            names |= {CLOCK, RESET}
        used = [v for box in module.boxes for _, value in box.inputs for v in ir.variables(value)]
        for stmt in (*self.comb, *self.sync):
            for root in roots(stmt):
                used += ir.variables(root)
        if self.sync or self.memories or module.clk in used:
            names.add(CLOCK)
        if module.rst is not None and module.rst in used:
            names.add(RESET)
        return tuple(name for name in (CLOCK, RESET) if name in names)

    def _accessed(self) -> set[ir.Var]:
        """Variables with parts that are read or written separately; adds operands to `counted`."""
        found: set[ir.Var] = set()

        def visit(expr: ir.Expr, operand: bool = False) -> None:
            if isinstance(expr, ir.Slice) and isinstance(expr.value, ir.Var):
                found.add(expr.value)
            elif isinstance(expr, ir.Var) and operand:
                self.counted.add(expr)
            inside = isinstance(expr, ir.Op) or (
                operand and isinstance(expr, ir.Choice | ir.Cast)
            )
            for inner in ir.operands(expr):
                visit(inner, inside)

        def statement(stmt: ir.Stmt) -> None:
            if isinstance(stmt, ir.Assign):
                visit(stmt.lhs)
                return
            for case in stmt.cases:
                for inner in case.body:
                    statement(inner)

        for stmt in (*self.comb, *self.sync):
            statement(stmt)
            for root in roots(stmt):
                visit(root)
        return found
