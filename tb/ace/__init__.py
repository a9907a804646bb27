# SPDX-License-Identifier: Apache-2.0
"""Bench of a ring of three ACE engines: collectives under random stalls, bad input, damage."""
