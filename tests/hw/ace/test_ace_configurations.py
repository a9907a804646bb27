# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Every configuration that is accepted can be built, and nothing in it is too narrow."""

import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Fragment

from gen.verilator import find_verilator, has_verilator
from gen.verilog import WAIVERS, WAIVERS_SV, emit
from hw.ace.config import PRESETS, AceConfig, preset
from hw.ace.dma import RxDMA, TxDMA
from hw.ace.engine import AceEngine
from hw.ace.registers import register_map
from sim.collectives.ace_program import AceProgram
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.workload.graph import CollectiveKind
from tests.families import full

SMALLEST = {
    "ports": 1, "bus_bytes": 16, "packet_bytes": 16, "sram_bytes": 64, "banks": 1, "alus": 1,
    "alu_stages": 1, "fsms": 1, "contexts": 1, "program_words": 64, "memory_ports": 1,
    "rx_packets": 2, "tx_packets": 2, "max_nodes": 2, "address_bits": 24, "commands": 1,
}
CORNERS = {
    "smallest": {},
    "largest_block": {"packet_bytes": 256, "sram_bytes": 1 << 19},
    "most_nodes": {"max_nodes": 1024, "program_words": 8192, "sram_bytes": 1 << 15},
    "most_contexts": {"contexts": 16, "sram_bytes": 1 << 12, "commands": 16},
    "widest": {"bus_bytes": 128, "packet_bytes": 2048, "sram_bytes": 1 << 14, "address_bits": 64},
    "deepest": {"rx_packets": 4096, "tx_packets": 256, "banks": 64, "bank_ports": "1rw",
                "sram_bytes": 1 << 12},
    "groups_of_one_bank": {"fsms": 16, "contexts": 4, "banks": 64, "interleave": 1,
                           "sram_bytes": 1 << 12},
    "groups": {"contexts": 3, "banks": 8, "interleave": 2, "bank_ports": "1rw",
               "sram_bytes": 1 << 12},
}


def _drawn(seed):
    """A configuration at random, mostly small: what takes long to build grows with its units."""
    rng = random.Random(seed)
    while True:
        ports, fsms = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3])
        bus = rng.choice([16, 32, 64, 128])
        values = {
            "ports": ports, "fsms": fsms, "bus_bytes": bus,
            "packet_bytes": bus * rng.choice([1, 2, 4, 8, 16]),
            "sram_bytes": 1 << rng.randint(8, 22), "banks": rng.choice([1, 2, 8]),
            "interleave": rng.choice([0, 0, 1, 2, 4]),
            "bank_ports": rng.choice(["1r1w", "1rw"]), "alus": rng.randint(1, ports),
            "alu_stages": rng.randint(1, 7), "contexts": rng.choice([1, 2, 3, 5]),
            "program_words": rng.choice([64, 1024, 8192]), "memory_ports": rng.randint(1, fsms),
            "rx_packets": rng.choice([2, 3, 100]), "tx_packets": rng.choice([2, 5]),
            "max_nodes": rng.choice([2, 3, 64, 1024]), "address_bits": rng.randint(24, 64),
            "commands": rng.choice([1, 2, 3]),
        }
        try:
            return AceConfig(**values)
        except ValueError:
            continue


def _check(config):
    Fragment.get(AceEngine(config), None)
    assert register_map(config).size <= 4096
    for dma in (TxDMA, RxDMA):
        parts = dma(config).elaborate(None).submodules
        engine = parts.reader if dma is TxDMA else parts.writer
        segment = parts.walker.o.p
        assert len(engine.cmd.p.beats) >= len(segment.beats)
        assert (1 << len(segment.beats)) > config.block_packets * config.packet_beats
    layout = config.format.layout
    assert 1 << layout["offset"].width >= config.block_packets
    assert 1 << layout["source"].width >= config.max_nodes
    assert 1 << layout["step"].width >= 2 * config.max_nodes
    assert 1 << layout["context"].width >= config.contexts


@pytest.mark.parametrize("corner", CORNERS)
def test_corner_of_the_configurations_is_built(corner):
    _check(AceConfig(**(SMALLEST | CORNERS[corner])))


@pytest.mark.parametrize("seed", range(4))
def test_configuration_at_random_is_built(seed):
    _check(_drawn(seed))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4, 60))
def test_many_configurations_at_random_are_built(seed):
    _check(_drawn(seed))


def test_a_ring_of_1024_nodes_has_its_programs():
    config = AceConfig(**(SMALLEST | CORNERS["most_nodes"]))
    program = AceProgram(config=config, nodes=1024, queues=1)
    for rank in (0, 511, 1023):
        words = program.words(0, rank=rank)
        assert max(words) < config.program_words


def _lint(config, tmp_path, style="plain"):
    if not has_verilator():
        pytest.skip("needs Verilator")
    path = tmp_path / f"ace.{'sv' if style == 'sv' else 'v'}"
    path.write_text(emit(AceEngine(config), name="ace", style=style).text)
    waivers = WAIVERS_SV if style == "sv" else WAIVERS
    assert not find_verilator().lint([waivers, path], top="ace")


# As SystemVerilog the smallest preset is read in tests/gen.
@pytest.mark.parametrize("interleave, style", [
    (2, "plain"),
    *full(((1, "plain"), (1, "sv"), (2, "sv"))),
])
def test_verilator_finds_nothing_in_groups_of_banks(interleave, style, tmp_path):
    _lint(replace(preset("duo"), banks=8, interleave=interleave), tmp_path, style)


@pytest.mark.full
@pytest.mark.parametrize("name", PRESETS)
def test_verilator_finds_nothing_in_any_preset(name, tmp_path):
    _lint(preset(name), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_compiled_and_runs(name):
    config = preset(name)
    ring = AceRing(config, Surroundings(nodes=3, memory_bytes=1 << 18))
    rng = np.random.default_rng(1)
    vectors = [rng.standard_normal(5000).astype(np.float32) for _ in range(3)]
    golden = ring.golden(vectors)
    for result in ring.all_reduce(vectors):
        assert result.tobytes() == golden.tobytes()


def test_run_of_more_packets_than_a_header_can_number_is_refused():
    large = AceConfig(**(SMALLEST | {"packet_bytes": 256, "sram_bytes": 1 << 20}))
    assert large.block_packets == 1024
    program = AceProgram(config=large, nodes=2, queues=1)
    assert program.cut(1 << 20, collective=CollectiveKind.ALL_REDUCE).block == 1 << 16
    with pytest.raises(ValueError, match="block must be a multiple of 4 from 4 to 65536"):
        program.cut(1 << 20, block=(1 << 16) + large.lanes, collective=CollectiveKind.ALL_REDUCE)
