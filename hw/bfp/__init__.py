# SPDX-License-Identifier: Apache-2.0
"""Block floating point: one format object, its golden model, and the hardware that packs it."""
