# SPDX-License-Identifier: Apache-2.0
"""Models of cells: sums that are recovered, ranges that are told, and what is refused."""

import json
import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bench._cells_fit import GROUPS, Sample, fit, fit_sum, technology
from gen.estimate import model
from gen.estimate.model import FITTED, Model, estimate, stored
from gen.estimate.structure import structure
from gen.mapping.netlist import netlist_of
from hw.ace.config import PRESETS
from hw.common.fifo import StreamFIFO
from hw.switch_dma.config import SwitchDmaConfig
from sim.engines import registry

BLUEPRINTS = {
    name: each for record in registry.records() for name, each in record.blueprints.items()
}
SPACES = {name: each.space for name, each in BLUEPRINTS.items()}
CONFIGS = {name: each.config for name, each in BLUEPRINTS.items()}


def test_a_sum_of_few_terms_is_found_among_many():
    rng = np.random.default_rng(1)
    terms = rng.uniform(1, 10, (40, 60))
    weights = np.zeros(60)
    weights[[3, 17, 41]] = 100, 7, 30
    cells = terms @ weights
    found = fit_sum(terms, cells)
    again = rng.uniform(1, 10, (20, 60))
    assert np.abs(again @ found / (again @ weights) - 1).max() < 0.02
    assert np.count_nonzero(found) < 12


def test_cells_of_operators_are_the_same_for_all_designs_but_for_a_factor():
    rng = random.Random(1)
    true = {group: rng.uniform(0.1, 2) for group in GROUPS}
    factor = {"ace": 1.0, "smartnic": 1.25}
    samples = []
    for n in range(40):
        design = ("ace", "smartnic")[n % 2]
        bits = {group: rng.randrange(100, 10_000) for group in GROUPS}
        cells = factor[design] * sum(true[group] * bits[group] for group in GROUPS)
        samples.append(Sample(design=design, terms={"1": 1.0}, bits=bits, cells={"lut": cells}))
    weights, factors = technology(samples, "lut")
    assert factors["smartnic"] / factors["ace"] == pytest.approx(1.25, rel=0.02)
    scale = factors["ace"]
    assert {g: scale * w for g, w in weights.items()} == pytest.approx(true, rel=0.1)


def test_models_of_a_fit_predict_what_was_not_in_it():
    rng = random.Random(2)
    space = SPACES["switch-dma"]

    def sample(n):
        config = space.draw(rng, SwitchDmaConfig)
        bits = dict.fromkeys(GROUPS, 0) | {"register": 900 * config.links + 40 * config.waves}
        bits["mux"] = 3000 * config.links
        cells = dict.fromkeys(("lut", "ff", "gates"), bits["register"] + 2 * bits["mux"])
        return Sample(
            design="switch-dma", terms=space.terms(config), bits=bits,
            cells=cells if n < 10 else {},
        )

    models = fit([sample(n) for n in range(40)])["switch-dma"]
    for _ in range(10):
        new = sample(99)
        true = new.bits["register"] + 2 * new.bits["mux"]
        assert models["lut"].cells(new.terms) == pytest.approx(true, rel=0.03)


@pytest.mark.parametrize("design", SPACES)
def test_what_is_drawn_is_valid_and_within_the_range(design):
    space, rng = SPACES[design], random.Random(5)
    drawn = [space.draw(rng, CONFIGS[design]) for _ in range(30)]
    assert len(set(map(repr, drawn))) > 15
    for each in drawn:
        assert space.outside(each) == []
        assert min(space.terms(each).values()) >= 0


def test_parameters_outside_the_range_are_told():
    space = SPACES["ace"]
    assert space.outside(replace(PRESETS["ring"], address_bits=48)) == ["address_bits"]
    assert space.outside(PRESETS["torus"]) == []
    many = replace(PRESETS["ring"], memory_ports=8, fsms=16)
    assert space.outside(many) == ["memory_ports"]


def test_bits_of_a_structure_are_those_of_all_instances():
    shallow, deep = (structure(StreamFIFO(width, 2), "fifo") for width in (8, 24))
    assert deep["register"] - shallow["register"] == 2 * 16
    assert deep["mux"] > shallow["mux"]


class Pair(wiring.Component):
    """Two equal FIFOs, one behind the other."""

    def __init__(self):
        shape = stream.Signature(24)
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.first = first = StreamFIFO(24, 7, memory=False)
        m.submodules.second = second = StreamFIFO(24, 7, memory=False)
        wiring.connect(m, wiring.flipped(self.i), first.i)
        wiring.connect(m, first.o, second.i)
        wiring.connect(m, second.o, wiring.flipped(self.o))
        return m


def test_bits_of_equal_parts_are_counted_for_each():
    one, two = structure(StreamFIFO(24, 7, memory=False), "fifo"), structure(Pair(), "pair")
    assert one["memory"] == 7 * 24
    assert {group: 2 * bits for group, bits in one.items()} == dict(two)


def test_every_design_has_a_stored_model():
    known = json.loads(FITTED.read_text())["models"]
    assert set(known) == set(SPACES)
    for design, kinds in known.items():
        assert set(kinds) == {"lut", "ff", "gates"}
        assert all(set(each["weights"]) <= set(
            SPACES[design].terms(SPACES[design].draw(random.Random(0), CONFIGS[design]))
        ) for each in kinds.values())


def test_larger_engines_have_more_cells():
    small, large = (
        estimate("ace", PRESETS[name], SPACES["ace"]).cells for name in ("test", "torus")
    )
    assert all(10 * small[kind] < large[kind] for kind in ("lut", "ff", "gates"))


QUEUES_IN_MACROS = {
    "ace": {"rx_packets": 64, "tx_packets": 64, "max_nodes": 64, "sram_bytes": 1 << 15},
    "smartnic": {
        "block_beats": 64, "frame_beats": 32, "receive_beats": 256, "input_beats": 128,
        "output_beats": 96,
    },
    "switch": {"queue_packets": 8},
    "switch-dma": {"buffer_packets": 64},
}
"""Changes of the smallest presets that make every queue as large as a macro."""


@pytest.mark.parametrize("design, seeds", [
    pytest.param(
        design, seeds, id=f"{what}-{design}",
        marks=() if what == "preset" and design in ("smartnic", "switch-dma") else pytest.mark.full,
    )
    for what, seeds in (("preset", ()), ("drawn", range(4))) for design in SPACES
])
def test_banks_are_those_of_the_design(design, seeds):
    blueprint, space = BLUEPRINTS[design], SPACES[design]
    drawn = [space.draw(random.Random(seed), blueprint.config) for seed in seeds]
    small = next(iter(blueprint.presets.values()))
    for config in (*drawn, replace(small, **QUEUES_IN_MACROS[design])):
        netlist = netlist_of(blueprint.component(config), name="top")
        cells = Counter()
        for module in netlist.text.split("\nmodule ")[1:]:
            count = netlist.instances[module.split()[0].lstrip("\\")]
            for kind in re.findall(r"^ *cell \\(sram_\w+) ", module, re.MULTILINE):
                cells[kind] += count
        banks = Counter()
        for count, bank in space.memories(config):
            banks[bank.macro_name] += count
        assert banks == cells, config


def test_a_design_without_a_model_is_named():
    with pytest.raises(ValueError, match=r"^design must be one of ace, .*, not 'adder'$"):
        estimate("adder", None, SPACES["ace"])


def test_models_are_stored_as_they_are_read(tmp_path, monkeypatch):
    kinds = {"lut": Model(weights={"links": 5.0}, error_pct=1.5)}
    monkeypatch.setattr(model, "FITTED", tmp_path / "fitted.json")
    model.FITTED.write_text(stored({"switch-dma": kinds}, "note"))
    model.models.cache_clear()
    try:
        found = estimate(
            "switch-dma", SwitchDmaConfig(links=3, address_bits=40), SPACES["switch-dma"]
        )
    finally:
        model.models.cache_clear()
    assert found.cells["lut"] == 15 and found.error_pct == {"lut": 1.5}
    assert found.outside == []
