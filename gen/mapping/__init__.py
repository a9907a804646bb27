"""Designs mapped to technologies through Yosys: blocks, memory, levels of logic, clock."""
