"""An engine that has been given a command is busy until the command is complete."""

from sim.cycles.ring import Command, RingSettings
from sim.rtl.ace_ring import AceRing


def test_a_command_that_is_being_checked_keeps_the_engine_busy():
    cluster = AceRing("test", RingSettings(nodes=8, memory_bytes=1 << 16))
    statuses = []
    for node in cluster.system.nodes:
        cluster.start(node, Command(elements=8 * 64, destination=1 << 15))
        # The shards of eight ranks are looked at one by one, which takes longer than these reads.
        reads = [node.read(cluster.registers.offset("status")) for _ in range(4)]
        statuses.append(reads)
    cluster.system.run()
    layout = cluster.registers.registers["status"]
    for reads in statuses:
        for ticket in reads:
            status = layout.unpack(ticket.value)
            assert {name: value for name, value in status.items() if value} == {"outstanding": 1}
