"""Training with smart NICs: a ring of them over a switch, its schedule, and what it learns."""
