# SPDX-License-Identifier: Apache-2.0
"""Hosts of engines, at whatever level these run: scripts, commands, rules, surroundings."""
