"""Demonstrations on real input: data-parallel training, and ResNet-50's gradients."""
