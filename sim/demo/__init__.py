# SPDX-License-Identifier: Apache-2.0
"""Demonstrations on real input: data-parallel training, and ResNet-50's gradients."""
