"""Synthesisable hardware, described in Amaranth."""
