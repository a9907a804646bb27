# SPDX-License-Identifier: Apache-2.0
"""Cycle model of the ACE engine: event-driven, one small function per block of the RTL."""
