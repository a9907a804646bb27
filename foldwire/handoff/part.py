# SPDX-License-Identifier: Apache-2.0
"""Parts that are handed over with Verilog and do not follow from ports and registers alone."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foldwire.catalog import Design

__all__ = ["Handoff", "HandoffBench", "Layout", "handoff_of"]

Layout = Mapping[str, int]
"""Fields of a word and their bits, from bit 0 upwards."""


@dataclass(frozen=True, kw_only=True)
class HandoffBench:
    """A bench: its module and data, and Verilog beside the design's."""

    module: str
    data: dict[str, Any]
    extra: str = ""


@dataclass(frozen=True, kw_only=True)
class Handoff:
    """A module of a design holds one as ``HANDOFF``.

    Parameters
    ----------
    bench : callable
        Takes the design and the manifest of its Verilog; returns None where there is no bench.
    recipes : str
        Sections of the programmer's manual, in Markdown; they name registers and fields.
    interrupts : mapping
        Bit of ``interrupt`` -> meaning.
    set_up : callable
        Takes the design; returns sections with the writes that set it up and start a collective.
    more : callable
        Takes the design; returns sections behind the interrupts.
    constants : callable
        Takes the design; returns numbers that follow from its parameters, for the C header.
    packets : callable
        Takes the design; returns a section for what travels on its links, or "".
    codes : mapping of mappings
        Enumerations that are no fields of registers, by name: codes by name.
    layouts : mapping
        Words of 64 bits that software makes, by name.
    driver : str
        Name of a C file in ``drivers`` that runs an all-reduce; empty: there is none.
    through : str
        Design that is between several of this one, and has a driver of its own; empty: none.
    """

    bench: Callable[[Design, Mapping[str, Any]], HandoffBench | None]
    recipes: str = ""
    interrupts: Mapping[str, str] = field(default_factory=dict)
    set_up: Callable[[Design], list[str]] = lambda design: []
    more: Callable[[Design], list[str]] = lambda design: []
    constants: Callable[[Design], Mapping[str, int]] = lambda design: {}
    packets: Callable[[Design], str] = lambda design: ""
    codes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    driver: str = ""
    through: str = ""


def handoff_of(design: Design) -> Handoff:
    """Everything that is handed over with a design."""
    found: Handoff = importlib.import_module(design.handoff).HANDOFF
    return found
