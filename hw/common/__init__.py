"""Blocks that every engine is built from: streams, memories, arbiters, bus adapters, registers."""
