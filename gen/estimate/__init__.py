# SPDX-License-Identifier: Apache-2.0
"""Cells of a design in a fraction of a second, from its parameters: a model that a command fits to
stored syntheses."""
