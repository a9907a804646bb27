# SPDX-License-Identifier: Apache-2.0
"""Benches of the common blocks: FIFO, AXI4 reader and writer, AXI4-Lite registers."""
