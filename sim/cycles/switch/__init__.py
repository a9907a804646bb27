# SPDX-License-Identifier: Apache-2.0
"""Cycle model of switches that reduce and of their endpoints."""
