"""The C++ co-simulation and its Python side: nodes, memories, links, hosts."""
