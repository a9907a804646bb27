# SPDX-License-Identifier: Apache-2.0
"""Designs mapped to technologies through Yosys: blocks, memory, levels of logic, clock."""
