"""Write one module as text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from gen.rtlil import CLOCK, RESET, RESET_LOW
from gen.sv import ir, source
from gen.sv.blocks import Block, arrange
from gen.sv.context import Apart, Context, Written
from gen.sv.elements import loosened, named_in_loop, sliced, without_copies
from gen.sv.expressions import constant
from gen.sv.fold import fold, share
from gen.sv.header import (
    constant_lines,
    declaration_lines,
    head_lines,
    initial_lines,
    join_lines,
)
from gen.sv.instances import instance_lines
from gen.sv.layout import enclosed, fits, row, wrapped
from gen.sv.lists import ListPlan, compressed, ranges
from gen.sv.loops import Item, aligned, looped, parsed, rolled
from gen.sv.memories import memory_lines
from gen.sv.scope import Scope, assigned, decides
from gen.sv.statements import unused_bits
from gen.sv.types import Types

__all__ = ["write_module"]


def write_module(
    module: ir.Module,
    scope: Scope,
    types: Types,
    children: Mapping[ir.Module, tuple[str, Written]],
    *,
    reset_low: bool = False,
) -> Written:
    """Write *module*, with lines of any length; *children* are its submodules, written before, each
    with its name and the parameters of the instance.

    With *reset_low* its reset is the active-low port `RESET_LOW`.
    """
    made = _attempt(module, scope, types, children, reset_low, ListPlan())
    if module is not scope.top:
        return made
    flat = _attempt(module, scope, types, children, reset_low, ListPlan(flat=True))
    return min(made, flat, key=lambda each: len(list(wrapped(each.lines))))


def _attempt(
    module: ir.Module, scope: Scope, types: Types,
    children: Mapping[ir.Module, tuple[str, Written]], reset_low: bool, plan: ListPlan,
) -> Written:
    while True:
        try:
            c = Context(module, scope, types, children, reset_low, plan)
            return _written(c)
        except Apart:
            continue


def _written(c: Context) -> Written:
    c.name_all()
    fold(c)
    if loosened(c, c.hidden) or _entangled(c):
        raise Apart
    for var in (*c.order, *(var for var in c.local if var not in c.hidden)):
        c.name(var)
    c.find_mixed()
    share(c)
    where = ".".join(c.module.path)
    instances = instance_lines(c)
    items = [
        parsed(_combinational(c, block), number)
        for number, block in enumerate(arrange(c.comb, where))
    ]
    count = len(items)
    items += [parsed([line], count + n) for n, line in enumerate(_constant_outputs(c))]
    body = looped(
        _side_by_side(c, rolled(_bit_by_bit(c, items))), c.lists, c.taken.has,
        lambda lines: _scope_name(c, lines), lambda lines, name: named_in_loop(c, lines, name),
    )
    registered = _registers(c)
    body = without_copies(c, body, [*instances, *registered, *c.wires, *join_lines(c)])
    unused = _unused(c)
    inside = [f"  wire {RESET} = ~{RESET_LOW};"] if c.reset_low else []
    below = [*inside, *constant_lines(c), *declaration_lines(c), *c.wires]
    for section in (join_lines(c), instances, body, registered, unused):
        if section:
            below += ["", *section]
    lines = [*head_lines(c), *sliced(c, below), "endmodule"]
    registers = {var: _register(c, var) for stmt in c.sync for var in ir.writes(stmt)}
    for memory in c.memories:
        for port in memory.reads:
            if port.clocked and isinstance(port.data, ir.Var):
                registers[port.data] = _register(c, port.data)
    return Written(
        lines, c.port_list(), c.clocked, registers, c.instances, c.arrays,
        {var: mask for var, mask in assigned(c.sync).items() if var in c.mixed}, c.boxes,
        {var: c.names[var] for var in c.local if var not in c.hidden and var in c.names},
    )


def _register(c: Context, var: ir.Var) -> tuple[str, int | None]:
    if var in c.element:
        array, number = c.element[var]
        return array.name, number * array.width
    return c.mixed.get(var, c.names[var]), None


def _scope_name(c: Context, lines: list[str]) -> str:
    """The name of a loop, after a signal that it assigns."""
    text = "\n".join(lines)
    names = re.findall(r"^ *assign \{?(\w+)", text, re.M)
    names = names or re.findall(r"^ *(\w+).* = ", text, re.M)
    names = [f"each_{name}" for name in names] or ["each"]
    return c.taken.new(next((name for name in names if not c.taken.has(name)), names[0]))


_SIDE_BY_SIDE = re.compile(r"  assign (\w+)((?:\[\d+\])*) = \{(.*)\};")


def _bit_by_bit(c: Context, items: list[Item]) -> list[Item]:
    """*items*, with concatenations of similar elements split into an assignment for each."""
    made: list[Item] = []
    for item in items:
        lines = [] if item.notes else item.body(())
        match = _SIDE_BY_SIDE.fullmatch(lines[0]) if len(lines) == 1 else None
        words = _words(match[3])[::-1] if match else []
        if match is None or len(words) < _SOME or all(re.fullmatch(r"[\w.]+", w) for w in words):
            made.append(item)
            continue
        name, inside = match[1], match[2]
        size = c.lists.get(name, ())[inside.count("["):][:1]
        parts = [
            parsed([f"  assign {name}{inside}[{number}] = {word};"], item.place)
            for number, word in enumerate(words)
        ]
        made += parts if size == (len(words),) and aligned(parts) else [item]
    return made


_SOME = 3  # elements from which on a loop reads better


def _words(text: str) -> list[str]:
    """The words between the commas of *text* that are in no parentheses."""
    words, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "({[") - (letter in ")}]")
        if letter == "," and depth == 0:
            words.append(text[start:at].strip())
            start = at + 1
        if depth < 0:
            return []  # several concatenations side by side
    return [*words, text[start:].strip()]


_TO_NAME = re.compile(r"  assign (\w+) = (\w+)\[(\d+)\];")
_FROM_NAME = re.compile(r"  assign (\w+)\[(\d+)\] = ([A-Za-z_]\w*);")


def _side_by_side(c: Context, items: list[Item]) -> list[Item]:
    """*items* with one concatenation in place of copies of all elements of an array to or from
    plain names.
    """
    groups: dict[tuple[str, bool], dict[int, tuple[str, Item]]] = defaultdict(dict)
    for item in items:
        lines = [] if item.sizes or item.notes else item.body(())
        if len(lines) != 1:
            continue
        if match := _TO_NAME.fullmatch(lines[0]):
            groups[match[2], True][int(match[3])] = match[1], item
        elif match := _FROM_NAME.fullmatch(lines[0]):
            groups[match[1], False][int(match[2])] = match[3], item
    arrays = {array.name: array for array, _ in c.element.values()}
    gone: set[int] = set()
    made = []
    for (name, out), members in groups.items():
        if name not in arrays or arrays[name].dims != (len(members),):
            continue
        names = [member for _, (member, _) in sorted(members.items(), reverse=True)]
        if len(set(names)) < len(names):
            continue
        gone.update(id(item) for _, item in members.values())
        ends = ("  assign {", f"}} = {name};") if out else (f"  assign {name} = {{", "};")
        place = min(item.place for _, item in members.values())
        made.append(parsed([row(ends[0], names, ends[1])], place))
    left = [item for item in items if id(item) not in gone]
    return sorted([*left, *made], key=lambda item: item.place)


def _entangled(c: Context) -> bool:
    """Give up arrays of which an element depends on another; return True if there are any.

    Simulators track whole variables and would take that for a loop.
    """
    if not c.element:
        return False
    order = assigned(c.comb)
    node: dict[ir.Var, object] = {var: c.element.get(var, (var, 0))[0] for var in order}
    needs: dict[object, set[object]] = defaultdict(set)
    for stmt in c.comb:
        for var in ir.writes(stmt):
            found: dict[ir.Var, int] = {}
            decides(stmt, var, found)
            for other in found:
                if other in order and other is not var:
                    needs[node[var]].add(node[other])
    known = len(c.plan.loose)
    for array in dict.fromkeys(array for array, _ in c.element.values()):
        todo, seen = list(needs[array]), set()
        while todo:
            each = todo.pop()
            if each is array:
                c.plan.loose.update(array.elements)
                c.plan.chained.update(array.elements)
                break
            if each not in seen:
                seen.add(each)
                todo += needs[each]
    return len(c.plan.loose) > known


def _combinational(c: Context, block: Block) -> list[str]:
    if len(block.stmts) == 1 and isinstance(block.stmts[0], ir.Assign):
        (stmt,) = block.stmts
        assert isinstance(stmt, ir.Assign)
        all_of_it = isinstance(stmt.lhs, ir.Var) or (
            isinstance(stmt.lhs, ir.Cat) and _covers(block)
        )
        if all_of_it and not any(var in c.mixed for var in block.vars):
            *above, line = c.statements.lines(stmt, "  ", clocked=False)
            return [*above, f"  assign {line.strip()}"]
    short = _as_choice(c, block) or _by_field(c, block)
    if short:
        return short
    at = source.where(block.stmts[0].loc)
    lines = ["  always_comb begin" + (f"  // {at}" if at else "")]
    covered = _unconditional(block.stmts)
    for var in block.vars:
        if var in c.mixed:
            lines.append(f"    {c.names[var]} = {c.mixed[var]};")
            free = assigned(block.stmts)[var] & ~covered.get(var, 0)
            for lo, width in unused_bits(var, ~free):
                start = constant(var.init >> lo, width)
                lines.append(f"    {c.printer.target(var, lo, width)} = {start};")
        elif covered.get(var, 0) != (1 << var.width) - 1:
            lines.append(f"    {c.names[var]} = {c.initial(var)};")
    starts = [[line] for line in lines[1:]]
    parts = [c.statements.lines(stmt, "    ", clocked=False) for stmt in block.stmts]
    body = c.statements.sequence([*starts, *parts])
    if len(body) == 1 and (whole := re.fullmatch(r"    (\w+ = \w+;)", body[0])):
        return [f"  assign {whole[1]}"]
    return [lines[0], *body, "  end"]


def _by_field(c: Context, block: Block) -> list[str]:
    """An assignment for each field of one structure, if nothing but fields is assigned."""
    (var,) = block.vars if len(block.vars) == 1 else (None,)
    if var is None or var in c.mixed or var in c.element or not c.fields(var):
        return []
    fields = [(field.lo, field.width) for field in c.fields(var)]
    parts = [stmt.lhs if isinstance(stmt, ir.Assign) else None for stmt in block.stmts]
    found = [
        (part.lo, part.width)
        for part in parts if isinstance(part, ir.Slice) and part.value is var
    ]
    if len(found) < len(parts) or sorted(found) != fields:
        return []
    lines = [c.statements.lines(stmt, "  ", clocked=False) for stmt in block.stmts]
    if any(len(each) > 1 for each in lines):
        return []
    return [f"  assign {line.strip()}" for (line,) in lines]


def _as_choice(c: Context, block: Block) -> list[str]:
    """A conditional assignment, where one condition decides one signal and it fits on a line."""
    stmt = block.stmts[0]
    if len(block.stmts) > 1 or len(block.vars) > 1 or not isinstance(stmt, ir.CaseSwitch):
        return []
    bodies = [case.body for case in stmt.cases]
    test = stmt.test
    if len(bodies) != 1 or len(bodies[0]) != 1 or test.width != 1:
        return []
    (var,), inner = block.vars, bodies[0][0]
    if not isinstance(inner, ir.Assign) or inner.lhs is not var or var in c.mixed:
        return []
    if stmt.cases[0].patterns != ("1",) or source.comment_above(inner.loc):
        return []
    condition = c.printer.full(test)
    condition = f"({condition})" if " " in condition else condition
    value = c.printer.at(inner.rhs, var.width, var.enum)
    otherwise = c.initial(var)
    if " ? " in value or c.fields(var):
        return []
    line = f"  assign {c.names[var]} = {condition} ? {value} : {otherwise};"
    return [*c.statements.comments(stmt.loc, "  "), line] if fits(line) else []


def _constant_outputs(c: Context) -> list[str]:
    """Assignments of initial values to undriven outputs."""
    return [
        f"  assign {c.names[var]} = {c.initial(var)};"
        for var in c.order
        if c.is_output(var) and var not in c.scope.driver
    ]


def _registers(c: Context) -> list[str]:
    lines: list[str] = []
    after: list[str] = []
    for memory in c.memories:
        one, other = memory_lines(c, memory)
        lines += one
        after += other
    lines += initial_lines(c)
    if not c.sync and not after:
        return lines
    parts = [[line] for line in after]
    registers: dict[ir.Var, None] = {}
    for stmt in c.sync:
        registers.update(dict.fromkeys(ir.writes(stmt)))
        text = c.statements.lines(stmt, "    ", clocked=True)
        at = source.where(stmt.loc)
        if isinstance(stmt, ir.CaseSwitch) and at and len(text) > 1:
            first = next(i for i, line in enumerate(text) if not line.strip().startswith("//"))
            text[first] += f"  // {at}"
        parts.append(text)
    lines += [f"  always @(posedge {CLOCK}) begin", *c.statements.sequence(parts)]
    resettable = [
        (var, c.mixed.get(var, c.names[var]))
        for var in registers if not var.reset_less and c.module.rst is not None
    ]
    reset = [[f"      {line}"] for (line,) in c.starts(resettable, "<=")]
    if reset:
        lines += enclosed(f"    if ({RESET})", c.statements.sequence(reset))
    return [*lines, "  end"]


def _unused(c: Context) -> list[str]:
    """A sink for signals that nobody reads, so that linters do not warn of them."""
    words: list[str] = []
    seen = c.printer.seen
    given = {
        var for child in c.module.children for var in c.scope.ports[child]
    }
    for var in (*c.order, *c.local):
        if var in c.hidden or _is_port_out(c, var) or not var.width:
            continue
        if var in given and not (var in c.local or var in c.ports):
            continue
        words += [
            c.printer.target(var, lo, width)
            for lo, width in unused_bits(var, seen.get(var, 0))
        ]
    for expr, wire in c.printer.shared.items():
        words += [
            f"{wire}[{lo}]" if width == 1 else f"{wire}[{lo + width - 1}:{lo}]"
            for lo, width in unused_bits(expr, seen.get(expr, 0))
        ]
    own = [name for name in c.clocked if not _clock_used(c, name)]
    if not words and not own:
        return []
    sink = c.taken.new("unused")
    # From the last one on, like the elements of a vector, with those of one variable together.
    place = {word.partition("[")[0]: at for at, word in reversed(list(enumerate(words)))}
    words.sort(key=lambda word: place[word.partition("[")[0]])
    words = ranges(compressed(words[::-1], c.lists))[::-1]
    return [row(f"  wire {sink} = &{{", ["1'b0", *own, *words], "};")]


def _is_port_out(c: Context, var: ir.Var) -> bool:
    return var in c.order and c.is_output(var)


def _clock_used(c: Context, name: str) -> bool:
    below = any(name in written.clocked for _, written in c.children.values())
    var = c.module.clk if name == CLOCK else c.module.rst
    if below or (var is not None and c.printer.seen.get(var)):
        return True
    if name == CLOCK:
        return bool(c.sync or c.memories)
    return any(not var.reset_less for stmt in c.sync for var in ir.writes(stmt))


def _covers(block: Block) -> bool:
    covered = _unconditional(block.stmts)
    return all(covered.get(var, 0) == (1 << var.width) - 1 for var in block.vars)


def _unconditional(stmts: Iterable[ir.Stmt]) -> dict[ir.Var, int]:
    """The bits that are assigned whatever happens."""
    covered: dict[ir.Var, int] = {}
    for stmt in stmts:
        if isinstance(stmt, ir.Assign) and not isinstance(stmt.lhs, ir.PartSelect):
            for var, mask in ir.writes(stmt).items():
                covered[var] = covered.get(var, 0) | mask
    return covered
