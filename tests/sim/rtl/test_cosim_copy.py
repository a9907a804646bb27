"""Memory of one node reaches the memory of the next through hosts, memories and links."""
# amaranth: UnusedElaboratable=no


def test_two_nodes_exchange_blocks_of_memory(ring_of):
    system = ring_of(2, 20)

    result = system.run(max_cycles=20_000)

    blocks = [node.memory[:1280] for node in system.nodes]
    assert (system.nodes[0].memory[32768:34048] == blocks[1]).all()
    assert (system.nodes[1].memory[32768:34048] == blocks[0]).all()
    assert (system.nodes[1].memory[34048:] == 0).all()
    assert result.cycles < 1000
