# SPDX-License-Identifier: Apache-2.0
"""Engines that exist as hardware: a record of each, which everything that is shared asks."""
