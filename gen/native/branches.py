"""Choices as branches: what only one arm needs is computed in that arm.

Multiplexers are most of a synchronous design: reset or not, which state, enabled or not. Written
as expressions all their arms are computed in every cycle. Here the nodes of a function are placed
from its ends back to its starts. A node whose users are all in one arm goes into that arm, and the
choices by the same select that are ready at the same time share one branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gen.native.words import Node, Signal

__all__ = ["statements"]

_WORTH = 5
"""Values in the arms of a branch; fewer are cheaper to compute than to jump over."""

_DEEPEST = 30
"""Branches within branches, at most: compilers have their limits (clang's is 256)."""


@dataclass(eq=False)
class _Block:
    """Nodes and branches of one arm, in reverse order."""

    parent: _Block | None = None
    depth: int = 0
    items: list[Node | _Branch] = field(default_factory=list)

    def arm(self) -> _Block:
        return _Block(self, self.depth + 1)


@dataclass(eq=False)
class _Branch:
    """Choices by one select, and what only their arms need."""

    nodes: list[Node]
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

    def __init__(self, nodes: Sequence[Node], needed: Callable[[Signal], bool]) -> None:
        self.root = _Block()
        self._needed = needed
        self._blocks: dict[Node, _Block] = {}
        self._branches: dict[Node, _Branch] = {}
        mine = set(nodes)
        self._needs = {
            node: [need for need in node.needs() if need in mine] for node in nodes
        }
        self._users: dict[Node, list[Node]] = {node: [] for node in nodes}
        for node, needs in self._needs.items():
            for need in needs:
                self._users[need].append(node)
        self._waits = {node: len(users) for node, users in self._users.items()}
        self._ready: list[Node] = []
        self._choices: dict[tuple[str, _Block], list[Node]] = {}
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

    def _enter(self, node: Node) -> None:
        """All users of *node* have their places: where it belongs is known."""
        block = self._home(node)
        self._blocks[node] = block
        if node.choice is None:
            self._ready.append(node)
        else:
            self._choices.setdefault((node.choice.select, block), []).append(node)

    def _placed(self, node: Node) -> None:
        for need in self._needs[node]:
            self._waits[need] -= 1
            if not self._waits[need]:
                self._enter(need)

    def _branch(self) -> None:
        """One branch for the choices of which the fewest others have still to come."""
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

    def _home(self, node: Node) -> _Block:
        if not node.values or any(map(self._needed, node.outputs)):
            return self.root
        home: _Block | None = None
        for user in self._users[node]:
            for block in self._uses(user, node):
                home = block if home is None else _common(home, block)
        return self.root if home is None else home

    def _uses(self, user: Node, node: Node) -> Iterator[_Block]:
        """Blocks of the places where *user* reads *node*."""
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


def _assigned(node: Node) -> Iterator[str]:
    yield from node.setup
    for signal, value in zip(node.outputs, node.values, strict=False):
        kind = "" if signal.member else "const word "
        yield f"{kind}{signal.name} = {value};"


def _written(block: _Block, several: bool) -> list[str]:
    lines: list[str] = []
    for item in reversed(block.items):
        lines += _assigned(item) if isinstance(item, Node) else _branched(item, several)
    return lines


def _branched(branch: _Branch, several: bool) -> list[str]:
    when, other = _written(branch.when, several), _written(branch.other, several)
    if len(when) + len(other) < _WORTH:
        plain = [line for node in branch.nodes for line in _assigned(node)]
        return when + other + plain
    lines = []
    for node in branch.nodes:
        (signal,) = node.outputs
        choice = node.choice
        assert choice is not None
        if not signal.member:
            lines.append(f"word {signal.name};")
        select, value = choice.select, choice.other
        if several:
            value = f"choose({select}, {signal.name}, {value})"
        when.append(f"{signal.name} = {choice.when};")
        other.append(f"{signal.name} = {value};")
    if several:  # an arm is computed if it is that of any lane
        return [*lines, f"if (any({select})) {{", *when, "}",
                f"if (!all({select})) {{", *other, "}"]
    return [*lines, f"if ({select}) {{", *when, "} else {", *other, "}"]


def statements(
    nodes: Sequence[Node], needed: Callable[[Signal], bool], *, several: bool = False
) -> list[str]:
    """C++ that computes *nodes*, which are in an order in which they can be computed.

    Parameters
    ----------
    needed:
        Whether a signal is read by others than *nodes*.
    several:
        Words hold a value for each of several instances.
    """
    return _written(_Placement(nodes, needed).root, several)
