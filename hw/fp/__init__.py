"""Floating-point and integer arithmetic of the reduction lanes."""
