# SPDX-License-Identifier: Apache-2.0
"""Write the C++ of a model: a class for each module, and the ports of the top one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gen.native.branches import BranchTarget, statements
from gen.native.module import NativeModule, dirty_bit
from gen.native.words import WORD, Place, Signal, WordNode, joined, literal, next_state
from gen.rtlil import DesignPort

__all__ = ["write_model"]

_PIECE = 1500
"""Most nodes of one function, since compilers take more than linear time for a long one."""


def _size(width: int) -> int:
    """Bits of the smallest integer that holds a value."""
    return next(size for size in (8, 16, 32, 64) if width <= size)


def _type(width: int) -> str:
    return f"uint{_size(width)}_t"


def _comment(label: str) -> str:
    return f"  // {label}" if label else ""


class _Class:
    """The text of one module."""

    def __init__(self, module: NativeModule, lanes: int) -> None:
        self.module = module
        self.lanes = lanes
        self.name = module.class_name
        self.methods: list[str] = []
        self.bodies: list[str] = []
        self.words = -(-module.functions // WORD)
        self.inputs = module.tick_inputs if lanes == 1 else []
        """Inputs that are stored together and compared with those that `tick` saw last."""
        self.targets = {
            value: BranchTarget(next_state(register), register.name)
            for value, register in module.direct.items()
        }

    def _method(self, name: str, lines: Sequence[str], result: str = "void") -> None:
        signature, _, arguments = name.partition("(")
        self.methods.append(f"{result} {signature}({arguments or ')'};")
        body = "\n".join(f"\t{line}" for line in lines)
        self.bodies.append(f"{result} {self.name}::{signature}({arguments or ')'} {{\n{body}\n}}\n")

    def _statements(self, nodes: Sequence[WordNode], needed: Callable[[Signal], bool]) -> list[str]:
        return statements(nodes, needed, several=self.lanes > 1, targets=self.targets)

    def _function(
        self,
        name: str,
        index: int,
        nodes: Sequence[WordNode],
        end: Sequence[str] = (),
        begin: Sequence[str] = (),
        result: str = "void",
    ) -> None:
        """Write a function with a bit in `dirty`; a long one is cut into pieces that it calls."""
        place, mask = dirty_bit(index)
        head = [f"dirty[{place}] &= ~{mask};", *begin]
        if len(nodes) <= _PIECE:
            uses = self.module.edge_uses if end else set[Signal]()
            lines = self._statements(nodes, lambda signal: signal.member or signal in uses)
            self._method(name, [*head, *lines, *end], result)
            return
        pieces = [nodes[start : start + _PIECE] for start in range(0, len(nodes), _PIECE)]
        home = {node: number for number, piece in enumerate(pieces) for node in piece}
        for node in nodes:
            for signal in node.uses:
                if signal.node in home and home[signal.node] != home[node]:
                    signal.member = True
        if end:
            for signal in self.module.edge_uses - set(self.targets):
                signal.member = signal.member or signal.node is not None
        calls = []
        for number, piece in enumerate(pieces):
            self._method(f"{name}_{number}", self._statements(piece, _is_member))
            calls.append(f"{name}_{number}();")
        if end:
            self._method(f"{name}_end", end, result)
            calls.append(f"return {name}_end();")
        self._method(name, [*head, *calls], result)

    def functions(self) -> None:
        """Write the groups and `tick`. Only then is it known which signals are members."""
        module = self.module
        for group in module.groups:
            self._function(f"group{group.index}", group.index, group.nodes)
        end = ["bool changed = false;", *module.edge]
        for instance in module.instances:
            place, mask = dirty_bit(len(instance.module.groups))
            runs = f"{instance.name}.dirty[{place}] & {mask}"
            if self.lanes > 1:
                runs += f" || {instance.touched}"
            elif instance.module.tick_inputs:
                runs += f" || differ({instance.name}.seen, {instance.name}.inputs)"
            end.append(f"if ({runs}) changed |= {instance.name}.tick();")
        # By now everybody has read the old state.
        if module.registers:
            end.append("changed |= take_over(state, next);")
        end += ["if (changed) std::memset(dirty, 0xff, sizeof dirty);", "return changed;"]
        begin = []
        if self.lanes > 1:
            begin = [f"{instance.touched} = 0;" for instance in module.instances]
            if len(module.tick) > _PIECE:
                self.methods += [f"u64 {line}" for line in begin]
            else:
                begin = [f"u64 {line}" for line in begin]
        elif self.inputs:
            begin.append("std::memcpy(seen, inputs, sizeof seen);")
        self._function("tick", len(module.groups), module.tick, end, begin, "bool")

    def constructor(self) -> None:
        """Write the constructor: it fills memories and marks everything as changed."""
        lines = ["std::memset(dirty, 0xff, sizeof dirty);"]
        for memory in self.module.memories.values():
            for row, value in memory.initial_rows():
                for index in range(memory.words):
                    if word := value >> index * WORD & (1 << WORD) - 1:
                        lines.append(f"{memory.name}.fill({row}, {index}, {literal(word)});")
        self.methods.append(f"{self.name}();")
        body = "\n".join(f"\t{line}" for line in lines)
        self.bodies.append(f"{self.name}::{self.name}() {{\n{body}\n}}\n")

    def _gaps(self, registers: Sequence[Signal]) -> dict[Signal | None, list[str]]:
        """Padding members before registers, and at the end of the state (key None).

        Bytes that belong to no member could differ between equal states; a state consists of whole
        words.
        """
        gaps: dict[Signal | None, list[str]] = {}
        at = 0
        for signal in [*registers, None] if self.lanes == 1 else []:
            size = WORD // 8 if signal is None else _size(signal.width) // 8
            if at % size:
                gaps[signal] = [f"\t\tuint8_t gap{at}[{-at % size}] = {{}};"]
            at += -at % size + size
        return gaps

    def _inputs(self) -> list[str]:
        """Declare the inputs that only `tick` reads, as signals and as words."""
        together = sorted(self.inputs, key=_by_size)
        end = 0
        for signal in together:
            end += -end % _size(signal.width) + _size(signal.width)
        words = -(-end // WORD)
        return [
            "\tunion {",
            f"\t\tu64 inputs[{words}] = {{}};",
            "\t\tstruct {",
            *[
                f"\t\t\t{_type(signal.width)} {signal.name};{_comment(signal.label)}"
                for signal in together
            ],
            "\t\t};",
            "\t};",
            f"\tu64 seen[{words}] = {{}};",
        ]

    def declaration(self) -> str:
        """The class, without the bodies of its functions."""
        module = self.module
        lines = [f"// {module.netlist.name}", f"struct {self.name} {{",
                 f"\tu64 dirty[{self.words}];"]
        if module.registers:
            registers = sorted((signal for signal, _ in module.registers), key=_by_size)
            gaps = self._gaps(registers)
            lines.append("\tstruct alignas(u64) State {")
            for signal in registers:
                lines += gaps.get(signal, [])
                name = signal.name.removeprefix("state.")
                lines.append(
                    f"\t\tstored<{_type(signal.width)}> {name} = {literal(signal.initial)};"
                    f"{_comment(signal.label)}"
                )
            lines += gaps.get(None, [])
            lines.append("\t} state, next;")
            if self.lanes == 1:
                unique = "std::has_unique_object_representations_v<State>"
                lines.append(f'\tstatic_assert({unique}, "states are compared as bytes");')
        members = [
            signal
            for signal in module.signals
            if signal.kind == "input" or (signal.kind == "value" and signal.member)
        ]
        if self.inputs:
            lines += self._inputs()
            members = [signal for signal in members if signal not in self.inputs]
        for signal in sorted(members, key=_by_size):
            kind = _type(signal.width)
            lines.append(f"\tstored<{kind}> {signal.name} = 0;{_comment(signal.label)}")
        for memory in module.memories.values():
            if memory.memory.size and memory.words:
                kind = _type(min(memory.memory.width, WORD))
                lines.append(
                    f"\tRows<{kind}, {memory.memory.size}, {memory.words}> {memory.name};"
                    f"{_comment(memory.memory.name)}"
                )
        for instance in module.instances:
            lines.append(f"\t{instance.module.class_name} {instance.name};")
        lines += [f"\t{method}" for method in self.methods]
        return "\n".join([*lines, "};\n"])


def _is_member(signal: Signal) -> bool:
    return signal.member


def _by_size(signal: Signal) -> int:
    """Sort small members first: those near the start of an object take shorter instructions."""
    return signal.width


class _Top(_Class):
    """The top module also moves data between its signals and the words of its ports."""

    def __init__(self, module: NativeModule, ports: Sequence[DesignPort], lanes: int) -> None:
        super().__init__(module, lanes)
        self.inputs = []  # `load` compares them one by one
        self._starts: dict[str, int] = {}
        sizes = {True: 0, False: 0}
        self.table = []
        for port in ports:
            size = sizes[port.is_input]
            self._starts[port.name] = size
            sizes[port.is_input] = size + -(-port.width // 32)
            self.table.append(f'{{"{port.name}", {port.width}, {int(port.is_input)}, {size}}},')
        self.input_words, self.output_words = sizes[True], sizes[False]

    def boundary(self) -> None:
        """Write `load`, `evaluate`, `edge`, `idle` and `store`."""
        lines = []
        for port, words in self.module.inputs.items():
            readers = self.module.readers(port)
            for index, word in enumerate(words):
                start = self._starts.get(port)
                if start is None or not readers:
                    continue
                start += 2 * index
                value = f"taken(in, {start})"
                if word.width > 32:
                    value += f" | taken(in, {start + 1}) << 32"
                marks = " ".join(f"dirty[{place}] |= {mask};" for place, mask in readers)
                lines.append(f"{{ const word now = {value};")
                lines.append(f"if (any({word.name} != now)) {{ {word.name} = now; {marks} }} }}")
        self._method("load(Inputs in)", lines)
        lines = [f"for (int i = 0; i < {self.words}; i++) ran[i] |= dirty[i];"]
        for group in self.module.groups:
            place, mask = dirty_bit(group.index)
            lines.append(f"if (dirty[{place}] & {mask}) group{group.index}();")
        self._method("evaluate", lines)
        place, mask = dirty_bit(len(self.module.groups))
        self._method("edge", ["if (!idle()) fresh |= tick();"])
        self._method("store(Outputs out)", self._stores())
        self.methods += [
            f"u64 ran[{self.words}] = {{}};", "bool fresh = true;",
            f"bool idle() const {{ return !(dirty[{place}] & {mask}); }}",
        ]

    def _stores(self) -> list[str]:
        by_condition: dict[str, list[str]] = {}
        for port, places in self.module.outputs.items():
            for start in range(0, len(places), 32):
                own: list[Place] = places[start : start + 32]
                uses: set[Signal] = set()
                value = joined(own, uses)
                line = f"give(out, {self._starts[port] + start // 32}, {value});"
                by_condition.setdefault(self._condition(uses), []).append(line)
        lines = [
            f"if ({condition}) {{ {' '.join(stores)} }}"
            for condition, stores in by_condition.items()
        ]
        return [*lines, "fresh = false;", "std::memset(ran, 0, sizeof ran);"]

    def _condition(self, uses: set[Signal]) -> str:
        """C++ test: one of the groups that compute the signals has run since the last `store`."""
        masks: dict[int, int] = {}
        for signal in uses:
            index = self.module.group_of(signal)
            if index is not None:
                masks[index // WORD] = masks.get(index // WORD, 0) | 1 << index % WORD
        tests = [f"(ran[{place}] & {literal(mask)})" for place, mask in sorted(masks.items())]
        return " || ".join(tests) or "fresh"


_UNIT = 40_000
"""Characters of C++ at which a file is full: compilers read the header once for each file."""


def write_model(
    modules: Mapping[str, NativeModule], top: str, ports: Sequence[DesignPort], lanes: int = 1
) -> dict[str, str]:
    """Name -> contents of the files of a model.

    Parameters
    ----------
    modules:
        By name, children first.
    top:
        The name of the top module.
    ports:
        Ports of the model, in this order, without the clock.
    lanes:
        Instances that the words of a model hold.
    """
    words = ['#include "scalar.h"']
    if lanes > 1:
        words = [f"#define FOLDWIRE_LANES {lanes}", '#include "lanes.h"']
    header = ["#pragma once", *words, "using namespace foldwire;", ""]
    files: dict[str, str] = {}
    unit: list[str] = []
    size = 0
    for name, module in modules.items():
        text = _Top(module, ports, lanes) if name == top else _Class(module, lanes)
        text.functions()
        if isinstance(text, _Top):
            text.boundary()
        text.constructor()
        header.append(text.declaration())
        unit += text.bodies
        size += sum(map(len, text.bodies))
        if size >= _UNIT or name == top:
            files[f"unit{len(files)}.cc"] = "\n".join(['#include "model.h"\n', *unit])
            unit, size = [], 0
        if isinstance(text, _Top):
            files["ports.inc"] = "\n".join([
                f"using Design = {text.name};",
                f"constexpr int input_words = {text.input_words};",
                f"constexpr int output_words = {text.output_words};",
                "const Port ports[] = {", *text.table, "};", "",
            ])
    return {"model.h": "\n".join(header), **files}
