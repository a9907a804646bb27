# SPDX-License-Identifier: Apache-2.0
"""Write one module as a tree."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gen.rtlil import CLOCK, RESET, RESET_LOW
from gen.sv import ir, source
from gen.sv.blocks import Block, arrange
from gen.sv.constants import known
from gen.sv.context import Call, Context, Written
from gen.sv.elements import loosened, named_in_loop, sliced, without_copies
from gen.sv.fold import fold, share
from gen.sv.header import (
    declarations,
    doc_comments,
    enum_rows,
    initial_block,
    joins,
    port_rows,
)
from gen.sv.instances import instances
from gen.sv.layout import enclosed, fits, printed
from gen.sv.lists import ListPlan, compressed, element, ranges
from gen.sv.loops import Item, aligned, looped, parsed, rolled
from gen.sv.memories import memory_stmts
from gen.sv.scope import Scope, assigned, decides
from gen.sv.statements import unused_bits
from gen.sv.tree import (
    BLANK,
    Assignment,
    Code,
    Comment,
    Concat,
    For,
    Line,
    ModuleText,
    Nested,
    Packed,
    Part,
    Ref,
    Stmt,
    Ternary,
    assignments,
    bits,
    constant,
    leaves,
    lines,
    side_by_side,
    together,
    walk,
)
from gen.sv.types import Types

__all__ = ["write_module"]


def write_module(
    module: ir.Module,
    scope: Scope,
    types: Types,
    children: Mapping[ir.Module, tuple[Call, Written]],
    *,
    reset_low: bool = False,
) -> Written:
    """Write *module*; *children* are its submodules, written before, each with the start of its
    instance.

    With *reset_low* its reset is the active-low port `RESET_LOW`.
    """
    made = _attempt(module, scope, types, children, reset_low, ListPlan())
    if module is not scope.top:
        return made
    flat = _attempt(module, scope, types, children, reset_low, ListPlan(flat=True))
    return min(made, flat, key=lambda each: sum(1 for _ in printed(together(each.text.body))))


def _attempt(
    module: ir.Module, scope: Scope, types: Types,
    children: Mapping[ir.Module, tuple[Call, Written]], reset_low: bool, plan: ListPlan,
) -> Written:
    """Write *module* as often as *plan* grows."""
    while True:
        made = _written(Context(module, scope, types, children, reset_low, plan))
        if made is not None:
            return made


def _written(c: Context) -> Written | None:
    """The module of *c*; None if the plan has changed."""
    c.name_all()
    fold(c)
    if loosened(c, c.hidden) or _entangled(c):
        return None
    for var in (*c.order, *(var for var in c.local if var not in c.hidden)):
        c.name(var)
    c.find_mixed()
    share(c)
    where = ".".join(c.module.path)
    below = instances(c)
    if below is None:
        return None
    items = [
        parsed(_combinational(c, block), number)
        for number, block in enumerate(arrange(c.comb, where))
    ]
    count = len(items)
    items += [parsed([line], count + n) for n, line in enumerate(_constant_outputs(c))]
    body = looped(
        _side_by_side(c, rolled(_bit_by_bit(c, items))), c.lists, c.taken.has,
        lambda stmts: _scope_name(c, stmts), lambda stmts, name: named_in_loop(c, stmts, name),
    )
    registered = _registers(c)
    ends = joins(c)
    body = without_copies(c, body, [*below, *registered, *c.wires, *ends])
    unused = _unused(c)
    inverted = Line(Code("wire ", RESET, " = ~", RESET_LOW, ";"))
    made: list[Stmt] = [inverted] if c.reset_low else []
    declared = declarations(c)  # which may need types, too
    made += [*enum_rows(c), *declared, *c.wires]
    for section in (ends, below, body, registered, unused):
        if section:
            made += [BLANK, *section]
    whole = sliced(c, made)
    if whole is None:
        return None
    registers = {var: _register(c, var) for stmt in c.sync for var in stmt.writes}
    for memory in c.memories:
        for port in memory.reads:
            if port.clocked and isinstance(port.data, ir.Var):
                registers[port.data] = _register(c, port.data)
    return Written(
        ModuleText(tuple(doc_comments(c)), tuple(port_rows(c)), whole), c.port_list(), c.clocked,
        registers, c.instances, c.arrays,
        {var: mask for var, mask in assigned(c.sync).items() if var in c.mixed}, c.boxes,
        {var: str(c.names[var]) for var in c.local if var not in c.hidden and var in c.names},
    )


def _register(c: Context, var: ir.Var) -> tuple[str, int | None]:
    if var in c.element:
        array, number = c.element[var]
        return array.name, number * array.width
    return c.register(var).name, None


def _scope_name(c: Context, stmts: Sequence[Stmt]) -> str:
    """The name of a loop, after a signal that it assigns; after the word that begins a statement
    if there are but blocks.
    """
    found = [each.targets[0].name for each in assignments(stmts) if each.parts[0] and each.targets]
    found = found or [str(line.code.leaves[0]) for line in lines(stmts) if _assigns(line)]
    names = [f"each_{name}" for name in found] or ["each"]
    return c.taken.new(next((name for name in names if not c.taken.has(name)), names[0]))


def _assigns(line: Line) -> bool:
    """Return True if a value is given to a signal, a wire or the variable of a loop in *line*."""
    return " = " in line.code.parts or any(isinstance(n, Assignment | For) for n in walk(line.code))


def _only(item: Item) -> Assignment | None:
    """The assignment that *item* is; None if it is anything else."""
    line = item.stmts[0] if len(item.stmts) == 1 and not item.sizes else None
    if isinstance(line, Line) and not line.note and isinstance(line.code, Assignment):
        return line.code
    return None


def _bit_by_bit(c: Context, items: list[Item]) -> list[Item]:
    """*items*, with concatenations of similar elements split into an assignment for each."""
    made: list[Item] = []
    for item in items:
        assign = _only(item)
        value = assign.value if assign else None
        words = value.parts[::-1] if isinstance(value, Concat) else ()
        if assign is None or len(words) < _SOME or not isinstance(assign.target, Ref) or (
            any(isinstance(step, str) for step in assign.target.steps)
            or all(isinstance(word, Ref) and _is_field(word) for word in words)
        ):
            made.append(item)
            continue
        target = assign.target
        size = c.lists.get(target.name, ())[len(target.steps):][:1]
        parts = [
            parsed([Line(Assignment("assign ", target.then(bits(n, 1)), "=", word))], item.place)
            for n, word in enumerate(words)
        ]
        made += parts if size == (len(words),) and aligned(parts) else [item]
    return made


_SOME = 3  # elements from which on a loop reads better


def _is_field(ref: Ref) -> bool:
    return all(isinstance(step, str) for step in ref.steps)


def _side_by_side(c: Context, items: list[Item]) -> list[Item]:
    """*items* with one concatenation in place of copies of all elements of an array to or from
    plain names.
    """
    groups: dict[tuple[str, bool], dict[int, tuple[Ref, Item]]] = defaultdict(dict)
    for item in items:
        assign = _only(item)
        if assign is None:
            continue
        for one, other, out in (
            (assign.target, assign.value, True), (assign.value, assign.target, False)
        ):
            at = element(other)
            if at and not at[0].steps and isinstance(one, Ref) and not one.steps:
                groups[at[0].name, out][at[1]] = one, item
    arrays = {array.name: array for array, _ in c.element.values()}
    gone: set[int] = set()
    made = []
    for (name, out), members in groups.items():
        if name not in arrays or arrays[name].dims != (len(members),):
            continue
        names = [member for _, (member, _) in sorted(
            members.items(), key=lambda each: each[0], reverse=True
        )]
        if len(set(names)) < len(names):
            continue
        gone.update(id(item) for _, item in members.values())
        place = min(item.place for _, item in members.values())
        made.append(parsed([Line(side_by_side(name, names, out))], place))
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
        for var in stmt.writes:
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


def _combinational(c: Context, block: Block) -> Sequence[Stmt]:
    if len(block.stmts) == 1 and isinstance(block.stmts[0], ir.Assign):
        (stmt,) = block.stmts
        assert isinstance(stmt, ir.Assign)
        all_of_it = isinstance(stmt.lhs, ir.Var) or (
            isinstance(stmt.lhs, ir.Cat) and _covers(block)
        )
        if all_of_it and not any(var in c.mixed for var in block.vars):
            line = Line(c.statements.assign(stmt, "assign ", clocked=False))
            return [*c.statements.comments(stmt.loc), line]
    short = _as_choice(c, block) or _by_field(c, block)
    if short:
        return short
    head = Line(Code("always_comb begin"), source.where(block.stmts[0].loc))
    covered = _unconditional(block.stmts)
    starts: list[Line] = []
    for var in block.vars:
        if var in c.mixed:
            starts.append(Line(Assignment("", c.names[var], "=", c.register(var))))
            free = assigned(block.stmts)[var] & ~covered.get(var, 0)
            for lo, width in unused_bits(var, ~free):
                start = constant(var.init >> lo, width)
                starts.append(Line(Assignment("", c.printer.target(var, lo, width), "=", start)))
        elif covered.get(var, 0) != (1 << var.width) - 1:
            starts.append(Line(Assignment("", c.names[var], "=", c.initial(var))))
    parts = [c.statements.stmts(stmt, 4, clocked=False) for stmt in block.stmts]
    body = c.statements.sequence([*([line] for line in starts), *parts], 4)
    only = _only(parsed(body))
    if only and all(isinstance(side, Ref) and not side.steps for side in (only.target, only.value)):
        return [Line(Assignment("assign ", *only.parts[1:]))]
    return [Nested(((head, body),))]


def _by_field(c: Context, block: Block) -> list[Stmt]:
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
    made: list[Stmt] = []
    above: list[Stmt] = []
    for stmt in block.stmts:
        assert isinstance(stmt, ir.Assign)
        made += [Line(c.statements.assign(stmt, "assign ", clocked=False))]
        above += c.statements.comments(stmt.loc)
    return [] if above else made


def _as_choice(c: Context, block: Block) -> list[Stmt]:
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
    if any(" " in str(word) for word in leaves(condition)):
        condition = Code("(", condition, ")")
    value = c.printer.at(inner.rhs, var.width, var.enum)
    otherwise = c.initial(var)
    if any(isinstance(node, Ternary) for node in walk(value)) or c.fields(var):
        return []
    decided: dict[Part, Part] = {constant(1, 1): value, constant(0, 1): otherwise}
    chosen = decided.get(condition) or Ternary(condition, " ? ", value, " : ", otherwise)
    assign = Assignment("assign ", c.names[var], "=", chosen)
    return [*c.statements.comments(stmt.loc), Line(assign)] if fits(assign, 2) else []


def _constant_outputs(c: Context) -> list[Line]:
    """Assignments of initial values to undriven outputs."""
    return [
        Line(Assignment("assign ", c.names[var], "=", c.initial(var)))
        for var in c.order
        if c.is_output(var) and var not in c.scope.driver
    ]


def _registers(c: Context) -> list[Stmt]:
    made: list[Stmt] = []
    after: list[Stmt] = []
    for memory in c.memories:
        one, other = memory_stmts(c, memory)
        made += one
        after += other
    made += initial_block(c)
    if not c.sync and not after:
        return made
    parts: list[Sequence[Stmt]] = [[stmt] for stmt in after]
    registers: dict[ir.Var, None] = {}
    condition: Part | None = None
    for stmt in c.sync:
        registers.update(dict.fromkeys(stmt.writes))
        written = c.statements.stmts(stmt, 4, clocked=True)
        condition, inner = _resets(stmt, written)
        if condition:
            written[-1] = enclosed(Code("if (", condition, ")"), inner, 4)
        if isinstance(stmt, ir.CaseSwitch):
            written = _with_note(written, source.where(stmt.loc))
        parts.append(written)
    resettable = [
        (var, c.register(var))
        for var in registers if not var.reset_less and c.module.rst is not None
    ]
    reset = Code(f"if ({RESET})")
    if condition and resettable and c.sync[-1].writes.keys() == dict(resettable).keys():
        parts.pop()  # one list for both
        whole = condition if isinstance(condition, Ref) else Code("(", condition, ")")
        reset = Code(f"if ({RESET} | ", whole, ")")
    body = c.statements.sequence(parts, 4)
    if starts := c.starts(resettable, "<="):
        both = c.statements.sequence([[line] for line in starts], 6)
        body = (*body, enclosed(reset, both, 4))
    return [*made, Nested(((Line(Code(f"always @(posedge {CLOCK}) begin")), body),))]


def _resets(
    stmt: ir.Stmt, written: Sequence[Stmt]
) -> tuple[Part | None, tuple[Stmt, ...]]:
    """The condition on which *stmt* puts registers, and does nothing else, back to their initial
    values, and the assignments; None if it does not, or is *written* in another way than with if.
    """
    last = written[-1] if written else None
    if not isinstance(stmt, ir.CaseSwitch) or not isinstance(last, Nested):
        return None, ()
    bodies = [case.body for case in stmt.cases]
    (head, inner), *others = last.sections
    test = head.code.parts[1] if len(head.code.parts) > 1 else ""
    if len(bodies) != 1 or others or not isinstance(test, Code) or test.parts[0] != "if":
        return None, ()
    if not all(
        isinstance(each, ir.Assign) and isinstance(each.lhs, ir.Var)
        and known(each.rhs, {}) == each.lhs.init & ((1 << each.lhs.width) - 1)
        for each in bodies[0]
    ):
        return None, ()
    return test.parts[2], inner


def _with_note(stmts: list[Stmt], note: str) -> list[Stmt]:
    """*stmts* with a note behind the first line, unless that is the only one."""
    at = next((n for n, stmt in enumerate(stmts) if not isinstance(stmt, Comment)), 0)
    first = stmts[at] if stmts else None
    if isinstance(first, Nested):
        (head, body), *others = first.sections
        first = replace(first, sections=((replace(head, note=note), body), *others))
    elif isinstance(first, Line) and len(stmts) > 1:
        first = replace(first, note=note)
    return [*stmts[:at], first, *stmts[at + 1 :]] if first else stmts


def _unused(c: Context) -> list[Stmt]:
    """A sink for signals that nobody reads, so that linters do not warn of them."""
    words: list[Part] = []
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
            wire.then(bits(lo, width)) if expr.width > 1 else wire
            for lo, width in unused_bits(expr, seen.get(expr, 0))
        ]
    own = [name for name in c.clocked if not _clock_used(c, name)]
    if not words and not own:
        return []
    sink = c.taken.new("unused")
    # From the last one on, like the elements of a vector, with those of one variable together.
    place = {_stem(word): at for at, word in reversed(list(enumerate(words)))}
    words.sort(key=lambda word: place[_stem(word)])
    words = ranges(compressed(words[::-1], c.lists))[::-1]
    return [Line(Packed(Code("wire ", sink, " = &{"), "1'b0", *own, *words, "};"))]


def _stem(word: Part) -> Part:
    """*word* up to its first index."""
    assert isinstance(word, Ref)
    return Ref(word.name, *itertools.takewhile(lambda step: isinstance(step, str), word.steps))


def _is_port_out(c: Context, var: ir.Var) -> bool:
    return var in c.order and c.is_output(var)


def _clock_used(c: Context, name: str) -> bool:
    below = any(name in written.clocked for _, written in c.children.values())
    var = c.module.clk if name == CLOCK else c.module.rst
    if below or (var is not None and c.printer.seen.get(var)):
        return True
    if name == CLOCK:
        return bool(c.sync or c.memories)
    return any(not var.reset_less for stmt in c.sync for var in stmt.writes)


def _covers(block: Block) -> bool:
    covered = _unconditional(block.stmts)
    return all(covered.get(var, 0) == (1 << var.width) - 1 for var in block.vars)


def _unconditional(stmts: Iterable[ir.Stmt]) -> dict[ir.Var, int]:
    """The bits that are assigned whatever happens."""
    covered: dict[ir.Var, int] = {}
    for stmt in stmts:
        if isinstance(stmt, ir.Assign) and not isinstance(stmt.lhs, ir.PartSelect):
            for var, mask in stmt.writes.items():
                covered[var] = covered.get(var, 0) | mask
    return covered
