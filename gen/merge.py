# SPDX-License-Identifier: Apache-2.0
"""Merge identical modules of an RTLIL design, bottom-up.

Amaranth elaborates every instance of a component into a module of its own. Two of them become one
when their canonical texts are equal. These normalise only the following: source locations,
private names (`$12`), the numbers in the names of ports that Amaranth had to invent
(`\\port$34$0`), the order of ports, and the names of children that have been merged already. All
else counts: attributes, initial values, contents of memories, port directions, names that a person
gave.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["MergedDesign", "merge_modules"]

_HEADER = re.compile(r"^module (\\\S+)$", re.MULTILINE)
_CELL = re.compile(r"^  cell (\\\S+) (\S+)$")
_CONNECT = re.compile(r"^    connect (\\\S+)(.*)$")
_INVENTED = re.compile(r"^\\port\$\d+\$\d+$")
_NAME = re.compile(r"(?<= )[\\$][^\s\"]*")
_RENAMED = re.compile(
    r"^    connect \S+|\"[^\n]*|(?<= )(?:(\$\d+)|(\\port\$\d+\$\d+))(?=[\s\"]|\Z)", re.MULTILINE
)
"""Private and invented names; a child's port and strings, which match first, are left as is."""
_INDEX = re.compile(r"_\d+$")
_PORT = re.compile(r"^(  wire (?:width \d+ )?(?:signed )?(?:input|output|inout)) \d+  ?(\\\S+)$")


@dataclass(frozen=True)
class MergedDesign:
    """The result of `merge_modules`.

    Members
    -------
    text:
        RTLIL with every distinct module once, the top module first.
    instances:
        Name of each module -> number of its instances in the whole design.
    places:
        Name of each module -> those modules of the given text, named by their path, that it is.
    """

    text: str
    instances: dict[str, int]
    places: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class _Module:
    name: str
    attributes: list[str]
    body: list[str]

    def children(self) -> list[str]:
        return [
            match.group(1) for line in self.body
            if line.startswith("  cell ") and (match := _CELL.match(line))
        ]


@dataclass
class _Class:
    """One distinct module: the first module of its kind, its canonical text, and its number."""

    first: _Module
    text: str
    serial: int


def _split(text: str) -> list[_Module]:
    modules: list[_Module] = []
    for part in f"{text}\n".split("\nend\n"):
        if header := _HEADER.search(part):
            attributes, body = (
                [line for line in lines.split("\n") if line and not line.isspace()]
                for lines in (part[: header.start()], part[header.end() :])
            )
            modules.append(_Module(header.group(1), attributes, body))
    return modules


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Key that sorts `link_2` before `link_10`."""
    parts = re.split(r"(\d+)", name)
    return [(bool(n % 2), int(part) if n % 2 else 0, part) for n, part in enumerate(parts)]


def _ports_in_order(body: list[str]) -> list[str]:
    """`body` with its ports first, by name.

    Amaranth lists ports in the order in which it met them, which differs between instances that
    are alike but for their neighbours. Ports are connected by name, so the order has no meaning.
    """
    ports: list[tuple[str, list[str]]] = []
    rest: list[str] = []
    attributes: list[str] = []
    for line in body:
        if line.startswith("  attribute "):
            attributes.append(line)
            continue
        if line.startswith("  wire ") and (match := _PORT.match(line)):
            ports.append((match.group(2), [*attributes, line]))
        else:
            rest += [*attributes, line]
        attributes = []
    # Invented names have no meaning; such ports keep their order, after the others.
    named = [port for port in ports if not _INVENTED.match(port[0])]
    invented = [port for port in ports if _INVENTED.match(port[0])]
    ordered: list[str] = []
    for index, (_, lines) in enumerate([*sorted(named, key=lambda p: _natural(p[0])), *invented]):
        ordered += [*lines[:-1], _PORT.sub(rf"\g<1> {index} \g<2>", lines[-1])]
    return ordered + rest


def _is_source(line: str) -> bool:
    return line.lstrip().startswith("attribute \\src ")


class _Merger:
    def __init__(self, modules: list[_Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self.classes: dict[str, _Class] = {}
        self.class_of: dict[str, _Class] = {}
        self.port_names: dict[str, dict[str, str]] = {}

    def visit(self, name: str) -> _Class:
        """Merge the module `name` after everything below it."""
        module = self.modules[name]
        for child in module.children():
            if child in self.modules and child not in self.class_of:
                self.visit(child)
        text, self.port_names[name] = self._canonical(module)
        found = self.classes.setdefault(text, _Class(module, text, len(self.classes)))
        self.class_of[name] = found
        return found

    def _canonical(self, module: _Module) -> tuple[str, dict[str, str]]:
        attributes = [line for line in module.attributes if not _is_source(line)]
        lines: list[str] = []
        connections: list[tuple[str, str]] = []
        child_ports: dict[str, str] = {}
        for line in _ports_in_order(module.body):
            if line.startswith("    connect ") and (match := _CONNECT.match(line)):
                port = child_ports.get(match.group(1), match.group(1))
                connections.append((port, match.group(2)))
                continue
            if line.startswith("  end"):
                lines += [f"    connect {port}{value}" for port, value in sorted(connections)]
                connections = []
                child_ports = {}
            elif line.startswith("  cell ") and (match := _CELL.match(line)):
                child = match.group(1)
                child_ports = self.port_names.get(child, {})
                if child in self.class_of:
                    # '@' cannot start a name, so a serial is not mistaken for one.
                    line = f"  cell @{self.class_of[child].serial} {match.group(2)}"
            elif _is_source(line):
                continue
            lines.append(line)
        text, invented = _renamed("\n".join(lines), module)
        return "\n".join([*attributes, text]), invented


def _renamed(text: str, module: _Module) -> tuple[str, dict[str, str]]:
    """*text* with private and invented names numbered as they appear; the latter as a map too."""
    private: dict[str, str] = {}
    invented: dict[str, str] = {}
    taken: set[str] = set()

    def rename(match: re.Match[str]) -> str:
        old, port = match.groups()
        if old is not None:
            return private.get(old) or private.setdefault(old, f"${len(private) + 1}")
        if port is None:
            return match.group(0)
        if not taken:
            taken.update(_NAME.findall("\n".join(module.body)))
        if port not in invented:
            new = f"\\port_{len(invented)}"
            while new in taken:
                new += "_"
            invented[port] = new
        return invented[port]

    return _RENAMED.sub(rename, text), invented


def _short_names(classes: list[_Class], top: str) -> dict[int, str]:
    """Names from the last parts of each first instance's path, as few as make them unique."""
    parts = {
        item.serial: [_INDEX.sub("", part) for part in item.first.name[1:].split(".")]
        for item in classes
    }
    names = {serial: path[0] for serial, path in parts.items() if len(path) == 1}
    open_serials = [item.serial for item in classes if item.serial not in names]
    depth = 1
    while open_serials:
        wanted: dict[str, list[int]] = {}
        for serial in open_serials:
            path = parts[serial]
            wanted.setdefault("_".join([top, *path[max(1, len(path) - depth) :]]), []).append(
                serial
            )
        remaining: list[int] = []
        for name, serials in wanted.items():
            if len(serials) == 1 and name not in names.values():
                names[serials[0]] = name
            elif all(depth >= len(parts[serial]) for serial in serials):
                for index, serial in enumerate(serials):
                    names[serial] = f"{name}_{index}"
            else:
                remaining += serials
        open_serials = remaining
        depth += 1
    return names


def merge_modules(text: str, *, top: str) -> MergedDesign:
    """Merge identical modules of the RTLIL `text`, whose top module is `top`."""
    modules = _split(text)
    merger = _Merger(modules)
    merger.visit("\\" + top)
    # Dictionaries keep the order of first visit, which is children first; print parents first.
    classes = list(merger.classes.values())[::-1]
    names = _short_names(classes, top)
    by_serial = {f"@{item.serial}": names[item.serial] for item in classes}

    counts = {item.serial: 0 for item in classes}
    counts[merger.class_of["\\" + top].serial] = 1
    blocks = []
    for item in classes:
        lines = []
        for line in item.text.split("\n"):
            if line.startswith("  cell @"):
                _, serial, name = line.split()
                counts[int(serial[1:])] += counts[item.serial]
                line = f"  cell \\{by_serial[serial]} {name}"
            lines.append(line)
        header = len([line for line in item.first.attributes if not _is_source(line)])
        lines.insert(header, f"module \\{names[item.serial]}")
        blocks.append("\n".join([*lines, "end", ""]))
    places: dict[str, list[str]] = {names[item.serial]: [] for item in classes}
    for path, item in merger.class_of.items():
        places[names[item.serial]].append(path.lstrip("\\"))
    return MergedDesign(
        "\n".join(blocks), {names[item.serial]: counts[item.serial] for item in classes}, places
    )
