# SPDX-License-Identifier: Apache-2.0
"""Identifiers that are reserved neither in SystemVerilog nor in C++."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Names", "escaped", "identifier", "is_reserved", "plain", "snake"]

# IEEE 1800-2017, table B.1.
_RESERVED = frozenset(
    """
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
    before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
    checker class clocking cmos config const constraint context continue cover covergroup coverpoint
    cross deassign default defparam design disable dist do edge else end endcase endchecker endclass
    endclocking endconfig endfunction endgenerate endgroup endinterface endmodule endpackage
    endprimitive endprogram endproperty endspecify endsequence endtable endtask enum event
    eventually expect export extends extern final first_match for force foreach forever fork
    forkjoin function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins
    implements implies import incdir include initial inout input inside instance int integer
    interconnect interface intersect join join_any join_none large let liblist library local
    localparam logic longint macromodule matches medium modport module nand negedge nettype new
    nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed parameter pmos
    posedge primitive priority program property protected pull0 pull1 pulldown pullup
    pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime
    ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always
    s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled
    signed small soft solve specify specparam static string strong strong0 strong1 struct super
    supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout time
    timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union
    unique unique0 unsigned until until_with untyped use uwire var vectored virtual void wait
    wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
    """.split()
)
# Words of C++ that are none of SystemVerilog: simulators that write C++ warn of them. VHDL has its
# own escape for foreign names.
_CPP = frozenset(
    """
    NULL abort alignas alignof and_eq asm atomic_cancel atomic_commit atomic_noexcept auto
    bit_vector bitand bitor bool catch cdecl char char16_t char32_t compl complex concept const_cast
    const_iterator const_reference constexpr decltype delete deque double dynamic_cast explicit
    false far float friend goto huge inline interrupt iterator list long main map multimap multiset
    mutable namespace near noexcept not_eq nullptr operator or_eq override pascal private public
    queue reference register reinterpret_cast requires sc_clock sc_in sc_inout sc_out sc_signal
    sensitive sensitive_neg sensitive_pos set short sizeof stack std static_assert static_cast
    switch synchronized template thread_local throw transaction_safe transaction_safe_dynamic true
    try type_info typeid typename uint16_t uint32_t uint8_t using vector volatile wchar_t xor_eq
    """.split()
)


def is_reserved(name: str) -> bool:
    """Return True if *name* is a reserved word of SystemVerilog."""
    return name in _RESERVED


def identifier(text: str) -> str:
    """*text* as a name: letters, digits and single underscores, no word that a tool reserves."""
    name = re.sub(r"_{2,}", "_", re.sub(r"\W+", "_", text, flags=re.ASCII)).strip("_") or "n"
    if name[0].isdigit():
        name = f"n_{name}"
    return f"{name}_" if name.lower() in _RESERVED or name in _CPP else name


def snake(name: str) -> str:
    """``AXI4Reader`` -> ``axi4_reader``."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return split.lower().strip("_")


def escaped(name: str) -> str:
    """A name that must not change, as an escaped identifier if it is a reserved word."""
    return f"\\{name} " if name in _RESERVED else name


def plain(name: str) -> str:
    """The name that `escaped` was given."""
    return name[1:-1] if name.startswith("\\") else name


class Names:
    """The names of one name space."""

    def __init__(self, *taken: str) -> None:
        self._taken = set(taken)

    def has(self, name: str) -> bool:
        """Return True if *name* is taken."""
        return name in self._taken

    def new(self, wanted: str, longer: Iterable[str] = ()) -> str:
        """*wanted* as an identifier; if it is taken one of *longer*, or with a number behind it."""
        base = name = identifier(wanted)
        number = 1
        if name in self._taken:
            name = next((n for n in map(identifier, longer) if n not in self._taken), name)
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
