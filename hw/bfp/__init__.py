"""Block floating point: one format object, its golden model, and the hardware that packs it."""
