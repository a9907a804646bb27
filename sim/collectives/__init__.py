"""Collective algorithms: how vectors are cut, the programs that engines run, and golden results."""
