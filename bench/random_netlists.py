# SPDX-License-Identifier: Apache-2.0
"""Random designs in RTLIL, and random inputs for them: what two generators of models must agree on.

A design is a heap of cells of every kind that models know, of random widths and signs. Operands are
put together from slices of inputs, of results of cells before, and of constants. Every result is an
output, some behind a register. What RTLIL leaves undefined does not occur: divisors are odd, and
`$shiftx` reads no bits that are not there, nor has nothing a sign.
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gen.rtlil import RESET, DesignPort

__all__ = ["CELLS", "random_cells", "random_choices", "random_inputs", "random_memories",
           "random_registers", "random_tree"]

_UNARY = ("$not", "$pos", "$neg")
_REDUCE = ("$reduce_and", "$reduce_or", "$reduce_xor", "$reduce_xnor", "$reduce_bool",
           "$logic_not")
_BINARY = ("$and", "$or", "$xor", "$xnor", "$add", "$sub", "$mul")
_COMPARE = ("$eq", "$ne", "$lt", "$le", "$gt", "$ge", "$eqx", "$nex")
_LOGIC = ("$logic_and", "$logic_or")
_DIVIDE = ("$div", "$mod", "$divfloor", "$modfloor")
_SHIFT = ("$shl", "$sshl", "$shr", "$sshr", "$shift", "$shiftx")
_CHOICE = ("$mux", "$pmux")
CELLS = (*_UNARY, *_REDUCE, *_BINARY, *_COMPARE, *_LOGIC, *_DIVIDE, *_SHIFT, *_CHOICE)

_WIDTHS = (1, 1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 40, 63, 64, 65, 70, 100, 128, 129, 200)


class _Text:
    """RTLIL in the making, and the ports that it has."""

    def __init__(self, seed: object, inputs: int) -> None:
        self.rng = random.Random(repr(seed))
        self.wires: list[str] = []
        self.cells: list[str] = []
        self.nets: list[tuple[str, int]] = []
        self.ports: list[DesignPort] = []
        self.hidden = 0.0
        """Share of the results that no output shows."""
        self._input("clk", 1, shown=False)
        for index in range(inputs):
            width = self.rng.choice(_WIDTHS)
            self._input(f"i{index}", width)
            self.nets.append((f"\\i{index}", width))

    def _input(self, name: str, width: int, shown: bool = True) -> None:
        self.wires.append(f"  wire width {width} input {len(self.wires) + 1} \\{name}")
        if shown:
            self.ports.append(DesignPort(name=name, width=width, is_input=True))

    def operand(self, width: int) -> str:
        """A value of *width* bits from what there is."""
        if not width:
            return "{ }"
        parts, left = [], width
        while left:
            size = left if self.rng.random() < 0.6 else self.rng.randint(1, left)
            if self.rng.random() < 0.08:
                bits = "".join(self.rng.choice("01") for _ in range(size))
                parts.append(f"{size}'{bits}")
                left -= size
                continue
            name, whole = self.rng.choice(self.nets)
            size = min(size, whole)
            low = self.rng.randint(0, whole - size)
            parts.append(name if size == whole else f"{name} [{low + size - 1}:{low}]")
            left -= size
        return parts[0] if len(parts) == 1 else f"{{ {' '.join(parts)} }}"

    def result(self, width: int, clocked: bool | None = None) -> str:
        """A wire for a result of *width* bits, which an output shows, perhaps one clock later."""
        index = len(self.nets)
        name = f"\\n{index}"
        self.wires.append(f"  wire width {width} {name}")
        if self.rng.random() < self.hidden:
            self.nets.append((name, width))
            return name
        shown = name
        if self.rng.random() < 0.3 if clocked is None else clocked:
            shown = f"\\q{index}"
            init = "".join(self.rng.choice("01") for _ in range(width))
            self.wires.append(f"  attribute \\init {width}'{init}\n  wire width {width} {shown}")
            self.cell("$dff", {"WIDTH": width, "CLK_POLARITY": 1},
                      {"CLK": "\\clk", "D": name, "Q": shown})
        self.nets.append((shown, width))
        self.wires.append(f"  wire width {width} output {len(self.wires) + 1} \\o{index}")
        self.cells.append(f"  connect \\o{index} {shown}")
        self.ports.append(DesignPort(name=f"o{index}", width=width, is_input=False))
        return name

    def cell(self, kind: str, parameters: dict[str, int | str], ports: dict[str, str]) -> None:
        lines = [f"  cell {kind} $c{len(self.cells)}"]
        lines += [f"    parameter \\{name} {value}" for name, value in parameters.items()]
        lines += [f"    connect \\{name} {value}" for name, value in ports.items()]
        self.cells.append("\n".join([*lines, "  end"]))

    def text(self, name: str = "fw_top") -> str:
        return "\n".join(["attribute \\top 1" if name == "fw_top" else "", f"module \\{name}",
                          *self.wires, *self.cells, "end", ""])


def _signs(kind: str, rng: random.Random) -> tuple[int, int]:
    signed = rng.randint(0, 1)
    if kind in ("$shl", "$sshl", "$shr", "$sshr"):
        return signed, 0
    if kind == "$shift":
        return signed, rng.randint(0, 1)
    if kind == "$shiftx":
        return 0, rng.randint(0, 1)
    return signed, signed


def _add(text: _Text, kind: str) -> None:
    rng = text.rng
    widths = [rng.choice(_WIDTHS) for _ in range(3)]
    y_width, a_width, b_width = widths
    a_signed, b_signed = _signs(kind, rng)
    if kind in _CHOICE:
        count = 1 if kind == "$mux" else rng.randint(1, 5)
        parameters: dict[str, int | str] = {"WIDTH": y_width}
        ports = {"A": text.operand(y_width), "B": text.operand(count * y_width),
                 "S": text.operand(count)}
        if kind == "$pmux":
            parameters["S_WIDTH"] = count
        text.cell(kind, parameters, ports | {"Y": text.result(y_width)})
        return
    if kind in _REDUCE + _LOGIC + _COMPARE:
        y_width = rng.choice((1, 1, 1, 3, 70))
    if kind in _SHIFT:
        b_width = rng.choice((1, 3, 5, 7, 8, 33, 64) if b_signed else (1, 3, 5, 7, 8, 33, 64, 66))
        if kind == "$shiftx":  # undefined beyond A, and Yosys makes use of that
            b_width = rng.choice((1, 3, 5, 7))
            a_width = max(a_width, y_width + (1 << b_width) - 1)
        if kind in ("$shr", "$shift") and a_signed:
            # Yosys extends before it shifts, CXXRTL cuts as well.
            a_width = min(a_width, y_width)
    if kind in _DIVIDE:
        b_width = max(b_width, 3)
        if "floor" in kind:
            # CXXRTL cuts a remainder before it looks whether there is one.
            y_width = max(y_width, a_width, b_width)
    if kind in _COMPARE + _BINARY and kind != "$mul" and rng.random() < 0.1 and not b_signed:
        b_width = 0  # as Amaranth writes a constant zero; Yosys takes the sign of nothing for x
    parameters = {"A_SIGNED": a_signed, "A_WIDTH": a_width, "Y_WIDTH": y_width}
    ports = {"A": text.operand(a_width)}
    if kind not in _UNARY + _REDUCE:
        parameters |= {"B_SIGNED": b_signed, "B_WIDTH": b_width}
        if kind in _DIVIDE:
            ports["B"] = f"{{ {text.operand(b_width - 1)} 1'1 }}"
        elif kind == "$shiftx" and b_signed:
            ports["B"] = f"{{ 1'0 {text.operand(b_width - 1)} }}"
        else:
            ports["B"] = text.operand(b_width)
    text.cell(kind, parameters, ports | {"Y": text.result(y_width)})


def random_cells(
    seed: object, kinds: Sequence[str] = CELLS, cells: int = 120, inputs: int = 8
) -> tuple[str, tuple[DesignPort, ...]]:
    """A design of *cells* cells, each of *kinds* as often as the others: RTLIL and ports."""
    text = _Text(seed, inputs)
    for index in range(cells):
        _add(text, kinds[index % len(kinds)])
    return text.text(), tuple(text.ports)


def random_choices(seed: object, cells: int = 150) -> tuple[str, tuple[DesignPort, ...]]:
    """A design in which most results are used by few, many of them by one arm of a choice.

    There are six selects. Some choices are registers, so that a clock edge needs them as well.
    """
    text = _Text(seed, inputs=8)
    rng = text.rng
    text._input("select", 6)
    kinds = [kind for kind in CELLS if kind not in (*_CHOICE, *_DIVIDE)]
    for index in range(cells):
        text.hidden = 0.0 if index % 10 == 9 else 1.0
        if rng.random() < 0.5:
            _add(text, rng.choice(kinds))
            continue
        # Use the latest result, which nothing else may read.
        width = text.nets[-1][1]
        arms = [text.nets[-1][0], text.operand(width)]
        rng.shuffle(arms)
        ports = {"A": arms[0], "B": arms[1], "S": f"\\select [{rng.randrange(6)}]"}
        text.cell("$mux", {"WIDTH": width}, ports | {"Y": text.result(width)})
    return text.text(), tuple(text.ports)


def random_registers(seed: object, registers: int = 24) -> tuple[str, tuple[DesignPort, ...]]:
    """A design of registers that nested choices write to or leave alone, most of them with a reset.

    Some of the choices are read by others, too.
    """
    text = _Text(seed, inputs=4)
    rng = text.rng
    text._input(RESET, 1)
    text._input("select", 6)

    def chosen(width: int, when: str, other: str, select: str) -> str:
        name = f"\\t{len(text.cells)}"
        text.wires.append(f"  wire width {width} {name}")
        text.cell("$mux", {"WIDTH": width}, {"A": other, "B": when, "S": select, "Y": name})
        if rng.random() < 0.1:
            text.nets.append((name, width))
        return name

    def tree(register: str, width: int, depth: int) -> str:
        roll = rng.random()
        if depth and roll < 0.8:
            when, other = (tree(register, width, depth - 1) for _ in range(2))
            select = f"\\select [{rng.randrange(6)}]"
            if when.startswith("\\t") and rng.random() < 0.15:
                # An arm that more than its place reads.
                if width == 1:
                    select = when
                else:
                    other = f"{{ {when} [0] {when} [{width - 1}:1] }}"
            return chosen(width, when, other, select)
        alike = [name for name, size in text.nets if size == width]
        if roll > 0.9 and alike:
            return rng.choice(alike)
        return register if roll < 0.97 else text.operand(width)

    for index in range(registers):
        width, register = rng.choice((1, 1, 8, 33, 70)), f"\\r{index}"
        init = "".join(rng.choice("01") for _ in range(width))
        text.wires.append(f"  attribute \\init {width}'{init}\n  wire width {width} {register}")
        text.nets.append((register, width))
        data = tree(register, width, 4)
        if rng.random() < 0.7:
            data = chosen(width, f"{width}'{init}", data, f"\\{RESET}")
        text.cell("$dff", {"WIDTH": width, "CLK_POLARITY": 1},
                  {"CLK": "\\clk", "D": data, "Q": register})
        text.wires.append(f"  wire width {width} output {len(text.wires) + 1} \\o{index}")
        text.cells.append(f"  connect \\o{index} {register}")
        text.ports.append(DesignPort(name=f"o{index}", width=width, is_input=False))
    return text.text(), tuple(text.ports)


def _ones(width: int) -> str:
    return f"{width}'{'1' * width}"


def random_memories(seed: object, memories: int = 4) -> tuple[str, tuple[DesignPort, ...]]:
    """A design of memories with all kinds of ports: RTLIL and ports."""
    text = _Text(seed, inputs=10)
    rng = text.rng
    for memory in range(memories):
        width, size = rng.choice((1, 8, 33, 64, 72, 130)), rng.choice((4, 5, 16, 20))
        offset = rng.choice((0, 0, 0, 2))
        where = f'"\\\\m{memory}"'
        bits = max(1, (size + offset - 1).bit_length()) + rng.randint(0, 1)
        place = f" offset {offset}" if offset else ""
        text.wires.append(f"  memory width {width} size {size}{place} \\m{memory}")
        common: dict[str, int | str] = {"MEMID": where, "ABITS": bits, "WIDTH": width}
        if not offset:  # CXXRTL writes initial contents behind the end of such a memory
            rows = rng.randint(1, size)
            data = f"{width * rows}'{rng.getrandbits(width * rows):0{width * rows}b}"
            text.cell("$meminit_v2", common | {"WORDS": rows, "PRIORITY": 0},
                      {"ADDR": f"{bits}'{0:0{bits}b}", "EN": _ones(width), "DATA": data})
        writes = rng.randint(0, 3)
        for port in range(writes):
            whole = f"{{ {' '.join([text.operand(1)] * width)} }}"
            enable = whole if rng.random() < 0.5 else text.operand(width)
            text.cell("$memwr_v2", common | {
                "CLK_ENABLE": "1'1", "CLK_POLARITY": "1'1", "PORTID": port,
                "PRIORITY_MASK": f"{max(1, port)}'{'1' * port or '0'}",
            }, {"CLK": "\\clk", "EN": enable, "ADDR": text.operand(bits),
                "DATA": text.operand(width)})
        for _ in range(rng.randint(1, 3)):
            clocked = rng.randint(0, 1)
            mask = "".join(rng.choice("01") for _ in range(writes)) if clocked else "0" * writes
            text.cell("$memrd_v2", common | {
                "CLK_ENABLE": f"1'{clocked}", "CLK_POLARITY": "1'1",
                "TRANSPARENCY_MASK": f"{max(1, writes)}'{mask or '0'}",
                "COLLISION_X_MASK": f"{max(1, writes)}'{'0' * max(1, writes)}",
                "CE_OVER_SRST": f"1'{rng.randint(0, 1)}",
                "ARST_VALUE": f"{width}'{'x' * width}",
                "SRST_VALUE": f"{width}'{rng.getrandbits(width):0{width}b}",
                "INIT_VALUE": f"{width}'{rng.getrandbits(width):0{width}b}",
            }, {"CLK": "\\clk" if clocked else "1'x",
                "EN": text.operand(1) if clocked else "1'1", "ARST": "1'0",
                "SRST": text.operand(1) if clocked and rng.random() < 0.3 else "1'0",
                "ADDR": text.operand(bits), "DATA": text.result(width, clocked=False)})
    return text.text(), tuple(text.ports)


def random_tree(seed: object, cells: int = 60) -> tuple[str, tuple[DesignPort, ...]]:
    """A design of three levels in which instances have logic between inputs and outputs."""
    rng = random.Random(repr(seed))
    blocks = []
    inner: tuple[str, tuple[DesignPort, ...]] | None = None
    for level, name in enumerate(("leaf", "middle", "fw_top")):
        text = _Text((seed, level), inputs=5)
        for index in range(cells):
            if inner is not None and index % (cells // 3) == 2:
                ports = {port.name: text.operand(port.width) for port in inner[1] if port.is_input}
                shown = [port for port in inner[1] if not port.is_input]
                ports |= {
                    port.name: text.result(port.width, clocked=False)
                    for port in rng.sample(shown, min(8, len(shown)))
                }
                text.cell(f"\\{inner[0]}", {}, {"clk": "\\clk"} | ports)
            _add(text, rng.choice([kind for kind in CELLS if kind not in _DIVIDE]))
        inner = name, tuple(text.ports)
        blocks.append(text.text(name))
    return "\n".join(reversed(blocks)), tuple(text.ports)


def _following(rng: np.random.Generator, value: int, width: int) -> int:
    draw = rng.random()
    if draw < 0.5:
        return int.from_bytes(rng.bytes(-(-width // 8)), "little") & (1 << width) - 1
    if draw < 0.6:
        return (1 << width) - 1
    if draw < 0.7:
        return 0
    return value ^ 1 << int(rng.integers(width))


def _rows(rng: np.random.Generator, rows: int, widths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of values: all change, or one, or none for a while, until registers do not either."""
    values, still = [0] * len(widths), 0
    for _ in range(rows):
        draw = rng.random()
        if still:
            still -= 1
        elif draw < 0.1:
            still = int(rng.integers(15))
        else:
            changing = range(len(widths)) if draw < 0.6 else [int(rng.integers(len(widths)))]
            for index in changing:
                values[index] = _following(rng, values[index], widths[index])
        yield values.copy()


def random_inputs(
    ports: Sequence[DesignPort], rows: int, seed: int
) -> dict[str, NDArray[np.uint32] | NDArray[np.uint64]]:
    """Values for the inputs: random ones, all ones, zeros, one bit changed, and often the same."""
    rng = np.random.default_rng(seed)
    inputs = [port for port in ports if port.is_input]
    table = list(_rows(rng, rows, [port.width for port in inputs]))
    columns: dict[str, NDArray[np.uint32] | NDArray[np.uint64]] = {}
    for index, port in enumerate(inputs):
        values = [row[index] for row in table]
        if port.name == RESET:
            values = [int(rng.random() < 0.01) for _ in values]
        if port.width <= 64:
            columns[port.name] = np.array(values, np.uint64)
        else:
            size = 4 * -(-port.width // 32)
            data = b"".join(value.to_bytes(size, "little") for value in values)
            columns[port.name] = np.frombuffer(data, np.uint32).reshape(rows, -1)
    return columns
