# SPDX-License-Identifier: Apache-2.0
"""Emitted smart NICs behind an Ethernet switch, with cocotbext-axi as hosts."""
