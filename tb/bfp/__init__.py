"""Benches of the block floating-point codec."""
