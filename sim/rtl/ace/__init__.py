"""ACE in RTL."""
