# SPDX-License-Identifier: Apache-2.0
"""Structures of the design as packed types, one for each distinct structure."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gen.sv import ir, source
from gen.sv.names import Names, identifier, snake
from gen.sv.tree import (
    BLANK,
    Assignment,
    Code,
    Form,
    Line,
    Nested,
    Number,
    Ref,
    Stmt,
    bits,
    constant,
    joined,
    vector,
)

__all__ = ["ParityRow", "Types"]


_GENERAL = ("payload", "value", "data", "set")  # names of members that do not tell what they hold
_WAYS = {"i": "input", "o": "output", "cmd": "command", "read": "read", "write": "write",
         "data": "data"}
"""Names of ports that say which way it goes, not what: a type is called after the class, too."""

ParityRow: TypeAlias = tuple[tuple[int, ...], bool]
"""Masks of words, and True for the inverse of the parity of the bits that these have."""

_Key: TypeAlias = tuple[object, ...]


class Types:
    """The types of one file.

    A structure is named after the function that makes its layout (``event_layout`` makes an
    ``event_t``), else after a field or a signal of that structure, else after the queue or memory
    that holds it, else after the class and port that it passes.

    Parameters
    ----------
    prefix:
        First part of every name: types of SystemVerilog that stand outside of modules share one
        name space.
    modules:
        All modules, which are searched for names.

    Attributes
    ----------
    stmts, functions:
        Declarations of types, and of functions that modules share.
    """

    def __init__(self, prefix: str, modules: Iterable[ir.Module]) -> None:
        self._prefix = prefix
        self._hints: list[dict[_Key, list[str]]] = [{}, {}, {}, {}, {}]
        self._names: dict[_Key, str] = {}
        self._taken = Names()
        self._functions: dict[_Key, str] = {}
        self.stmts: list[Stmt] = []
        self.functions: list[Stmt] = []
        for module in modules:
            self._look(module)

    def _look(self, module: ir.Module) -> None:
        layouts = source.member_layouts(module.origin) if module.origin else {}
        kind = snake(type(module.origin).__name__) if module.origin else module.name
        holds = module.origin is not None and "shape" in inspect.signature(
            type(module.origin).__init__
        ).parameters
        for memory in module.memories:
            for port in memory.reads:
                if isinstance(port.data, ir.Var):
                    self._hint(_HOLDER, port.data.fields, _singular(memory.name), kind)
        for path, var, _ in module.members:
            if str(path[0]) in layouts and path[-1] in (path[0], "payload"):
                self._hint(_LAYOUT, var.fields, layouts[str(path[0])], kind)
            words = [str(part) for part in path if not isinstance(part, int)]
            if holds:
                outer = module.parent.origin if module.parent else None
                self._hint(_HOLDER, var.fields, _singular(module.name.rstrip("0123456789_")),
                           snake(type(outer).__name__) if outer else kind)
            else:
                self._words(var.fields, words, kind)
        for var in module.reference_names:
            if hint := source.layout_name(var.loc):
                self._hint(_LAYOUT, var.fields, hint, kind)
            words = [word for word in var.name.split("__") if not word.isdigit()]
            self._words(var.fields, words, kind, seen=True)

    def _words(
        self, fields: tuple[ir.MemberField, ...], words: list[str], kind: str, *,
        seen: bool = False,
    ) -> None:
        """A name for a structure of *fields* from the *words* of a signal in a module *kind*."""
        said = [word for word in words if word not in _GENERAL and word not in _WAYS]
        way = next((word for word in words if word in _WAYS), "")
        if said and said[-1].rstrip("0123456789_"):
            self._hint(_SIGNAL, fields, said[-1], kind)
        elif way:
            self._hint(_SEEN if seen else _WAY, fields, f"{kind}_{_WAYS[way]}", kind)
        for field in fields:
            self._words(field.fields, [field.name], kind)

    def _hint(
        self, rank: int, fields: tuple[ir.MemberField, ...], hint: str, kind: str
    ) -> None:
        if fields:
            found = self._hints[rank].setdefault(_key(fields), [])
            found += [each for each in (hint, f"{kind}_{hint}") if each not in found]

    def _called(self, key: _Key) -> str:
        """A name for the structure, with its class if another has the shorter one."""
        wanted = [
            identifier(hint).rstrip("0123456789_")
            for hints in self._hints for hint in hints.get(key, ())
        ]
        first, *others = [f"{self._prefix}_{hint}" for hint in wanted if hint] or [
            f"{self._prefix}_fields"
        ]
        return self._taken.new(first, others).rstrip("_") + "_t"

    def parities(self, name: str, sizes: Sequence[int], rows: Sequence[ParityRow]) -> str:
        """The function of words of *sizes* bits with one bit for each of *rows*, declared once."""
        key = tuple(sizes), tuple(rows)
        if key in self._functions:
            return self._functions[key]
        called = self._functions[key] = self._taken.new(f"{self._prefix}_{name}")
        words = ["word"] if len(sizes) == 1 else [f"word_{n}" for n in range(len(sizes))]
        body: list[Stmt] = []
        for number, (masks, inverted) in enumerate(rows):
            bits_of = [
                Code("^(", word, " & ", constant(mask, size), ")")
                for word, mask, size in zip(words, masks, sizes, strict=True) if mask
            ]
            value = Code(*joined(bits_of, " ^ ")) if bits_of else Code("1'b0")
            if inverted:
                value = Code("~", *value.parts) if len(bits_of) == 1 else Code("1'b1 ^ ", value)
            body.append(Line(Assignment("", Ref(called, bits(number, 1)), "=", value)))
        given = [
            Code("input logic ", Number(Form.RANGE, 0, size), " ", word)
            for word, size in zip(words, sizes, strict=True)
        ]
        head = Code("function automatic ", vector(len(rows)), " ", called, "(",
                    *joined(given, ", "), ");")
        self.functions += [Nested(((Line(head), tuple(body)),), "endfunction"), BLANK]
        return called

    def name(self, fields: tuple[ir.MemberField, ...]) -> str:
        """The type of a structure of *fields*, declared on first use."""
        key = _key(fields)
        if key in self._names:
            return self._names[key]
        # The first field of a packed structure is the most significant one.
        members = []
        for field in reversed(fields):
            kind = self.name(field.fields) if field.fields else vector(field.width)
            enum = field.enum.name if field.enum else ""
            members.append(Line(Code(kind, f" {identifier(field.name)};"), enum))
        name = self._names[key] = self._called(key)
        head = Line(Code("typedef struct packed {"))
        self.stmts += [Nested(((head, tuple(members)),), f"}} {name};"), BLANK]
        return name


_LAYOUT, _SIGNAL, _HOLDER, _WAY, _SEEN = range(5)


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _key(fields: tuple[ir.MemberField, ...]) -> tuple[object, ...]:
    return tuple((field.name, field.width, field.key()) for field in fields)
