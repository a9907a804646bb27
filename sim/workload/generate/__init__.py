"""Models computed from their hyperparameters, one module each with a function ``generate``."""
