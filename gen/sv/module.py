"""One module as text."""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gen.rtlil import CLOCK, RESET, RESET_LOW
from gen.sv import ir, source
from gen.sv.blocks import Block, arrange, pruned, untangled
from gen.sv.expressions import Printer, Raw, constant, range_of
from gen.sv.names import Names, escaped, identifier, snake
from gen.sv.scope import Scope, assigned
from gen.sv.statements import Statements, static_targets, unused_bits, zero
from gen.sv.types import Types

__all__ = ["NAME", "Written", "write_module"]

NAME = "@NAME@"
"""Stands for the name of the module, which depends on which other modules have the same text."""

_WIDTH = 100
_SMALL = 4  # operators that an expression may have to be written in the place of a signal


@dataclass
class Written:
    """The text of a module, lines up to `_WIDTH` characters, and what its parent needs to know."""

    lines: list[str]
    order: list[ir.Var]
    names: dict[ir.Var, str]
    clocked: tuple[str, ...]
    registers: dict[ir.Var, str] = field(default_factory=dict)
    instances: dict[ir.Module, str] = field(default_factory=dict)
    arrays: dict[ir.Memory, str] = field(default_factory=dict)
    clocked_bits: dict[ir.Var, int] = field(default_factory=dict)


def write_module(
    module: ir.Module,
    scope: Scope,
    types: Types,
    children: Mapping[ir.Module, tuple[str, Written]],
    *,
    reset_low: bool = False,
) -> Written:
    """The text of *module*; *children* are its modules by name, written before.

    With *reset_low* its reset is active while it is low: the port is `RESET_LOW`.
    """
    return _Writer(module, scope, types, children, reset_low).write()


def _size(expr: ir.Expr) -> int:
    own = isinstance(expr, ir.Op | ir.Part) or (
        isinstance(expr, ir.Choice) and len(expr.cases)
    )
    return int(own) + sum(_size(inner) for inner in ir.operands(expr))


def _roots(stmt: ir.Stmt) -> Iterator[ir.Expr]:
    """The expressions that *stmt* evaluates."""
    if isinstance(stmt, ir.Assign):
        yield stmt.rhs
        yield from _indices(stmt.lhs)
        return
    # A chain of conditions is as many expressions as it has conditions.
    yield from stmt.test.parts if isinstance(stmt.test, ir.Cat) else (stmt.test,)
    for case in stmt.cases:
        for inner in case.body:
            yield from _roots(inner)


def _indices(lhs: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(lhs, ir.Part):
        yield lhs.offset
    for inner in ir.operands(lhs):
        if not isinstance(lhs, ir.Part) or inner is not lhs.offset:
            yield from _indices(inner)


class _Writer:
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
        self.wires: list[str] = []
        self.body: list[str] = []
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

    def _clocks(self) -> tuple[str, ...]:
        module = self.module
        if self.top:
            return tuple(n for n, v in ((CLOCK, module.clk), (RESET, module.rst)) if v is not None)
        names = {name for child in self.children.values() for name in child[1].clocked}
        if any(not var.reset_less for stmt in self.sync for var in ir.writes(stmt)):
            names |= {CLOCK, RESET}
        used = [v for box in module.boxes for _, value in box.inputs for v in ir.variables(value)]
        for stmt in (*self.comb, *self.sync):
            for root in _roots(stmt):
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
            for root in _roots(stmt):
                visit(root)
        return found

    # Names

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

    def _name_all(self) -> None:
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

    # What is written in place of a signal

    def _fold(self) -> None:
        """Find the signals that need no declaration."""
        reads: Counter[ir.Var] = Counter()
        sliced: set[ir.Var] = set()

        def visit(expr: ir.Expr) -> None:
            if isinstance(expr, ir.Var):
                reads[expr] += 1
            elif isinstance(expr, ir.Slice | ir.Part) and isinstance(expr.value, ir.Var):
                sliced.add(expr.value)
            for inner in ir.operands(expr):
                visit(inner)

        for stmt in (*self.comb, *self.sync):
            for root in _roots(stmt):
                visit(root)
        beside: Counter[ir.Var] = Counter()
        for memory in self.memories:
            for value in memory.inputs():
                beside.update(ir.variables(value).keys())
        for box in self.module.boxes:
            for _, value in box.inputs:
                beside.update(ir.variables(value).keys())
        driven_below: set[ir.Var] = set()
        below: Counter[ir.Var] = Counter()
        for child in self.module.children:
            for var, out in self.scope.ports[child].items():
                if out:
                    driven_below.add(var)
                else:
                    below[var] += 1
        sole = self._sole()
        local = set(self.local)
        self._fold_undriven(reads, beside)
        for var, stmt in sole.items():
            if var not in local:
                continue
            uses, elsewhere = reads[var], beside[var] + below[var]
            private = not var.name and uses + elsewhere <= 1
            passed = not uses and elsewhere == 1 and _size(stmt.rhs) <= _SMALL
            if private or passed or (not var.name and _size(stmt.rhs) <= 2):
                self._in_place(var, stmt)
        # What a child or a memory gives and one statement copies goes there directly.
        for var, stmt in list(sole.items()):
            given = stmt.rhs
            if (
                isinstance(given, ir.Var)
                and given in local
                and given not in self.names.keys() & self.printer.inline.keys()
                and reads[given] == 1
                and not beside[given]
                and not below[given]
                and given not in sliced
                and given.width == var.width
                and var not in self.printer.inline
                and (given in driven_below or self._from_memory(given))
            ):
                self.hidden.add(given)
                self.names[given] = self.name(var)
                self.comb.remove(stmt)
        for memory in self.memories:
            for port in memory.reads:
                data = port.data
                once = isinstance(data, ir.Var) and reads[data] + below[data] == 1
                if (
                    not port.clocked and once and isinstance(data, ir.Var) and data in local
                    and data not in sliced and not beside[data] and data not in self.hidden
                ):
                    self._row_in_place(memory, port, data)

    def _sole(self) -> dict[ir.Var, ir.Assign]:
        """Variables that one unconditional statement drives as a whole."""
        count: Counter[ir.Var] = Counter()
        found: dict[ir.Var, ir.Assign] = {}
        for stmt in (*self.comb, *self.sync):
            count.update(ir.writes(stmt).keys())
        for stmt in self.comb:
            if isinstance(stmt, ir.Assign) and isinstance(stmt.lhs, ir.Var):
                found[stmt.lhs] = stmt
        return {var: stmt for var, stmt in found.items() if count[var] == 1}

    def _fold_undriven(self, reads: Counter[ir.Var], beside: Counter[ir.Var]) -> None:
        known = {self.module.clk, self.module.rst, *self.ports, *self.local}
        for var in (*reads, *beside):
            declared = var in known or var in self.scope.driver
            if not declared and var not in self.scope.top_ports:
                self.printer.inline[var] = ir.Const(var.init, var.width, var.signed)

    def _in_place(self, var: ir.Var, stmt: ir.Assign) -> None:
        self.printer.inline[var] = ir.Cast(stmt.rhs, var.width, var.signed)
        self.hidden.add(var)
        self.comb.remove(stmt)

    def _from_memory(self, var: ir.Var) -> bool:
        return any(port.data is var and port.clocked for m in self.memories for port in m.reads)

    def _row_in_place(self, memory: ir.Memory, port: ir.ReadPort, data: ir.Var) -> None:
        self.printer.inline[data] = Raw(
            f"{self._array(memory)}[{self.printer.full(port.addr)}]", memory.width
        )
        self.hidden.add(data)

    def _array(self, memory: ir.Memory) -> str:
        if memory not in self.arrays:
            self.arrays[memory] = self.taken.new(memory.name)
        return self.arrays[memory]

    def _share(self) -> None:
        """Give expressions that occur more than once, or of which bits are taken, a wire."""
        count: Counter[ir.Expr] = Counter()
        order: dict[ir.Expr, None] = {}
        cut: set[ir.Expr] = set()
        cuttable = ("+", "-", "*", "<<", ">>", "neg", "//", "%")

        def visit(expr: ir.Expr) -> None:
            if isinstance(expr, ir.Var):
                if expr in self.printer.inline and count[expr] == 0:
                    count[expr] += 1
                    visit(self.printer.inline[expr])
                return
            count[expr] += 1
            if isinstance(expr, ir.Slice):
                inner = expr.value
                while isinstance(inner, ir.Cast):
                    inner = inner.value
                if expr.lo and isinstance(inner, ir.Op) and inner.op in cuttable:
                    cut.add(inner)
            if count[expr] == 1:
                for inner in ir.operands(expr):
                    visit(inner)
                order[expr] = None

        for stmt in (*self.comb, *self.sync):
            for root in _roots(stmt):
                visit(root)
        for expr in order:
            often = count[expr] > 1 and _size(expr) >= 3
            if not isinstance(expr, ir.Op | ir.Choice | ir.Part) or not (often or expr in cut):
                continue
            if source.name_of(expr.loc) is None:
                continue
            text = self.printer.full(expr)
            self.printer.shared[expr] = self.wire(text, expr.width, expr)

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

    # Text

    def write(self) -> Written:
        self._name_all()
        self._fold()
        for var in self.order:
            self.name(var)
        for var in self.local:
            if var not in self.hidden:
                self.name(var)
        mixed = self._mixed()
        self._share()
        self.statements = Statements(self.printer, mixed)
        for block in arrange(self.comb, ".".join(self.module.path)):
            self._combinational(block, mixed)
        self._constant_outputs()
        instances = self._instances()
        registered = self._registers(mixed)
        unused = self._unused()
        head = self._head()
        inside = [f"  wire {RESET} = ~{RESET_LOW};"] if self.reset_low else []
        lines = [*head, *inside, *self._constants(), *self._declarations(mixed), *self.wires]
        for section in (instances, self.body, registered, unused):
            if section:
                lines += ["", *section]
        lines.append("endmodule")
        registers = {
            var: mixed.get(var, self.names[var])
            for stmt in self.sync
            for var in ir.writes(stmt)
        }
        for memory in self.memories:
            for port in memory.reads:
                if port.clocked and isinstance(port.data, ir.Var):
                    registers[port.data] = self.names[port.data]
        return Written(
            list(_wrapped(lines)), self.order, self.names, self.clocked, registers, self.instances,
            self.arrays, {var: mask for var, mask in assigned(self.sync).items() if var in mixed},
        )

    @property
    def order(self) -> list[ir.Var]:
        return self.scope.order(self.module)

    def _mixed(self) -> dict[ir.Var, str]:
        comb = {var for stmt in self.comb for var in ir.writes(stmt)}
        sync = {var: None for stmt in self.sync for var in ir.writes(stmt)}
        return {var: self.taken.new(f"{self.name(var)}_q") for var in sync if var in comb}

    def _declared(self, var: ir.Var) -> str:
        fields = self.fields(var)
        return self.types.name(fields) if fields else f"logic{range_of(var.width)}"

    def _initial(self, var: ir.Var) -> str:
        if var.enum and var.enum.members and not self.fields(var):
            named = self.enum_constant(var.enum, var.init & ((1 << var.width) - 1), var.width)
            if named:
                return named
        return zero(var, bool(self.fields(var)))

    def _head(self) -> list[str]:
        doc = self.doc
        lines = []
        if doc is not None and doc.kind != "Module":
            lines.append(f"// {doc.kind}" + (f" ({doc.path})" if doc.path else ""))
            if doc.text:
                lines += ["//", *(f"// {line}".rstrip() for line in doc.text)]
        else:
            lines.append(f"// Part {self.module.name} of {snake(self._owner())}.")
        registers = {var for stmt in self.sync for var in ir.writes(stmt)}
        combs = {var for stmt in self.comb for var in ir.writes(stmt)}
        ports: list[tuple[str, str, str, str]] = [
            ("input", "logic", RESET_LOW if name == RESET and self.reset_low else name, "")
            for name in self.clocked
        ]
        group = {var: str(path[0]) for path, var, _ in self.module.members}
        for var in self.order:
            direction = "output" if self._is_output(var) else "input"
            name = self.names[var]
            if var in registers and var not in combs:
                name += f" = {zero(var, bool(self.fields(var)))}"
            ports.append((direction, self._declared(var), name, group.get(var, "")))
        lines += [f"module {NAME} ("] if ports else [f"module {NAME} ();"]
        wide = max((len(kind) for _, kind, _, _ in ports), default=0)
        members = doc.members if doc else {}
        last = ""
        count = Counter(group for _, _, _, group in ports)
        for index, (direction, kind, name, group_name) in enumerate(ports):
            if group_name != last and group_name and (members.get(group_name) or (
                count[group_name] > 1
            )):
                said = members.get(group_name, "")
                text = f"{group_name}: {said}" if said else group_name
                lines += [f"    // {line}" for line in textwrap.wrap(text, _WIDTH - 7)]
            last = group_name
            comma = "," if index < len(ports) - 1 else ""
            lines.append(f"    {direction:6} {kind:{wide}} {name}{comma}")
        if ports:
            lines.append(");")
        return lines

    def _is_output(self, var: ir.Var) -> bool:
        if self.top:
            return next(out for _, own, out in self.module.members if own is var)
        return self.ports[var]

    def _owner(self) -> str:
        for module in reversed(self.module.ancestors()):
            if module.origin is not None:
                return type(module.origin).__name__
        return self.module.path[0]

    def _constants(self) -> list[str]:
        by_width: dict[int, list[str]] = defaultdict(list)
        for name, (width, value) in self.constants.items():
            by_width[width].append(f"{name} = {constant(value, width)}")
        lines = [
            line
            for width, words in sorted(by_width.items())
            for line in _packed(f"  localparam logic{range_of(width)} ", words, ";")
        ]
        return [*lines, ""] if lines else []

    def _declarations(self, mixed: dict[ir.Var, str]) -> list[str]:
        registers = {var for stmt in self.sync for var in ir.writes(stmt)}
        for memory in self.memories:
            for port in memory.reads:
                if port.clocked:
                    registers.update(ir.variables(port.data))
        kinds: dict[tuple[bool, str], list[str]] = defaultdict(list)
        for var in self.local:
            if var in self.hidden or not var.width:
                continue
            register = var in registers and var not in mixed
            name = self.names[var] + (f" = {self._initial(var)}" if register else "")
            kinds[register, self._declared(var)].append(name)
        for var, name in mixed.items():
            kinds[True, self._declared(var)].append(f"{name} = {self._initial(var)}")
        lines = []
        for (_, kind), words in sorted(kinds.items(), key=lambda item: item[0][0]):
            lines += _packed(f"  {kind} ", words, ";")
        for memory in self.memories:
            array = self._array(memory)
            lines.append(f"  logic{range_of(memory.width)} {array} [0:{memory.depth - 1}];")
            rows = [*memory.init, *[0] * (memory.depth - len(memory.init))]
            if any(rows):
                lines += ["  initial begin"]
                lines += [
                    f"    {array}[{index}] = {constant(row, memory.width)};"
                    for index, row in enumerate(rows)
                ]
                lines.append("  end")
            else:
                fill = constant(0, memory.width)
                lines.append(
                    f"  initial for (int i = 0; i < {memory.depth}; i++) {array}[i] = {fill};"
                )
        return lines

    def _combinational(self, block: Block, mixed: dict[ir.Var, str]) -> None:
        if len(block.stmts) == 1 and isinstance(block.stmts[0], ir.Assign):
            (stmt,) = block.stmts
            assert isinstance(stmt, ir.Assign)
            whole = isinstance(stmt.lhs, ir.Var) or (
                isinstance(stmt.lhs, ir.Cat) and _covers(block)
            )
            if whole and not any(var in mixed for var in block.vars):
                *above, line = self.statements.lines(stmt, "  ", clocked=False)
                self.body += [*above, f"  assign {line.strip()}"]
                return
        short = self._as_choice(block, mixed)
        if short:
            self.body += short
            return
        at = source.where(block.stmts[0].loc)
        lines = ["  always_comb begin" + (f"  // {at}" if at else "")]
        covered = _unconditional(block.stmts)
        for var in block.vars:
            if var in mixed:
                lines.append(f"    {self.names[var]} = {mixed[var]};")
                free = assigned(block.stmts)[var] & ~covered.get(var, 0)
                for lo, width in unused_bits(var, ~free):
                    start = constant(var.init >> lo, width)
                    lines.append(f"    {self.printer.target(var, lo, width)} = {start};")
            elif covered.get(var, 0) != (1 << var.width) - 1:
                lines.append(f"    {self.names[var]} = {self._initial(var)};")
        for stmt in block.stmts:
            lines += self.statements.lines(stmt, "    ", clocked=False)
        if self.body and not self.body[-1] == "":
            self.body.append("")
        self.body += [*lines, "  end"]

    def _as_choice(self, block: Block, mixed: dict[ir.Var, str]) -> list[str]:
        """One condition that decides one signal as an assignment, if that fits a line."""
        stmt = block.stmts[0]
        if len(block.stmts) > 1 or len(block.vars) > 1 or not isinstance(stmt, ir.Switch):
            return []
        bodies = [case.body for case in stmt.cases]
        test = stmt.test
        if len(bodies) != 1 or len(bodies[0]) != 1 or test.width != 1:
            return []
        (var,), inner = block.vars, bodies[0][0]
        if not isinstance(inner, ir.Assign) or inner.lhs is not var or var in mixed:
            return []
        if stmt.cases[0].patterns != ("1",) or source.comment_above(inner.loc):
            return []
        condition = self.printer.full(test)
        condition = f"({condition})" if " " in condition else condition
        value = self.printer.at(inner.rhs, var.width, var.enum)
        otherwise = self._initial(var)
        if " ? " in value or self.fields(var):
            return []
        line = f"  assign {self.names[var]} = {condition} ? {value} : {otherwise};"
        return [*self.statements.comments(stmt.loc, "  "), line] if len(line) <= _WIDTH else []

    def _constant_outputs(self) -> None:
        """Ports that nobody drives."""
        for var in self.order:
            if self._is_output(var) and var not in self.scope.driver:
                self.body.append(f"  assign {self.names[var]} = {self._initial(var)};")

    def _connection(self, port: str, value: str) -> str:
        return f".{port}({value})"

    def _instances(self) -> list[str]:
        lines: list[str] = []
        for child in self.module.children:
            if child not in self.children:
                continue
            name, written = self.children[child]
            rows = [[self._connection(clock, clock) for clock in written.clocked]]
            group = {var: _group(path) for path, var, _ in child.members}
            alone = Counter(group.values())
            last: object = "alone"
            for var in written.order:
                # One line for an interface; those of one or two signals share theirs.
                here = group.get(var)
                key = here if here is not None and alone[here] > 2 else "alone"
                if key != last:
                    rows.append([])
                last = key
                rows[-1].append(self._connection(written.names[var], self._outside(var, child)))
            self.instances[child] = self.taken.new(child.name)
            lines += self._instance(name, self.instances[child], rows)
        for box in self.module.boxes:
            inputs = [self._connection(port, self.printer.full(v)) for port, v in box.inputs]
            outputs = [
                self._connection(port, self.statements.target(v, clocked=False))
                for port, v in box.outputs
            ]
            module = box.module
            if box.parameters:
                words = ", ".join(
                    f".{key}({value})" if isinstance(value, int) else f'.{key}("{value}")'
                    for key, value in box.parameters
                )
                module += f" #({words})"
            lines += self._instance(
                module, self.taken.new(box.name), [[each] for each in (*inputs, *outputs)]
            )
        return lines[:-1]

    def _outside(self, var: ir.Var, child: ir.Module) -> str:
        """What a port of *child* is connected to."""
        if self.scope.ports[child][var]:
            return self.names[var]
        if var not in self.printer.inline and var not in self.scope.driver and (
            var not in self.ports and var not in self.scope.top_ports
        ):
            return constant(var.init, var.width)
        return self.printer.full(var)

    def _instance(self, module: str, name: str, rows: list[list[str]]) -> list[str]:
        rows = [row for row in rows if row]
        lines = [f"  {module} {name} ("]
        for index, row in enumerate(rows):
            lines += _packed("      ", row, "," if index < len(rows) - 1 else "")
        return [*lines, "  );", ""]

    def _registers(self, mixed: dict[ir.Var, str]) -> list[str]:
        lines: list[str] = []
        after: list[str] = []
        for memory in self.memories:
            one, other = self._memory(memory)
            lines += one
            after += other
        if not self.sync and not after:
            return lines
        lines.append(f"  always_ff @(posedge {CLOCK}) begin")
        lines += after
        registers: dict[ir.Var, None] = {}
        for stmt in self.sync:
            registers.update(dict.fromkeys(ir.writes(stmt)))
            text = self.statements.lines(stmt, "    ", clocked=True)
            at = source.where(stmt.loc)
            if isinstance(stmt, ir.Switch) and at and len(text) > 1:
                first = next(i for i, line in enumerate(text) if not line.strip().startswith("//"))
                text[first] += f"  // {at}"
            lines += text
        reset = [var for var in registers if not var.reset_less and self.module.rst is not None]
        if reset:
            lines.append(f"    if ({RESET}) begin")
            for var in reset:
                lines.append(f"      {mixed.get(var, self.names[var])} <= {self._initial(var)};")
            lines.append("    end")
        return [*lines, "  end"]

    def _memory(self, memory: ir.Memory) -> tuple[list[str], list[str]]:
        """Asynchronous reads, and the clocked statements of a memory."""
        array, printer = self._array(memory), self.printer
        outside: list[str] = []
        inside: list[str] = []
        for write in memory.writes:
            addr = printer.full(write.addr)
            part = memory.width // write.enable.width
            for index in range(write.enable.width):
                enable = ir.slice_of(write.enable, index, 1)
                data = ir.slice_of(ir.Cast(write.data, memory.width, False), index * part, part)
                bits = "" if part == memory.width else f"[{(index + 1) * part - 1}:{index * part}]"
                text = f"{array}[{addr}]{bits} <= {printer.full(data)};"
                if isinstance(enable, ir.Const):
                    inside += [f"    {text}"] if enable.value else []
                else:
                    inside.append(f"    if ({printer.full(enable)}) {text}")
        for port in memory.reads:
            if isinstance(port.data, ir.Var) and port.data in self.printer.inline:
                continue
            if ir.variables(port.data).keys().isdisjoint(self.scope.live):
                continue
            target = self.statements.target(port.data, clocked=False)
            row = f"{array}[{printer.full(port.addr)}]"
            if not port.clocked:
                outside.append(f"  assign {target} = {row};")
                continue
            inside += self._clocked_read(memory, port, target, row)
        return outside, inside

    def _clocked_read(
        self, memory: ir.Memory, port: ir.ReadPort, target: str, row: str
    ) -> list[str]:
        printer = self.printer
        lines = [f"    {target} <= {row};"]
        for index in port.transparent:
            write = memory.writes[index]
            here = ir.Op("==", [write.addr, port.addr], 1, False)
            part = memory.width // write.enable.width
            for number in range(write.enable.width):
                enable = ir.slice_of(write.enable, number, 1)
                hit = printer.full(ir.Op("&", [enable, here], 1, False))
                data = ir.slice_of(ir.Cast(write.data, memory.width, False), number * part, part)
                lo, hi = number * part, (number + 1) * part - 1
                bits = "" if part == memory.width else f"[{hi}:{lo}]"
                lines.append(f"    if ({hit}) {target}{bits} <= {printer.full(data)};")
        if isinstance(port.enable, ir.Const):
            return lines if port.enable.value else []
        enable_text = printer.full(port.enable)
        if len(lines) == 1:
            return [f"    if ({enable_text}) {lines[0].strip()}"]
        return [f"    if ({enable_text}) begin", *(f"  {line}" for line in lines), "    end"]

    def _unused(self) -> list[str]:
        """A sink for what nobody reads, so that no linter has to ask whether that is meant."""
        words: list[str] = []
        seen = self.printer.seen
        given = {
            var for child in self.module.children for var in self.scope.ports[child]
        }
        for var in (*self.order, *self.local):
            if var in self.hidden or self._is_port_out(var) or not var.width:
                continue
            if var in given and not (var in self.local or var in self.ports):
                continue
            words += [
                self.printer.target(var, lo, width)
                for lo, width in unused_bits(var, seen.get(var, 0))
            ]
        for expr, wire in self.printer.shared.items():
            words += [
                f"{wire}[{lo}]" if width == 1 else f"{wire}[{lo + width - 1}:{lo}]"
                for lo, width in unused_bits(expr, seen.get(expr, 0))
            ]
        own = [name for name in self.clocked if not self._clock_used(name)]
        if not words and not own:
            return []
        sink = self.taken.new("unused")
        return _packed(f"  wire {sink} = &{{", ["1'b0", *own, *words], "};")

    def _is_port_out(self, var: ir.Var) -> bool:
        return var in self.order and self._is_output(var)

    def _clock_used(self, name: str) -> bool:
        below = any(name in written.clocked for _, written in self.children.values())
        var = self.module.clk if name == CLOCK else self.module.rst
        if below or (var is not None and self.printer.seen.get(var)):
            return True
        if name == CLOCK:
            return bool(self.sync or self.memories)
        return any(not var.reset_less for stmt in self.sync for var in ir.writes(stmt))


def _group(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The interface that a member belongs to: its name, with its number in a list."""
    return path[: 1 + next((n for n, part in enumerate(path[1:]) if isinstance(part, str)), 0)]


def _covers(block: Block) -> bool:
    covered = _unconditional(block.stmts)
    return all(covered.get(var, 0) == (1 << var.width) - 1 for var in block.vars)


def _unconditional(stmts: Iterable[ir.Stmt]) -> dict[ir.Var, int]:
    """The bits that are assigned whatever happens."""
    covered: dict[ir.Var, int] = {}
    for stmt in stmts:
        if isinstance(stmt, ir.Assign) and not isinstance(stmt.lhs, ir.Part):
            for var, mask in ir.writes(stmt).items():
                covered[var] = covered.get(var, 0) | mask
    return covered


def _packed(start: str, words: list[str], end: str) -> list[str]:
    """Words with commas between them, as many on a line as fit."""
    indent = " " * (len(start) - len(start.lstrip()))
    lines, line = [], start
    for index, word in enumerate(words):
        word += "," if index < len(words) - 1 else end
        if line.strip() and len(line) + len(word) + 1 > _WIDTH and line != start:
            lines.append(line.rstrip())
            line = f"{indent}    "
        line += word if line.endswith((" ", "{")) else f" {word}"
    return [*lines, line.rstrip()]


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    """*lines* without any that is too long."""
    for line in lines:
        if len(line) <= _WIDTH:
            yield line
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        if line.lstrip().startswith("//"):
            text = line.lstrip()[2:]
            inner = " " * (len(text) - len(text.lstrip()))
            yield from textwrap.wrap(
                text.strip(), _WIDTH, initial_indent=f"{indent}//{inner}",
                subsequent_indent=f"{indent}//{inner}", break_long_words=False,
            )
            continue
        code, mark, note = line.partition("  // ")
        if mark:
            yield f"{indent}// {note}"
        if len(code) <= _WIDTH:
            yield code
            continue
        yield from textwrap.wrap(
            code.strip(), _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ",
            break_long_words=False, break_on_hyphens=False,
        )
