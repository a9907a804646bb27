"""Cycle model of the ACE engine, training jobs on RTL engines, and systems mixed of both."""
