"""Published figures and tables, simulated values beside them."""
