# SPDX-License-Identifier: Apache-2.0
"""Mutants of hw/: drawn by syntax, killed by the tests of their block, or proved equal."""
