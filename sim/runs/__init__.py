"""Runs of descriptions: their result, and how each level carries them out."""
