# SPDX-License-Identifier: Apache-2.0
"""Switches that reduce, with endpoints that push operands and finish partials."""
