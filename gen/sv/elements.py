# SPDX-License-Identifier: Apache-2.0
"""Fields of elements of arrays of structures.

Yosys knows no arrays of structures, so an array holds vectors, and a field of an element is some of
its bits. In a loop these bits get a name, or an element is assembled as a structure first.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gen.sv import ir
from gen.sv.context import Context
from gen.sv.lists import Array
from gen.sv.names import identifier
from gen.sv.tree import (
    Assignment,
    Code,
    For,
    Line,
    Number,
    Part,
    Ref,
    Stmt,
    assignments,
    bits,
    kept,
    leaves,
    lines,
    references,
    rewritten,
    vector,
    walk,
)

__all__ = ["loosened", "named_in_loop", "sliced", "without_copies"]


def _structures(c: Context) -> dict[str, Array]:
    """The arrays of structures, by name, of which single fields are read or written."""
    found: dict[str, Array] = {}
    for array, _ in c.element.values():
        if array.elements[0].fields and array.name not in found and c.by_field(array):
            found[array.name] = array
    return found


def _element(ref: Ref, arrays: Mapping[str, Array]) -> tuple[Ref, tuple[str, ...]] | None:
    """The element of one of *arrays* of which *ref* is a field, and the path of the field."""
    if ref.name not in arrays:
        return None
    indices = list(itertools.takewhile(lambda step: not isinstance(step, str), ref.steps))
    path = tuple(step for step in ref.steps if isinstance(step, str))
    return (Ref(ref.name, *indices), path) if indices and path else None


def _field(ref: Ref) -> tuple[Ref, tuple[Part, ...]]:
    """*ref* without an index that is computed behind it, and that index."""
    behind = ref.parts[-1]
    return (Ref(*ref.parts[:-1]), (behind,)) if isinstance(behind, Code) else (ref, ())


def _bits(ref: Ref, array: Array, path: Iterable[str]) -> Number:
    """The bits of *ref*, a field or part of one, in an element of *array*."""
    lo, width, fields = 0, array.width, array.elements[0].fields
    terms: tuple[tuple[int, int | str], ...] = ()
    for step in path:
        field = next(field for field in fields if f".{identifier(field.name)}" == step)
        lo, width, fields = lo + field.lo, field.width, field.fields
    part = ref.steps[-1]
    if isinstance(part, Number):
        lo, width, terms = lo + part.value, part.width or 1, part.terms
    return replace(bits(lo, width), terms=terms)


def _variables(element: Ref) -> set[str]:
    """The names that the indices of *element* depend on."""
    words = (word for step in element.steps for word in leaves(step))
    return {
        name
        for word in words
        for name in (
            [str(name) for _, name in word.terms] if isinstance(word, Number) else [word]
        )
    }


def _is_copy(assign: Assignment) -> bool:
    """Return True if *assign* gives a field or an element a name of its own already."""
    return assign.parts[0] != "" and all(
        isinstance(side, Ref) and all(
            (isinstance(step, str) and side is assign.value)
            or (isinstance(step, Number) and len(step.spelled()) == 3)
            for step in side.steps
        )
        for side in (assign.target, assign.value)
    )


def named_in_loop(c: Context, stmts: Sequence[Stmt], loop: str) -> tuple[Stmt, ...]:
    """The body of a loop, with names for the fields that it uses.

    *loop* is its variable; fields that do not depend on it get no names here.
    """
    arrays = _structures(c)
    found = [(_field(ref)[0], at) for ref in references(stmts) if (at := _element(ref, arrays))]
    if not found:
        return tuple(stmts)
    procedural = {str(node.parts[1]) for node in walk(stmts)
                  if isinstance(node, For) and node.parts[0] == "int"}
    written = {
        at[0] for assign in assignments(stmts) for ref in assign.targets
        if (at := _element(ref, arrays))
    }
    copied = {
        line.code.value for line in lines(stmts)
        if isinstance(line.code, Assignment) and not line.note and _is_copy(line.code)
    }
    whole: dict[Ref, Ref] = {}
    named: dict[Part, Ref] = {}
    above: list[Stmt] = []
    after: list[Stmt] = []
    for ref, (element, path) in found:
        array = arrays[ref.name]
        variables = _variables(element)
        if procedural & variables or loop not in variables or ref in copied:
            continue
        last = ref.steps[-1]
        moves = isinstance(last, Number) and last.terms  # with a loop further inside, perhaps
        if element in written:
            if element not in whole:
                whole[element] = Ref(c.taken.new(f"one_{array.name}"))
                c.assembled.add(whole[element])
                structure = c.types.name(array.elements[0].fields)
                above.append(Line(Code(structure, " ", whole[element], ";")))
                after.append(Line(Assignment("assign ", element, "=", whole[element])))
        elif ref not in named and not moves:
            part = _bits(ref, array, path)
            named[ref] = Ref(c.taken.new("_".join([array.name, *(word[1:] for word in path)])))
            kind = Code("wire", *vector(part.width or 1).parts[1:])
            above.append(Line(Code(kind, " ", named[ref], " = ", element.then(part), ";")))

    def new(part: Part) -> Part | None:
        if not isinstance(part, Ref) or part.name not in arrays:
            return None
        field, behind = _field(part)
        if field in named:
            return named[field].then(*behind)
        for element, one in whole.items():
            size = len(element.parts)
            behind = part.parts[size:]
            if part.parts[:size] == element.parts and not (
                behind and not isinstance(behind[0], str)
            ):
                return one.then(*behind)
        return None

    return (*above, *rewritten(stmts, new), *after)


def without_copies(
    c: Context, body: Sequence[Stmt], others: Iterable[Stmt]
) -> tuple[Stmt, ...]:
    """*body* without arrays whose elements are read only in their loops, by their names there.

    *others* are the other statements of the module.
    """
    arrays = {
        name: array for name, array in _structures(c).items()
        if set(array.elements) <= set(c.local)  # no port
    }
    if not arrays:
        return tuple(body)
    count = Counter(ref.name for ref in references([*body, *others]))

    def copies(stmt: Stmt) -> bool:
        assign = stmt.code if isinstance(stmt, Line) else None
        return isinstance(assign, Assignment) and isinstance(assign.target, Ref) and (
            assign.value in c.assembled
            and assign.target.name in arrays and count[assign.target.name] == 1
        )

    c.hidden.update(
        var for assign in assignments(body) if copies(Line(assign))
        for var in arrays[assign.targets[0].name].elements
    )
    return kept(body, lambda stmt: not copies(stmt))


def sliced(c: Context, stmts: Sequence[Stmt]) -> tuple[Stmt, ...] | None:
    """*stmts* with bit ranges for fields of elements that have no name; None if such a field is
    written, in which case its array is given up in the next attempt.
    """
    arrays = _structures(c)
    if not arrays:
        return tuple(stmts)
    for assign in assignments(stmts):
        for ref in assign.targets:
            if _element(ref, arrays):
                c.plan.loose.update(arrays[ref.name].elements)
                return None

    def new(part: Part) -> Part | None:
        at = _element(part, arrays) if isinstance(part, Ref) else None
        if at is None or not isinstance(part, Ref):
            return None
        field, behind = _field(part)
        return at[0].then(_bits(field, arrays[part.name], at[1]), *behind)

    return rewritten(stmts, new)


def loosened(c: Context, hidden: set[ir.Var]) -> bool:
    """Keep or give up arrays of which only some elements are declared; True if the plan changed."""
    known = len(c.plan.loose)
    for array in dict.fromkeys(array for array, _ in c.element.values()):
        count = sum(var in hidden for var in array.elements)
        if 0 < count < len(array.elements):
            if not c.plan.kept.issuperset(array.elements):
                c.plan.kept.update(array.elements)
                return True
            c.plan.loose.update(array.elements)
    return len(c.plan.loose) > known
