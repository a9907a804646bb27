# SPDX-License-Identifier: Apache-2.0
"""Find where the Python source makes each signal, and the name that it gives it there.

Amaranth looks at the next instruction for the variable that a signal is assigned to, so it finds no
name in ``a, b = Signal(), Signal()``, in ``held["valid"] = Signal()`` or for an element of a list.
The frame that makes a signal identifies the call in the source; the variable that holds the result
follows from the syntax around the call, and from the call to which its function returns.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import amaranth
from amaranth.hdl import Signal, Value

__all__ = ["Site", "recorded"]


@dataclass(frozen=True)
class Site:
    """Name and place of one signal in the source.

    Attributes
    ----------
    name:
        Its name; None if the source does not say.
    longer:
        Names that distinguish it from others of that name, the best one first.
    calls:
        The calls that made it, from the innermost out: equal for signals of one loop.
    """

    name: str | None
    longer: tuple[str, ...] = ()
    calls: tuple[tuple[str, int, int], ...] = ()


_LIBRARY = str(Path(amaranth.__file__).parent) + os.sep
_PASSING = frozenset(("Array", "View", "cast", "dict", "list", "tuple"))
"""Functions whose result is, or holds, their arguments."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
_OWN_FRAME = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_HERE = __file__


class _Each(enum.Enum):
    """Selectors of the next value of a comprehension, or of an unknown place."""

    NEXT = enum.auto()
    UNKNOWN = enum.auto()


_Selector: TypeAlias = int | str | _Each
_patching = threading.RLock()


@contextmanager
def recorded() -> Iterator[dict[int, Site]]:
    """Record the sites of the signals that are made in the block, by their ``duid``."""
    sites: dict[int, Site] = {}
    finder = _Finder()
    plain = Signal.__init__

    @functools.wraps(plain)
    def init(self: Any, *args: Any, src_loc_at: int = 0, **given: Any) -> None:
        plain(self, *args, src_loc_at=src_loc_at + 1, **given)
        site = finder.site(inspect.currentframe(), self.name, given.get("name") is not None)
        if site is not None:
            sites[self.duid] = site

    with _patching:
        Signal.__init__ = init  # type: ignore[method-assign]
        try:
            yield sites
        finally:
            Signal.__init__ = plain  # type: ignore[method-assign]


# The syntax of a file


@dataclass
class _Syntax:
    parents: dict[ast.AST, ast.AST]
    calls: dict[tuple[int, int, int, int], ast.Call]
    ends: dict[tuple[int, int], list[ast.Call]]


@functools.cache
def _syntax(path: str) -> _Syntax | None:
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    found = _Syntax({}, {}, {})
    for node in ast.walk(tree):
        for inner in ast.iter_child_nodes(node):
            found.parents[inner] = node
        if isinstance(node, ast.Call):
            end = node.end_lineno or 0, node.end_col_offset or 0
            found.calls[node.lineno, node.col_offset, *end] = node
            found.ends.setdefault(end, []).append(node)
    return found


@functools.cache
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return [(line, col, end, end_col) for line, end, col, end_col in code.co_positions()]


def _call_of(frame: FrameType) -> tuple[ast.Call, _Syntax] | None:
    """The call that *frame* is executing."""
    syntax = _syntax(frame.f_code.co_filename)
    places = _positions(frame.f_code)
    at = frame.f_lasti // 2
    if syntax is None or at >= len(places):
        return None
    line, col, end, end_col = places[at]
    if None in (line, col, end, end_col):
        return None
    call = syntax.calls.get((line, col, end, end_col))  # type: ignore[arg-type]
    if call is None:  # a method on a line of its own begins there
        ended = syntax.ends.get((end, end_col), [])  # type: ignore[arg-type]
        call = ended[0] if len(ended) == 1 else None
    return None if call is None else (call, syntax)


def _caller(frame: FrameType) -> FrameType | None:
    """The frame that called the function of *frame*; None if that makes or elaborates a module."""
    while frame.f_code.co_name in _OWN_FRAME and frame.f_back is not None:
        outer: FrameType | None = frame.f_back
        # A generator is run by its consumer, which may be a function of the library.
        while outer is not None and _foreign(outer):
            outer = outer.f_back
        if outer is None:
            return None
        frame = outer
    if frame.f_code.co_name == "elaborate":
        return None
    own = frame.f_locals.get("self")
    if frame.f_code.co_name == "__init__" and hasattr(own, "elaborate"):
        return None
    back = frame.f_back
    return back if back is not None and not _foreign(back) else None


def _foreign(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith((_LIBRARY, "<")) or file == _HERE


# Names of Python objects


def _word(value: object) -> str | None:
    """A key as part of a name."""
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    return None


_MISSING = object()


def _lookup(name: str, frame: FrameType | None) -> object:
    while frame is not None:
        if name in frame.f_locals:
            return frame.f_locals[name]
        if frame.f_code.co_name not in _OWN_FRAME:
            return frame.f_globals.get(name, frame.f_builtins.get(name, _MISSING))
        frame = frame.f_back
    return _MISSING


def _known(node: ast.AST | None, frame: FrameType) -> object:
    """The value of an expression that has no effects."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _lookup(node.id, frame)
    if isinstance(node, ast.Attribute):
        owner = _known(node.value, frame)
        plain = isinstance(owner, type | enum.Enum) or inspect.ismodule(owner)
        return getattr(owner, node.attr, _MISSING) if plain else _MISSING
    if isinstance(node, ast.JoinedStr):
        words = [
            _word(_known(part.value if isinstance(part, ast.FormattedValue) else part, frame))
            for part in node.values
        ]
        return _MISSING if None in words else "".join(word or "" for word in words)
    return _MISSING


def _spelled(node: ast.AST | None, frame: FrameType) -> list[str] | None:
    """The words for a variable, an attribute or an element."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Subscript):
        stem = _spelled(node.value, frame)
        key = _known(node.slice, frame)
        word = _word(key) if not isinstance(key, int) else ""
        return None if stem is None else [*stem, *([word] if word else [])]
    return None


class _Finder:
    """Finds the names of signals as they are made."""

    def __init__(self) -> None:
        # How often a comprehension has reached a call. Frames are kept, so that none is mistaken
        # for an earlier one.
        self._turns: dict[tuple[FrameType, ast.AST], int] = {}

    def site(self, frame: FrameType | None, given: str, named: bool) -> Site | None:
        """The site of a signal that is being made in *frame* and has the name *given*; with
        *named*, the source chose that name.
        """
        while frame is not None and _foreign(frame):
            frame = frame.f_back
        if frame is None:
            return None
        at = _call_of(frame)
        chain: list[tuple[str, int, int]] = []
        outer: FrameType | None = frame
        while outer is not None:
            chain.append((outer.f_code.co_filename, outer.f_code.co_firstlineno, outer.f_lasti))
            outer = _caller(outer)
        if at is None:
            return Site(given if named else None, (), tuple(chain))
        call, _ = at
        words = self._held(call, frame, at[1])
        if named and not _is_like(call):
            name: str | None = given
        else:
            name = _joined(words)
        longer: list[str] = []
        if named and words and _joined(words) != name:
            longer.append(f"{_joined(words)}_{name}")
        if name is not None:
            longer += self._qualified(name, call, at[1], frame)
        return Site(name, tuple(dict.fromkeys(longer)), tuple(chain))

    def _qualified(
        self, name: str, call: ast.Call, syntax: _Syntax, frame: FrameType | None
    ) -> Iterator[str]:
        """*name* after a prefix that distinguishes its place: the key of a loop, the record or
        variable that gets the result of a function, or the function.
        """
        node: ast.AST | None = call
        while frame is not None:
            while node is not None and not isinstance(node, ast.FunctionDef):
                if isinstance(node, ast.For):
                    for target in ast.walk(node.target):
                        value = _known(target, frame)
                        if isinstance(target, ast.Name) and isinstance(value, str | enum.Enum):
                            yield f"{_word(value)}_{name}"
                node = syntax.parents.get(node)
            function = frame.f_code.co_name
            frame = _caller(frame)
            at = _call_of(frame) if frame is not None else None
            if frame is not None and at is not None and _calls(at[0], function, frame):
                words = self._held(at[0], frame, at[1])
                if words and _joined(words) != name:
                    yield f"{_joined(words)}_{name}"
            if function not in ("elaborate", "__init__", *_OWN_FRAME):
                yield f"{function.strip('_')}_{name}"
            node, syntax = at if at is not None else (None, syntax)

    def _held(
        self, node: ast.AST, frame: FrameType, syntax: _Syntax,
        selectors: tuple[_Selector, ...] = (),
    ) -> list[str] | None:
        """The words for the variable that holds the part *selectors* of the value of *node*."""
        start = node
        while True:
            parent = syntax.parents.get(node)
            if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr) and (
                node is parent.value
            ):
                first = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
                return self._target(first, selectors, frame, start)
            if isinstance(parent, ast.AugAssign) and node is parent.value:
                return self._target(parent.target, selectors, frame, start)
            if isinstance(parent, ast.Tuple | ast.List):
                place = parent.elts.index(node)  # type: ignore[arg-type]
                before = parent.elts[:place]
                known = not any(isinstance(each, ast.Starred) for each in before)
                selectors = (place if known else _Each.UNKNOWN, *selectors)
            elif isinstance(parent, ast.Dict):
                if node not in parent.values:
                    return None
                key = parent.keys[parent.values.index(node)]
                selectors = _keyed(_known(key, frame), selectors)
            elif isinstance(parent, ast.DictComp) and node is parent.value:
                selectors = _keyed(_known(parent.key, frame), selectors)
            elif isinstance(parent, _COMPREHENSIONS) and node is parent.elt:
                selectors = (_Each.NEXT, *selectors)
            elif isinstance(parent, ast.Starred):
                selectors = selectors[1:]
            elif isinstance(parent, ast.IfExp) and node is not parent.test:
                selectors = tuple(
                    _Each.UNKNOWN if each is _Each.NEXT else each for each in selectors
                )
            elif isinstance(parent, ast.BoolOp):
                pass
            elif isinstance(parent, ast.Attribute):  # `Signal(...).as_value()`
                outer = syntax.parents.get(parent)
                if not isinstance(outer, ast.Call) or parent.attr not in ("as_value",):
                    return None
                parent = outer
            elif isinstance(parent, ast.keyword):
                call = syntax.parents[parent]
                assert isinstance(call, ast.Call)
                if parent.arg is None:
                    pass  # what a dictionary holds
                elif not _makes_record(call, frame):
                    return None
                else:
                    selectors = (parent.arg, *selectors)
                parent = call
            elif isinstance(parent, ast.Call) and node is not parent.func:
                into = _filled(parent)
                if into is not None:
                    return self._target(into, selectors, frame, start)
                called = _callee(parent)
                if called == "setdefault" and isinstance(parent.func, ast.Attribute):
                    selectors = _keyed(_known(parent.args[0], frame), selectors)
                    return self._target(parent.func.value, selectors, frame, start)
                if called not in _PASSING:
                    field = _field_of(parent, node, frame)
                    if field is None:
                        return None
                    selectors = (field, *selectors)
            elif isinstance(parent, ast.Return):
                function = frame.f_code.co_name
                caller = _caller(frame)
                at = _call_of(caller) if caller is not None else None
                if caller is None or at is None or not _calls(at[0], function, caller):
                    return None
                frame, (node, syntax) = caller, at
                start = node
                continue
            else:
                return None
            node = parent

    def _target(
        self, target: ast.AST, selectors: tuple[_Selector, ...], frame: FrameType, start: ast.AST
    ) -> list[str] | None:
        """The words for the part *selectors* of the value that is assigned to *target*."""
        while isinstance(target, ast.Tuple | ast.List):
            if not selectors:
                return None
            at, *rest = selectors
            if at is _Each.NEXT:
                if _Each.NEXT in rest:
                    return None
                turn = self._turns.get((frame, start), 0)
                self._turns[frame, start] = turn + 1
                own = frame.f_code.co_name in _OWN_FRAME
                at = turn if own else turn % len(target.elts)
            starred = [isinstance(each, ast.Starred) for each in target.elts]
            if not isinstance(at, int) or at >= len(starred) or any(starred[: at + 1]):
                return None
            target, selectors = target.elts[at], tuple(rest)
        words = _spelled(target, frame)
        if words is None:
            return None
        return [*words, *(each for each in selectors if isinstance(each, str))]


def _keyed(key: object, selectors: tuple[_Selector, ...]) -> tuple[_Selector, ...]:
    word = _word(key)
    return selectors if word is None else (word, *selectors)


def _joined(words: list[str] | None) -> str | None:
    return "_".join(stripped for word in words if (stripped := word.strip("_"))) if words else None


def _callee(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _is_like(call: ast.Call) -> bool:
    """Return True if *call* is a ``like`` without a name, to which Amaranth passes one."""
    return _callee(call) == "like" and not any(
        each.arg in ("name", "name_suffix", None) for each in call.keywords
    )


def _filled(call: ast.Call) -> ast.AST | None:
    """The list that *call* appends something to; None if it does not."""
    func = call.func
    adds = isinstance(func, ast.Attribute) and func.attr in ("append", "extend")
    return func.value if adds and isinstance(func, ast.Attribute) else None


def _calls(call: ast.Call, function: str, frame: FrameType) -> bool:
    """Return True if *call* calls *function*, or the class whose `__init__` that is."""
    if function == "__init__":
        return isinstance(_known(call.func, frame), type)
    return _callee(call) == function


def _makes_record(call: ast.Call, frame: FrameType) -> bool:
    made = _known(call.func, frame)
    return isinstance(made, type) and not (
        issubclass(made, Value) or hasattr(made, "elaborate")
    )


def _field_of(call: ast.Call, node: ast.AST, frame: FrameType) -> str | None:
    """The field that the argument *node* has in the record that *call* makes."""
    made = _known(call.func, frame)
    if not isinstance(made, type) or not _makes_record(call, frame):
        return None
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    try:
        names = list(inspect.signature(made).parameters)
    except (TypeError, ValueError):
        return None
    place = call.args.index(node)  # type: ignore[arg-type]
    return names[place] if place < len(names) else None
