"""Workloads: readers, generators, training loops and compute models."""
