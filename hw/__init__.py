# SPDX-License-Identifier: Apache-2.0
"""Synthesisable hardware, described in Amaranth."""
