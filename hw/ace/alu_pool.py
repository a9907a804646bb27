"""The ALUs, shared by the receive units."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.common.arbiter import RoundRobinArbiter
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp

__all__ = ["ALUClientSignature", "ALUPool"]


class ALUClientSignature(wiring.Signature):
    """An ALU for the length of a packet, seen from a receive unit.

    ``want`` asks, ``grant`` answers in the same cycle, ``claim`` takes it; ``release`` gives it
    back in the cycle in which the last beat is issued. Operands follow their issue by a fixed time;
    the result follows the operands by the latency of the ALU.
    """

    def __init__(self, *, lanes: int) -> None:
        self._lanes = lanes
        super().__init__(
            {
                "want": Out(1),
                "grant": In(1),
                "claim": Out(1),
                "release": Out(1),
                "valid": Out(1),
                "op": Out(ReduceOp),
                "a": Out(32 * lanes),
                "b": Out(32 * lanes),
                "result": In(32 * lanes),
            }
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._lanes == self._lanes

    def __repr__(self) -> str:
        return f"ALUClientSignature(lanes={self._lanes})"


class ALUPool(wiring.Component):
    """``config.alus`` ALUs; port ``p`` uses ALU ``p % alus``. An ALU changes hands between packets,
    round robin, without a gap.

    Members
    -------
    client : ``In(ALUClientSignature).array(ports)``
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
                with m.If(client.valid):
                    m.d.comb += [
                        alu.i_valid.eq(1),
                        alu.op.eq(client.op),
                        alu.a.eq(client.a),
                        alu.b.eq(client.b),
                    ]
                m.d.comb += client.result.eq(alu.o)
        for n, client in enumerate(self.client):
            m.d.comb += self.contended[n].eq(client.want & ~client.grant)
        return m
