# SPDX-License-Identifier: Apache-2.0
"""Runs of descriptions: their result, and how each level carries them out."""
