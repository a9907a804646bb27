"""Structures of the design as packed types, one for each distinct structure."""

from __future__ import annotations

from collections.abc import Iterable

from gen.sv import ir, source
from gen.sv.names import Names, identifier
from gen.sv.tree import BLANK, Code, Line, Nested, Stmt, vector

__all__ = ["Types"]


_GENERAL = ("payload", "value", "data", "set")  # names of members that do not tell what they hold


class Types:
    """The types of one file.

    A structure is named after the function that makes its layout (``event_layout`` makes an
    ``event_t``), else after a field or a signal of that structure.

    Parameters
    ----------
    prefix:
        First part of every name: types of SystemVerilog that stand outside of modules share one
        name space.
    modules:
        All modules, which are searched for names.
    """

    def __init__(self, prefix: str, modules: Iterable[ir.Module]) -> None:
        self._prefix = prefix
        self._hints: dict[tuple[object, ...], str] = {}
        self._names: dict[tuple[object, ...], str] = {}
        self._taken = Names()
        self.stmts: list[Stmt] = []
        weak: dict[tuple[object, ...], str] = {}
        for module in modules:
            layouts = source.member_layouts(module.origin) if module.origin else {}
            for path, var, _ in module.members:
                if var.fields and str(path[0]) in layouts and path[-1] in (path[0], "payload"):
                    self._hints.setdefault(_key(var.fields), layouts[str(path[0])])
                named = [str(p) for p in path if not isinstance(p, int) and p not in _GENERAL]
                self._weak(weak, var.fields, named[-1] if named else var.name)
            for var in module.reference_names:
                if var.fields and (hint := source.layout_name(var.loc)):
                    self._hints.setdefault(_key(var.fields), hint)
                parts = var.name.split("__")
                words = [word for word in parts if not word.isdigit() and word not in _GENERAL]
                self._weak(weak, var.fields, words[-1] if words else "fields")
        for key, hint in weak.items():
            self._hints.setdefault(key, hint)

    def _weak(
        self, weak: dict[tuple[object, ...], str], fields: tuple[ir.MemberField, ...], hint: str
    ) -> None:
        if not fields:
            return
        weak.setdefault(_key(fields), hint)
        for field in fields:
            self._weak(weak, field.fields, field.name)

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
        hint = identifier(self._hints.get(key, "fields")).rstrip("0123456789_") or "fields"
        name = self._taken.new(f"{self._prefix}_{hint}").rstrip("_") + "_t"
        self._names[key] = name
        head = Line(Code("typedef struct packed {"))
        self.stmts += [Nested(((head, tuple(members)),), f"}} {name};"), BLANK]
        return name


def _key(fields: tuple[ir.MemberField, ...]) -> tuple[object, ...]:
    return tuple((field.name, field.width, field.key()) for field in fields)
