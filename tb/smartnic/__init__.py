"""Emitted smart NICs behind an Ethernet switch, with cocotbext-axi as hosts."""
