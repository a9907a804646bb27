"""Figures and the one-page HTML summary."""
