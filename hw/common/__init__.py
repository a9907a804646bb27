# SPDX-License-Identifier: Apache-2.0
"""Blocks that every engine is built from: streams, memories, arbiters, bus adapters, registers."""
