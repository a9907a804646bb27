"""Cycle model of the smart NIC."""
