# SPDX-License-Identifier: Apache-2.0
"""The C++ co-simulation and its Python side: nodes, memories, links, hosts."""
