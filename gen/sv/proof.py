# SPDX-License-Identifier: Apache-2.0
"""Prove that a text equals Amaranth's own netlist of the same design, module by module.

Amaranth's netlist of a design (its RTLIL, through none of this package's code) is compared with the
text as a front end of SystemVerilog, Yosys' own or slang, reads it. The front end resolves
parameters, loops and instances; from the top down, each instance that it finds is compared with the
module of the netlist that it stands for. The outputs of instances inside that module are the same
free inputs on both sides; their inputs must be equal, and so must outputs and, from equal states,
next states: one question for ABC about logic without registers.

In a netlist, an input that is constant outside of a module is constant inside. So the inputs of the
text are taken from the signals of these names in the netlist, and whether two modules mean the same
net by a signal that both name is looked up in the netlist. Netlists have no combinational loops. If
the text has none either, and every module has the outputs of the netlist for the inputs of the
netlist, then all of its values are those of the netlist.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from amaranth.lib import wiring

from gen.rtlil import MacroPlatform, to_rtlil
from gen.sv.netlists import (
    Bits,
    Constant,
    NetlistCell,
    NetlistModule,
    NetlistPort,
    NetlistSlice,
    OpenError,
    ported,
    read_modules,
    through,
)
from gen.sv.question import Proof, Question, prove
from gen.sv.record import Names, RecordPart
from gen.sv.writer import write_design
from gen.yosys import run_yosys

__all__ = [
    "READERS", "Checked", "ProofDesign", "Reading", "check", "design", "loops", "questions", "read",
]

READERS: Mapping[str, tuple[str, ...]] = {
    "yosys": ("read_verilog -sv text.sv", "hierarchy -check -top {top}"),
    "slang": ("read_slang --keep-hierarchy --top {top} text.sv",),
}
"""Front ends that read a text, each with its commands in Yosys."""


@dataclass(frozen=True)
class ProofDesign:
    """Amaranth's netlist of a component, its text with the bodies of macros, and the record."""

    top: str
    netlist: str
    text: str
    record: RecordPart

    @cached_property
    def modules(self) -> dict[str, NetlistModule]:
        """The modules of the netlist."""
        return read_modules(self.netlist)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The result of all proofs of a design.

    Attributes
    ----------
    proved, undecided:
        True if every question was answered with yes; the questions that were not decided.
    wrong:
        Differences, and their places.
    parts, questions, state:
        Number of instances of the text, of different questions, and of registers and rows of
        memories that were matched; of each the most of any reader.
    """

    undecided: tuple[str, ...]
    wrong: tuple[str, ...]
    parts: int
    questions: int
    state: int

    @property
    def proved(self) -> bool:
        """True if the text equals the netlist."""
        return not self.undecided and not self.wrong and self.parts > 0

    @property
    def why(self) -> str:
        """A line that says what is wrong or undecided."""
        return "; ".join([*self.wrong[:5], *(f"undecided: {each}" for each in self.undecided[:5])])


@dataclass
class Reading:
    """The questions about a text as one reader takes it.

    Attributes
    ----------
    questions:
        Questions by key.
    places:
        First place of each question: module of the text, path in the netlist.
    times:
        Number of places of each question.
    parts:
        Number of instances of the text, including its top.
    wrong:
        Differences that were found without a proof.
    """

    questions: dict[str, Question] = field(default_factory=dict)
    places: dict[str, tuple[str, str]] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    parts: int = 0
    wrong: list[str] = field(default_factory=list)


def design(make: Callable[[], wiring.Component], top: str = "top") -> ProofDesign:
    """Netlist and text of the component that *make* returns; it is called once for each."""
    platform = MacroPlatform()
    text = write_design(make(), name=top, platform=platform)
    macros = [body.rstrip() + "\n" for _, body in sorted(platform.sram_macros.items())]
    netlist = to_rtlil(make(), name=top, platform=MacroPlatform())
    return ProofDesign(top, netlist, "\n".join([text.text, *macros]), text.record)


def read(
    text: str, top: str, reader: str, *, timeout: float | None = None
) -> dict[str, NetlistModule]:
    """The modules of *text* as *reader* takes them, with parameters and loops resolved.

    Raises
    ------
    YosysError
        It cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="read-") as folder:
        work = Path(folder)
        (work / "text.sv").write_text(text)
        steps = [step.format(top=top) for step in READERS[reader]]
        run_yosys([*steps, "proc -norom", "write_rtlil read.il"], cwd=work, cpu_s=timeout)
        return read_modules((work / "read.il").read_text())


def loops(text: str, top: str, *, timeout: float | None = None) -> list[str]:
    """The combinational loops of *text* as Yosys sees them, all modules together."""
    with tempfile.TemporaryDirectory(prefix="loops-") as folder:
        work = Path(folder)
        (work / "text.sv").write_text(text)
        steps = [step.format(top=top) for step in READERS["yosys"]]
        log = run_yosys([*steps, "proc -norom", "flatten", "check"], cwd=work, cpu_s=timeout)
    # Wires that are only assigned to each other have no driver.
    return re.findall(r"^Warning: (found logic loop.*|.* is used but has no driver.*)$", log, re.M)


def check(
    made: ProofDesign, text: str | None = None, *, readers: Iterable[str] = READERS,
    decide: Callable[[Question], Proof] | None = None, timeout: float | None = None,
    first: bool = False,
) -> Checked:
    """Prove that a text, that of *made* unless given, equals its netlist for all *readers*.

    Parameters
    ----------
    decide:
        Called in place of `prove`.
    timeout:
        Seconds of CPU of each program.
    first:
        Stop at the first difference.

    Raises
    ------
    YosysError
        The text cannot be read.
    YosysTimeoutError
        The text cannot be read in time.
    """
    text = made.text if text is None else text
    decide = decide or partial(prove, timeout=timeout)
    wrong: list[str] = []
    undecided: list[str] = []
    parts, count, state = 0, 0, 0
    for reader in readers:
        modules = read(text, made.top, reader, timeout=timeout)
        reading = questions(made.modules, modules, made.top, made.record)
        wrong += [f"{reader}: {each}" for each in reading.wrong]
        matched = 0
        for key, question in reading.questions.items():
            if first and wrong:
                break
            proof = decide(question)
            matched += proof.state * reading.times[key]
            if not proof.proved:
                kind, path = reading.places[key]
                said = f"{reader}: {kind.partition('$')[0] or kind} as {path}: {proof.why}"
                (undecided if proof.undecided else wrong).append(said)
        parts, count = max(parts, reading.parts), max(count, len(reading.questions))
        state = max(state, matched)
    if not (first and wrong):
        wrong += [f"yosys: {loop}" for loop in loops(text, made.top, timeout=timeout)]
    return Checked(undecided=tuple(undecided), wrong=tuple(wrong), parts=parts, questions=count,
                   state=state)


# The questions


def questions(
    netlist: Mapping[str, NetlistModule], text: Mapping[str, NetlistModule], top: str,
    record: RecordPart,
) -> Reading:
    """The questions about *text*, as a reader takes it, and *netlist*."""
    reading = Reading()
    _Walk(netlist, text, reading).visit(record, "\\" + top, None)
    return reading


@dataclass
class _Side:
    """A module of the netlist, its parent, and the instance of the module there."""

    module: NetlistModule
    outer: NetlistModule | None
    cell: NetlistCell | None


class _Walk:
    def __init__(
        self, netlist: Mapping[str, NetlistModule], text: Mapping[str, NetlistModule],
        reading: Reading,
    ) -> None:
        self._netlist, self._text, self._reading = netlist, text, reading
        self._met: set[str] = set()
        self._golds: dict[str, str] = {}
        self._gates: dict[str, str] = {}

    def visit(
        self, part: RecordPart, kind: str, around: tuple[RecordPart, NetlistModule] | None
    ) -> None:
        """Ask about *part*, which is an instance of *kind* in the text, and about its children."""
        path = ".".join(part.path)
        gate = self._text[kind]
        gold = self._netlist.get("\\" + path)
        if path in self._met:
            self._reading.wrong.append(f"{path}: two instances of the text stand for it")
            return
        self._met.add(path)
        self._reading.parts += 1
        outer = around[1] if around else None
        if gold is None:
            if outer is None:
                self._reading.wrong.append(f"{path}: the netlist does not have it")
            else:
                self._visit_wires(part, kind, outer)
            return
        cell = None
        if outer is not None:
            cell = next((each for each in outer.cells if each.type == gold.name), None)
            if cell is None and gold.name in self._netlist:
                self._reading.wrong.append(f"{path}: {outer.name[1:]} does not have it")
                return
        try:
            question = self._question(part, gate, _Side(gold, outer, cell))
        except (_WrongError, OpenError) as error:
            self._reading.wrong.append(f"{path}: {error}")
            return
        self._ask(question, kind, path)
        kinds = {each.name: each.type for each in gate.cells}
        for child in part.children:
            self.visit(child, kinds["\\" + child.name], (part, gold))

    def _visit_wires(self, part: RecordPart, kind: str, outer: NetlistModule) -> None:
        """Ask about a part of only wires, which Amaranth leaves out; its parent has the wires."""
        gate = self._text[kind]
        path = ".".join(part.path)
        inputs: list[tuple[str, tuple[Bits | int, ...]]] = []
        same: list[tuple[Bits, str, int]] = []
        try:
            self._check_instances(part, gate)
            if part.children or part.boxes or part.registers or part.memories:
                raise _WrongError("the netlist does not have it")
            for port, wire in gate.ports.items():
                names = part.outside.get(port[1:])
                if names is None or sum(width for _, width in names) != wire.width:
                    raise _WrongError(f"port {port[1:]} is not as recorded")
                low = 0
                values: list[Bits | int] = []
                for name, width in names:
                    bits = self._bits(outer, name, width)
                    values.append(width if bits is None else bits)
                    if wire.way == "output" and bits is not None:
                        same.append((bits, port, low))
                    low += width
                if wire.way == "input":
                    inputs.append((port, tuple(values)))
            question = Question(self._netlist_of(outer), self._text_of(gate),
                                tuple(sorted(inputs)), tuple(same), (), ())
        except (_WrongError, OpenError) as error:
            self._reading.wrong.append(f"{path}: {error}")
            return
        self._ask(question, kind, path)

    def _ask(self, question: Question, kind: str, path: str) -> None:
        key = question.key()
        self._reading.questions.setdefault(key, question)
        self._reading.places.setdefault(key, (kind[1:], path))
        self._reading.times[key] += 1

    def _question(self, part: RecordPart, gate: NetlistModule, side: _Side) -> Question:
        gold = side.module
        self._check_instances(part, gate)
        ports = self._ports(part, gate, side)
        inputs: list[tuple[str, tuple[Bits | int, ...]]] = []
        same: list[tuple[Bits, str, int]] = []

        def connect(port: str, into: bool, values: list[tuple[Bits | None, int]]) -> None:
            if into:
                inputs.append((port, tuple(n if bits is None else bits for bits, n in values)))
                return
            low = 0
            for bits, width in values:
                if bits is not None:
                    same.append((bits, port, low))
                low += width

        for port, values in ports.items():
            connect("\\" + port, gate.ports["\\" + port].way == "input", values)
        for child in part.children:
            kind = self._kind(gate, child.name)
            inner = self._netlist.get("\\" + ".".join(child.path))
            cell = next((each for each in gold.cells if inner and each.type == inner.name), None)
            for port, wire in kind.ports.items():
                names = child.outside.get(port[1:])
                if names is None:
                    raise _WrongError(f"{child.name} has a port {port[1:]} that is no signal")
                within = child.ports[port[1:]]
                values = [
                    self._seen_from_outside(gold, name, inner, cell, own[0], width,
                                            wire.way == "input")
                    for (name, width), own in zip(names, within, strict=True)
                ]
                if sum(width for _, width in values) != wire.width:
                    raise _WrongError(f"port {port[1:]} of {child.name} has {wire.width} bits")
                connect(ported("\\" + child.name, port), wire.way == "output", values)
        for reference, name in part.boxes.items():
            self._box(gold, gate, reference, name, connect)
        return Question(
            self._netlist_of(gold), self._text_of(gate), tuple(sorted(inputs)),
            tuple(same), tuple(self._registers(part)),
            tuple(sorted(part.memories.items())),
        )

    def _check_instances(self, part: RecordPart, gate: NetlistModule) -> None:
        """Check that the instances of the text are those of the record, each once."""
        found = sorted(cell.name[1:] for cell in gate.cells)
        meant = sorted([*(child.name for child in part.children), *part.boxes.values()])
        if found != meant:
            raise _WrongError(f"instances {set(found) ^ set(meant) or found} are not as recorded")

    def _kind(self, gate: NetlistModule, instance: str) -> NetlistModule:
        return self._text[next(c.type for c in gate.cells if c.name == "\\" + instance)]

    def _ports(
        self, part: RecordPart, gate: NetlistModule, side: _Side
    ) -> dict[str, list[tuple[Bits | None, int]]]:
        """Bits of the netlist for each port of a module of the text; None where it has none."""
        made = {}
        if sorted(gate.ports) != sorted("\\" + port for port in part.ports):
            odd = set(gate.ports) ^ {"\\" + port for port in part.ports}
            raise _WrongError(f"ports {sorted(port[1:] for port in odd)} are not as recorded")
        for port, names in part.ports.items():
            wire = gate.ports["\\" + port]
            values = []
            outside: Names = part.outside.get(port, tuple((None, width) for _, width in names))
            if sum(width for _, width in names) != wire.width:
                raise _WrongError(f"port {port} has {wire.width} bits")
            if side.outer is None:
                made[port] = [self._port_of_top(side.module, port, wire)]
                continue
            for (name, width), (far, _) in zip(names, outside, strict=True):
                values.append(self._seen_from_inside(side, name, far, width, wire.way == "input"))
            made[port] = values
        return made

    def _port_of_top(
        self, gold: NetlistModule, port: str, wire: NetlistPort
    ) -> tuple[Bits | None, int]:
        """Bits of a port of the top: the port of the netlist with its name."""
        own = gold.ports.get("\\" + port)
        if own is None and wire.way == "input":  # a clock that nothing in the netlist needs
            return None, wire.width
        if own != wire:
            is_ = f"{own.way} of {own.width} bits" if own else "nothing"
            raise _WrongError(f"port {port} is {wire.way} of {wire.width} bits, not {is_}")
        return (NetlistSlice("\\" + port, 0, wire.width),), wire.width

    def _bits(self, module: NetlistModule, name: str | None, width: int) -> Bits | None:
        if name is None or "\\" + name not in module.wires:
            return None
        if module.wires["\\" + name].width != width:
            raise _WrongError(f"{name} has {module.wires[chr(92) + name].width} bits in the "
                              f"netlist, not {width}")
        return (NetlistSlice("\\" + name, 0, width),)

    def _seen_from_inside(
        self, side: _Side, name: str | None, far: str | None, width: int, into: bool
    ) -> tuple[Bits | None, int]:
        """Bits of the netlist for a signal at a port of a module, as seen in that module."""
        bits = self._bits(side.module, name, width)
        if bits is not None or into or side.outer is None:
            return bits, width
        # An output without a name there is a constant, or nobody reads it.
        outside = self._bits(side.outer, far, width)
        return self._constant(side.outer, outside, f"{far} comes from nowhere"), width

    def _seen_from_outside(
        self, outer: NetlistModule, name: str | None, inner: NetlistModule | None,
        cell: NetlistCell | None, own: str | None, width: int, into: bool,
    ) -> tuple[Bits | None, int]:
        """Bits of the netlist for a signal at a port of an instance, as seen in its parent."""
        bits = self._bits(outer, name, width)
        within = self._bits(inner, own, width) if inner is not None else None
        if bits is None:
            if within is None or not into or inner is None:
                return None, width
            return self._constant(inner, within, f"{own} goes nowhere"), width
        if within is not None and inner is not None and cell is not None:
            seen = through(inner, cell, outer, within)
            if seen != outer.source(bits):
                raise _WrongError(f"{name} is not {own} of {inner.name[1:]}")
        return bits, width

    def _constant(self, module: NetlistModule, bits: Bits | None, why: str) -> Bits | None:
        if bits is None:
            return None
        found = module.source(bits)
        if not all(isinstance(piece, Constant) for piece in found):
            raise _WrongError(why)
        return found

    def _box(
        self, gold: NetlistModule, gate: NetlistModule, reference: str, name: str,
        connect: Callable[[str, bool, list[tuple[Bits | None, int]]], None],
    ) -> None:
        """Ask about an instance of a macro: of one type on both sides, port by port."""
        one = next((each for each in gold.cells if each.name == "\\" + reference), None)
        other = next(each for each in gate.cells if each.name == "\\" + name)
        kind = self._text[other.type]
        if one is None or _plain(one.type) != _plain(other.type) or one.parameters:
            raise _WrongError(f"{name} is a {_plain(other.type)}, not a "
                              f"{_plain(one.type) if one else 'part of the netlist'}")
        if set(one.connections) != set(kind.ports):
            odd = set(one.connections) ^ set(kind.ports)
            raise _WrongError(f"ports {sorted(odd)} of {name} are not connected on both sides")
        for port, wire in kind.ports.items():
            bits = (NetlistSlice(ported(one.name, port), 0, wire.width),)
            connect(ported(other.name, port), wire.way == "output", [(bits, wire.width)])

    def _netlist_of(self, gold: NetlistModule) -> str:
        def known(cell: NetlistCell) -> Mapping[str, NetlistPort] | None:
            if cell.type in self._netlist:
                return self._netlist[cell.type].ports
            macros = (m for kind, m in self._text.items() if _plain(kind) == _plain(cell.type))
            found = next(macros, None)
            return found.ports if found else None

        if gold.name not in self._golds:
            lines = gold.opened(known)
            self._golds[gold.name] = "\n".join(["module \\gold", *lines, "end", ""])
        return self._golds[gold.name]

    def _text_of(self, gate: NetlistModule) -> str:
        if gate.name not in self._gates:
            def known(cell: NetlistCell) -> Mapping[str, NetlistPort] | None:
                inner = self._text.get(cell.type)
                return inner.ports if inner else None

            lines = gate.opened(known)
            self._gates[gate.name] = "\n".join(["module \\gate", *lines, "end", ""])
        return self._gates[gate.name]

    def _registers(self, part: RecordPart) -> Iterator[tuple[NetlistSlice, NetlistSlice]]:
        for register in part.registers:
            low, width = register.part or (0, -1)
            start, size = register.bits or register.part or (0, -1)
            yield (NetlistSlice("\\" + register.reference, low, width),
                   NetlistSlice("\\" + register.name, start, size))


class _WrongError(Exception):
    """The text cannot equal the netlist; says why."""


def _plain(kind: str) -> str:
    """The name of a module in the text, without what readers add for parameters and paths."""
    match = re.match(r"(?:\$paramod(?:\$\w+)?\\|\\)(\w+)", kind)
    return match[1] if match else kind
