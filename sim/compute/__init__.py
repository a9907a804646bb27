"""How long computations take: what is computed, on which resources, by which model."""
