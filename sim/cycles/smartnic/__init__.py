# SPDX-License-Identifier: Apache-2.0
"""Cycle model of the smart NIC."""
