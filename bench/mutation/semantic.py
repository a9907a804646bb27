# SPDX-License-Identifier: Apache-2.0
"""Bugs that engineers make: each kind stands for a mistake of meaning, not for a sign gone wrong.

Places are recognised by names: a condition called ``ready`` is a stall, an assignment to ``credit``
returns something. Such bugs escape tests of a single transfer: slots lost for ever, packets that
overtake, ages that are never renewed.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

__all__ = ["SEMANTIC_KINDS", "semantic_changes"]

SEMANTIC_KINDS = (
    "lost-stall",  # a condition that there is room, credit or a partner, left out
    "wrong-guard",  # one of several conditions left out, or the other way round
    "no-give-back",  # a place, a credit or an entry is never given back
    "not-renewed",  # an age, a timer or a count that an event does not change
    "bound-off",  # a comparison reaches one further, or one less
    "swapped",  # two fields of one kind, the one in the place of the other
    "not-flushed",  # one of those that begin anew does not
)

Change = tuple[str, ast.expr | ast.stmt, str]

_STALL = re.compile(
    r"ready|room|avail|space|credit|free|full|stall|busy|wait|grant|hold|idle|taken|level|"
    r"owed|empty|pending|outstanding|quiet"
)
_GIVES_BACK = re.compile(
    r"credit|freed?\b|free_|done|refund|owed|releas|return|forget|gives?\b|retire|finish|"
    r"acknowledg|\back"
)
_AGES = re.compile(
    r"age|aged|late|since|wait|timer|count|left|rest|passed|rank|period|tries|elapsed|cycles|"
    r"owner|turn|sent|next|place|position|number|phase|known|heard|epoch|within|pending|open"
)
_BEGINS = re.compile(
    r"flush|abort|reset|clear|begin|start|join|leave|restart|resync|fail|forget|\binit\b|sync\b"
)
_PAIRS = (
    ("source", "destination"), ("first", "last"), ("left", "right"), ("lower", "upper"),
    ("head", "tail"), ("read", "write"), ("base", "limit"), ("offset", "step"),
    ("result", "partial"), ("results", "partials"), ("count", "members"),
)
_HANDSHAKE = {"valid", "ready", "payload", "p", "i", "o", "data", "header", "en", "addr"}
_OTHER = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_NO_LOGIC = {
    "Signal", "Const", "Memory", "range", "unsigned", "signed", "ArrayLayout", "StructLayout",
    "replicate", "enumerate", "len", "ceil_log2", "exact_log2", "C", "bit_length", "require_int",
}
_BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}


def semantic_changes(function: ast.FunctionDef) -> list[Change]:
    """(kind, node, text instead) of a function that makes hardware."""
    found: list[Change] = []
    for statement in function.body:
        found += _statement(statement, ())
    return found


def _statement(node: ast.stmt, conditions: tuple[str, ...]) -> Iterator[Change]:
    """Changes of a statement that is executed under the *conditions* of ``m.If`` and the like."""
    if isinstance(node, (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.AugAssign) and ast.unparse(node.target).startswith("m.d."):
        yield from _assignments(node, conditions)
    elif isinstance(node, ast.With):
        inner = conditions
        for item in node.items:
            call = item.context_expr
            name = ast.unparse(call).partition("(")[0]
            if name.endswith((".If", ".Elif")) and isinstance(call, ast.Call):
                yield from _condition(call.args[0])
                inner = (*inner, ast.unparse(call.args[0]))
            elif name.endswith((".Else", ".State", ".Case", ".Default")):
                inner = (*inner, ast.unparse(call))
        for each in node.body:
            yield from _statement(each, inner)
    elif isinstance(node, ast.If):
        for each in (*node.body, *node.orelse):
            yield from _statement(each, conditions)
    elif isinstance(node, (ast.For, ast.While, ast.FunctionDef)):
        for each in node.body:
            yield from _statement(each, conditions)
    elif isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            if _GIVES_BACK.search(node.value.func.attr):
                yield "no-give-back", node, "pass"
            for argument in node.value.args:
                yield from _value(argument)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) and node.value is not None:
        if not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "m.next"):
            yield from _value(node.value)


def _assignments(node: ast.AugAssign, conditions: tuple[str, ...]) -> Iterator[Change]:
    """Changes of ``m.d.sync += ...``."""
    listed = isinstance(node.value, ast.List)
    elements: Sequence[ast.expr] = node.value.elts if isinstance(node.value, ast.List) else [
        node.value
    ]
    keeps = not ast.unparse(node.target).endswith(".comb")
    given: list[tuple[ast.expr, ast.expr]] = []
    for each in elements:
        if not (
            isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
            and each.func.attr == "eq" and len(each.args) == 1
        ):
            yield from _value(each)
            continue
        target, value = each.func.value, each.args[0]
        given.append((each, value))
        name = ast.unparse(target).lower().removeprefix("self.")
        whole, nothing = (each, "[]") if listed else (node, "pass")
        begins = any(_BEGINS.search(condition.lower()) for condition in conditions)
        if keeps and begins and (ast.unparse(value) == "0" or ast.unparse(value).endswith("init")):
            yield "not-flushed", whole, nothing
        elif _GIVES_BACK.search(name):
            yield "no-give-back", whole, nothing
        elif keeps and conditions and _AGES.search(name):
            yield "not-renewed", whole, nothing
        yield from _value(value)
    for (one, first), (other, second) in pairwise(given):
        if _alike(first, second):
            yield "swapped", _both(one, other), _exchanged(one, other)


def _alike(one: ast.expr, other: ast.expr) -> bool:
    """Two fields of the same thing."""
    return (
        isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute)
        and one.attr != other.attr and not {one.attr, other.attr} & _HANDSHAKE
        and ast.unparse(one.value) == ast.unparse(other.value) != "self"
    )


def _both(one: ast.expr, other: ast.expr) -> ast.expr:
    """A place that reaches from the one to the end of the other."""
    place = ast.Constant(0)
    place.lineno, place.col_offset = one.lineno, one.col_offset
    place.end_lineno, place.end_col_offset = other.end_lineno, other.end_col_offset
    return place


def _exchanged(one: ast.expr, other: ast.expr) -> str:
    """Two assignments, each with the value of the other."""
    assert isinstance(one, ast.Call) and isinstance(other, ast.Call)
    targets = [ast.unparse(each.func) for each in (one, other)]
    values = [ast.unparse(each.args[0]) for each in (other, one)]
    return ", ".join(f"{target}({value})" for target, value in zip(targets, values))


def _condition(node: ast.expr) -> Iterator[Change]:
    """Changes of the condition of an ``m.If``."""
    if not isinstance(node, ast.BinOp) and _STALL.search(ast.unparse(node).lower()):
        yield "lost-stall", node, "1"
    yield from _value(node)


def _value(node: ast.expr) -> Iterator[Change]:
    """Changes in a value."""
    if isinstance(node, (ast.JoinedStr, ast.Lambda, ast.Constant)):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _NO_LOGIC:
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        operands = list(_conjuncts(node))
        if not any(_is_mask(each) for each in operands):
            for number, each in enumerate(operands):
                yield from _without(node, operands, number)
                if not isinstance(each, ast.BinOp):
                    yield from _value(each)
            return
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _bound(node)
    if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        if name in _OTHER and isinstance(node, ast.Attribute):
            yield "swapped", node, f"{ast.unparse(node.value)}.{_OTHER[name]}"
    if isinstance(node, ast.Subscript):
        yield from _value(node.value)
        return
    if isinstance(node, ast.IfExp):
        yield from _value(node.body)
        yield from _value(node.orelse)
        return
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        yield from _value(node.elt)
        return
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            yield from _value(node.func.value)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from _value(argument)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from _value(child)


def _conjuncts(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _is_mask(node: ast.expr) -> bool:
    """Bits of a number rather than a condition."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Add, ast.Sub, ast.LShift, ast.RShift, ast.Mult))
    return isinstance(node, ast.Constant) or "mask" in ast.unparse(node).lower()


def _without(node: ast.expr, operands: list[ast.expr], number: int) -> Iterator[Change]:
    """One of the *operands* of a conjunction left out or, if it is no stall, turned round."""
    each = ast.unparse(operands[number])
    others = [f"({ast.unparse(other)})" for k, other in enumerate(operands) if k != number]
    if _STALL.search(each.lower()):
        yield "lost-stall", node, f"({' & '.join(others)})"
    elif (node.lineno + number) % 2:
        yield "wrong-guard", node, f"({' & '.join(others)})"
    else:
        yield "wrong-guard", node, f"({' & '.join([*others, f'~({each})'])})"


def _bound(node: ast.Compare) -> Iterator[Change]:
    """One further, or one less."""
    left, operator, right = ast.unparse(node.left), node.ops[0], ast.unparse(node.comparators[0])
    if type(operator) in _BOUNDS:
        other = ast.Compare(node.left, [_BOUNDS[type(operator)]()], node.comparators)
        yield "bound-off", node, f"({ast.unparse(other)})"
    elif isinstance(operator, (ast.Eq, ast.NotEq)) and re.search(r"\d|packets|flits|most", right):
        sign = "==" if isinstance(operator, ast.Eq) else "!="
        step = "+ 1" if right == "0" or (node.lineno + node.col_offset) % 2 else "- 1"
        yield "bound-off", node, f"({left} {sign} ({right}) {step})"
