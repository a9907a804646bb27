"""Wires that fail, and what is tested on them."""
