# SPDX-License-Identifier: Apache-2.0
"""Words in paths of files and modules of the smart NIC."""

__all__ = ["WORDS"]

WORDS = ("nic", "smartnic")
