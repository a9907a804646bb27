# SPDX-License-Identifier: Apache-2.0
"""Turn choices into branches, so that logic that only one arm needs is computed in that arm.

Multiplexers are most of a synchronous design: reset or not, which state, enabled or not. Written
as expressions, all their arms are computed in every cycle. Here the nodes of a function are placed
from its outputs back to its inputs. A node whose users are all in one arm goes into that arm, and
choices by the same select that are ready at the same time share one branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gen.native.words import Signal, WordChoice, WordNode
from gen.rtlil import RESET

__all__ = ["BranchTarget", "statements"]

_WORTH = 5
"""Least values in the arms of a branch; fewer are cheaper to compute than to jump over."""

_KEPT = 2
"""Weight, in such values, of a register that keeps its state in one of the arms."""

_NARROW = 32
"""Bits of the smaller type of variables."""

_DEEPEST = 30
"""Deepest nesting of branches: compilers have their limits (clang's is 256)."""


@dataclass(frozen=True, eq=False)
class BranchTarget:
    """A *place* that a value is written to, and the value that it has before that (*held*)."""

    place: str
    held: str


@dataclass(eq=False)
class _Block:
    """Nodes and branches of one arm, in reverse order."""

    parent: _Block | None = None
    depth: int = 0
    items: list[WordNode | _Branch] = field(default_factory=list)
    size: int | None = None
    """Nodes in it, once they have been counted."""

    def arm(self) -> _Block:
        return _Block(self, self.depth + 1)


@dataclass(eq=False)
class _Branch:
    """Choices by one select, with a block for each arm of the nodes that only this arm needs."""

    nodes: list[WordNode]
    when: _Block
    other: _Block


def _common(left: _Block, right: _Block) -> _Block:
    """The innermost block that both are in."""
    while left is not right:
        if left.depth >= right.depth:
            assert left.parent is not None
            left = left.parent
        else:
            assert right.parent is not None
            right = right.parent
    return left


class _Placement:
    """Finds a block for every node."""

    def __init__(self, nodes: Sequence[WordNode], needed: Callable[[Signal], bool]) -> None:
        self.root = _Block()
        self._needed = needed
        self._blocks: dict[WordNode, _Block] = {}
        self._branches: dict[WordNode, _Branch] = {}
        mine = set(nodes)
        self._needs = {
            node: [need for need in node.needs() if need in mine] for node in nodes
        }
        self._users: dict[WordNode, list[WordNode]] = {node: [] for node in nodes}
        for node, needs in self._needs.items():
            for need in needs:
                self._users[need].append(node)
        self._waits = {node: len(users) for node, users in self._users.items()}
        self._ready: list[WordNode] = []
        self._choices: dict[tuple[str, _Block], list[WordNode]] = {}
        self._open: dict[str, int] = {}  # choices by each select that are still to be placed
        for node in nodes:
            if node.choice is not None:
                self._open[node.choice.select] = self._open.get(node.choice.select, 0) + 1
        for node in nodes:
            if not self._waits[node]:
                self._enter(node)
        while self._ready or self._choices:
            while self._ready:
                node = self._ready.pop()
                self._blocks[node].items.append(node)
                self._placed(node)
            if self._choices:
                self._branch()

    def read_once(self, node: WordNode) -> bool:
        """Return True if *node* is one of ours and a single node is the only reader of it."""
        users = self._users.get(node, [])
        return len(users) == 1 and not any(map(self._needed, node.outputs))

    def _enter(self, node: WordNode) -> None:
        """Give *node* its block, now that all of its users have theirs."""
        block = self._home(node)
        self._blocks[node] = block
        if node.choice is None:
            self._ready.append(node)
        else:
            self._choices.setdefault((node.choice.select, block), []).append(node)

    def _placed(self, node: WordNode) -> None:
        for need in self._needs[node]:
            self._waits[need] -= 1
            if not self._waits[need]:
                self._enter(need)

    def _branch(self) -> None:
        """Place a branch for the ready choices of a select that has the fewest others to come."""
        key = min(
            self._choices,
            key=lambda key: (self._open[key[0]] - len(self._choices[key]),
                             -len(self._choices[key])),
        )
        nodes, block = self._choices.pop(key), key[1]
        self._open[key[0]] -= len(nodes)
        if block.depth < _DEEPEST:
            branch = _Branch(nodes, block.arm(), block.arm())
            block.items.append(branch)
        else:  # as expressions
            branch = _Branch(nodes, block, block)
            block.items += nodes
        for node in nodes:
            self._branches[node] = branch
        for node in nodes:
            self._placed(node)

    def _home(self, node: WordNode) -> _Block:
        if not node.values or any(map(self._needed, node.outputs)):
            return self.root
        home: _Block | None = None
        for user in self._users[node]:
            for block in self._uses(user, node):
                home = block if home is None else _common(home, block)
        return self.root if home is None else home

    def _uses(self, user: WordNode, node: WordNode) -> Iterator[_Block]:
        """Blocks in which *user* reads *node*."""
        choice = user.choice
        if choice is None:
            yield self._blocks[user]
            return
        branch = self._branches[user]
        outputs = set(node.outputs)
        for uses, block in (
            (choice.when_uses, branch.when),
            (choice.other_uses, branch.other),
            (choice.select_uses, self._blocks[user]),
        ):
            if not outputs.isdisjoint(uses):
                yield block


class _Writer:
    """Turns blocks into text.

    Parameters
    ----------
    placement:
        Placement of the nodes.
    several:
        Words hold a value for each of several instances.
    targets:
        Values with a single reader -> the place in which that keeps them, and what is there
        before.
    """

    def __init__(
        self,
        placement: _Placement,
        several: bool,
        targets: Mapping[Signal, BranchTarget],
    ) -> None:
        self._placement = placement
        self._several = several
        self._targets = dict(targets)

    def block(self, block: _Block) -> list[str]:
        lines: list[str] = []
        for item in reversed(block.items):
            lines += self._node(item) if isinstance(item, WordNode) else self._branch(item)
        return lines

    def _node(self, node: WordNode) -> Iterator[str]:
        yield from node.setup
        for signal, value in zip(node.outputs, node.values, strict=False):
            target = self._targets.get(signal)
            if target is not None:
                yield f"{target.place} = {value};"
            else:
                kind = "" if signal.member else f"const {_kind(signal)} "
                yield f"{kind}{signal.name} = {value};"

    def _branch(self, branch: _Branch) -> list[str]:
        if self._weight(branch) < _WORTH:
            plain = [line for node in branch.nodes for line in self._node(node)]
            return self.block(branch.when) + self.block(branch.other) + plain
        if self._several:
            return self._branch_of_several(branch)
        lines, ends = [], []
        for node in branch.nodes:
            (signal,), choice = node.outputs, node.choice
            assert choice is not None
            target = self._targets.get(signal)
            place = signal.name
            if target is not None:
                place = target.place
                self._pass_on(target, choice)
            elif not signal.member:
                lines.append(f"{_kind(signal)} {place};")
            ends.append((place, target, choice))
        when, other = self.block(branch.when), self.block(branch.other)
        for place, target, choice in ends:
            for arm, value, uses in (
                (when, choice.when, choice.when_uses), (other, choice.other, choice.other_uses)
            ):
                if target is None or not (value == target.held or self._is_there(uses, target)):
                    arm.append(f"{place} = {value};")
        select = branch.nodes[0].choice.select  # type: ignore[union-attr]
        if not when:
            return [*lines, f"if (!({select})) {{", *other, "}"] if other else lines
        head = f"if (unlikely({select})) {{" if _is_reset(branch) else f"if ({select}) {{"
        return [*lines, head, *when, *(["} else {", *other] if other else []), "}"]

    def _branch_of_several(self, branch: _Branch) -> list[str]:
        """A branch for several instances: an arm is computed if any of them takes it."""
        when, other, lines = self.block(branch.when), self.block(branch.other), []
        for node in branch.nodes:
            (signal,), choice = node.outputs, node.choice
            assert choice is not None
            target = self._targets.get(signal)
            place = signal.name if target is None else target.place
            if target is None and not signal.member:
                lines.append(f"{_kind(signal)} {place};")
            when.append(f"{place} = {choice.when};")
            other.append(f"{place} = choose({choice.select}, {place}, {choice.other});")
            select = choice.select
        return [*lines, f"if (any({select})) {{", *when, "}",
                f"if (!all({select})) {{", *other, "}"]

    def _pass_on(self, target: BranchTarget, choice: WordChoice) -> None:
        """Let choices whose results only an arm of this one reads write to the same place."""
        arms = choice.when_uses, choice.other_uses
        for value, uses in zip((choice.when, choice.other), arms, strict=True):
            if len(uses) != 1:
                continue
            (signal,) = uses
            node = signal.node
            if (
                value == signal.name
                and node is not None
                and node.choice is not None
                and signal not in choice.select_uses
                and not (signal in arms[0] and signal in arms[1])
                and self._placement.read_once(node)
            ):
                self._targets[signal] = target

    def _is_there(self, uses: set[Signal], target: BranchTarget) -> bool:
        """Return True if the nodes that computed an arm's value have written it to *target*."""
        return len(uses) == 1 and all(self._targets.get(signal) is target for signal in uses)

    def _weight(self, branch: _Branch) -> int:
        """Values that a branch saves: those in its arms, and registers that keep their state."""
        arms = self._size(branch.when) + self._size(branch.other)
        return arms + _KEPT * sum(
            node.choice is not None and target.held in (node.choice.when, node.choice.other)
            for node in branch.nodes
            for target in [self._targets.get(node.outputs[0])]
            if target is not None
        )

    def _size(self, block: _Block) -> int:
        if block.size is None:
            block.size = sum(
                1 + len(item.setup) if isinstance(item, WordNode)
                else len(item.nodes) + self._size(item.when) + self._size(item.other)
                for item in block.items
            )
        return block.size


def _kind(signal: Signal) -> str:
    """The C++ type of a variable: instructions on 32 bits are shorter."""
    return "narrow" if signal.width <= _NARROW else "word"


def _is_reset(branch: _Branch) -> bool:
    """Return True if a branch tests the reset of the module."""
    choice = branch.nodes[0].choice
    return choice is not None and any(
        signal.kind == "input" and signal.ports == {RESET} and signal.name == choice.select
        for signal in choice.select_uses
    )


def statements(
    nodes: Sequence[WordNode],
    needed: Callable[[Signal], bool],
    *,
    several: bool = False,
    targets: Mapping[Signal, BranchTarget] | None = None,
) -> list[str]:
    """C++ that computes *nodes*, given in an order in which they can be computed.

    Parameters
    ----------
    needed:
        Tells if a signal is read by anything besides *nodes*.
    several:
        Words hold a value for each of several instances.
    targets:
        Places of values that nothing else reads; for models of one instance only.
    """
    placement = _Placement(nodes, needed)
    return _Writer(placement, several, targets or {}).block(placement.root)
