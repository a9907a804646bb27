"""Endpoints of the in-switch reduction on RTL switches: memories, hosts, links."""
