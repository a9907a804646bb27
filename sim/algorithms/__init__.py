"""Collective algorithms: from a collective and a network to phases, programs and messages."""
