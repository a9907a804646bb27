# SPDX-License-Identifier: Apache-2.0
"""Words in paths of files and modules of switches that reduce."""

__all__ = ["WORDS"]

WORDS = ("switch", "switch_dma", "switches", "in_switch")
