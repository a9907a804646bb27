"""Readers of workload descriptions, and the data files that ship with the package."""
