# SPDX-License-Identifier: Apache-2.0
"""Words in paths of files and modules of ACE."""

__all__ = ["WORDS"]

WORDS = ("ace",)
