"""The banked SRAM: who reads or writes which bank in which cycle."""

from numba import njit

from sim.mixed.state import CALENDAR

__all__ = ["take_bank"]


@njit(cache=True)
def take_bank(s, node, write, row, cycle):  # type: ignore[no-untyped-def]
    """The first cycle from *cycle* on in which the bank of *row* is free; it is taken."""
    c = s.c[0]
    bank = row & (c.banks - 1)
    taken = s.calendar[node, 0 if c.shared_banks else write, bank]
    while taken[cycle & (CALENDAR - 1)] == cycle:
        cycle += 1
    taken[cycle & (CALENDAR - 1)] = cycle
    return cycle
