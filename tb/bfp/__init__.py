# SPDX-License-Identifier: Apache-2.0
"""Benches of the block floating-point codec."""
