# SPDX-License-Identifier: Apache-2.0
"""Find the live signals, the modules that drive them, and the ports that they pass through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gen.sv import ir

__all__ = ["Scope", "assigned", "decides"]


def decides(stmt: ir.Stmt, var: ir.Var | None, into: dict[ir.Var, int]) -> bool:
    """Add the bits that decide what *stmt* assigns to *var* (None: any); True if it assigns it."""
    if isinstance(stmt, ir.Assign):
        if var is not None and all(target is not var for target, _, _ in ir.targets(stmt.lhs)):
            return False
        ir.reads(stmt.rhs, into)
        ir.lhs_reads(stmt.lhs, into)
        return True
    hit = False
    for case in stmt.cases:
        for inner in case.body:
            hit |= decides(inner, var, into)
    if hit:
        ir.reads(stmt.test, into)
    return hit


def assigned(stmts: Iterable[ir.Stmt]) -> dict[ir.Var, int]:
    """The variables that *stmts* may write, with masks of the bits."""
    found: dict[ir.Var, int] = {}
    for stmt in stmts:
        for var, mask in stmt.writes.items():
            found[var] = found.get(var, 0) | mask
    return found


class Scope:
    """Facts that each module of a design needs to know about the others.

    Every member of a component's signature is a port of its module, whether used or not, so that
    equal components have equal modules. A signal that modules share otherwise is a port of those on
    the way between them.

    Attributes
    ----------
    live:
        The signals that reach an output of a component.
    driver:
        The module that drives a signal; none for those that are constant.
    ports:
        Module -> its ports, without clock and reset -> True for an output.
    local:
        Module -> the signals that are declared in it.
    number:
        Module -> its number, counted from the top.
    """

    def __init__(self, top: ir.Module, ports: list[tuple[str, ir.Var]]) -> None:
        self.top = top
        self.modules = list(top.all())
        self.number = {module: number for number, module in enumerate(self.modules)}
        self.driver: dict[ir.Var, ir.Module] = {}
        self._members = {
            module: {var for _, var, _ in module.members} for module in self.modules
        }
        self.top_ports = {var: name for name, var in ports}
        for module in self.modules:
            for var in _driven(module):
                self.driver[var] = module  # the only one, as `gen.checks` ensures
        self.live = self._find_live()
        self.clocked = self._find_clocked()
        self.ports: dict[ir.Module, dict[ir.Var, bool]] = {module: {} for module in self.modules}
        self.local: dict[ir.Module, list[ir.Var]] = {module: [] for module in self.modules}
        self._place()

    def statements(self, module: ir.Module) -> tuple[list[ir.Stmt], list[ir.Stmt]]:
        """The combinational and the clocked statements of *module* that drive live signals."""
        return tuple(  # type: ignore[return-value]
            [stmt for stmt in stmts if not self.live.isdisjoint(stmt.writes)]
            for stmts in (module.comb, module.sync)
        )

    def memories(self, module: ir.Module) -> list[ir.Memory]:
        """The memories of *module* from which live signals are read."""
        return [
            memory
            for memory in module.memories
            if any(not self.live.isdisjoint(ir.variables(port.data)) for port in memory.reads)
        ]

    def _find_live(self) -> set[ir.Var]:
        roots = [var for var in self.top_ports if var in self.driver]
        by_var: dict[ir.Var, list[ir.Stmt]] = defaultdict(list)
        beside: dict[ir.Var, list[ir.Expr]] = defaultdict(list)
        for module in self.modules:
            roots += [var for _, var, _ in module.members]
            for stmt in (*module.comb, *module.sync):
                for var in stmt.writes:
                    by_var[var].append(stmt)
            for memory in module.memories:
                for port in memory.reads:
                    for var in ir.variables(port.data):
                        beside[var] += memory.inputs()
            for box in module.boxes:
                for _, value in box.inputs:
                    roots += ir.variables(value)
        live: set[ir.Var] = set()
        while roots:
            var = roots.pop()
            if var in live:
                continue
            live.add(var)
            found: dict[ir.Var, int] = {}
            for stmt in by_var[var]:
                decides(stmt, var, found)
            for value in beside[var]:
                ir.reads(value, found)
            roots += found
        return live

    def _find_clocked(self) -> set[ir.Module]:
        """Modules with a register, a memory or a clocked box in them or below."""
        found = set()
        for module in reversed(self.modules):
            own = self.statements(module)[1] or module.memories
            boxes = any(
                var is module.clk for box in module.boxes for _, var in box.inputs
            )
            if own or boxes or any(child in found for child in module.children):
                found.add(module)
        return found

    def _uses(self, module: ir.Module) -> dict[ir.Var, int]:
        used: dict[ir.Var, int] = {}
        for stmt in (*module.comb, *module.sync):
            for var in stmt.writes:
                if var in self.live:
                    used[var] = 0
                    decides(stmt, var, used)
        for memory in self.memories(module):
            for value in (*memory.inputs(), *(port.data for port in memory.reads)):
                ir.reads(value, used)
        for box in module.boxes:
            for _, value in (*box.inputs, *box.outputs):
                ir.reads(value, used)
        return used

    def _place(self) -> None:
        users: dict[ir.Var, dict[ir.Module, None]] = defaultdict(dict)
        clocks = {var for module in self.modules for var in (module.clk, module.rst) if var}
        for module in self.modules:
            for var in self._uses(module):
                if var in self.driver or var in self.top_ports:
                    users[var][module] = None
            for _, var, _ in module.members:
                users[var][module] = None
                if module.parent is not None:
                    users[var][module.parent] = None
        for var in self.top_ports:
            users[var][self.top] = None
        for var, modules in users.items():
            if var not in clocks:
                self._route(var, [module.ancestors() for module in modules])

    def _route(self, var: ir.Var, chains: list[list[ir.Module]]) -> None:
        depth = 0
        if var in self.top_ports:
            depth = -1
        else:
            while all(len(chain) > depth + 1 for chain in chains) and (
                len({chain[depth + 1] for chain in chains}) == 1
            ):
                depth += 1
        driver = self.driver.get(var)
        inside = set(driver.ancestors()) if driver is not None else set()
        # An undriven input of a submodule is a constant where the submodule is connected.
        constant = driver is None and var not in self.top_ports and not any(
            own is var and out for chain in chains for _, own, out in chain[-1].members
        )
        for chain in chains:
            for level, module in enumerate(chain):
                if level == depth and not constant and var not in self.local[module]:
                    self.local[module].append(var)
                elif level > depth:
                    out = module in inside
                    if driver is None:
                        out = any(var is own and is_out for _, own, is_out in module.members)
                    self.ports[module][var] = out

    def order(self, module: ir.Module) -> list[ir.Var]:
        """The ports of *module*: those of its signature as they stand there, then the others."""
        ports = self.ports[module]
        if module is self.top:
            return list(self.top_ports)
        own = dict.fromkeys(var for _, var, _ in module.members if var in ports)
        return [*own, *(var for var in ports if var not in own)]


def _driven(module: ir.Module) -> Iterator[ir.Var]:
    yield from assigned((*module.comb, *module.sync))
    for memory in module.memories:
        for port in memory.reads:
            yield from ir.variables(port.data)
    for box in module.boxes:
        for _, value in box.outputs:
            yield from ir.variables(value)
