# SPDX-License-Identifier: Apache-2.0
"""A module of a netlist as functions, in the order in which they are computed.

The work of a clock cycle in a module is split into functions. The logic that outputs depend on is
grouped by the set of inputs that it depends on; each group is one function. All other logic, and
the next state, is the function `tick`. The parent of an instance calls a group as soon as its
inputs are known, so an instance never makes a loop that the logic itself does not have.

A function needs to run only if an input that it depends on has changed, or the state of the module
or of a child. Each function has a bit that says so: see `Module.readers`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gen.native.cells import BITWISE, UnsupportedError, nodes_of, result_of
from gen.native.memories import MemoryPorts, checked_width
from gen.native.netlist import Bit, Cell, Netlist, number
from gen.native.words import WORD, Nets, Place, Signal, WordNode, literal, next_state

__all__ = ["ClockError", "ClockGroup", "LoopError", "NativeModule", "dirty_bit"]


class ClockError(Exception):
    """The clock is not one input, called ``clk`` at the top, with rising edges."""


class LoopError(Exception):
    """A combinational loop, at the granularity of words and modules.

    Members
    -------
    cells:
        Bitwise cells of the loop that are wider than a bit.
    children:
        Modules whose instances are part of the loop.
    """

    def __init__(self, module: str, cells: set[str], children: set[str]) -> None:
        self.cells, self.children = cells, children
        super().__init__(f"a loop through logic in module {module}")


_Maker: TypeAlias = "Callable[[], list[WordNode]]"


@dataclass(eq=False)
class ClockGroup:
    """A function: nodes in order, and the inputs on which they depend."""

    index: int
    ports: frozenset[str]
    nodes: list[WordNode] = field(default_factory=list)
    after: set[int] = field(default_factory=set)
    """Groups whose results it uses."""


@dataclass
class _Instance:
    name: str
    module: NativeModule
    connections: dict[str, list[Bit]]

    @property
    def touched(self) -> str:
        """A variable of our `tick`: not zero if an input has changed that only its `tick` reads.

        It is not used in models of one instance, where all such inputs together are compared with
        those of the last `tick`.
        """
        return f"touched_{self.name}"


def dirty_bit(index: int) -> tuple[int, str]:
    """The word of `dirty` that holds the bit of function *index*, and the bit as a constant."""
    return index // WORD, literal(1 << index % WORD)


class NativeModule:
    """A module with its signals, functions and children.

    Parameters
    ----------
    netlist:
        Netlist of the module.
    children:
        Modules that have been built, by name.
    cut:
        Bitwise cells that are taken bit by bit, since as words they would be in a loop.

    Members
    -------
    inputs:
        Port -> its words.
    outputs:
        Port -> for each bit a signal and the place in it, or a constant.
    registers:
        Signals of state, each with the bits of its next value; None for data read from a memory.
    groups:
        Groups, in an order in which they can be called.
    tick:
        Nodes that only the next state depends on.
    tick_ports:
        Inputs that the next state depends on.
    edge:
        Statements that end `tick`: they assign the next state.
    direct:
        Values of `tick` that nothing reads except a register, unchanged, as its next state -> the
        register. Their statements are not in `edge`.
    clock:
        The clock port, if there is one.
    """

    def __init__(
        self, netlist: Netlist, children: Mapping[str, NativeModule],
        cut: frozenset[str] = frozenset(),
    ) -> None:
        self.netlist = netlist
        self.class_name = "M_" + re.sub(r"\W", "_", netlist.name)
        self.nets = Nets()
        self.inputs: dict[str, list[Signal]] = {}
        self.outputs: dict[str, list[Place]] = {}
        self.registers: list[tuple[Signal, list[Bit] | None]] = []
        self.memories: dict[str, MemoryPorts] = {
            name: MemoryPorts(memory, f"memory{index}")
            for index, (name, memory) in enumerate(netlist.memories.items())
        }
        self.instances: list[_Instance] = []
        self.signals: list[Signal] = []
        self._children, self._cut = children, cut
        self._from_children: dict[tuple[str, Signal], Signal] = {}
        self._nodes: list[WordNode] = []
        self.clock: str | None = None
        self.clock = self._find_clock()
        self._define_inputs()
        pending = [self._define(cell, index) for index, cell in enumerate(netlist.cells)]
        for make in pending:
            self._nodes += make()
        known = set(self.signals)
        self.signals += [
            signal
            for node in self._nodes
            for signal in node.outputs
            if signal.kind == "value" and signal not in known
        ]
        self._define_outputs()
        self.order = self._sorted()
        self._spread()
        self.groups, self.tick = self._grouped()
        self.edge_uses: set[Signal] = set()
        self.direct: dict[Signal, Signal] = {}
        self.edge = self._edge_statements()
        self.tick_ports = self._tick_ports()
        self._mark_members()

    # Definition: every bit gets its place in a signal before anything reads it.

    def _find_clock(self) -> str | None:
        clocks: set[Bit] = set()
        for cell in self.netlist.cells:
            child = self._children.get(cell.type)
            if child is not None:
                if child.clock is not None:
                    clocks.update(cell.connections[child.clock])
            elif cell.type == "$dff" or cell.flag("CLK_ENABLE"):
                clocks.update(cell.connections["CLK"])
                if not cell.flag("CLK_POLARITY"):
                    raise ClockError("negative edges")
        owners = {port.name: port.bits for port in self.netlist.ports.values() if port.is_input}
        if not clocks:
            return None
        named = [name for name, bits in owners.items() if set(bits) == clocks]
        if len(clocks) != 1 or not named:
            raise ClockError("several clocks")
        return named[0]

    def _signal(self, bits: list[Bit], kind: str, name: str) -> Signal:
        signal = Signal(name, len(bits), kind)  # type: ignore[arg-type]
        self.nets.drive(bits, signal)
        self.signals.append(signal)
        label = self.netlist.names.get(bits[0]) if bits else None
        if label is not None:
            signal.label = label[0]
        return signal

    def _words(self, bits: list[Bit], kind: str, name: str, size: int = WORD) -> list[Signal]:
        return [
            self._signal(bits[start : start + size], kind, f"{name}_{start // size}")
            for start in range(0, len(bits), size)
        ]

    def _define_inputs(self) -> None:
        for port in self.netlist.ports.values():
            if port.is_input and port.name != self.clock:
                name = "in_" + re.sub(r"\W", "_", port.name)
                self.inputs[port.name] = self._words(port.bits, "input", name)
                for signal in self.inputs[port.name]:
                    signal.ports = frozenset([port.name])
                    signal.member = True

    def _define(self, cell: Cell, index: int) -> _Maker:
        """Give the outputs of *cell* their signals; the function returned makes its nodes."""
        if cell.type in self._children:
            return self._define_instance(cell, index)
        if cell.type == "$dff":
            self._define_register(cell, index)
            return list
        if cell.type.startswith("$mem"):
            return self._define_memory_port(cell, index)
        port = result_of(cell)
        if port is None:
            raise UnsupportedError(f"cell {cell.type}")
        size = 1 if cell.name in self._cut else WORD
        results = self._words(cell.connections[port], "value", f"v{index}", size)
        return lambda: nodes_of(cell, self.nets, results, str(index))

    def _define_register(self, cell: Cell, index: int) -> None:
        bits, data = cell.connections["Q"], cell.connections["D"]
        for word, signal in enumerate(self._words(bits, "register", f"state.r{index}")):
            own = slice(word * WORD, word * WORD + signal.width)
            signal.initial = sum(
                1 << place for place, bit in enumerate(bits[own]) if bit in self.netlist.initial
            )
            self.registers.append((signal, data[own]))

    def _define_memory_port(self, cell: Cell, index: int) -> _Maker:
        memory = self.memories[cell.parameters["MEMID"].removeprefix("\\")]
        if cell.type in ("$meminit", "$meminit_v2"):
            memory.inits.append(cell)
            return list
        checked_width(memory.memory, cell)
        clocked = cell.flag("CLK_ENABLE")
        if cell.type == "$memwr_v2" and clocked:
            memory.writes.append(cell)
            memory.writes.sort(key=lambda cell: number(cell.parameters["PORTID"]))
            return list
        if cell.type != "$memrd_v2":
            raise UnsupportedError(f"cell {cell.type}")
        data = cell.connections["DATA"]
        if not clocked:
            results = self._words(data, "value", f"v{index}")
            return lambda: memory.asynchronous(cell, self.nets, results)
        registers = self._words(data, "register", f"state.r{index}")
        initial = number(cell.parameters["INIT_VALUE"])
        for word, signal in enumerate(registers):
            signal.initial = initial >> word * WORD & (1 << signal.width) - 1
            self.registers.append((signal, None))
        memory.reads.append((cell, registers))
        return list

    def _define_instance(self, cell: Cell, index: int) -> _Maker:
        child = self._children[cell.type]
        instance = _Instance(f"child{index}", child, cell.connections)
        self.instances.append(instance)
        for port, places in child.outputs.items():
            for bit, place in zip(cell.connections.get(port, []), places, strict=False):
                if isinstance(place, int):
                    if bit > 1:
                        self.nets.tie(bit, place)
                    continue
                self.nets.drive([bit], self._from_child(instance, place[0]), place[1])
        return lambda: self._instance_nodes(instance)

    def _from_child(self, instance: _Instance, inner: Signal) -> Signal:
        key = (instance.name, inner)
        if key not in self._from_children:
            signal = Signal(f"{instance.name}.{inner.name}", inner.width, "child", member=True)
            signal.label = inner.label
            self._from_children[key] = signal
        return self._from_children[key]

    def _instance_nodes(self, instance: _Instance) -> list[WordNode]:
        """One node sets each word of an input, one calls each group."""
        child, nodes = instance.module, []
        setters: dict[str, list[WordNode]] = {}
        for port, words in child.inputs.items():
            readers = child.readers(port)
            for index, word in enumerate(words):
                bits = instance.connections.get(port, [])[index * WORD :][: word.width]
                uses: set[Signal] = set()
                value = self.nets.read(bits, uses)
                target = f"{instance.name}.{word.name}"
                lines = [
                    f"update({target}, {value}, {instance.name}.dirty[{place}], {mask});"
                    for place, mask in readers
                ]
                if readers == child.tick_reader():
                    lines = [f"put({target}, {value}, {instance.touched});"]
                if len(lines) > 1:  # the first one would hide the change from the others
                    lines = [
                        f"if (any({target} != {value})) {{",
                        *[f"{instance.name}.dirty[{place}] |= {mask};" for place, mask in readers],
                        f"{target} = {value}; }}",
                    ]
                if lines:
                    setters.setdefault(port, []).append(
                        WordNode([], [], uses, lines, source=child.netlist.name)
                    )
        nodes += [node for words_ in setters.values() for node in words_]
        calls: list[WordNode] = []
        for group in child.groups:
            place, mask = dirty_bit(group.index)
            call = WordNode([], [], set(), source=child.netlist.name)
            function = f"{instance.name}.group{group.index}()"
            call.setup = [f"if ({instance.name}.dirty[{place}] & {mask}) {function};"]
            call.after = [node for port in group.ports for node in setters.get(port, [])]
            call.after += [calls[other] for other in sorted(group.after)]
            calls.append(call)
        for (owner, inner), signal in self._from_children.items():
            if owner == instance.name:
                found = child.group_of(inner)
                if found is not None:
                    signal.node = calls[found]
                    calls[found].outputs.append(signal)
        return nodes + calls

    def _define_outputs(self) -> None:
        for port in self.netlist.ports.values():
            if port.is_input:
                continue
            places = [self.nets.driver(bit) for bit in port.bits]
            for start in range(0, len(places), WORD):
                own = places[start : start + WORD]
                # An input that is passed through needs a group of its own: that of a copy.
                if any(not isinstance(place, int) and place[0].kind == "input" for place in own):
                    uses: set[Signal] = set()
                    value = self.nets.read(port.bits[start : start + WORD], uses)
                    name = f"out_{re.sub(r'[^a-zA-Z0-9_]', '_', port.name)}_{start // WORD}"
                    copy = Signal(name, len(own), "value")
                    self.signals.append(copy)
                    self._nodes.append(WordNode([copy], [value], uses, source=port.name))
                    places[start : start + WORD] = [(copy, place) for place in range(len(own))]
            self.outputs[port.name] = places

    # Order.

    def _sorted(self) -> list[WordNode]:
        """All nodes, each after those that it needs."""
        for place, node in enumerate(self._nodes):
            node.place = place
            for signal in node.outputs:
                signal.node = node
        order: list[WordNode] = []
        state: dict[WordNode, bool] = {}  # False while its needs are visited
        for root in self._nodes:
            stack: list[tuple[WordNode, Iterator[WordNode]]] = []

            def enter(
                node: WordNode, stack: list[tuple[WordNode, Iterator[WordNode]]] = stack
            ) -> None:
                state[node] = False
                stack.append((node, iter(node.needs())))

            if root not in state:
                enter(root)
            while stack:
                node, needs = stack[-1]
                for need in needs:
                    if need not in state:
                        enter(need)
                        break
                    if not state[need]:
                        path = [each for each, _ in stack]
                        raise self._loop(path[path.index(need) :])
                else:
                    stack.pop()
                    state[node] = True
                    order.append(node)
        return order

    def _loop(self, nodes: list[WordNode]) -> LoopError:
        sources = {node.source for node in nodes}
        cells = {
            cell.name
            for cell in self.netlist.cells
            if cell.name in sources
            and cell.type in BITWISE
            and cell.name not in self._cut
            and len(cell.connections["Y"]) > 1
        }
        return LoopError(self.netlist.name, cells, sources & set(self._children))

    def _spread(self) -> None:
        """Find for every node the inputs it depends on, and if an output depends on it."""
        for node in self.order:
            ports = [signal.ports for signal in node.uses] + [need.ports for need in node.after]
            node.ports = frozenset[str]().union(*ports)
            for signal in node.outputs:
                signal.ports = node.ports
        stack = [
            place[0].node
            for places in self.outputs.values()
            for place in places
            if not isinstance(place, int) and place[0].node is not None
        ]
        while stack:
            node = stack.pop()
            if not node.leads_out:
                node.leads_out = True
                stack += node.needs()

    def _grouped(self) -> tuple[list[ClockGroup], list[WordNode]]:
        by_ports: dict[frozenset[str], list[WordNode]] = {}
        tick: list[WordNode] = []
        for node in self.order:
            if node.leads_out:
                by_ports.setdefault(node.ports, []).append(node)
            else:
                tick.append(node)
        # A group uses groups of fewer inputs only.
        ordered = sorted(by_ports, key=lambda ports: (len(ports), sorted(ports)))
        groups = [
            ClockGroup(index, ports, by_ports[ports]) for index, ports in enumerate(ordered)
        ]
        self._group_of = {node: group for group in groups for node in group.nodes}
        for group in groups:
            for node in group.nodes:
                group.after.update(self._group_of[need].index for need in node.needs())
            group.after.discard(group.index)
        return groups, tick

    def group_of(self, signal: Signal) -> int | None:
        """The index of the group that computes *signal*; None if it is state."""
        return None if signal.node is None else self._group_of[signal.node].index

    @property
    def functions(self) -> int:
        """Number of functions with a bit in `dirty`: the groups, then `tick`."""
        return len(self.groups) + 1

    def readers(self, port: str) -> list[tuple[int, str]]:
        """Words of `dirty`, each with the bits of the functions that depend on an input."""
        masks: dict[int, int] = {}
        indices = [group.index for group in self.groups if port in group.ports]
        if port in self.tick_ports:
            indices.append(len(self.groups))
        for index in indices:
            masks[index // WORD] = masks.get(index // WORD, 0) | 1 << index % WORD
        return [(place, literal(mask)) for place, mask in sorted(masks.items())]

    @property
    def tick_inputs(self) -> list[Signal]:
        """Inputs that only `tick` depends on."""
        return [
            word
            for port, words in self.inputs.items()
            if self.readers(port) == self.tick_reader()
            for word in words
        ]

    def tick_reader(self) -> list[tuple[int, str]]:
        """The result of `readers` for an input that only `tick` depends on."""
        return [dirty_bit(len(self.groups))]

    # The next state.

    def _edge_statements(self) -> list[str]:
        lines = []
        read: set[Signal] = set()
        for memory in self.memories.values():
            lines += memory.read_at_edge(self.nets, read)
        assigned: list[tuple[Signal, Signal | None, str]] = []
        users = Counter(signal for node in self.order for signal in node.uses)
        for signal, data in self.registers:
            if data is not None:
                uses: set[Signal] = set()
                line = f"{next_state(signal)} = {self.nets.read(data, uses)};"
                users.update(uses)
                self.edge_uses |= uses
                assigned.append((signal, self._whole(data), line))
        written: set[Signal] = set()
        writes = [
            line
            for memory in self.memories.values()
            for line in memory.write_at_edge(self.nets, written)
        ]
        users.update([*written, *read])
        self.edge_uses |= written | read
        for signal, value, line in assigned:
            if value is not None and users[value] == 1:
                self.direct[value] = signal
            else:
                lines.append(line)
        return lines + writes

    def _whole(self, data: list[Bit]) -> Signal | None:
        """The signal, computed by `tick`, whose bits in order are *data*; None if there is none."""
        places = [self.nets.driver(bit) for bit in data]
        if isinstance(places[0], int):
            return None
        signal = places[0][0]
        if signal.kind != "value" or signal.node is None or signal.node in self._group_of:
            return None
        return signal if places == [(signal, place) for place in range(signal.width)] else None

    def _tick_ports(self) -> frozenset[str]:
        ports = {port for node in self.tick for port in node.ports}
        ports.update(port for signal in self.edge_uses for port in signal.ports)
        for instance in self.instances:
            # The child's tick runs inside ours and reads inputs of the child that were set by
            # nodes; what these depend on counts, whatever function they are in.
            for port in instance.module.tick_ports:
                for bit in instance.connections.get(port, []):
                    found = self.nets.driver(bit)
                    if not isinstance(found, int):
                        ports |= found[0].ports
        return frozenset(ports)

    def _mark_members(self) -> None:
        """Make members of outputs, and of signals read outside the function that computes them."""
        def home(node: WordNode) -> ClockGroup | None:
            return self._group_of.get(node)

        for node in self.order:
            for signal in node.uses:
                if signal.node is not None and home(signal.node) is not home(node):
                    signal.member = True
        for signal in self.edge_uses:
            if signal.node is not None and home(signal.node) is not None:
                signal.member = True
        for places in self.outputs.values():
            for place in places:
                if not isinstance(place, int):
                    place[0].member = True
