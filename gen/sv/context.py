"""What is known of one module while it is written: its names, declarations and expressions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gen.rtlil import CLOCK, RESET, RESET_LOW
from gen.sv import ir, source
from gen.sv.blocks import pruned, untangled
from gen.sv.expressions import Printer, range_of
from gen.sv.names import Names, escaped, identifier, snake
from gen.sv.scope import Scope
from gen.sv.statements import Statements, static_targets, zero
from gen.sv.types import Types

__all__ = ["Context", "Written", "roots"]


@dataclass
class Written:
    """The text of a module, and what its parent needs to know."""

    lines: list[str]
    order: list[ir.Var]
    names: dict[ir.Var, str]
    clocked: tuple[str, ...]
    registers: dict[ir.Var, str] = field(default_factory=dict)
    instances: dict[ir.Module, str] = field(default_factory=dict)
    arrays: dict[ir.Memory, str] = field(default_factory=dict)
    clocked_bits: dict[ir.Var, int] = field(default_factory=dict)


def roots(stmt: ir.Stmt) -> Iterator[ir.Expr]:
    """The expressions that *stmt* evaluates."""
    if isinstance(stmt, ir.Assign):
        yield stmt.rhs
        yield from _indices(stmt.lhs)
        return
    # A chain of conditions is as many expressions as it has conditions.
    yield from stmt.test.parts if isinstance(stmt.test, ir.Cat) else (stmt.test,)
    for case in stmt.cases:
        for inner in case.body:
            yield from roots(inner)


def _indices(lhs: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(lhs, ir.Part):
        yield lhs.offset
    for inner in ir.operands(lhs):
        if not isinstance(lhs, ir.Part) or inner is not lhs.offset:
            yield from _indices(inner)


class Context:
    """One module, with its statements as they will be written.

    Attributes
    ----------
    comb, sync:
        The statements that are left to write.
    names:
        Of the signals; `hidden` are those that have no declaration.
    mixed:
        Registers of signals of which other bits are none: the registers' own names.
    wires, constants:
        What the expressions that were written so far need above them.
    reset_low:
        Whether the reset is a port that is active while it is low.
    """

    def __init__(
        self,
        module: ir.Module,
        scope: Scope,
        types: Types,
        children: Mapping[ir.Module, tuple[str, Written]],
        reset_low: bool,
    ) -> None:
        self.module, self.scope, self.types, self.children = module, scope, types, children
        self.doc = source.doc_of(module.origin) if module.origin is not None else None
        self.top = module is scope.top
        # A signal must not have the name of the module that it is in.
        name = scope.top.path[0]
        kind = snake(type(module.origin).__name__) if module.origin is not None else ""
        self.taken = Names(CLOCK, RESET, RESET_LOW, name, f"{name}_{kind}")
        self.names: dict[ir.Var, str] = {}
        self.comb, self.sync = scope.statements(module)
        self.memories = scope.memories(module)
        self.ports = scope.ports[module]
        self.local = scope.local[module]
        self.constants: dict[str, tuple[int, int]] = {}
        self.printer = Printer(self.name, self.fields, self.enum_constant, self.wire)
        self.mixed: dict[ir.Var, str] = {}
        self.statements = Statements(self.printer, self.mixed)
        self.wires: list[str] = []
        self.hidden: set[ir.Var] = set()
        self.instances: dict[ir.Module, str] = {}
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

    def name(self, var: ir.Var) -> str:
        """The name of *var* in this module."""
        if var not in self.names:
            stem = var.name if var.name[:1] != "$" else ""
            stem = stem or source.name_of(var.loc) or "signal"
            self.names[var] = self.taken.new(stem)
        return self.names[var]

    def fields(self, var: ir.Var) -> tuple[ir.Field, ...]:
        """The structure that *var* is declared with."""
        if self.top and var in self.scope.top_ports:
            return ()
        if var not in self.accessed and (self.generic or var in self.counted):
            return ()
        return var.fields

    def enum_constant(self, enum: ir.Enum, value: int, width: int) -> str | None:
        """The constant that stands for *value*, declared on first use."""
        if value not in enum.members:
            return None
        words = [snake(enum.name.rsplit(".", 1)[-1])] if enum.name else []
        base = identifier("_".join([*words, enum.members[value]])).upper()
        name, number = base, 1
        while self.constants.get(name, (width, value)) != (width, value):
            number += 1
            name = f"{base}_{number}"
        self.constants[name] = width, value
        return name

    def wire(self, text: str, width: int, expr: ir.Expr) -> str:
        """A wire for *text*, called after *expr*."""
        name = source.name_of(expr.loc)
        if name is None:
            name = next((var.name for var in ir.variables(expr) if var.name), "value")
        wire = self.taken.new(name)
        at = source.where(expr.loc)
        note = f"  // {at}" if at else ""
        self.wires.append(f"  wire{range_of(width)} {wire} = {text};{note}")
        return wire

    def array(self, memory: ir.Memory) -> str:
        if memory not in self.arrays:
            self.arrays[memory] = self.taken.new(memory.name)
        return self.arrays[memory]

    def declared(self, var: ir.Var) -> str:
        fields = self.fields(var)
        return self.types.name(fields) if fields else f"logic{range_of(var.width)}"

    def initial(self, var: ir.Var) -> str:
        if var.enum and var.enum.members and not self.fields(var):
            named = self.enum_constant(var.enum, var.init & ((1 << var.width) - 1), var.width)
            if named:
                return named
        return zero(var, bool(self.fields(var)))

    @property
    def order(self) -> list[ir.Var]:
        return self.scope.order(self.module)

    def is_output(self, var: ir.Var) -> bool:
        if self.top:
            return next(out for _, own, out in self.module.members if own is var)
        return self.ports[var]

    def name_all(self) -> None:
        for var, name in ((self.module.clk, CLOCK), (self.module.rst, RESET)):
            if var is not None:
                self.names[var] = name
        for path, var, _ in self.module.members:
            if self.top and var in self.scope.top_ports:
                self.names.setdefault(var, escaped(self.scope.top_ports[var]))
            elif var in self.ports and var not in self.names:
                self.names[var] = self.taken.new("_".join(map(str, path)))
        for name in self.names.values():
            self.taken.new(name)
        for child in self.children:
            for path, var, _ in child.members:
                if var not in self.names and (var in self.ports or var in self.local):
                    self.names[var] = self.taken.new("_".join([child.name, *map(str, path)]))
        for memory in self.memories:
            for index, port in enumerate(memory.reads):
                behind = "" if len(memory.reads) == 1 else f"_{index}"
                self._name_port(memory, {"data": port.data, "addr": port.addr,
                                         "en": port.enable}, f"read{behind}")
            for index, write in enumerate(memory.writes):
                behind = "" if len(memory.writes) == 1 else f"_{index}"
                self._name_port(memory, {"data": write.data, "addr": write.addr,
                                         "en": write.enable}, f"write{behind}")

    def _name_port(self, memory: ir.Memory, values: dict[str, ir.Expr], port: str) -> None:
        for part, value in values.items():
            own = isinstance(value, ir.Var) and value not in self.names and value in self.local
            if own and isinstance(value, ir.Var):
                self.names[value] = self.taken.new(f"{memory.name}_{port}_{part}")

    def find_mixed(self) -> None:
        """Give the registers of signals of which other bits are none names of their own."""
        comb = {var for stmt in self.comb for var in ir.writes(stmt)}
        sync = {var: None for stmt in self.sync for var in ir.writes(stmt)}
        self.mixed |= {
            var: self.taken.new(f"{self.name(var)}_q") for var in sync if var in comb
        }

    def _clocks(self) -> tuple[str, ...]:
        module = self.module
        if self.top:
            return tuple(n for n, v in ((CLOCK, module.clk), (RESET, module.rst)) if v is not None)
        names = {name for child in self.children.values() for name in child[1].clocked}
        if any(not var.reset_less for stmt in self.sync for var in ir.writes(stmt)):
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
        """Variables of which a part is read or written by itself; `counted` gets the operands."""
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
