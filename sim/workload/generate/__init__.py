# SPDX-License-Identifier: Apache-2.0
"""Models computed from their hyperparameters, one module each with a function ``generate``."""
