# SPDX-License-Identifier: Apache-2.0
"""The endpoint of the in-switch reduction: a DMA engine that pushes operands and stores results."""
