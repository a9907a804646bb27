"""The endpoint of the in-switch reduction: a DMA engine that pushes operands and stores results."""
