# SPDX-License-Identifier: Apache-2.0
"""Switches that reduce and their endpoints in RTL."""
