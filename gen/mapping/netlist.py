# SPDX-License-Identifier: Apache-2.0
"""A design as blocks, each a text of its own that does not depend on names outside it."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from gen.cache import default_cache_dir, intact, kept
from gen.configured import sources_hash
from gen.merge import merge_modules
from gen.rtlil import MacroPlatform, to_rtlil
from gen.sv.sites import Site, recorded
from gen.tidy import plain_name, readable_names

__all__ = ["CELL", "DesignBlock", "DesignNetlist", "kept_netlist", "known_netlist", "netlist_of"]

CELL = "\n  cell "
"""Begins a cell in RTLIL, be it of logic or an instance."""
_HEADER = re.compile(r"^module \\(\S+)\n", re.MULTILINE)
_CELL = re.compile(r"^  cell \\(\S+) ", re.MULTILINE)
_NUMBERED = re.compile(r"^  cell \\@(\d+) ", re.MULTILINE)
_PORT = re.compile(r"^  wire (?:.* )?(?:input|output|inout) \d+ .*$", re.MULTILINE)
_MADE_UP = re.compile(r"_\w+")
_MACRO_PORT = re.compile(r"(input|output)\s+(?:wire|reg)\s+(?:\[(\d+):0\])?\s*(\w+)")


@dataclass(frozen=True)
class DesignBlock:
    """A module of RTLIL that depends on no name of another one.

    Members
    -------
    name:
        In the design.
    text:
        RTLIL between the header of the module and its end. The type of an instance is the number
        of one of `children`, behind an @, which no name begins with.
    children:
        Names of the modules and macros that are instantiated, in the order of the text.
    stubs:
        Ports of each of these, as RTLIL.
    """

    name: str
    text: str
    children: tuple[str, ...]
    stubs: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Hash of all that the cells of the block depend on, apart from the flow."""
        return hashlib.sha256(repr((self.text, self.stubs)).encode()).hexdigest()

    def rtlil(self, name: str) -> str:
        """The module under another name, with black boxes ``name_0``, ``name_1`` as children."""
        body = _NUMBERED.sub(rf"  cell \\{name}_\1 ", self.text)
        boxes = (
            f"attribute \\blackbox 1\nmodule \\{name}_{index}\n{ports}\nend\n"
            for index, ports in enumerate(self.stubs)
        )
        return "".join([f"module \\{name}\n{body}\nend\n", *boxes])


@dataclass(frozen=True)
class DesignNetlist:
    """A design whose equal modules have been merged.

    Members
    -------
    top:
        Name of the top module.
    text:
        RTLIL of all modules, the top module first.
    instances:
        Name of each module -> number of its instances in the whole design.
    macros:
        Name of each SRAM macro -> its behavioural Verilog.
    cpu_s:
        Seconds of CPU that elaborating it took, whenever that was.
    names:
        Name of a signal in `text`, behind its instance and a dot -> its name in the source, of
        those for which Amaranth finds none.
    """

    top: str
    text: str
    instances: dict[str, int]
    macros: dict[str, str]
    cpu_s: float = 0.0
    names: dict[str, str] = field(default_factory=dict)

    def in_source(self, name: str) -> str:
        """A register or a bit of one as the source calls it: its instance, a dot, its name, and
        what stands behind that."""
        instance, dot, own = name.rpartition(".")
        made_up = _MADE_UP.match(own)
        signal = made_up[0] if made_up else ""
        while signal:
            if known := self.names.get(f"{instance}.{signal}"):
                return f"{instance}{dot}{known}{own[len(signal) :]}"
            signal = signal.rpartition("_")[0]  # perhaps a field of it
        return name

    @cached_property
    def blocks(self) -> list[DesignBlock]:
        """The modules one by one, the smallest first."""
        bodies = self._bodies
        stubs = {name: "\n".join(_PORT.findall(body)) for name, body in bodies.items()}
        stubs |= {name: _macro_ports(body) for name, body in self.macros.items()}
        made = (_block(name, body, stubs) for name, body in bodies.items())
        return sorted(made, key=lambda block: len(block.text))

    def instances_of(self, child: str) -> int:
        """Number of instances of a module or macro in the whole design."""
        return sum(
            self.instances[name] * len(re.findall(rf"^  cell \\{child} ", body, re.MULTILINE))
            for name, body in self._bodies.items()
        )

    def repeated(self, instances: int, cells: int) -> list[str]:
        """Modules of that many instances and cells, or more, that hold no other module."""
        return [
            name for name, body in self._bodies.items()
            if self.instances[name] >= instances
            and body.count(CELL) >= cells
            and not _CELL.search(body)
        ]

    @cached_property
    def _bodies(self) -> dict[str, str]:
        bodies: dict[str, str] = {}
        for part in f"{self.text}\n".split("\nend\n"):
            if header := _HEADER.search(part):
                bodies[header[1]] = part[header.end() :]
        return bodies


def _block(name: str, body: str, stubs: dict[str, str]) -> DesignBlock:
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        return f"  cell \\@{numbers.setdefault(match[1], len(numbers))} "

    text = _CELL.sub(numbered, body)
    return DesignBlock(name, text, tuple(numbers), tuple(stubs[child] for child in numbers))


def _macro_ports(body: str) -> str:
    """Ports of a macro as RTLIL."""
    header = body.partition(");")[0]
    return "\n".join(
        f"  wire width {int(last or 0) + 1} {way} {number} \\{name}"
        for number, (way, last, name) in enumerate(_MACRO_PORT.findall(header), 1)
    )


def netlist_of(component: wiring.Component, *, name: str) -> DesignNetlist:
    """The netlist of *component* as top module *name*, SRAM left as macros."""
    started = time.process_time()
    platform = MacroPlatform()
    names: dict[str, str] = {}
    with recorded() as sites:
        rtlil = to_rtlil(
            component, name=name, platform=platform, undriven=False,
            prepared=lambda design: names.update(_source_names(design, sites)),
        )
    merged = merge_modules(rtlil, top=name)
    macros = dict(sorted(platform.sram_macros.items()))
    text = readable_names(merged.text)
    cpu_s = time.process_time() - started
    return DesignNetlist(name, text, merged.instances, macros, cpu_s, names)


def _source_names(design: Any, sites: Mapping[int, Site]) -> Iterator[tuple[str, str]]:
    """Names of a prepared design that Amaranth makes up, as `DesignNetlist.names` has them."""
    for info in design.fragments.values():
        instance = ".".join(map(plain_name, info.name[1:]))
        for signal, name in info.signal_names.items():
            site = sites.get(signal.duid) if name.startswith("$") else None
            if site is not None and site.name is not None:
                # The port of a memory has no name; it follows that of what its call is assigned to.
                found = site.longer[0] if "$" in site.name and site.longer else site.name
                yield f"{instance}.{plain_name(name)}", re.sub(r"_*\$signature_+", "_", found)


def kept_netlist(component: wiring.Component, *, name: str, configuration: object) -> DesignNetlist:
    """`netlist_of`, without elaborating the component again.

    The ``repr`` of *configuration* must state it completely. Without one, and if it is from
    elsewhere than our own sources, a component is elaborated each time.
    """
    file = _file(component, name, configuration)
    if not file:
        return netlist_of(component, name=name)

    def make(target: Path) -> None:
        text = json.dumps(asdict(netlist_of(component, name=name)))
        target.write_bytes(gzip.compress(text.encode(), 3))

    vars(component)["_MustUse__used"] = True  # Amaranth warns of what is not elaborated
    return _read(kept(file, make, doing=f"elaborating {name}"))


def known_netlist(
    component: wiring.Component, *, name: str, configuration: object
) -> DesignNetlist | None:
    """The netlist that `kept_netlist` has kept; None where it would elaborate the component."""
    file = _file(component, name, configuration)
    path = default_cache_dir() / file
    return _read(path) if file and intact(path) else None


def _file(component: wiring.Component, name: str, configuration: object) -> str:
    key = configuration and sources_hash(type(component), (name, configuration))
    return f"netlists/{key}.json.gz" if key else ""


def _read(path: Path) -> DesignNetlist:
    return DesignNetlist(**json.loads(gzip.decompress(path.read_bytes())))
