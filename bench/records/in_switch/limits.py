# SPDX-License-Identifier: Apache-2.0
"""Systems of switches that reduce for `bench limits_named`."""

__all__ = ["EVENTS", "TOPOLOGIES"]

EVENTS, TOPOLOGIES = 2, ("switch", "fat_tree")
"""How often the kind is drawn as events, and the topologies that it needs; None: any."""
