# SPDX-License-Identifier: Apache-2.0
"""The component in IP-XACT (IEEE 1685-2014): registers, buses, ports, sources."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from foldwire.handoff.packages import LIBRARY, VENDOR
from foldwire.version import __version__
from gen.rtlil import CLOCK
from hw.common.register_map import WORD_BYTES, Access, Field, Register, RegisterMap

__all__ = ["ip_xact"]

_NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
_CSR = "csr"
_ACCESS = {
    Access.RW: "read-write", Access.RO: "read-only", Access.W1C: "read-write",
    Access.WO: "write-only",
}
_BUSES = {"awaddr": ("AXI4", "awvalid"), "tdata": ("AXI4Stream", "tvalid")}
"""A signal that only one kind of bus has: the bus, and a signal that its master drives."""


def ip_xact(
    registers: RegisterMap | None, manifest: Mapping[str, Any], sources: Sequence[str]
) -> str:
    """The component of a `manifest`; a design without registers has no memory map."""
    ports = _ports(manifest)
    parts = [*_identity(manifest["name"]), _made("busInterfaces", *_buses(ports, registers))]
    if registers is not None:
        parts.append(_made("memoryMaps", _memory_map(registers)))
    parts += [_model(manifest["name"], manifest["style"], ports), _files(sources)]
    root = Element("ipxact:component", {"xmlns:ipxact": _NAMESPACE})
    root.extend([each for each in parts if len(each) or each.text])
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<!-- SPDX-License-Identifier: Apache-2.0 -->\n'
    return head + ElementTree.tostring(root, encoding="unicode") + "\n"


def _made(tag: str, *inside: Element | str | int, **attributes: str) -> Element:
    made = Element(f"ipxact:{tag}", attributes)
    for each in inside:
        if isinstance(each, Element):
            made.append(each)
        else:
            made.text = str(each)
    return made


def _identity(name: str) -> list[Element]:
    return [
        _made("vendor", VENDOR), _made("library", LIBRARY), _made("name", name),
        _made("version", __version__),
    ]


def _described(doc: str) -> list[Element]:
    return [_made("description", doc)] if doc else []


# ---- Registers.


def _memory_map(registers: RegisterMap) -> Element:
    block = _made(
        "addressBlock", _made("name", "registers"), _made("baseAddress", 0),
        _made("range", registers.size), _made("width", 8 * WORD_BYTES), _made("usage", "register"),
        *(_register(each, registers.offset(each.name)) for each in registers.registers.values()),
    )
    return _made(
        "memoryMap", _made("name", _CSR), *_described(f"Registers of {registers.name}."), block,
        _made("addressUnitBits", 8),
    )


def _register(register: Register, offset: int) -> Element:
    access = Access(register.access)
    return _made(
        "register", _made("name", register.name), *_described(register.doc),
        *([] if register.count is None else [_made("dim", register.count)]),
        _made("addressOffset", f"'h{offset:x}"), _made("size", 8 * WORD_BYTES),
        _made("access", _ACCESS[access]), *_fields(register.fields, access),
    )


def _fields(fields: Sequence[Field], access: Access) -> Iterator[Element]:
    lsb = 0
    for field in fields:
        parts = [
            _made("name", field.name), *_described(field.doc), _made("bitOffset", lsb),
            _made("resets", _made("reset", _made("value", f"'h{field.init:x}"))),
            _made("bitWidth", field.width), _made("access", _ACCESS[access]),
        ]
        if field.choices:
            parts.append(_made("enumeratedValues", *(
                _made("enumeratedValue", _made("name", name), _made("value", value))
                for name, value in field.choices.items()
            )))
        if access is Access.W1C:
            parts.append(_made("modifiedWriteValue", "oneToClear"))
        yield _made("field", *parts)
        lsb += field.width


# ---- Ports and buses.


def _ports(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All ports, clock and reset too."""
    reset = manifest["reset"]
    extra = [CLOCK] if manifest["clock"] else []
    extra += [reset["port"]] if reset else []
    return [*({"name": name, "width": 1, "is_input": True} for name in extra), *manifest["ports"]]


def _buses(
    ports: Sequence[Mapping[str, Any]], registers: RegisterMap | None
) -> Iterator[Element]:
    names = {port["name"]: port["is_input"] for port in ports}
    for name in names:
        prefix, _, signal = name.rpartition("_")
        if prefix and signal in _BUSES:
            kind, driven = _BUSES[signal]
            if kind == "AXI4" and f"{prefix}_awlen" not in names:
                kind = "AXI4Lite"
            master = not names[f"{prefix}_{driven}"]
            role = _made("master") if master else _made("slave")
            if prefix == _CSR and registers is not None:
                role.append(_made("memoryMapRef", memoryMapRef=_CSR))
            yield _bus(prefix, kind, role, [each for each in names if each.startswith(
                f"{prefix}_") and each.removeprefix(f"{prefix}_") != "credit"])


def _bus(prefix: str, kind: str, role: Element, names: Sequence[str]) -> Element:
    about = {"vendor": "amba.com", "library": "AMBA4", "version": "r0p0_0"}
    maps = [
        _made(
            "portMap",
            _made("logicalPort", _made("name", name.removeprefix(f"{prefix}_").upper())),
            _made("physicalPort", _made("name", name)),
        )
        for name in names
    ]
    return _made(
        "busInterface", _made("name", prefix), _made("busType", **about, name=kind),
        _made("abstractionTypes", _made(
            "abstractionType", _made("abstractionRef", **about, name=f"{kind}_rtl"),
            _made("portMaps", *maps),
        )),
        role,
    )


def _model(name: str, style: str, ports: Sequence[Mapping[str, Any]]) -> Element:
    view = _made("view", _made("name", "rtl"), _made("componentInstantiationRef", "rtl"))
    language = "SystemVerilog" if style == "sv" else "Verilog"
    instantiation = _made(
        "componentInstantiation", _made("name", "rtl"), _made("language", language),
        _made("moduleName", name), _made("fileSetRef", _made("localName", "rtl")),
    )
    return _made(
        "model", _made("views", view), _made("instantiations", instantiation),
        _made("ports", *(_port(port) for port in ports)),
    )


def _port(port: Mapping[str, Any]) -> Element:
    wire = _made("wire", _made("direction", "in" if port["is_input"] else "out"))
    if port["width"] > 1:
        bounds = _made("left", port["width"] - 1), _made("right", 0)
        wire.append(_made("vectors", _made("vector", *bounds)))
    return _made("port", _made("name", port["name"]), wire)


def _files(sources: Sequence[str]) -> Element:
    files = [
        _made("file", _made("name", source), _made(
            "fileType", "systemVerilogSource" if source.endswith(".sv") else "verilogSource"))
        for source in sources
    ]
    return _made("fileSets", _made("fileSet", _made("name", "rtl"), *files))
