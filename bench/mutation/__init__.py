"""Mutants of hw/: drawn by syntax, killed by the tests of their block, or proved equal."""
