"""Switches that reduce and their endpoints in RTL."""
