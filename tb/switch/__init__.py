"""Switches that reduce, with endpoints that push operands and finish partials."""
