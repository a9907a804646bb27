# SPDX-License-Identifier: Apache-2.0
"""Reduction inside the switch: packets, reduction tables, switch."""
