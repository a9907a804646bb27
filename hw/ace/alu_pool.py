# SPDX-License-Identifier: Apache-2.0
"""The ALUs, shared by the receive units."""

from amaranth.hdl import Cat, Module, Mux, Signal
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
        Asks for the ALU.
    grant : ``In(1)``
        Answers ``want`` in the same cycle.
    claim : ``Out(1)``
        Takes the ALU, in a cycle with ``grant``.
    release : ``Out(1)``
        Gives the ALU back, in the cycle in which the last beat is issued.
    operands : ``Out(ALUOperandSignature(lanes))``
        Beats of the packet, a fixed time after their issue, so also after ``release``.
    """

    def __init__(self, *, lanes: int) -> None:
        super().__init__(
            {
                "want": Out(1),
                "grant": In(1),
                "claim": Out(1),
                "release": Out(1),
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
        The client wants an ALU and another one has it.
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
            m.submodules[f"turns_{index}"] = turns = RoundRobinArbiter(len(clients))
            taken = Signal(name=f"taken_{index}")
            free = Signal(name=f"free_{index}")
            claimed = Cat(client.claim for client in clients).any()
            m.d.comb += [
                free.eq(~taken | Cat(client.release for client in clients).any()),
                turns.requests.eq(Mux(free, Cat(client.want for client in clients), 0)),
                turns.advance.eq(claimed),
            ]
            m.d.comb += [client.grant.eq(turns.grant[n]) for n, client in enumerate(clients)]
            m.d.sync += taken.eq(claimed | ~free)
            # Packets do not overlap in an ALU, so at most one client presents operands.
            for client in clients:
                operands = client.operands
                with m.If(operands.valid):
                    m.d.comb += [
                        alu.i_valid.eq(1),
                        alu.op.eq(operands.op),
                        alu.a.eq(operands.a),
                        alu.b.eq(operands.b),
                    ]
                m.d.comb += operands.result.eq(alu.o)
        for n, client in enumerate(self.client):
            m.d.comb += self.contended[n].eq(client.want & ~client.grant)
        return m
