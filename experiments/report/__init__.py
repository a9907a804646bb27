"""``docs/results`` and the figures of the README, written by one command: ``make report``."""
