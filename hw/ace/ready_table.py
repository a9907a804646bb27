# SPDX-License-Identifier: Apache-2.0
"""Table of the peers that are ready for each context, with READY packets that come early."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.ace.agreement import DIGEST_BITS
from hw.ace.config import AceConfig
from hw.ace.contexts import ContextSignature
from hw.ace.layouts import admit_layout, context_key_layout, peer_layout
from hw.common.arbiter import RoundRobinArbiter
from hw.common.select import index_of, marked
from hw.common.signature import ParametricSignature

__all__ = ["GrantSignature", "ReadyTable"]


class GrantSignature(ParametricSignature):
    """Readiness of peers, seen from the table.

    Members
    -------
    readies : ``Out(2).array(contexts, ports)``
        For each context, the READY packets of the peer on each port for its chunk: a peer is ready
        for as many phases of it, at most 3.
    remote : ``Out(config.format.context).array(contexts, ports)``
        The peer's context; valid where there is a READY.
    """

    def __init__(self, c: AceConfig) -> None:
        super().__init__(
            {
                "readies": Out(2).array(c.contexts, c.ports),
                "remote": Out(c.format.context).array(c.contexts, c.ports),
            },
            config=c,
        )


class ReadyTable(wiring.Component):
    """Matches READY packets with contexts.

    A READY whose chunk has a context grants that context its peer; later ones of the same peer, for
    later phases, are counted. Any other one comes from a peer that is ahead of this node; it is
    kept in a table with one row for each context of each peer, so it always finds room, and a peer
    reuses a row only when this node has taken it out. An
    admission searches the whole table for what the new context waits for. When a READY and its
    context meet, operation and digest must be equal.

    Timing: a grant is visible 2 cycles after its READY is taken. One READY per cycle is taken, of
    all ports in turn; one that was taken waits while a search finds a row or the table is swept,
    and the others with it. A search takes
    ``ports * contexts + 2`` cycles (contexts rounded up to a power of two) from its admission on; a
    row that it finds is visible as a grant 3 cycles after it is addressed. A sweep, after reset and
    abort, takes ``ports * contexts + 1`` cycles.

    Members
    -------
    contexts : ``In(ContextSignature(config))``
        State of the contexts.
    admit : ``In(stream.Signature(admit_layout(config), always_ready=True))``
        Revokes the grants of the context and starts a search; not before the last one has ended.
    searched : ``Out(1)``
        The search of the newest context has ended.
    ready : ``In(stream.Signature(peer_layout(config))).array(ports)``
        READY packets from each port; stale ones are taken and forgotten.
    grants : ``Out(GrantSignature(config))``
        Peers that are ready.
    forget : ``In(1)``
        Forget everything; grants stay with contexts that are not assigned any more.
    disagrees : ``Out(1)``
        A peer was told to do something else with a chunk than this node, a cycle before.
    sweeping : ``Out(1)``, waits : ``Out(1)``
        The table is being emptied; a READY that was taken waits for that, or for a search.
    """

    admit: stream.Interface
    searched: Signal
    ready: list
    forget: Signal
    disagrees: Signal
    sweeping: Signal
    waits: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "contexts": In(ContextSignature(c)),
                "admit": In(stream.Signature(admit_layout(c), always_ready=True)),
                "searched": Out(1),
                "ready": In(stream.Signature(peer_layout(c))).array(c.ports),
                "grants": Out(GrantSignature(c)),
                "forget": In(1),
                "disagrees": Out(1),
                "sweeping": Out(1),
                "waits": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        newest = self.contexts.newest
        # One row for each context of each peer: {port, context}.
        early = data.StructLayout(
            {"valid": 1, "key": context_key_layout(c), "op": 4, "digest": DIGEST_BITS}
        )
        index_bits = (c.contexts - 1).bit_length()
        rows = c.ports << index_bits
        table: Memory = Memory(shape=early, depth=rows, init=[])
        m.submodules.early = table
        write, read = table.write_port(), table.read_port(domain="comb")

        sweeping = Signal(init=1)
        scan = Signal(range(rows + 1))  # row that is addressed
        scanned = Signal(range(rows + 1))  # row that was addressed in the cycle before
        search = Signal()
        in_table = Signal()
        m.d.comb += [
            in_table.eq(scan != rows),
            read.addr.eq(scan),
            search.eq(self.contexts.setup & in_table),
            self.sweeping.eq(sweeping),
        ]
        # A register, as it decides when all counts of a context begin.
        m.d.sync += [
            scanned.eq(scan),
            self.searched.eq(~in_table & ~self.admit.valid & ~self.forget),
        ]
        with m.If((self.contexts.setup | sweeping) & in_table):
            m.d.sync += scan.eq(scan + 1)
        with m.If(sweeping & ~in_table):
            m.d.sync += sweeping.eq(0)
        with m.If(self.admit.valid):
            m.d.sync += scan.eq(0)

        # The table has one write port: a READY waits while search or sweep use it.
        seen = Signal()  # the search has seen what the newest context waits for
        renewed = Signal()  # a row that was written meanwhile, for another context
        found = Signal()
        same_found = Signal()
        keep = Signal()  # a READY has no context yet
        here = Signal()  # its row is the one that is addressed
        m.d.sync += [
            seen.eq(search & read.data.valid & (read.data.key == newest.key)),
            renewed.eq(keep & here),
            same_found.eq(
                (read.data.op == newest.op.as_value()) & (read.data.digest == newest.digest)
            ),
        ]
        m.d.comb += found.eq(seen & ~renewed)
        valid, port, packet = self._taken(m, found | sweeping)
        match = Signal(c.contexts)
        m.d.comb += match.eq(
            Cat(
                self.contexts.assigned[n] & (self.contexts.key[n] == packet.key)
                for n in range(c.contexts)
            )
        )
        arrived = Cat(packet.context[:index_bits], port)
        m.d.comb += [
            keep.eq(valid & ~match.any() & (packet.context < c.contexts)),
            here.eq(arrived == scan),
            write.addr.eq(Mux(sweeping, scan, Mux(found, scanned, arrived))),
            write.data.valid.eq(~found & ~sweeping),
            write.data.key.eq(packet.key),
            write.data.op.eq(packet.op),
            write.data.digest.eq(packet.digest),
            write.en.eq((sweeping & in_table) | found | keep),
        ]
        self._grant(
            m,
            Mux(found, 1 << newest.context, Mux(valid, match, 0)),
            Mux(found, scanned[index_bits:], port),
            Mux(found, scanned[:index_bits], packet.context),
        )
        same = Cat(
            (self.contexts.operator[n].as_value() == packet.op)
            & (self.contexts.digest[n] == packet.digest)
            for n in range(c.contexts)
        )
        m.d.sync += self.disagrees.eq((valid & (match & ~same).any()) | (found & ~same_found))
        with m.If(self.forget):
            m.d.sync += [sweeping.eq(1), scan.eq(0), self.disagrees.eq(0)]
        return m

    def _taken(self, m, wait):
        """The READY packet that was taken a cycle before, of all ports in turn, unless it has to
        *wait*: valid, port, packet."""
        c = self._config
        m.submodules.ready_arbiter = arbiter = RoundRobinArbiter(c.ports)
        held = Signal(name="ready_held")
        port = Signal(range(max(2, c.ports)), name="ready_port")
        packet = Signal(peer_layout(c), name="ready_packet")
        m.d.comb += [
            self.waits.eq(held & wait),
            # Chosen whether there is room or not, which is known as late.
            arbiter.requests.eq(Cat(r.valid for r in self.ready)),
            arbiter.advance.eq(~self.waits),
        ]
        fresh = Cat(~each.p.stale for each in self.ready)
        for p in range(c.ports):
            m.d.comb += self.ready[p].ready.eq(arbiter.grant[p] & ~self.waits)
        packets = [Value.cast(each.p) for each in self.ready]
        with m.If(~self.waits & arbiter.requests.any()):
            m.d.sync += [
                Value.cast(packet).eq(marked(arbiter.grant, packets)),
                port.eq(index_of(arbiter.grant)),
            ]
        m.d.sync += held.eq((self.waits | (arbiter.grant & fresh).any()) & ~self.forget)
        return held & ~wait, port, packet

    def _grant(self, m, which, port, remote):
        """The contexts *which* learn that the peer on *port* is ready with its context *remote*."""
        c = self._config
        granted = Signal(c.contexts, name="granted_now")
        granted_port = Signal(range(max(2, c.ports)))
        granted_context = Signal(c.format.context)
        m.d.comb += [granted.eq(which), granted_port.eq(port), granted_context.eq(remote)]
        for n in range(c.contexts):
            with m.If(self.admit.valid & (self.admit.p.context == n)):
                m.d.sync += [readies.eq(0) for readies in self.grants.readies[n]]
            for p in range(c.ports):
                with m.If(granted[n] & (granted_port == p)):
                    m.d.sync += [
                        self.grants.readies[n][p].eq(self.grants.readies[n][p] + 1),
                        self.grants.remote[n][p].eq(granted_context),
                    ]
