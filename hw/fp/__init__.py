# SPDX-License-Identifier: Apache-2.0
"""Floating-point and integer arithmetic of the reduction lanes."""
