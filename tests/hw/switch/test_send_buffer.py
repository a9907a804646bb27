# amaranth: UnusedElaboratable=no
"""How long a packet waits at an input of the crossbar while others pass it."""

import pytest
from amaranth.sim import Simulator

from hw.switch.send_buffer import SendBuffer

FREE_FROM = 40


def order(most_passed):
    """Outputs of the packets in the order in which they leave: one for output 0, which is free from
    a cycle on, then others for output 1, as there is room for them."""
    buffer = SendBuffer(channels=1, outputs=2, packets=3, flits=2, passing=(0,),
                        most_passed=most_passed)
    left = []

    async def bench(ctx):
        store, first = buffer.store, True
        for cycle in range(2 * FREE_FROM):
            for name in ("valid", "first", "commit"):
                ctx.set(getattr(store, name), ctx.get(store.room[0]))
            ctx.set(store.targets, 1 if first else 2)
            first = first and not ctx.get(store.valid)
            ctx.set(buffer.available[0], 3 if cycle >= FREE_FROM else 2)
            ctx.set(buffer.grant, ctx.get(buffer.request))
            if ctx.get(buffer.grant):
                left.append((cycle, ctx.get(buffer.grant).bit_length() - 1))
            await ctx.tick()

    simulator = Simulator(buffer)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return left


@pytest.mark.parametrize("most_passed", [1, 4])
def test_the_oldest_packet_is_passed_only_so_often(most_passed):
    left = order(most_passed)
    outputs = [output for _, output in left]

    assert outputs[: most_passed + 1] == [1] * most_passed + [0]
    assert left[most_passed][0] == FREE_FROM  # nobody goes until then
    assert outputs.count(1) > most_passed + 10
