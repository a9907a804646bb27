# SPDX-License-Identifier: Apache-2.0
"""Counts of structure by syntax tree: engines' names, clashes, circles, signatures, columns, words.

Each function takes product files (path from the root -> text) and returns one line for each place
that counts, so that a count can be listed.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from bench.records.registered import modules
from sim.engines import registry

__all__ = [
    "ENGINES",
    "LONGEST_SIGNATURE",
    "circles",
    "class_clashes",
    "column_numbers",
    "connects",
    "engine_branches",
    "long_signatures",
    "parsed",
    "program_files",
    "registries",
    "riddles",
    "shared_files",
]

ENGINES = tuple(registry.names())
"""Names of the engines in descriptions and at the door."""
LONGEST_SIGNATURE = 12
RECORDS = "sim/engines/"
"""Holds a file for each engine, which may say its name."""
_NAMES = modules("names")
WORDS = {name: _NAMES[name].WORDS if name in _NAMES else (name,) for name in ENGINES}
"""Engine -> words in the paths of its files and modules."""
_OWN = re.compile(
    rf"(?:^|[/_.])(?:{'|'.join([*(word for each in WORDS.values() for word in each), 'bfp'])})"
    r"(?=$|[/_.])"
)
"""In the path of a file or module that belongs to an engine."""
_ASKED = ("sim/", "foldwire/")
_PUBLIC = {"sim/events/simulate.py": {"simulate"}}
"""Functions that users call by keywords."""
_RIDDLE = re.compile(r"(?:What|Whether|How|Of)\b")

Files = Mapping[str, str]


@lru_cache(maxsize=4096)
def parsed(text: str) -> ast.Module:
    """The syntax tree of a file; kept, as every count walks all of them."""
    return ast.parse(text)


def _trees(files: Files, *folders: str) -> Iterator[tuple[str, ast.Module]]:
    for path, text in sorted(files.items()):
        if not folders or path.startswith(folders):
            yield path, parsed(text)


def _is_own(path: str) -> bool:
    """True for a file or module of an engine."""
    return _OWN.search(path.removesuffix(".py")) is not None


def engine_branches(files: Files) -> list[str]:
    """Comparisons (``==``, ``!=``, ``in``, ``match``) with an engine's name outside its record."""
    found = []
    for path, tree in _trees(files, *_ASKED):
        if path.startswith(RECORDS) and _is_own(path):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                sides: list[ast.AST] = [node.left, *node.comparators]
            elif isinstance(node, ast.MatchValue):
                sides = [node.value]
            else:
                continue
            if any(_names(side) for side in sides):
                found.append(f"{path}:{node.lineno}")
    return found


def _names(node: ast.AST) -> list[str]:
    """Engines' names that are *node*, or elements of it."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [
        part.value
        for part in parts
        if isinstance(part, ast.Constant) and part.value in ENGINES
    ]


def registries(files: Files) -> list[str]:
    """Displays that map, or list, two engines or more by name or by class."""
    found = []
    for path, tree in _trees(files, *_ASKED):
        classes = _engine_classes(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                parts: Sequence[ast.AST | None] = node.keys
            elif isinstance(node, ast.Tuple | ast.List | ast.Set):
                parts = node.elts
            else:
                continue
            engines = {
                part.value
                for part in parts
                if isinstance(part, ast.Constant) and part.value in ENGINES
            }
            engines |= {
                classes[part.id] for part in parts if isinstance(part, ast.Name)
                and part.id in classes
            }
            if len(engines) > 1:
                found.append(f"{path}:{node.lineno}")
    return found


def _engine_classes(tree: ast.Module) -> dict[str, str]:
    """Imported names that begin with a capital letter, and which engine's module they are from."""
    made: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            engine = _engine_of(node.module)
            if engine is not None:
                made |= {
                    alias.asname or alias.name: engine
                    for alias in node.names
                    if alias.name[0].isupper() and not alias.name.isupper()
                }
    return made


def _engine_of(module: str) -> str | None:
    for engine, words in WORDS.items():
        if any(re.search(rf"(?:^|[._]){word}(?:$|[._])", module) for word in words):
            return engine
    return None


def shared_files(files: Files) -> list[str]:
    """Files of no engine that import modules, or hold names, of two engines or more: another one
    would have to be written into them. Figures of papers, which choose their engines, are not."""
    found = []
    for path, tree in _trees(files):
        if _is_own(path) or path.startswith("experiments/figures/"):
            continue
        if len(engines := _mentioned(tree)) > 1:
            found.append(f"{path}: {', '.join(sorted(engines))}")
    return found


def _mentioned(tree: ast.Module) -> set[str]:
    engines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in ENGINES:
            engines.add(str(node.value))
        engines |= {
            engine for name in _imported(node)
            if _is_engines(name) and (engine := _engine_of(name)) is not None
        }
    return engines


def _is_engines(module: str) -> bool:
    return module.partition(".")[0] in ("hw", "sim", "foldwire") and _is_own(module)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def program_files(files: Files) -> list[str]:
    """Files that make a program of ACE or read its parts: `ring_program`, `Partition`,
    `direction_of`."""
    words = {"ring_program", "Partition", "direction_of"}
    found = []
    for path, tree in _trees(files):
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & words
        used |= {
            name.rpartition(".")[2] for node in ast.walk(tree) for name in _imported(node)
        } & words
        used |= {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        } & words
        if used:
            found.append(f"{path}: {', '.join(sorted(used))}")
    return found


def class_clashes(files: Files) -> list[str]:
    """Names of classes, private ones apart, that two modules or more define."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in _trees(files, "hw/", "gen/", "sim/", "foldwire/"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return [
        f"{name}: {', '.join(where)}"
        for name, where in sorted(places.items())
        if len({*where}) > 1
    ]


def circles(files: Files) -> list[str]:
    """Groups of modules that import one another, at any depth and under ``TYPE_CHECKING`` too."""
    modules = {_module(path) for path in files}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for path, tree in _trees(files):
        here = _module(path)
        for node in ast.walk(tree):
            for name in _imported(node):
                target = name if name in modules else name.rpartition(".")[0]
                if target in modules and target != here:
                    graph[here].add(target)
    return [" <-> ".join(sorted(group)) for group in _components(graph) if len(group) > 1]


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components (Tarjan), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found = []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                        if group[-1] == node:
                            break
                    found.append(group)
    return found


def long_signatures(files: Files) -> list[str]:
    """Functions with more than `LONGEST_SIGNATURE` parameters that users do not call."""
    found = []
    for path, tree in _trees(files):
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            of = node.args
            count = len(of.posonlyargs) + len(of.args) + len(of.kwonlyargs)
            if count > LONGEST_SIGNATURE and node.name not in _PUBLIC.get(path, ()):
                found.append(f"{path}:{node.lineno} {node.name}, {count} parameters")
    return found


def column_numbers(files: Files) -> list[str]:
    """Elements of arrays of several dimensions whose last index is a number, in compiled code."""
    found = []
    for path, tree in _trees(files, "sim/"):
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and _is_compiled(function):
                found += [
                    f"{path}:{node.lineno} {ast.unparse(node)}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.Subscript)
                    and isinstance(node.slice, ast.Tuple)
                    and isinstance(node.slice.elts[-1], ast.Constant)
                    and isinstance(node.slice.elts[-1].value, int)
                ]
    return found


def _is_compiled(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id in ("compiled", "inlined")
        for each in function.decorator_list
    )


def connects(files: Files, folder: str) -> int:
    """Calls of ``connect`` in a folder."""
    return sum(
        isinstance(node, ast.Call) and _called(node) == "connect"
        for _, tree in _trees(files, folder)
        for node in ast.walk(tree)
    )


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def riddles(files: Files) -> list[str]:
    """Docstrings that begin with *What*, *Whether*, *How* or *Of*."""
    return [
        f"{path}:{getattr(node, 'lineno', 1)} {said.splitlines()[0]}"
        for path, tree in _trees(files)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (said := ast.get_docstring(node)) is not None
        and _RIDDLE.match(said)
    ]
