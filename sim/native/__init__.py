"""Compiled inner loops: what Numba makes of marked functions, kept between processes.

Numba takes longer to import than most runs take. Modules mark their functions without it
(:mod:`sim.native.mark`); :func:`sim.native.binding.bind` has them compiled when nobody has before,
keeps the object code in the user's cache, and otherwise loads it with llvmlite, in a tenth of the
time that importing Numba takes.
"""
