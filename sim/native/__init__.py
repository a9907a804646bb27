"""Compiled inner loops: what Numba makes of marked functions, kept between processes.

Numba takes longer to import than most runs take. Modules mark their functions without it
(:mod:`sim.native.mark`); :func:`sim.native.binding.bind` has them compiled when nobody has before,
keeps the code in the user's cache, and otherwise loads it as the system loads libraries. Where
there is no C++ compiler to link with, object code is kept, for which llvmlite is loaded.
"""
