# SPDX-License-Identifier: Apache-2.0
"""Compiled inner loops: marked functions that Numba compiles, kept between processes.

Numba takes longer to import than most runs take. Modules mark their functions without it
(:mod:`sim.native.mark`); :func:`sim.native.binding.bind` compiles them if the user's cache lacks
their code, keeps it there, and otherwise loads it as the system loads libraries. Without a C++
compiler to link with, object code is kept, which llvmlite has to load.
"""
