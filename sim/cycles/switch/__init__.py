"""Cycle model of switches that reduce and of their endpoints."""
