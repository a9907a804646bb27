# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: ``python -m bench`` lists them, ``python -m bench NAME`` runs one."""
