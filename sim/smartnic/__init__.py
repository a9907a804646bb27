"""Smart NICs in a system: golden results, rings of RTL, and the cycle model."""
