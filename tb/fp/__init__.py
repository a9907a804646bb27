"""Benches of the arithmetic blocks."""
