# SPDX-License-Identifier: Apache-2.0
"""Expressions as code.

Every operand is brought to the width of its context, so that no rule of SystemVerilog ever extends
or cuts a value: the text means what it says, and linters find no width mismatch. Where tools
disagree, the form that all of them accept is written:

- ``8'(name)`` only extends, and only a plain name, a slice or a signed value: Verilator takes the
  inner operators of other casts for too narrow, and to Yosys a cast that cuts still has the width
  of its operand. If only some bits of a result are needed, it gets a wire, and these bits of the
  wire are taken;
- no cast right after a prefix operator, which Yosys applies to the width of the cast;
- ``>>>`` only inside a cast: beside an unsigned operand it would shift zeros in;
- no bit range across fields of a structure within a structure: Yosys takes other bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from gen.sv import ir
from gen.sv.constants import known, plainer
from gen.sv.lists import compressed
from gen.sv.names import identifier
from gen.sv.names import plain as plain_name
from gen.sv.parities import parities
from gen.sv.tree import (
    Code,
    Concat,
    Form,
    Number,
    Part,
    Ref,
    Ternary,
    Unary,
    bits,
    cast,
    concat,
    constant,
    index,
    joined,
    leaves,
    plain,
)
from gen.sv.types import ParityRow

__all__ = ["Printer", "Raw"]

_TERNARY, _OR, _XOR, _AND, _EQUAL, _LESS, _SHIFT, _ADD, _MULTIPLY, _UNARY, _ATOM = range(1, 12)
_LEVEL = {
    "|": _OR, "^": _XOR, "&": _AND, "==": _EQUAL, "!=": _EQUAL, "<": _LESS, "<=": _LESS,
    ">": _LESS, ">=": _LESS, "<<": _SHIFT, ">>": _SHIFT, "+": _ADD, "-": _ADD, "*": _MULTIPLY,
}
_MANY = 3  # alternatives from which on an index reads better than conditions
_REDUCE = {"any": "|", "all": "&", "odd": "^"}

Text = tuple[Part, int]
"""An expression and how tightly its outermost operator binds."""


class Raw(ir.Expr):
    """A value whose code is known: a row of a memory."""

    __slots__ = ("text",)

    def __init__(self, text: Ref, width: int) -> None:
        super().__init__(width, False)
        self.text = text


def _like(value: ir.Expr, width: int) -> Raw:
    """A placeholder of *width* bits with the source location of *value*."""
    raw = Raw(Ref(), width)
    raw.loc = value.loc
    return raw


def _bit(value: ir.Expr) -> ir.Expr:
    return ir.slice_of(value, 0, 1, value.loc)


_COUNTING = {"[", "]", " +: ", " + ", " - ", " * "}


def _counts(part: Part) -> bool:
    """Return True if *part* is an index made of plain names and numbers."""
    if isinstance(part, Number):
        return part.form is Form.PLAIN
    if isinstance(part, str):
        return part in _COUNTING
    return not part.parts[1:] if isinstance(part, Ref) else (
        type(part) is Code and all(map(_counts, part.parts))
    )


def _castable(text: Part) -> bool:
    """Return True if *text* is a plain name, or some bits of one at plain places."""
    if not isinstance(text, Ref) or plain_name(text.name) != text.name:
        return False
    below = itertools.dropwhile(lambda step: isinstance(step, str), text.steps)
    return all(isinstance(step, Number) or _counts(step) for step in below)


class Printer:
    """Writes the expressions of one module.

    Parameters
    ----------
    name:
        Name of a variable.
    fields:
        The structure that a variable is declared with; empty for a vector.
    enum_name:
        Name of the constant that stands for a value of an enumeration, or None.
    wire:
        Declares a wire for a text of some width, named after the expression that it is given too;
        returns the name.
    lists:
        Sizes of the arrays that signals are elements of.
    function:
        Declares a function of words of some sizes whose bits are parities, named after an
        expression; returns the name.

    Attributes
    ----------
    inline:
        Variables that are written as the expression that drives them.
    shared:
        Expressions that have a wire of their own -> its name.
    seen:
        Bits of each variable and shared expression that were written so far, as masks.
    """

    def __init__(
        self,
        name: Callable[[ir.Var], Ref],
        fields: Callable[[ir.Var], tuple[ir.MemberField, ...]],
        enum_name: Callable[[ir.Enum, int, int], str | None],
        wire: Callable[[Part, int, ir.Expr], Ref],
        lists: Mapping[str, tuple[int, ...]],
        function: Callable[[ir.Expr, Sequence[int], Sequence[ParityRow]], str],
    ) -> None:
        self._function = function
        self._name, self._fields, self._enum_name = name, fields, enum_name
        self._wire, self._lists = wire, lists
        self._cut: dict[tuple[Part, int], Raw] = {}
        self.inline: dict[ir.Var, ir.Expr] = {}
        self.shared: dict[ir.Expr, Ref] = {}
        self.seen: dict[ir.Expr, int] = {}

    def full(self, value: ir.Expr) -> Part:
        """*value* at its own width."""
        return self._text(value, value.width)[0]

    def at(self, value: ir.Expr, width: int, enum: ir.Enum | None = None) -> Part:
        """*value*, cut or extended to *width*; constants as members of *enum*."""
        return self._text(value, width, enum)[0]

    def condition(self, value: ir.Expr) -> Part:
        """Condition that *value* is not zero."""
        if value.width == 1:
            return self.full(value)
        tested = self._inside(self._text(value, value.width), _EQUAL)
        return Code(tested, " != ", constant(0, value.width))

    def wired(self, value: ir.Expr) -> Ref:
        """The name of a wire for *value*."""
        return self._wire(self.full(value), value.width, value)

    def enum_of(self, value: ir.Expr) -> ir.Enum | None:
        """The enumeration that *value* is a member of."""
        while isinstance(value, ir.Cast) and value.width == value.value.width:
            value = value.value
        lo, width = 0, value.width
        if isinstance(value, ir.Slice):
            lo, value = value.lo, value.value
        if not isinstance(value, ir.Var):
            return None
        if value in self.inline:
            return self.enum_of(self.inline[value]) if (lo, width) == (0, value.width) else None
        if (lo, width) == (0, value.width) and value.enum:
            return value.enum
        fields = value.fields
        while fields:
            inside = [f for f in fields if f.lo <= lo and lo + width <= f.lo + f.width]
            if not inside:
                return None
            (field,) = inside
            lo -= field.lo
            if (lo, width) == (0, field.width) and not field.fields:
                return field.enum
            fields = field.fields
        return None

    # References

    def target(self, var: ir.Var, lo: int, width: int) -> Ref:
        """Bits of *var* under the names of their fields."""
        return self._name(var).then(*self._within(var, lo, width))

    def _smallest(
        self, var: ir.Var, lo: int, width: int
    ) -> tuple[tuple[str, ...], int, ir.MemberField]:
        """The smallest field of *var* that holds these bits: its path, their start in it."""
        path: tuple[str, ...] = ()
        field = ir.MemberField("", 0, var.width, self._fields(var))
        while (lo, width) != (0, field.width):
            holds = [f for f in field.fields if f.lo <= lo and lo + width <= f.lo + f.width]
            if not holds:
                break
            (field,) = holds
            path, lo = (*path, f".{identifier(field.name)}"), lo - field.lo
        return path, lo, field

    def _within(self, var: ir.Var, lo: int, width: int) -> tuple[Part, ...]:
        """The suffix that selects some of its bits after the name of *var*."""
        path, start, field = self._smallest(var, lo, width)
        if (start, width) == (0, field.width):
            return path
        if field.fields:  # Yosys takes other bits of a structure within a structure
            path, start = (), lo
        return *path, bits(start, width)

    def _reference(self, var: ir.Var, lo: int, width: int) -> Ref:
        self._look(var, lo, width)
        return self.target(var, lo, width)

    def _look(self, value: ir.Expr, lo: int, width: int) -> None:
        self.seen[value] = self.seen.get(value, 0) | ((1 << width) - 1) << lo

    def is_element(self, part: ir.PartSelect) -> bool:
        """Return True if *part* is of a variable or a field of it, and always within that."""
        found = self._base(part)
        if found is None or part.value.width == 1:
            return False
        path, start, field = self._smallest(*found)
        return (start, found[2]) == (0, field.width) and not (path and field.fields)

    def _base(self, part: ir.PartSelect) -> tuple[ir.Var, int, int] | None:
        value = part.value
        while isinstance(value, ir.Cast) and value.width == value.value.width:
            value = value.value
        lo, inner = 0, value
        if isinstance(inner, ir.Slice):
            lo, inner = inner.lo, inner.value
        last = ((1 << part.offset.width) - 1) * part.stride + part.width
        if not isinstance(inner, ir.Var) or inner in self.inline or last > value.width:
            return None
        return inner, lo, value.width

    def element(self, part: ir.PartSelect) -> Ref:
        """``rows[8*index +: 8]``, if `is_element`."""
        found = self._base(part)
        assert found is not None
        return self.target(*found).then(index(self._scaled(part)[0], part.width))

    def _scaled(self, part: ir.PartSelect) -> Text:
        """The bit at which *part* begins."""
        offset, width = part.offset, part.offset.width
        if part.stride == 1:
            return self._text(offset, width)
        if part.stride & (part.stride - 1) == 0:
            low = part.stride.bit_length() - 1
            return Concat(self.full(offset), constant(0, low)), _ATOM
        wide = width + part.stride.bit_length()
        factor = self._inside(self._text(offset, wide), _MULTIPLY)
        return Code(factor, " * ", constant(part.stride, wide)), _MULTIPLY

    # Values

    @staticmethod
    def _inside(text: Text, level: int) -> Part:
        return text[0] if text[1] > level else Code("(", text[0], ")")

    def _prefixed(self, operator: str, text: Text) -> Text:
        return Unary(operator, self._inside(text, _UNARY)), _UNARY

    def _fit(self, text: Text, have: int, want: int, signed: bool) -> Text:
        if have == want:
            return text
        if want > have and not signed and not _castable(text[0]):
            return Concat(constant(0, want - have), text[0]), _ATOM
        if want > have and signed:
            return cast(want, Code("$signed(", text[0], ")")), _ATOM
        assert want > have
        return cast(want, text[0]), _ATOM

    def _low(self, text: Text, value: ir.Expr, have: int, want: int, lo: int = 0) -> Text:
        """*want* bits of a *text* that is *have* bits wide, through a wire made for it."""
        if have == want:
            return text
        key = text[0], have
        if key not in self._cut:
            wired = self._cut[key] = _like(value, have)
            self.shared[wired] = self._wire(text[0], have, value)
        wired = self._cut[key]
        self._look(wired, lo, want)
        return self.shared[wired].then(bits(lo, want)), _ATOM

    def _text(self, value: ir.Expr, width: int, enum: ir.Enum | None = None) -> Text:
        """*value* modulo ``2 ** width``; the text's own width is *width*."""
        if width == 0 or value.width == 0:
            return constant(0, max(1, width)), _ATOM
        if value in self.shared:
            name = self.shared[value]
            self._look(value, 0, min(width, value.width))
            if width < value.width:
                return name.then(bits(0, width)), _ATOM
            return self._fit((name, _ATOM), value.width, width, value.signed)
        value = plainer(value, self.inline)
        if isinstance(value, ir.Const):
            named = enum and self._enum_name(enum, value.value & ((1 << width) - 1), width)
            return Ref(named) if named else constant(value.value, width), _ATOM
        if isinstance(value, ir.Var):
            if value in self.inline:
                driven = ir.Cast(self.inline[value], value.width, value.signed)
                return self._cast(driven, width, enum)
            kept = min(width, value.width)
            return self._fit((self._reference(value, 0, kept), _ATOM), kept, width, value.signed)
        if isinstance(value, Raw):
            if width < value.width:
                return value.text.then(bits(0, width)), _ATOM
            return self._fit((value.text, _ATOM), value.width, width, False)
        if isinstance(value, ir.Cast):
            return self._cast(value, width, enum)
        if isinstance(value, ir.Slice):
            return self._slice(value, width)
        if isinstance(value, ir.PartSelect):
            return self._part(value, width)
        if isinstance(value, ir.Choice):
            return self._choice(value, width, enum)
        if isinstance(value, ir.Cat):
            return self._cat(value, width)
        assert isinstance(value, ir.Op)
        return self._unary(value, width) if len(value.args) == 1 else self._binary(value, width)

    def _cast(self, value: ir.Cast, width: int, enum: ir.Enum | None) -> Text:
        inner = value.value
        if isinstance(inner, ir.Const):
            number = inner.value & ((1 << value.width) - 1)
            if value.signed and number >> (value.width - 1):
                number -= 1 << value.width
            return self._text(ir.Const(number, value.width, value.signed), width, enum)
        same = value.signed == inner.signed and inner.width <= value.width
        if width <= value.width or same:
            return self._text(value.value, width, enum)
        return self._fit(
            self._text(value.value, value.width), value.width, width, value.signed
        )

    def _slice(self, value: ir.Slice, width: int) -> Text:
        inner, lo, own = value.value, value.lo, value.width
        if width < own:
            return self._text(ir.slice_of(inner, lo, width, value.loc), width)
        if inner in self.shared:
            self._look(inner, lo, own)
            return self._fit((self.shared[inner].then(bits(lo, own)), _ATOM), own, width, False)
        if isinstance(inner, ir.Var) and inner not in self.inline:
            return self._fit((self._reference(inner, lo, own), _ATOM), own, width, False)
        if isinstance(inner, ir.Var):
            driven = ir.Cast(self.inline[inner], inner.width, inner.signed)
            return self._text(ir.slice_of(driven, lo, own), width)
        narrow = self._narrowed(inner, lo, own)
        if narrow is not None:
            return self._fit(self._text(narrow, own), own, width, False)
        if lo == 0:
            return self._fit(self._text(inner, own), own, width, False)
        low = self._low(self._text(inner, lo + own), inner, lo + own, own, lo)
        return self._fit(low, own, width, False)

    def _narrowed(self, value: ir.Expr, lo: int, width: int) -> ir.Expr | None:
        """Bits of *value* as an expression on the same bits of its operands; None if impossible."""

        def cut(operand: ir.Expr) -> ir.Expr:
            return ir.slice_of(ir.Cast(operand, value.width, False), lo, width)

        if isinstance(value, ir.Choice):
            return ir.Choice(
                value.test, [(p, cut(v)) for p, v in value.cases], width, False, value.loc
            )
        if isinstance(value, ir.Op) and value.op in ("&", "|", "^", "~"):
            return ir.Op(value.op, map(cut, value.args), width, False, value.loc)
        if isinstance(value, ir.Cast):
            inner = value.value
            if lo + width <= min(inner.width, value.width):
                return ir.slice_of(inner, lo, width)
            if not inner.signed and lo >= inner.width:
                return ir.Const(0, width)
            if not inner.signed and lo < inner.width:
                kept = ir.slice_of(inner, lo, inner.width - lo)
                return ir.Cat([kept, ir.Const(0, width - kept.width)])
        return None

    def _part(self, value: ir.PartSelect, width: int) -> Text:
        own, inner = value.width, value.value
        if width < own:
            part = ir.PartSelect(inner, value.offset, width, value.stride, value.loc)
            return self._part(part, width)
        if self.is_element(value):
            element = self.element(value)
            for var, mask in ir.variables(inner).items():
                self.seen[var] = self.seen.get(var, 0) | mask
            return self._fit((element, _ATOM), own, width, False)
        amount = self._inside(self._scaled(value), _MULTIPLY)
        wide = max(inner.width, own)
        text = self._text(inner, wide)
        # Zeros come in even behind a signed value: Amaranth's netlist has it so, its simulator not.
        shifted = Code(self._inside(text, _MULTIPLY), " >> ", amount), _SHIFT
        return self._fit(self._low(shifted, value, wide, own), own, width, False)

    def _cat(self, value: ir.Cat, width: int) -> Text:
        if width < value.width:
            return self._text(ir.slice_of(value, 0, width, value.loc), width)
        if len(value.parts) == 1:
            return self._text(ir.Cast(value.parts[0], value.width, False), width)
        if all(isinstance(part, ir.Const) for part in value.parts):
            total, at = 0, 0
            for part in value.parts:
                assert isinstance(part, ir.Const)
                total |= (part.value & ((1 << part.width) - 1)) << at
                at += part.width
            return constant(total, width), _ATOM
        if found := parities(value):
            words_of, rows = found
            name = self._function(value, [word.width for word in words_of], rows)
            given = [self._operand(word, word.width)[0] for word in words_of]
            call = Code(f"{name}(", *joined(given, ", "), ")")
            return self._fit((call, _ATOM), value.width, width, False)
        runs: list[tuple[Part, int]] = []
        for part in reversed(value.parts):
            text = self.full(part)
            if runs and runs[-1][0] == text:
                runs[-1] = text, runs[-1][1] + 1
            else:
                runs.append((text, 1))
        words = [
            text if count == 1 else Code("{", plain(count), "{", text, "}}") for text, count in runs
        ]
        whole = concat(compressed(words, self._lists))
        return self._fit((whole, _ATOM), value.width, width, False)

    def _choice(self, value: ir.Choice, width: int, enum: ir.Enum | None) -> Text:
        if value.ternary:
            yes, no = value.ternary
            if width == 1 and known(no, self.inline) == 0 and value.test.width == 1:
                return self._text(ir.Op("&", [value.test, _bit(yes)], 1, False, value.loc), 1)
            condition = self.condition(value.test)
            first, *others = leaves(condition)
            if first != "~" and any(" " in str(word) for word in (first, *others)):
                condition = Code("(", condition, ")")
            one = self._inside(self._text(yes, width, enum), _TERNARY)
            other = self._text(no, width, enum)[0]
            return Ternary(condition, " ? ", one, " : ", other), _TERNARY
        last: Part | None = None
        arms: list[Part] = []
        left = 1 << value.test.width
        names = self.enum_of(value.test)
        for patterns, inner in value.cases:
            if patterns is not None and not patterns:
                continue
            text = self._inside(self._text(inner, width, enum), _TERNARY)
            left -= sum(1 << p.count("-") for p in patterns or ())
            if patterns is None or left == 0:
                last = text
                break
            fits = [self.matches(value.test, pattern, names) for pattern in patterns]
            arms += ["(", *joined(fits, " || "), ") ? ", text, " : "]
        if whole := self._indexed(value, width):
            return whole
        last = last if last is not None else constant(0, width)
        return (Ternary(*arms, last), _TERNARY) if arms else (last, _UNARY)

    def _indexed(self, value: ir.Choice, width: int) -> Text | None:
        """A choice among all elements of an array by number as an index; None for other choices."""
        test = value.test
        names: list[Part] = []
        for number, (patterns, inner) in enumerate(value.cases):
            fits = patterns in (None, (format(number, f"0{test.width}b"),))
            if not isinstance(inner, ir.Var) or inner.width != width or not fits:
                return None
            names.append(self._text(inner, width)[0])
        words = compressed(names[::-1], self._lists)
        if len(words) != 1 or len(names) != 1 << test.width or len(names) < _MANY:
            return None
        (whole,) = words
        return (whole.then(index(self.full(test))), _ATOM) if isinstance(whole, Ref) else None

    def matches(self, test: ir.Expr, pattern: str, enum: ir.Enum | None = None) -> Part:
        """Condition that *test* matches one bit pattern."""
        wide = len(pattern)
        text = self._text(test, wide)
        value = int(pattern.replace("-", "0"), 2)
        if "-" in pattern:
            mask = int(pattern.replace("0", "1").replace("-", "0"), 2)
            masked = Code("(", self._inside(text, _AND), " & ", constant(mask, wide), ")")
            return Code(masked, " == ", constant(value, wide))
        if wide == 1:
            return text[0] if value else self._prefixed("~", text)[0]
        right = self._text(ir.Const(value, wide), wide, enum)[0]
        return Code(self._inside(text, _EQUAL), " == ", right)

    def _unary(self, value: ir.Op, width: int) -> Text:
        (arg,) = value.args
        if value.op in _REDUCE:
            text = self._text(arg, arg.width)
            if arg.width > 1:
                text = self._prefixed(_REDUCE[value.op], text)
            return self._fit(text, 1, width, False)
        own = value.width if value.op == "~" and width > value.width and not value.signed else width
        inner = self._prefixed("-" if value.op == "neg" else "~", self._text(arg, own))
        return self._fit(inner, own, width, False)

    def _binary(self, value: ir.Op, width: int) -> Text:
        left, right = value.args
        op = value.op
        if op in ("&", "|", "^"):
            return self._bitwise(value, width)
        if op == "+" and isinstance(left, ir.Const) and not left.value:
            return self._operand(right, width)  # the start value of a sum
        if op in ("+", "-", "*"):
            level = _LEVEL[op]
            first, second = self._operand(left, width), self._operand(right, width)
            # Sums and products from left to right need no parentheses.
            one = self._inside(first, level - 1)
            return Code(one, f" {op} ", self._inside(second, level)), level
        if op == "<<":
            amount = self._inside(self._text(right, right.width), _MULTIPLY)
            shifted = self._inside(self._text(left, width), _MULTIPLY)
            return Code(shifted, " << ", amount), _SHIFT
        if op == ">>":
            amount = self._inside(self._text(right, right.width), _MULTIPLY)
            wide = max(value.width, width)
            if left.signed:
                signed = Code("$signed(", self._text(left, wide)[0], ") >>> ", amount)
                return self._low((cast(wide, signed), _ATOM), value, wide, width)
            text = Code(self._inside(self._text(left, wide), _MULTIPLY), " >> ", amount)
            return self._low((text, _SHIFT), value, wide, width)
        if op in ("//", "%"):
            return self._division(value, width)
        return self._fit(self._comparison(value), 1, width, False)

    def _operand(self, value: ir.Expr, width: int, enum: ir.Enum | None = None) -> Text:
        """*value* as an operand of an operator, a structure cast to a vector."""
        text = self._text(value, width, enum)
        lo, base = 0, value
        if isinstance(base, ir.Slice):
            lo, base = base.lo, base.value
        if width != value.width or not isinstance(base, ir.Var) or base in self.inline:
            return text
        fields, size = self._fields(base), base.width
        while fields and (lo, width) != (0, size):
            inside = [f for f in fields if f.lo <= lo and lo + width <= f.lo + f.width]
            if not inside:
                return text
            lo, size, fields = lo - inside[0].lo, inside[0].width, inside[0].fields
        return (cast(width, text[0]), _ATOM) if fields else text

    def _bitwise(self, value: ir.Op, width: int) -> Text:
        op, level = value.op, _LEVEL[value.op]
        own = value.width if value.width < width and not value.signed else width
        words: list[Part] = []
        for arg in value.args:
            text, binds = self._operand(arg, own)
            # Parentheses between operators of different kinds, whatever their precedence.
            loose = binds != level and binds <= _ADD
            words.append(Code("(", text, ")") if loose else text)
        return self._fit((Code(*joined(words, f" {op} ")), level), own, width, False)

    def _comparison(self, value: ir.Op) -> Text:
        left, right = value.args
        op, level = value.op, _LEVEL[value.op]
        signed = left.signed or right.signed
        wide = max(
            arg.width + (signed and not arg.signed) for arg in value.args
        )
        for arg, other in ((left, right), (right, left)):
            # A constant that fits is compared at the width of the other side.
            if isinstance(other, ir.Const) and not signed and other.value < 1 << arg.width:
                wide = arg.width
        if isinstance(right, ir.Const) and not signed:
            top = (1 << wide) - 1
            known = {("<", 0): 0, (">=", 0): 1, (">", top): 0, ("<=", top): 1}
            if (op, right.value) in known:
                return constant(known[op, right.value], 1), _ATOM
        if wide == 1 and op in ("==", "!=") and isinstance(right, ir.Const):
            text = self._text(left, 1)
            same = (right.value & 1) == (op == "==")
            return text if same else self._prefixed("~", text)
        exact = op in ("==", "!=")
        first = self._operand(left, wide, self.enum_of(right) if exact else None)
        second = self._operand(right, wide, self.enum_of(left) if exact else None)
        if signed and not exact:
            return Code("$signed(", first[0], f") {op} $signed(", second[0], ")"), level
        return Code(
            self._inside(first, _EQUAL + 1), f" {op} ", self._inside(second, _EQUAL + 1)
        ), level

    def _division(self, value: ir.Op, width: int) -> Text:
        left, right = value.args
        wide = max(left.width, right.width, width)
        first = self._inside(self._text(left, wide), _MULTIPLY)
        second = self._inside(self._text(right, wide), _MULTIPLY)
        text = Code(first, f" {value.op[0]} ", second)
        if not (isinstance(right, ir.Const) and right.value):
            none = constant(0, wide)
            text = Ternary(second, " == ", none, " ? ", none, " : ", text)
        return self._low((Code("(", text, ")"), _ATOM), value, wide, width)
