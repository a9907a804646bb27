"""Reduction inside the switch: packets, reduction tables, switch."""
