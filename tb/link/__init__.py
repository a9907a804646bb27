# SPDX-License-Identifier: Apache-2.0
"""Wires that fail, and what is tested on them."""
