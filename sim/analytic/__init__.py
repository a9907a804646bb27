"""Closed-form models of the papers: traffic, ceilings, LogGP, collectives driven by cores."""
