# SPDX-License-Identifier: Apache-2.0
"""Workloads: readers, generators, training loops and compute models."""
