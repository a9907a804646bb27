# SPDX-License-Identifier: Apache-2.0
"""Endpoints of the in-switch reduction on RTL switches: memories, hosts, links."""
