# SPDX-License-Identifier: Apache-2.0
"""Convert an Amaranth component to `gen.sv.ir`: the only module of `gen.sv` that knows Amaranth's
internals, except how a signal is made (`gen.sv.sites`).

Amaranth prepares a design (`hdl._ir.Design`) with the statements as they were written, before it
makes a netlist of them. Neither that class nor the classes of its statements are public; the proofs
in `tests/gen` that every text equals Amaranth's own netlist check that they are read correctly.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from amaranth.hdl import Value, ValueCastable, _ir, _mem
from amaranth.hdl import _ast as ast
from amaranth.lib import wiring

from gen.checks import DesignError, checked
from gen.netlist import check_netlist, elaborated, lean_values
from gen.rtlil import top_ports
from gen.sv import ir
from gen.sv.sites import Site, recorded

__all__ = ["read_design"]


def read_design(
    component: wiring.Component,
    *,
    name: str,
    platform: object | None = None,
    prepare: Callable[[Any], None] | None = None,
) -> tuple[ir.Module, list[tuple[str, ir.Var]]]:
    """The top module of *component*, and its ports in the order of the signature.

    Parameters
    ----------
    component:
        Component to read; it is elaborated.
    name:
        Name of the top module.
    platform:
        Platform to elaborate with.
    prepare:
        Called with the fragment before it is lowered; may change it.

    Raises
    ------
    DesignError
        The design has a second or a falling clock, an asynchronous reset, an assertion, an inout,
        a signal with two drivers or an output with none, a combinational loop, or a division of
        signed numbers: the message names module and object.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        ports = top_ports(component)
        with lean_values(), recorded() as sites:
            fragment = elaborated(component, platform)
            if prepare is not None:
                prepare(fragment)
            design = fragment.prepare(ports=ports, hierarchy=(name,))
            with checked() as check:
                check(design)
                check_netlist(design)
        return _Reader(design, sites).read(list(ports))
    finally:
        if collecting:
            gc.enable()


_UNARY = {"-": "neg", "b": "any", "r|": "any", "r&": "all", "r^": "odd", "~": "~"}


class _Reader:
    def __init__(self, design: Any, sites: dict[int, Site]) -> None:
        self._design, self._sites = design, sites
        self._vars: dict[int, ir.Var] = {}
        self._same: dict[Any, ir.Expr] = {}
        self._where = ""

    def read(self, ports: list[str]) -> tuple[ir.Module, list[tuple[str, ir.Var]]]:
        by_name = {name: signal for name, signal, _ in self._design.ports}
        top = self._module(self._design.fragment, None)
        return top, [(port, self._signal(by_name[port])) for port in ports]

    # Modules

    def _module(self, fragment: Any, parent: ir.Module | None) -> ir.Module:
        info = self._design.fragments[fragment]
        origins = fragment.origins or ()
        component = next((o for o in origins if isinstance(o, wiring.Component)), None)
        origin = component if component is not None else next(iter(origins), None)
        module = ir.Module(path=info.name, parent=parent, origin=origin)
        self._where = ".".join(info.name)
        for clock in fragment.domains.values():
            self._clock(module, clock)
        for domain, statements in fragment.statements.items():
            into = module.comb if domain == "comb" else module.sync
            into += self._statements(statements)
        if component is not None:
            module.members = self._members(component)
        module.reference_names = {
            self._signal(signal): name for signal, name in info.signal_names.items()
        }
        for inner, _name, _loc in fragment.subfragments:
            self._where = ".".join(self._design.fragments[inner].name)
            name = self._design.fragments[inner].name[-1]
            if isinstance(inner, _mem.MemoryInstance):
                module.memories.append(self._memory(inner, name))
            elif isinstance(inner, _ir.Instance):
                module.boxes.append(self._box(inner, name))
            elif isinstance(inner, _ir.RequirePosedge):
                continue
            elif isinstance(inner, _ir.IOBufferInstance):
                self._refuse("an input-output buffer, which the text has no words for")
            else:
                module.children.append(self._module(inner, module))
        return module

    def _refuse(self, what: str) -> None:
        raise DesignError(f"{self._where}: {what}")

    def _clock(self, module: ir.Module, domain: Any) -> None:
        if domain.clk_edge != "pos" or domain.async_reset:
            self._refuse(f"clock domain {domain.name!r} has a falling edge or asynchronous reset")
        clk = self._signal(domain.clk)
        rst = None if domain.rst is None else self._signal(domain.rst)
        if module.clk not in (None, clk):
            self._refuse(f"clock domain {domain.name!r} is a second one in this module")
        module.clk, module.rst = clk, rst

    def _members(
        self, component: wiring.Component
    ) -> list[tuple[tuple[str | int, ...], ir.Var, bool]]:
        found = []
        for path, member, value in component.signature.flatten(component):
            signal = Value.cast(value) if isinstance(value, ValueCastable) else value
            if isinstance(signal, ast.Signal) and len(signal):
                found.append((path, self._signal(signal), member.flow is wiring.Out))
        return found

    def _memory(self, memory: Any, name: str) -> ir.Memory:
        return ir.Memory(
            name=name,
            width=ast.Shape.cast(memory._data._shape).width,
            depth=memory._data._depth,
            init=tuple(memory._data._init._raw),
            attributes=tuple(memory._attrs),
            reads=tuple(
                ir.ReadPort(
                    self._value(port._addr), self._value(port._data), self._value(port._en),
                    port._domain != "comb", tuple(port._transparent_for),
                )
                for port in memory._read_ports
            ),
            writes=tuple(
                ir.WritePort(
                    self._value(port._addr), self._value(port._data), self._value(port._en)
                )
                for port in memory._write_ports
            ),
        )

    def _box(self, instance: Any, name: str) -> ir.Box:
        ports: dict[str, list[tuple[str, ir.Expr]]] = {"i": [], "o": []}
        for port, (value, kind) in instance.ports.items():
            if kind not in ports or not isinstance(value, Value):
                self._refuse(f"port {port!r} is an inout, which the text has no words for")
            ports[kind].append((port, self._value(value)))
        parameters = []
        for parameter, value in instance.parameters.items():
            value = value.value if isinstance(value, ast.Const) else value
            if not isinstance(value, int | str):
                self._refuse(f"parameter {parameter!r} must be an integer or text, not {value!r}")
            parameters.append((parameter, value))
        return ir.Box(
            name, instance.type, tuple(ports["i"]), tuple(ports["o"]), tuple(parameters)
        )

    # Signals

    def _signal(self, signal: Any) -> ir.Var:
        var = self._vars.get(id(signal))
        if var is None:
            whole = _field("", signal._format, 0, len(signal))
            enum = whole.enum
            if enum is None and callable(signal._decoder) and not isinstance(signal._decoder, type):
                enum = _states(signal)
            site = self._sites.get(signal.duid, Site(signal.name))
            var = self._vars[id(signal)] = ir.Var(
                site.name or "", len(signal), signal._signed, init=signal._init,
                reset_less=signal._reset_less, fields=whole.fields, enum=enum, loc=signal.src_loc,
                serial=signal.duid, longer=site.longer, site=site.calls,
            )
        return var

    # Statements

    def _statements(self, statements: Any) -> list[ir.Stmt]:
        """Convert *statements*, without those that assign nothing."""
        made: list[ir.Stmt] = []
        for statement in statements:
            stmt = self._statement(statement)
            if isinstance(stmt, ir.Assign):
                made += [stmt] if stmt.lhs.width else []
            elif (bits := _known_bits(stmt.test)) is not None:
                made += _chosen(stmt, bits)
            elif any(case.body for case in stmt.cases):
                made.append(stmt)
        return made

    def _statement(self, statement: Any) -> ir.Stmt:
        loc = statement.src_loc
        if isinstance(statement, ast.Assign):
            lhs, rhs = self._value(statement.lhs), self._value(statement.rhs)
            return ir.Assign(lhs, rhs, loc)
        if not isinstance(statement, ast.Switch):
            self._refuse(f"{type(statement).__name__}: the text has no assertions and no prints")
        cases = [
            ir.Case(patterns, tuple(self._statements(body)), where)
            for patterns, body, where in statement.cases
        ]
        return ir.CaseSwitch(self._value(statement.test), tuple(cases), loc)

    # Values

    def _value(self, value: Any) -> ir.Expr:
        if isinstance(value, ast.Signal):
            return self._signal(value)
        shape = value.shape()
        loc = value.src_loc
        if isinstance(value, ast.Const):
            return ir.Const(value.value, shape.width, shape.signed)
        if isinstance(value, ast.Initial):
            self._refuse("Initial(), which the text has no words for")
        if isinstance(value, ast.Slice):
            inner = self._value(value.value)
            made = ir.slice_of(inner, value.start, value.stop - value.start, loc)
            key: tuple[Any, ...] = ("slice", inner, value.start, value.stop, loc)
        elif isinstance(value, ast.Part):
            inner, offset = self._value(value.value), self._value(value.offset)
            made = ir.PartSelect(inner, offset, value.width, value.stride, loc)
            key = ("part", inner, offset, value.width, value.stride, loc)
        elif isinstance(value, ast.Concat):
            parts = tuple(self._value(part) for part in value.parts)
            made, key = ir.Cat(parts, loc), ("cat", parts, loc)
        elif isinstance(value, ast.SwitchValue):
            test = self._value(value.test)
            cases = tuple((patterns, self._value(inner)) for patterns, inner in value.cases)
            if (bits := _known_bits(test)) is not None:
                kept = [inner for patterns, inner in cases if _fits(bits, patterns)]
                return ir.Cast(kept[0], shape.width, shape.signed) if kept else (
                    ir.Const(0, shape.width, shape.signed)
                )
            key = ("choice", test, cases, loc)
            numbers = {inner.value if isinstance(inner, ir.Const) else None for _, inner in cases}
            if numbers == {0}:  # the same as if no case fits
                made = ir.Const(0, shape.width, shape.signed)
            else:
                made = ir.Choice(test, cases, shape.width, shape.signed, loc)
        elif isinstance(value, ast.Operator):
            made, key = self._operator(value, shape, loc)
        else:
            self._refuse(f"a value of class {type(value).__name__}")
        # Lowering copies an expression for every place in which the author used it.
        return self._same.setdefault(key, made)

    def _operator(self, value: Any, shape: Any, loc: Any) -> tuple[ir.Expr, tuple[Any, ...]]:
        args = [self._value(operand) for operand in value.operands]
        op = value.operator
        key = (op, tuple(args), loc)
        if len(args) == 1:
            (arg,) = args
            if op in ("u", "s", "+"):
                same = arg.signed == shape.signed
                return arg if same else ir.Cast(arg, shape.width, shape.signed), key
            op = _UNARY[op]
            if op == "any" and arg.width == 1:
                return ir.Cast(arg, 1, False) if arg.signed else arg, key
        elif op in ("//", "%") and any(arg.signed for arg in args):
            self._refuse(f"{op} of signed numbers, which rounds unlike that of Verilog")
        elif op == "%" and isinstance(args[1], ir.Const) and args[1].value == 1:
            return ir.Const(0, shape.width), key
        elif op == ">>" and isinstance(args[1], ir.Const):
            return _shifted(args[0], args[1].value, loc), key
        elif op in ("==", "!=") and all(isinstance(arg, ir.Const) for arg in args):
            same = len({arg.value for arg in args if isinstance(arg, ir.Const)}) == 1
            return ir.Const(same == (op == "=="), 1), key
        folded = _folded(op, args, shape)
        return folded or ir.Op(op, args, shape.width, shape.signed, loc), key


def _known_bits(value: ir.Expr) -> str | None:
    """The bits of a constant, most significant first; None for anything else."""
    if isinstance(value, ir.Const):
        return format(value.value & ((1 << value.width) - 1), f"0{value.width}b")
    if isinstance(value, ir.Cat) and all(isinstance(part, ir.Const) for part in value.parts):
        return "".join(_known_bits(part) or "" for part in reversed(value.parts))
    return None


def _folded(op: str, args: list[ir.Expr], shape: Any) -> ir.Expr | None:
    """Result of a logic operator on a constant, without the operator; None if not simpler.

    The inverse of a mask stays: the mask may be that of a parameter.
    """
    width = shape.width
    numbers = [_known_bits(arg) for arg in args]
    if len(args) == 1:
        (bits,) = numbers
        if bits is None:
            return None
        made = {"any": int("1" in bits), "all": int("0" not in bits), "odd": bits.count("1") % 2}
        return ir.Const(made[op], 1) if op in made else None
    if op not in ("&", "|") or shape.signed or any(arg.signed for arg in args):
        return None
    for other, bits in zip(args, reversed(numbers), strict=True):
        if bits is None:
            continue
        number, ones = int(bits or "0", 2), (1 << other.width) - 1
        if (number == 0 and op == "|") or (number & ones == ones and op == "&"):
            return other if other.width == width else ir.Cast(other, width, False)
        if number == 0 or (op == "|" and number == (1 << width) - 1):
            return ir.Const(number, width)
    return None


def _chosen(stmt: ir.CaseSwitch, bits: str) -> tuple[ir.Stmt, ...]:
    """The body that remains of *stmt*, whose test is a constant (a feature that is on or off)."""
    for case in stmt.cases:
        if _fits(bits, case.patterns):
            return case.body
    return ()


def _fits(bits: str, patterns: ir.Patterns) -> bool:
    """Return True if a constant matches one of *patterns*."""
    return patterns is None or any(
        all(one in ("-", bit) for one, bit in zip(pattern, bits, strict=True))
        for pattern in patterns
    )


def _shifted(value: ir.Expr, by: int, loc: Any) -> ir.Expr:
    """*value* shifted right by a constant, at its own width."""
    by = min(by, value.width - value.signed)
    kept: ir.Expr = ir.slice_of(value, by, value.width - by, loc)
    if value.signed:
        kept = ir.Cast(kept, kept.width, True)
    return kept if by == 0 else ir.Cast(kept, value.width, value.signed)


def _span(value: Any) -> tuple[int, int] | None:
    """First bit and width of nested slices of a signal; None for other values."""
    if isinstance(value, ast.Signal):
        return 0, len(value)
    if isinstance(value, ast.Slice):
        inner = _span(value.value)
        return inner and (inner[0] + value.start, value.stop - value.start)
    if isinstance(value, ast.Operator) and value.operator in ("u", "s"):
        return _span(value.operands[0])
    return None


def _field(name: str, form: Any, base: int, width: int) -> ir.MemberField:
    """The field, with its parts, that *form*, Amaranth's format for printing it, describes."""
    whole = ir.MemberField(name, base, width)
    if isinstance(form, ast.Format.Enum):
        made = ir.Enum(form._name or "", dict(form._variants))
        return ir.MemberField(name, base, width, enum=made)
    if not isinstance(form, ast.Format.Struct):
        return whole
    start = _span(form._value)
    fields = []
    for part, inner in form._fields.items():
        at = _span(_underlying(inner))
        if at is None or start is None:
            return whole
        if at[1]:
            fields.append(_field(str(part), inner, at[0] - start[0], at[1]))
    fields.sort(key=lambda field: field.lo)
    end = 0
    for field in fields:
        if field.lo != end:  # a gap, or parts that overlap: no structure of Verilog
            return whole
        end += field.width
    if end != width:
        return whole
    if len(fields) == 1:  # a structure of one part is that part
        return ir.MemberField(name, base, width, fields[0].fields, fields[0].enum)
    return ir.MemberField(name, base, width, tuple(fields))


def _underlying(form: Any) -> Any:
    if isinstance(form, ast.Format):
        values = [chunk[0] for chunk in form._chunks if not isinstance(chunk, str)]
        return values[0] if len(values) == 1 else None
    return form._value


def _states(signal: Any) -> ir.Enum | None:
    """The states of an FSM; None if the decoder of *signal* is of another kind."""
    members = {}
    for number in range(1 << min(len(signal), 10)):
        try:
            members[number] = str(signal._decoder(number)).rsplit("/", 1)[0]
        except (KeyError, IndexError, ValueError):
            continue
    return ir.Enum("", members) if members else None

