# SPDX-License-Identifier: Apache-2.0
"""The ALUs, shared by the receive units."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.common.arbiter import RoundRobinArbiter
from hw.common.signature import ParametricSignature
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp

__all__ = ["ALUClientSignature", "ALUOperandSignature", "ALUPool"]


class ALUOperandSignature(ParametricSignature):
    """Operands of an ALU and its result, seen from a receive unit.

    Members
    -------
    valid : ``Out(1)``
        A beat of operands enters the ALU.
    op : ``Out(ReduceOp)``
        Operation on this beat.
    a, b : ``Out(32 * lanes)``
        Operands of this beat, a word per lane.
    result : ``In(32 * lanes)``
        Follows a beat with ``valid`` by the latency of the ALU.
    """

    def __init__(self, *, lanes: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "op": Out(ReduceOp),
                "a": Out(32 * lanes),
                "b": Out(32 * lanes),
                "result": In(32 * lanes),
            },
            lanes=lanes,
        )


class ALUClientSignature(ParametricSignature):
    """An ALU for the length of a packet, seen from a receive unit.

    Members
    -------
    want : ``Out(1)``
        Asks for the ALU, for now or for the end of the packet of which the last beat is next.
    grant : ``In(1)``
        Answers ``want`` in the same cycle: it is its turn, as soon as the ALU is free.
    free : ``In(1)``
        Nobody has the ALU, or it is given back in this cycle.
    claim : ``Out(1)``
        Takes the ALU, in a cycle with ``grant`` and ``free``.
    refused : ``Out(1)``
        A packet could start, but has no turn or the ALU is not free.
    ending : ``Out(1)``
        The ALU is given back: the last beat waits for its operand from the next cycle on.
    waits : ``Out(1)``
        A beat, the last one or not, waits for its operand.
    behind : ``Out(1)``
        Those that wait go behind those of the client that is *ahead*.
    ahead : ``In(1)``
        A beat of another client waits.
    blocked : ``In(1)``
        Beats of another client go behind: no one else's may follow them yet.
    operands : ``Out(ALUOperandSignature(lanes))``
        Beats of the packet, a fixed time after their issue, so also after ``ending``.
    """

    def __init__(self, *, lanes: int) -> None:
        super().__init__(
            {
                "want": Out(1),
                "grant": In(1),
                "free": In(1),
                "claim": Out(1),
                "refused": Out(1),
                "ending": Out(1),
                "waits": Out(1),
                "behind": Out(1),
                "ahead": In(1),
                "blocked": In(1),
                "operands": Out(ALUOperandSignature(lanes=lanes)),
            },
            lanes=lanes,
        )


class ALUPool(wiring.Component):
    """``config.alus`` ALUs; port ``p`` uses ALU ``p % alus``. An ALU changes hands between packets,
    round robin, without a gap.

    Timing: a grant answers in the same cycle; a result follows its operands by ``alu_latency``
    cycles, one beat per cycle and ALU. Stalls: a client waits for the packets of its rivals.

    Members
    -------
    client : ``In(ALUClientSignature).array(ports)``
        The receive unit of each port.
    contended : ``Out(ports)``
        The client needs an ALU and another one has it, or has its turn.
    """

    client: list
    contended: Signal

    def __init__(self, config: AceConfig) -> None:
        self._config = config
        super().__init__(
            {
                "client": In(ALUClientSignature(lanes=config.lanes)).array(config.ports),
                "contended": Out(config.ports),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        for index in range(c.alus):
            clients = [self.client[p] for p in range(index, c.ports, c.alus)]
            m.submodules[f"alu_{index}"] = alu = ReduceALU(c.lanes, stages=c.alu_stages)
            m.submodules[f"turns_{index}"] = turns = RoundRobinArbiter(
                len(clients), late=True
            )
            taken = Signal(name=f"taken_{index}")
            free = Signal(name=f"free_{index}")
            claims = Cat(client.claim for client in clients)
            # Turns are given whether the ALU is free or not.
            m.d.comb += [
                free.eq(~taken | Cat(client.ending for client in clients).any()),
                turns.requests.eq(Cat(client.want for client in clients)),
                turns.advance.eq(claims.any()),
                turns.served.eq(claims),
            ]
            for n, client in enumerate(clients):
                rivals = [each for each in clients if each is not client]
                m.d.comb += [
                    client.grant.eq(turns.grant[n]),
                    client.free.eq(free),
                    client.ahead.eq(Cat(each.waits for each in rivals).any()),
                    client.blocked.eq(Cat(each.behind for each in rivals).any()),
                ]
            m.d.sync += taken.eq(claims.any() | ~free)
            # Packets do not overlap in an ALU, so at most one client presents operands.
            domain = m.d.sync if c.alus < c.ports else m.d.comb
            domain += alu.i_valid.eq(Cat(client.operands.valid for client in clients).any())
            for client in clients:
                operands = client.operands
                with m.If(operands.valid):
                    domain += [
                        alu.op.eq(operands.op),
                        alu.a.eq(operands.a),
                        alu.b.eq(operands.b),
                    ]
                m.d.comb += operands.result.eq(alu.o)
        m.d.comb += self.contended.eq(Cat(client.refused for client in self.client))
        return m
