"""Cycle models of the engines: the RTL's timing without its data."""
