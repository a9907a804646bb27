# SPDX-License-Identifier: Apache-2.0
"""Small changes of the Python that makes hardware: all of a file, and a draw among them by a seed.

Changes are made in functions that make hardware: methods of components, except ``__init__`` and
properties, and functions that take a module or return a value. Left alone, as changing them makes
no logic, or none that works: messages and names, checks of parameters, annotations, shapes of
signals, and Python's own choices by configuration (``if``, ranges of loops).
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.mutation.semantic import SEMANTIC_KINDS, semantic_changes

__all__ = ["KINDS", "Mutant", "draw", "mutants"]

KINDS = (
    "comparison",  # == and !=, < and <=, > and >=
    "arithmetic",  # + and -, << and >>, * becomes +
    "logic",  # & and |, ^ becomes |, any and all
    "constant",  # one more or one less
    "condition",  # If and Elif the other way round, ~ dropped
    "branches",  # the two choices of a Mux
    "dropped",  # an assignment, of a list or by itself, or the next state
    "slice",  # a bound one off
)

_ORDER = (*KINDS, *SEMANTIC_KINDS)
_SWAPPED: dict[type[ast.AST], tuple[str, type[ast.AST]]] = {
    ast.Eq: ("comparison", ast.NotEq),
    ast.NotEq: ("comparison", ast.Eq),
    ast.Lt: ("comparison", ast.LtE),
    ast.LtE: ("comparison", ast.Lt),
    ast.Gt: ("comparison", ast.GtE),
    ast.GtE: ("comparison", ast.Gt),
    ast.Add: ("arithmetic", ast.Sub),
    ast.Sub: ("arithmetic", ast.Add),
    ast.LShift: ("arithmetic", ast.RShift),
    ast.RShift: ("arithmetic", ast.LShift),
    ast.Mult: ("arithmetic", ast.Add),
    ast.BitAnd: ("logic", ast.BitOr),
    ast.BitOr: ("logic", ast.BitAnd),
    ast.BitXor: ("logic", ast.BitOr),
}
_ANY_ALL = {"any": "all", "all": "any"}
# Shapes of signals and memories, ranges of loops, checks and errors.
_SHAPES = {
    "Signal", "Const", "Memory", "range", "unsigned", "signed", "ArrayLayout", "StructLayout",
    "replicate", "enumerate", "len", "ceil_log2", "exact_log2",
}
_CHECKS = ("require", "check", "_check")
_OF_MODULE = ("Module", "Value", "Signal", "View")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one file.

    Members
    -------
    path, line, function:
        Its place: path from the root of the repository; *function* includes the class.
    kind:
        One of `KINDS` or of `SEMANTIC_KINDS`.
    before, after:
        The text that is replaced, and what replaces it.
    source:
        The whole file with the change.
    identity:
        Twelve hexadecimal digits that identify this change of the present text of the function.
    """

    path: str
    line: int
    function: str
    kind: str
    before: str
    after: str
    source: str
    identity: str

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.line} {self.kind}: {before} -> {after or 'nothing'}"


def mutants(path: str, source: str, *, semantic: bool = False) -> list[Mutant]:
    """All mutants of the file at *path* with the text *source*, in the order of the text.

    Those by syntax, or the *semantic* ones.
    """
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for function, body in _hardware(ast.parse(source)):
        assert body.end_lineno is not None
        text = data[starts[body.lineno - 1] : starts[body.end_lineno]].decode()
        changes = semantic_changes(body) if semantic else _Changes().of(body)
        for kind, node, after in changes:
            begin = starts[node.lineno - 1] + node.col_offset
            assert node.end_lineno is not None and node.end_col_offset is not None
            end = starts[node.end_lineno - 1] + node.end_col_offset
            changed = (data[:begin] + after.encode() + data[end:]).decode()
            place = f"{path}\0{function}\0{text}\0{begin - starts[body.lineno - 1]}\0{after}"
            found.append(
                Mutant(
                    path=path, line=node.lineno, function=function, kind=kind,
                    before=data[begin:end].decode(), after=after, source=changed,
                    identity=hashlib.sha256(place.encode()).hexdigest()[:12],
                )
            )
    return sorted(found, key=lambda each: (each.line, _ORDER.index(each.kind)))


def draw(pool: Iterable[Mutant], seed: int) -> list[Mutant]:
    """All of *pool* in the order of a draw by *seed*: the kinds in turn, each line once.

    The place of a mutant depends on its file, its function and its texts, not on the rest of the
    pool, so a change in one file leaves most of a draw as it was.
    """

    def lot(mutant: Mutant) -> str:
        text = f"{seed}\0{mutant.path}\0{mutant.function}\0{mutant.before}\0{mutant.after}"
        return hashlib.sha256(text.encode()).hexdigest()

    of_kind: dict[str, list[Mutant]] = {kind: [] for kind in _ORDER}
    lines = set()
    for mutant in sorted(pool, key=lambda each: (lot(each), each.path, each.line)):
        if (mutant.path, mutant.line) not in lines:
            lines.add((mutant.path, mutant.line))
            of_kind[mutant.kind].append(mutant)
    order = []
    while any(of_kind.values()):
        order += [left.pop(0) for left in of_kind.values() if left]
    return order


def _hardware(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions that make hardware, with their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _of_values(node):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            component = any("Component" in ast.unparse(base) for base in node.bases) or any(
                each.name == "__init__" and _of_values(each) for each in methods
            )
            for member in methods:
                if member.name.startswith("__"):
                    continue
                text = member.returns is not None and ast.unparse(member.returns) == "str"
                if (component and not member.decorator_list and not text) or _of_values(member):
                    yield f"{node.name}.{member.name}", member


def _of_values(function: ast.FunctionDef) -> bool:
    if function.returns is not None and ast.unparse(function.returns) == "str":
        return False
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    given = [each.annotation for each in arguments] + [function.returns]
    texts = [ast.unparse(each) for each in given if each is not None]
    return any(each.arg == "m" for each in arguments) or any(
        name in text for text in texts for name in _OF_MODULE
    )


class _Changes:
    """Collects (kind, node, text instead) in a function."""

    def __init__(self) -> None:
        self._found: list[tuple[str, ast.expr | ast.stmt, str]] = []

    def of(self, function: ast.FunctionDef) -> list[tuple[str, ast.expr | ast.stmt, str]]:
        for statement in function.body:
            self._statement(statement)
        return self._found

    def _add(self, kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        self._found.append((kind, node, after))

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target).startswith("m.d."):
            if isinstance(node.value, ast.List):
                for each in node.value.elts:
                    if not isinstance(each, ast.Starred):
                        self._add("dropped", each, "[]")
            else:
                self._add("dropped", node, "pass")
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "m.next":
            self._add("dropped", node, "pass")
        if isinstance(node, ast.If):
            inner: Sequence[ast.stmt] = [*node.body, *node.orelse]
        elif isinstance(node, (ast.For, ast.While, ast.FunctionDef)):
            inner = node.body
        elif isinstance(node, ast.With):
            inner = node.body
            for item in node.items:
                self._context(item.context_expr)
        else:
            inner = []
            for value in ast.iter_child_nodes(node):
                if isinstance(value, ast.expr):
                    self._expression(value)
        for statement in inner:
            self._statement(statement)

    def _context(self, call: ast.expr) -> None:
        """``m.If(...)`` and the like."""
        name = ast.unparse(call).partition("(")[0]
        if name in ("m.If", "m.Elif") and isinstance(call, ast.Call):
            condition = call.args[0]
            self._add("condition", condition, f"({ast.unparse(condition)}) == 0")
        if name not in ("m.FSM", "m.State"):
            self._expression(call)

    def _expression(self, node: ast.expr) -> None:
        if isinstance(node, (ast.JoinedStr, ast.Lambda)):
            return
        if isinstance(node, ast.Call):
            self._call(node)
            return
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            self._swap(node, node.ops[0])
        elif isinstance(node, ast.BinOp):
            self._swap(node, node.op)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            self._add("condition", node, f"({ast.unparse(node.operand)})")
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            # Up or down, depending on the position in the text.
            step = 1 if node.value == 0 or (node.lineno + node.col_offset) % 2 else -1
            self._add("constant", node, f"({node.value + step})")
        if isinstance(node, ast.Subscript):
            self._subscript(node)
            return
        if isinstance(node, ast.IfExp):
            self._expression(node.body)
            self._expression(node.orelse)
            return
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            self._expression(node.elt)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._expression(child)

    def _swap(self, node: ast.expr, operator: ast.AST) -> None:
        if type(operator) not in _SWAPPED:
            return
        kind, other = _SWAPPED[type(operator)]
        copy = ast.parse(ast.unparse(node), mode="eval").body
        if isinstance(copy, ast.Compare):
            copy.ops = [other()]  # type: ignore[list-item]
        elif isinstance(copy, ast.BinOp):
            copy.op = other()  # type: ignore[assignment]
        self._add(kind, node, f"({ast.unparse(copy)})")

    def _call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in _SHAPES or name.startswith(_CHECKS):
            for keyword in node.keywords:
                if keyword.arg == "init":
                    self._expression(keyword.value)
            return
        if isinstance(node.func, ast.Attribute):
            if name in _ANY_ALL and not node.args:
                value = ast.unparse(node.func.value)
                self._add("logic", node, f"({value}).{_ANY_ALL[name]}()")
            self._expression(node.func.value)
        if name == "Mux" and len(node.args) == 3:
            select, one, zero = (ast.unparse(each) for each in node.args)
            self._add("branches", node, f"Mux({select}, {zero}, {one})")
        for argument in node.args:
            self._expression(argument)
        for keyword in node.keywords:
            if keyword.arg not in ("name", "domain", "granularity", "memory"):
                self._expression(keyword.value)

    def _subscript(self, node: ast.Subscript) -> None:
        self._expression(node.value)
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper, node.slice.step):
                if bound is not None and bound is not node.slice.step:
                    # Bounds counted from the end move away from 0, which is no bound.
                    step = "- 1" if isinstance(bound, ast.UnaryOp) else "+ 1"
                    self._add("slice", bound, f"({ast.unparse(bound)}) {step}")
        else:
            self._expression(node.slice)
