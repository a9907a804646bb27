"""Hosts of engines, at whatever level these run: scripts, commands, rules, surroundings."""
