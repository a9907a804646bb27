"""Compiled engines in a topology, cycle by cycle."""
