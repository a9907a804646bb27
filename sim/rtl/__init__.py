# SPDX-License-Identifier: Apache-2.0
"""Compiled RTL engines in a topology: rings, drivers, and RTL nodes among model nodes."""
