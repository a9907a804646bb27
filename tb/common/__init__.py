"""Benches of the common blocks: FIFO, AXI4 reader and writer, AXI4-Lite registers."""
