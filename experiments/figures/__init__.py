# SPDX-License-Identifier: Apache-2.0
"""One module per published figure or table; each has a function that returns it."""
