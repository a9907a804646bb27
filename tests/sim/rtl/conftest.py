# SPDX-License-Identifier: Apache-2.0
"""A small engine with the boundary that every engine has, and systems made of it."""

from types import SimpleNamespace

import numpy as np
import pytest
from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from gen.compile import compile_model
from sim.rtl.harness.specs import LinkDirection, LinkSpec, MemorySpec, NodeSpec
from sim.rtl.harness.system import System

PACKET_BEATS = 4
MAGIC = 0xF01D
SLOTS = 3
BUGS = ("none", "tx_valid_falls", "tx_payload_changes", "keep_has_hole", "ignores_credits",
        "early_wlast", "aw_address_moves", "narrow_size", "never_idle")

CONTROL, STATUS, SOURCE, TARGET, SEND, RECEIVE, DROPPED, TICKS = range(0, 32, 4)


def axi_lite():
    return {
        "awaddr": Out(8), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
        "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
        "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "araddr": Out(8), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
        "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
    }


def axi(bits):
    return {
        "awid": Out(1), "awaddr": Out(40), "awlen": Out(8), "awsize": Out(3), "awburst": Out(2),
        "awvalid": Out(1), "awready": In(1), "wdata": Out(bits), "wstrb": Out(bits // 8),
        "wlast": Out(1), "wvalid": Out(1), "wready": In(1), "bid": In(1), "bresp": In(2),
        "bvalid": In(1), "bready": Out(1), "arid": Out(1), "araddr": Out(40), "arlen": Out(8),
        "arsize": Out(3), "arburst": Out(2), "arvalid": Out(1), "arready": In(1), "rid": In(1),
        "rdata": In(bits), "rresp": In(2), "rlast": In(1), "rvalid": In(1), "rready": Out(1),
    }


def link(bits):
    flits = bits // 128
    members = {}
    for side, out, back in (("tx", Out, In), ("rx", In, Out)):
        members |= {
            f"{side}_tdata": out(bits), f"{side}_tkeep": out(flits), f"{side}_tuser": out(flits),
            f"{side}_tvalid": out(1), f"{side}_tready": back(1), f"{side}_credit": back(1),
        }
    return members


class ShiftNode(wiring.Component):
    """Sends packets of four beats from memory through link 0; stores what comes through link 1.

    A packet is a header flit, alone in its beat, and its payload. A packet with a wrong header is
    dropped and counted. The interrupt rises once all packets to be received are in memory.
    ``bug`` chooses a rule to break.
    """

    def __init__(self, bus_bytes):
        self._bytes = bus_bytes
        bits = 8 * bus_bytes
        super().__init__({
            "csr": In(wiring.Signature(axi_lite())),
            "mem": Out(wiring.Signature(axi(bits))).array(1),
            "link": Out(wiring.Signature(link(bits))).array(2),
            "irq": Out(1), "idle": Out(1), "bug": In(4), "header_value": In(16),
        })

    def elaborate(self, platform):
        m = Module()
        registers = Array(Signal(32, name=f"register_{i}") for i in range(8))
        self._registers(m, registers)
        idle_parts = [self._send(m, registers), self._receive(m, registers)]
        m.d.comb += self.idle.eq(
            Cat(idle_parts).all() & ~self.irq & (self.bug != BUGS.index("never_idle"))
        )
        m.d.sync += registers[TICKS // 4].eq(registers[TICKS // 4] + ~self.idle)
        return m

    def _is(self, bug):
        return self.bug == BUGS.index(bug)

    def _registers(self, m, registers):
        csr = self.csr
        address = Signal(8)
        m.d.comb += csr.bresp.eq(Mux(address[5:].any(), 2, 0))
        with m.FSM(name="write"):
            with m.State("ADDRESS"):
                m.d.comb += csr.awready.eq(1)
                m.d.sync += address.eq(csr.awaddr)
                with m.If(csr.awvalid):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += csr.wready.eq(1)
                with m.If(csr.wvalid):
                    with m.If(~address[5:].any()):
                        m.d.sync += registers[address[2:5]].eq(csr.wdata)
                    m.next = "RESPONSE"
            with m.State("RESPONSE"):
                m.d.comb += csr.bvalid.eq(1)
                with m.If(csr.bready):
                    m.next = "ADDRESS"
        with m.FSM(name="read"):
            with m.State("ADDRESS"):
                m.d.comb += csr.arready.eq(1)
                with m.If(csr.arvalid):
                    m.d.sync += csr.rdata.eq(registers[csr.araddr[2:5]])
                    m.d.sync += csr.rresp.eq(Mux(csr.araddr[5:].any(), 2, 0))
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += csr.rvalid.eq(1)
                with m.If(csr.rready):
                    m.next = "ADDRESS"

    def _size(self):
        return Mux(self._is("narrow_size"), 0, (self._bytes - 1).bit_length())

    def _send(self, m, registers):
        mem, port = self.mem[0], self.link[0]
        to_read, to_send = Signal(16), Signal(16)
        credits = Signal(range(SLOTS + 1), init=SLOTS)
        beat = Signal(range(PACKET_BEATS))
        stalled = Signal(4)
        m.submodules.sent = fifo = SyncFIFO(width=8 * self._bytes, depth=8)
        m.d.comb += [
            mem.arlen.eq(PACKET_BEATS - 1),
            mem.arsize.eq((self._bytes - 1).bit_length()),
            mem.arburst.eq(1),
            mem.arvalid.eq(to_read != 0),
            mem.rready.eq(fifo.w_rdy),
            fifo.w_en.eq(mem.rvalid),
            fifo.w_data.eq(mem.rdata),
        ]
        with m.If(mem.arvalid & mem.arready):
            m.d.sync += [to_read.eq(to_read - 1), mem.araddr.eq(mem.araddr + 4 * self._bytes)]
        sends_header = Signal(init=1)
        may_send = (credits != 0) | self._is("ignores_credits")
        m.d.comb += port.tx_tvalid.eq(
            Mux(sends_header, (to_send != 0) & may_send, fifo.r_rdy)
            & ~(self._is("tx_valid_falls") & (stalled == 1))
        )
        flits = self._bytes // 16
        full = (1 << flits) - Mux(self._is("keep_has_hole") & (beat == 2), 2, 1)
        with m.If(sends_header):
            m.d.comb += [
                port.tx_tdata.eq(self.header_value),
                port.tx_tkeep.eq(1),
                port.tx_tuser.eq(1),
            ]
        with m.Else():
            m.d.comb += port.tx_tdata.eq(
                fifo.r_data ^ (self._is("tx_payload_changes") & (stalled == 2))
            )
            m.d.comb += port.tx_tkeep.eq(full)
        m.d.sync += stalled.eq(Mux(port.tx_tvalid & ~port.tx_tready, stalled + 1, 0))
        sent = port.tx_tvalid & port.tx_tready
        m.d.comb += fifo.r_en.eq(sent & ~sends_header)
        m.d.sync += credits.eq(credits + port.tx_credit - (sent & sends_header & may_send))
        with m.If(sent & sends_header):
            m.d.sync += sends_header.eq(0)
        with m.Elif(sent):
            m.d.sync += beat.eq(beat + 1)
            with m.If(beat == PACKET_BEATS - 1):
                m.d.sync += [sends_header.eq(1), to_send.eq(to_send - 1)]
        start = registers[CONTROL // 4][0]
        with m.If(start):
            m.d.sync += [
                to_read.eq(registers[SEND // 4]),
                to_send.eq(registers[SEND // 4]),
                mem.araddr.eq(registers[SOURCE // 4]),
                registers[CONTROL // 4].eq(0),
            ]
        return ~start & (to_read == 0) & (to_send == 0)

    def _receive(self, m, registers):
        mem, port = self.mem[0], self.link[1]
        beat = Signal(range(PACKET_BEATS))
        to_store, awaited = Signal(16), Signal(16)
        good = Signal()
        depth = SLOTS * (PACKET_BEATS + 1)
        m.submodules.received = fifo = SyncFIFO(width=8 * self._bytes + 1, depth=depth)
        ticks = Signal()
        m.d.sync += ticks.eq(~ticks)
        m.d.comb += [
            fifo.w_data.eq(Cat(port.rx_tdata, port.rx_tuser[0])),
            fifo.w_en.eq(port.rx_tvalid),
            port.rx_tready.eq(fifo.w_rdy),
            mem.awaddr.eq(registers[TARGET // 4] ^ ((self._is("aw_address_moves") & ticks) << 12)),
            mem.awlen.eq(PACKET_BEATS - 1),
            mem.awsize.eq(self._size()),
            mem.awburst.eq(1),
            mem.wdata.eq(fifo.r_data),
            mem.wstrb.eq(Const(1).replicate(self._bytes)),
            mem.wlast.eq(beat == Mux(self._is("early_wlast"), 2, PACKET_BEATS - 1)),
            mem.bready.eq(1),
        ]
        empty = Signal()
        m.d.sync += port.rx_credit.eq(0)
        last = beat == PACKET_BEATS - 1
        with m.If(registers[CONTROL // 4][0]):
            m.d.sync += awaited.eq(registers[RECEIVE // 4])
        with m.FSM(name="store"):
            with m.State("HEADER"):
                m.d.comb += empty.eq(~fifo.r_rdy)
                with m.If(fifo.r_rdy & (awaited != 0)):
                    m.d.comb += fifo.r_en.eq(1)
                    m.d.sync += good.eq(fifo.r_data[:128] == MAGIC)
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.next = "DROP"
                with m.If(good):
                    m.next = "ADDRESS"
            with m.State("DROP"):
                m.d.comb += fifo.r_en.eq(1)
                with m.If(fifo.r_rdy):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(last):
                        m.d.sync += registers[DROPPED // 4].eq(registers[DROPPED // 4] + 1)
                        m.d.sync += [port.rx_credit.eq(1), to_store.eq(to_store + 1)]
                        m.next = "HEADER"
            with m.State("ADDRESS"):
                m.d.comb += mem.awvalid.eq(1)
                with m.If(mem.awready):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += mem.wvalid.eq(fifo.r_rdy)
                m.d.comb += fifo.r_en.eq(mem.wready)
                with m.If(mem.wvalid & mem.wready):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(last):
                        m.d.sync += port.rx_credit.eq(1)
                        m.next = "RESPONSE"
            with m.State("RESPONSE"):
                with m.If(mem.bvalid):
                    m.d.sync += registers[TARGET // 4].eq(registers[TARGET // 4] + 4 * self._bytes)
                    m.d.sync += to_store.eq(to_store + 1)
                    with m.If(mem.bresp != 0):
                        m.d.sync += registers[STATUS // 4][8].eq(1)
                    m.next = "HEADER"
        with m.If((awaited != 0) & (to_store == awaited)):
            m.d.sync += [registers[STATUS // 4][0].eq(1), to_store.eq(0), awaited.eq(0)]
        m.d.comb += self.irq.eq(registers[STATUS // 4][0])
        return (awaited == 0) & empty


@pytest.fixture(scope="session")
def shift_node():
    """Compiled engines by bus width in bytes and number of lanes."""
    models = {}

    def model(bus_bytes, lanes=1):
        if (bus_bytes, lanes) not in models:
            models[bus_bytes, lanes] = compile_model(
                ShiftNode(bus_bytes), name=f"shift_{bus_bytes}", lanes=lanes
            )
        return models[bus_bytes, lanes]

    return model


@pytest.fixture
def ring_of(shift_node):
    """Builds a ring in which every node is told to send ``packets`` packets to the next."""

    def build(nodes, packets, *, bus_bytes=16, bug="none", latency_cycles=5, stalls=0.0,
              latencies=None, beats_per_cycle=1.0, memory=None, source=0, target=32768,
              wait=True, start_cycles=None, lanes=1, wires=None, **options):
        spec = NodeSpec(
            engine=shift_node(bus_bytes, lanes),
            memory=MemorySpec(size_bytes=65536, **{"stall_probability": stalls, **(memory or {})}),
            inputs={"bug": BUGS.index(bug), "header_value": MAGIC},
            host_stall_probability=stalls,
        )
        latencies = latencies or [(latency_cycles, latency_cycles)] * nodes
        links = [
            LinkSpec(
                node_a=node, port_a=0, node_b=(node + 1) % nodes, port_b=1,
                forward=LinkDirection(latency_cycles=latencies[node][0], stall_probability=stalls,
                                      beats_per_cycle=beats_per_cycle, **(wires or {})),
                backward=LinkDirection(latency_cycles=latencies[node][1]),
            )
            for node in range(nodes)
        ]
        system = System([spec] * nodes, links, **options)
        rng = np.random.default_rng(7)
        for node in system.nodes:
            node.memory[:32768] = rng.integers(0, 256, 32768, np.uint8)
            if start_cycles is not None:
                node.delay(start_cycles[node.number])
            node.write(SOURCE, source)
            node.write(TARGET, target)
            node.write(SEND, packets)
            node.write(RECEIVE, packets)
            node.write(CONTROL, 1)
            if wait:
                node.wait_irq()
                node.write(STATUS, 0)
        return system

    return build


@pytest.fixture
def registers():
    """Register addresses of the engine."""
    return SimpleNamespace(control=CONTROL, status=STATUS, source=SOURCE, target=TARGET,
                           send=SEND, receive=RECEIVE, dropped=DROPPED, ticks=TICKS)


@pytest.fixture
def payload_arrived():
    """Whether every node has the block of the node before it."""

    def check(system, size_bytes, source=0, target=32768):
        memories = [node.memory for node in system.nodes]
        return all(
            np.array_equal(before[source : source + size_bytes],
                           memory[target : target + size_bytes])
            for before, memory in zip([memories[-1], *memories], memories)
        )

    return check
