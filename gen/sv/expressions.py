"""Expressions as text.

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

import re
from collections.abc import Callable, Mapping

from gen.sv import ir
from gen.sv.lists import compressed
from gen.sv.names import identifier

__all__ = ["Printer", "Raw", "constant", "range_of"]

_TERNARY, _OR, _XOR, _AND, _EQUAL, _LESS, _SHIFT, _ADD, _MULTIPLY, _UNARY, _ATOM = range(1, 12)
_LEVEL = {
    "|": _OR, "^": _XOR, "&": _AND, "==": _EQUAL, "!=": _EQUAL, "<": _LESS, "<=": _LESS,
    ">": _LESS, ">=": _LESS, "<<": _SHIFT, ">>": _SHIFT, "+": _ADD, "-": _ADD, "*": _MULTIPLY,
}
_MANY = 3  # alternatives from which on an index reads better than conditions
_REDUCE = {"any": "|", "all": "&", "odd": "^"}
_CAST = re.compile(r"\d+'\(")
_NAME = re.compile(r"[A-Za-z_][\w.]*(\[[\w: +*-]+\])*$")

Text = tuple[str, int]
"""An expression and how tightly its outermost operator binds."""


class Raw(ir.Expr):
    """A value whose text is known: a row of a memory."""

    __slots__ = ("text",)

    def __init__(self, text: str, width: int) -> None:
        super().__init__(width, False)
        self.text = text


def constant(value: int, width: int) -> str:
    """*value* as a sized number."""
    value &= (1 << width) - 1
    if width == 1:
        return f"1'b{value}"
    return f"{width}'d{value}" if value < 4096 else f"{width}'h{value:x}"


def range_of(width: int) -> str:
    """`` [7:0]`` for 8 bits, nothing for one."""
    return "" if width == 1 else f" [{width - 1}:0]"


def _like(value: ir.Expr, width: int) -> Raw:
    """A placeholder of *width* bits with the source location of *value*."""
    raw = Raw("", width)
    raw.loc = value.loc
    return raw


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
        name: Callable[[ir.Var], str],
        fields: Callable[[ir.Var], tuple[ir.MemberField, ...]],
        enum_name: Callable[[ir.Enum, int, int], str | None],
        wire: Callable[[str, int, ir.Expr], str],
        lists: Mapping[str, tuple[int, ...]],
    ) -> None:
        self._name, self._fields, self._enum_name = name, fields, enum_name
        self._wire, self._lists = wire, lists
        self._cut: dict[tuple[str, int], Raw] = {}
        self.inline: dict[ir.Var, ir.Expr] = {}
        self.shared: dict[ir.Expr, str] = {}
        self.seen: dict[ir.Expr, int] = {}

    def full(self, value: ir.Expr) -> str:
        """*value* at its own width."""
        return self._text(value, value.width)[0]

    def at(self, value: ir.Expr, width: int, enum: ir.Enum | None = None) -> str:
        """*value*, cut or extended to *width*; constants as members of *enum*."""
        return self._text(value, width, enum)[0]

    def condition(self, value: ir.Expr) -> str:
        """Condition that *value* is not zero."""
        if value.width == 1:
            return self.full(value)
        return f"{self._inside(self._text(value, value.width), _EQUAL)} != " + constant(
            0, value.width
        )

    def wired(self, value: ir.Expr) -> str:
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

    def target(self, var: ir.Var, lo: int, width: int) -> str:
        """Bits of *var* under the names of their fields."""
        return self._name(var) + self._within(var, lo, width)

    def _smallest(self, var: ir.Var, lo: int, width: int) -> tuple[str, int, ir.MemberField]:
        """The smallest field of *var* that holds these bits: its path, their start in it."""
        path, field = "", ir.MemberField("", 0, var.width, self._fields(var))
        while (lo, width) != (0, field.width):
            holds = [f for f in field.fields if f.lo <= lo and lo + width <= f.lo + f.width]
            if not holds:
                break
            (field,) = holds
            path, lo = f"{path}.{identifier(field.name)}", lo - field.lo
        return path, lo, field

    def _within(self, var: ir.Var, lo: int, width: int) -> str:
        """The suffix that selects some of its bits after the name of *var*."""
        path, start, field = self._smallest(var, lo, width)
        if (start, width) == (0, field.width):
            return path
        if field.fields:  # Yosys takes other bits of a structure within a structure
            path, start = "", lo
        return f"{path}[{start}]" if width == 1 else f"{path}[{start + width - 1}:{start}]"

    def _reference(self, var: ir.Var, lo: int, width: int) -> str:
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

    def element(self, part: ir.PartSelect) -> str:
        """``rows[8*index +: 8]``, if `is_element`."""
        found = self._base(part)
        assert found is not None
        base = self.target(*found)
        index = self._scaled(part)[0]
        return f"{base}[{index}]" if part.width == 1 else f"{base}[{index} +: {part.width}]"

    def _scaled(self, part: ir.PartSelect) -> Text:
        """The bit at which *part* begins."""
        offset, width = part.offset, part.offset.width
        if part.stride == 1:
            return self._text(offset, width)
        if part.stride & (part.stride - 1) == 0:
            low = part.stride.bit_length() - 1
            return f"{{{self.full(offset)}, {constant(0, low)}}}", _ATOM
        wide = width + part.stride.bit_length()
        factor = self._inside(self._text(offset, wide), _MULTIPLY)
        return f"{factor} * {constant(part.stride, wide)}", _MULTIPLY

    # Values

    @staticmethod
    def _inside(text: Text, level: int) -> str:
        return text[0] if text[1] > level else f"({text[0]})"

    def _unary_operand(self, text: Text) -> str:
        """*text* as the operand of a prefix operator."""
        inner = self._inside(text, _UNARY)
        return f"({inner})" if _CAST.match(inner) else inner

    def _fit(self, text: Text, have: int, want: int, signed: bool) -> Text:
        if have == want:
            return text
        if want > have and not signed and not _NAME.match(text[0]):
            return f"{{{constant(0, want - have)}, {text[0]}}}", _ATOM
        if want > have and signed:
            return f"{want}'($signed({text[0]}))", _ATOM
        assert want > have
        return f"{want}'({text[0]})", _ATOM

    def _low(self, text: Text, value: ir.Expr, have: int, want: int, lo: int = 0) -> Text:
        """*want* bits of a *text* that is *have* bits wide, through a wire made for it."""
        if have == want:
            return text
        key = text[0], have
        if key not in self._cut:
            bits = self._cut[key] = _like(value, have)
            self.shared[bits] = self._wire(text[0], have, value)
        bits = self._cut[key]
        self._look(bits, lo, want)
        chosen = f"{lo}" if want == 1 else f"{lo + want - 1}:{lo}"
        return f"{self.shared[bits]}[{chosen}]", _ATOM

    def _text(self, value: ir.Expr, width: int, enum: ir.Enum | None = None) -> Text:
        """*value* modulo ``2 ** width``; the text's own width is *width*."""
        if width == 0 or value.width == 0:
            return constant(0, max(1, width)), _ATOM
        if value in self.shared:
            name = self.shared[value]
            self._look(value, 0, min(width, value.width))
            if width < value.width:
                return f"{name}[{width - 1}:0]" if width > 1 else f"{name}[0]", _ATOM
            return self._fit((name, _ATOM), value.width, width, value.signed)
        if isinstance(value, ir.Const):
            named = enum and self._enum_name(enum, value.value & ((1 << width) - 1), width)
            return named or constant(value.value, width), _ATOM
        if isinstance(value, ir.Var):
            if value in self.inline:
                driven = ir.Cast(self.inline[value], value.width, value.signed)
                return self._cast(driven, width, enum)
            kept = min(width, value.width)
            return self._fit((self._reference(value, 0, kept), _ATOM), kept, width, value.signed)
        if isinstance(value, Raw):
            if width < value.width:
                return f"{value.text}[{width - 1}:0]" if width > 1 else f"{value.text}[0]", _ATOM
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
            chosen = f"{lo}" if own == 1 else f"{lo + own - 1}:{lo}"
            self._look(inner, lo, own)
            return self._fit((f"{self.shared[inner]}[{chosen}]", _ATOM), own, width, False)
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
        bits = self._low(self._text(inner, lo + own), inner, lo + own, own, lo)
        return self._fit(bits, own, width, False)

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
        shifted = f"{self._inside(text, _MULTIPLY)} >> {amount}", _SHIFT
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
        runs: list[tuple[str, int]] = []
        for part in reversed(value.parts):
            text = self.full(part)
            if runs and runs[-1][0] == text:
                runs[-1] = text, runs[-1][1] + 1
            else:
                runs.append((text, 1))
        words = [text if count == 1 else f"{{{count}{{{text}}}}}" for text, count in runs]
        words = compressed(words, self._lists)
        whole = words[0] if len(words) == 1 else f"{{{', '.join(words)}}}"
        return self._fit((whole, _ATOM), value.width, width, False)

    def _choice(self, value: ir.Choice, width: int, enum: ir.Enum | None) -> Text:
        if value.ternary:
            yes, no = value.ternary
            condition = self.condition(value.test)
            if " " in condition and not condition.startswith("~"):
                condition = f"({condition})"
            one = self._inside(self._text(yes, width, enum), _TERNARY)
            other = self._text(no, width, enum)[0]
            return f"{condition} ? {one} : {other}", _TERNARY
        last: str | None = None
        arms: list[str] = []
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
            arms.append(f"({' || '.join(fits)}) ? {text} : ")
        if whole := self._indexed(value, width):
            return whole
        text = "".join(arms) + (last if last is not None else constant(0, width))
        return text, _TERNARY if arms else _UNARY

    def _indexed(self, value: ir.Choice, width: int) -> Text | None:
        """A choice among all elements of an array by number as an index; None for other choices."""
        test = value.test
        names: list[str] = []
        for number, (patterns, inner) in enumerate(value.cases):
            fits = patterns in (None, (format(number, f"0{test.width}b"),))
            if not isinstance(inner, ir.Var) or inner.width != width or not fits:
                return None
            names.append(self._text(inner, width)[0])
        words = compressed(names[::-1], self._lists)
        if len(words) != 1 or len(names) != 1 << test.width or len(names) < _MANY:
            return None
        return f"{words[0]}[{self.full(test)}]", _ATOM

    def matches(self, test: ir.Expr, pattern: str, enum: ir.Enum | None = None) -> str:
        """Condition that *test* matches one bit pattern."""
        wide = len(pattern)
        text = self._text(test, wide)
        value = int(pattern.replace("-", "0"), 2)
        if "-" in pattern:
            mask = int(pattern.replace("0", "1").replace("-", "0"), 2)
            masked = f"({self._inside(text, _AND)} & {constant(mask, wide)})"
            return f"{masked} == {constant(value, wide)}"
        if wide == 1:
            return text[0] if value else f"~{self._unary_operand(text)}"
        right = self._text(ir.Const(value, wide), wide, enum)[0]
        return f"{self._inside(text, _EQUAL)} == {right}"

    def _unary(self, value: ir.Op, width: int) -> Text:
        (arg,) = value.args
        if value.op in _REDUCE:
            text = self._text(arg, arg.width)
            if arg.width > 1:
                text = _REDUCE[value.op] + self._unary_operand(text), _UNARY
            return self._fit(text, 1, width, False)
        own = value.width if value.op == "~" and width > value.width and not value.signed else width
        text = self._text(arg, own)
        inner = ("-" if value.op == "neg" else "~") + self._unary_operand(text)
        return self._fit((inner, _UNARY), own, width, False)

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
            one = first[0] if first[1] >= level else f"({first[0]})"
            return f"{one} {op} {self._inside(second, level)}", level
        if op == "<<":
            amount = self._inside(self._text(right, right.width), _MULTIPLY)
            return f"{self._inside(self._text(left, width), _MULTIPLY)} << {amount}", _SHIFT
        if op == ">>":
            amount = self._inside(self._text(right, right.width), _MULTIPLY)
            wide = max(value.width, width)
            if left.signed:
                text = f"{wide}'($signed({self._text(left, wide)[0]}) >>> {amount})"
                return self._low((text, _ATOM), value, wide, width)
            text = f"{self._inside(self._text(left, wide), _MULTIPLY)} >> {amount}"
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
        return (f"{width}'({text[0]})", _ATOM) if fields else text

    def _bitwise(self, value: ir.Op, width: int) -> Text:
        op, level = value.op, _LEVEL[value.op]
        own = value.width if value.width < width and not value.signed else width
        words = []
        for arg in value.args:
            text, binds = self._operand(arg, own)
            # Parentheses between operators of different kinds, whatever their precedence.
            loose = binds != level and binds <= _LESS
            words.append(f"({text})" if loose else text)
        return self._fit((f" {op} ".join(words), level), own, width, False)

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
            return text if same else (f"~{self._unary_operand(text)}", _UNARY)
        exact = op in ("==", "!=")
        first = self._operand(left, wide, self.enum_of(right) if exact else None)
        second = self._operand(right, wide, self.enum_of(left) if exact else None)
        if signed and not exact:
            return f"$signed({first[0]}) {op} $signed({second[0]})", level
        return f"{self._inside(first, _EQUAL + 1)} {op} {self._inside(second, _EQUAL + 1)}", level

    def _division(self, value: ir.Op, width: int) -> Text:
        left, right = value.args
        wide = max(left.width, right.width, width)
        first = self._inside(self._text(left, wide), _MULTIPLY)
        second = self._inside(self._text(right, wide), _MULTIPLY)
        text = f"{first} {value.op[0]} {second}"
        if not (isinstance(right, ir.Const) and right.value):
            text = f"{second} == {constant(0, wide)} ? {constant(0, wide)} : {text}"
        return self._low((f"({text})", _ATOM), value, wide, width)
