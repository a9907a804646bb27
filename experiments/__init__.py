"""Published figures and tables, ours beside theirs."""
