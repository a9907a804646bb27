# SPDX-License-Identifier: Apache-2.0
"""Models of cells: sums that are recovered, ranges that are told, and what is refused."""

import json
import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bench._cells_fit import OPERATORS, Sample, fit, fit_sum, technology
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
    found = fit_sum(terms, cells, cells, np.ones(60))
    again = rng.uniform(1, 10, (20, 60))
    assert np.abs(again @ found / (again @ weights) - 1).max() < 0.02
    assert np.count_nonzero(found) < 12


def test_cells_of_operators_are_found_from_blocks_of_all_designs():
    rng = random.Random(1)
    true = {group: rng.uniform(0.1, 2) for group in OPERATORS}
    samples = []
    for n in range(40):
        bits = {group: rng.randrange(100, 10_000) for group in OPERATORS}
        cells = sum(true[group] * bits[group] for group in OPERATORS)
        samples.append(Sample(
            design=("ace", "smartnic")[n % 2], factors={}, bits={"unit": bits},
            instances={"unit": 1}, cells={"lut": {"unit": cells}},
        ))
    found = technology(samples, "lut")
    assert found.weights == pytest.approx(true, rel=0.01)
    assert found.cells(samples[0]) == pytest.approx(samples[0].cells["lut"], rel=0.01)


def test_blocks_have_a_ratio_of_their_own_but_for_those_never_synthesised():
    def sample(cells):
        bits = {place: {"ff": 1000} for place in ("usual", "dense", "new")}
        return Sample(
            design="ace", factors={}, bits=bits, instances=dict.fromkeys(bits, 1), cells=cells
        )

    known = [sample({"ff": {"usual": 1000, "dense": 500, "new": 0}})]
    del known[0].bits["new"]
    found = technology(known, "ff").cells(sample({}))
    assert found["usual"] == pytest.approx(1000, rel=0.01)
    assert found["dense"] == pytest.approx(500, rel=0.01)
    assert found["new"] == pytest.approx(750, rel=0.01)


def test_models_of_a_fit_predict_what_was_not_in_it():
    rng = random.Random(2)
    space = SPACES["switch-dma"]

    def sample(n):
        config = space.draw(rng, SwitchDmaConfig, mixed=True)
        bits = {
            "lane": {"ff": (900 + 40 * config.waves) * config.links, "mux": 3000 * config.links},
            "control": {"ff": 500 * (config.descriptors > 4), "mux": 70 * config.address_bits},
        }
        cells = {place: each["ff"] + 2 * each["mux"] for place, each in bits.items()}
        return Sample(
            design="switch-dma", factors=space.factors(config), bits=bits,
            instances={"lane": config.links, "control": 1},
            cells={"lut": cells, "gates": cells} if n < 10 else {},
        )

    models = fit([sample(n) for n in range(30)], kinds=("lut",))["switch-dma"]
    assert set(models["lut"].blocks) == {"", "lane", "control"}
    assert models["lut"].error_pct < 5
    for _ in range(10):
        new = sample(99)
        true = sum(each["ff"] + 2 * each["mux"] for each in new.bits.values())
        assert sum(models["lut"].cells(new.factors).values()) == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize("design", SPACES)
def test_what_is_drawn_is_valid_and_within_the_range(design):
    space, rng = SPACES[design], random.Random(5)
    drawn = [space.draw(rng, CONFIGS[design]) for _ in range(30)]
    assert len(set(map(repr, drawn))) > 15
    for each in drawn:
        assert space.outside(each) == []
        assert min(space.factors(each).values()) >= 0


def test_parameters_outside_the_range_are_told():
    space = SPACES["ace"]
    assert space.outside(replace(PRESETS["ring"], address_bits=48)) == ["address_bits"]
    assert space.outside(PRESETS["torus"]) == []
    many = replace(PRESETS["ring"], memory_ports=8, fsms=16)
    assert space.outside(many) == ["memory_ports"]


def whole(component, name):
    """Bits of a component with everything in it."""
    found = structure(component, name)
    return sum(found.at_places(found.blocks).values(), Counter())


def test_bits_of_a_structure_are_those_of_all_instances():
    shallow, deep = (whole(StreamFIFO(width, 2), "fifo") for width in (8, 24))
    assert deep["ff"] - shallow["ff"] == 2 * 16
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
    one, two = whole(StreamFIFO(24, 7, memory=False), "fifo"), whole(Pair(), "pair")
    assert one["memory"] == 7 * 24
    assert {group: 2 * bits for group, bits in one.items()} == dict(two)


class Delay(wiring.Component):
    """Eight registers one behind the other, and lanes with one each."""

    i: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        value = self.i
        for n in range(8):
            behind = Signal(name=f"step_{n}", reset_less=True)
            m.d.sync += behind.eq(value)
            value = behind
        for n in range(2):
            m.submodules[f"lane_{n}"] = lane = StreamFIFO(4 + n, 1)
            m.d.comb += [lane.i.valid.eq(value), lane.o.ready.eq(1), lane.i.payload.eq(value)]
        m.d.comb += self.o.eq(m.submodules.lane_1.o.payload[0])
        return m


def test_flip_flops_are_without_those_of_shift_registers_and_places_without_numbers():
    found = structure(Delay(), "delay")
    at = found.at_places(found.blocks)
    assert set(at) == {"", "lane"}
    assert at[""]["register"] == 8 and at[""]["ff"] == 0
    assert len(found.blocks) == 3 and [len(places) for places in found.places.values()] == [1] * 3


def test_every_design_has_a_stored_model():
    known = json.loads(FITTED.read_text())["models"]
    assert set(known) == set(SPACES)
    for design, kinds in known.items():
        factors = SPACES[design].factors(SPACES[design].draw(random.Random(0), CONFIGS[design]))
        assert set(kinds) == {"lut", "ff", "gates"}
        for each in kinds.values():
            cells = Model(**each).cells(factors)
            assert len(cells) > 5 and all(value >= 0 for value in cells.values())


def test_factors_tell_steps_and_queues_outside_of_banks():
    small = replace(PRESETS["test"], rx_packets=32)
    factors, more = (SPACES["ace"].factors(replace(small, rx_packets=n)) for n in (32, 64))
    assert factors["arrivals_bits"] == 32 * 128 and more["arrivals_bits"] == 0
    assert (factors["tx_packets>4"], factors["tx_packets<=4"]) == (0, 1)


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
    blocks = {"lane": {"links": 4.0}, "": {"links waves": 0.25, "1": 3.0}}
    kinds = {"lut": Model(blocks=blocks, error_pct=1.5)}
    monkeypatch.setattr(model, "FITTED", tmp_path / "fitted.json")
    model.FITTED.write_text(stored({"switch-dma": kinds}, "note"))
    model.models.cache_clear()
    try:
        found = estimate(
            "switch-dma", SwitchDmaConfig(links=3, waves=8, address_bits=40), SPACES["switch-dma"]
        )
    finally:
        model.models.cache_clear()
    assert found.blocks == {"lut": {"lane": 12, "": 9}}
    assert found.cells["lut"] == 21 and found.error_pct == {"lut": 1.5}
    assert found.outside == []
