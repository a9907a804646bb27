# SPDX-License-Identifier: Apache-2.0
"""Levels and presets in descriptions: what is read, what follows from a preset, what is refused."""

import re
from pathlib import Path

import pytest

from hw.ace.config import preset as ace_preset
from sim.describe.build import build
from sim.describe.levels import ANY, MEANINGS
from sim.describe.reader import ConfigError
from sim.describe.sections import LEVELS
from sim.describe.system import SECTIONS, parse
from sim.engines.run import engine_group
from sim.workload.graph import CollectiveKind

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/levels.md"
GOOD = """[topology]
kind = "ring"
shape = [4]
bandwidth_bytes_per_s = 9.96e9
latency_s = 8e-9

[endpoint]
kind = "ace"
level = "rtl"
preset = "test"
contexts = 2

[network]
stall_probability = 0.25

[memory]
read_latency_s = 40e-9

[workload]
collective = "all_reduce"
size_bytes = 4096
op = "max_f32"

[run]
passes = 1
seed = 7
"""


def ring_of(text):
    description = parse(text, source="s.toml")
    return description, engine_group(description, build(description))


def test_every_value_arrives():
    description, ring = ring_of(GOOD)

    assert (description.level, description.kind, description.workload.op) == (
        "rtl", "ace", "max_f32",
    )
    assert ring.engine.config.contexts == 2 and ring.engine.config.fsms == 1
    settings = ring.settings
    assert (settings.nodes, settings.latency_cycles, settings.read_latency_cycles) == (4, 10, 50)
    assert settings.beats_per_cycle == pytest.approx(0.5)  # 9.96 of 16 B x 1.245 GHz
    assert (settings.link_stalls, settings.seed) == (0.25, 7)
    assert ring.levels == ("rtl",) * 4


def test_a_preset_gives_the_event_endpoint_its_parameters():
    text = GOOD.replace('level = "rtl"\n', "").replace("stall_probability = 0.25\n", "")
    description = parse(text, source="s.toml")
    config = description.engine.config

    endpoint = description.endpoint
    assert (endpoint.fsms, endpoint.contexts, endpoint.sram_bytes) == (1, 2, config.sram_bytes)
    assert endpoint.memory_bytes_per_s == 16 * 1.245e9
    assert endpoint.fetch_cycles == 16
    assert endpoint.read_latency_s == pytest.approx(50 / 1.245e9)
    assert description.scheduler.chunk_bytes == 4 * config.slot_elements
    assert description.dimensions[0].efficiency == 64 / (64 + 16)
    # A place for each of eight packets, taken for 20 cycles beside the way to and fro.
    credits = description.endpoint.ring.model(CollectiveKind.ALL_REDUCE).credits
    assert credits.places == 8
    assert credits.handled_s * 1.245e9 == pytest.approx(20)
    with pytest.raises(ConfigError, match=r"endpoint\.lanes: must be absent beside endpoint"):
        parse(text.replace("contexts = 2", "lanes = 8"), source="s.toml")
    rtl = parse(GOOD.replace("8e-9", "49e-9").replace("9.96e9", "19.92e9"), source="s.toml")
    assert rtl.dimensions[0].efficiency == 0.8


def test_nodes_may_have_levels_of_their_own():
    text = GOOD.replace('level = "rtl"', 'level = "cycles"')
    text = text.replace("[network]", '[[endpoint.on]]\nnodes = [1, 3]\nlevel = "rtl"\n\n[network]')

    _, ring = ring_of(text)

    assert ring.levels == ("cycles", "rtl", "cycles", "rtl")


def test_nic_takes_its_clock_and_compression():
    text = GOOD.replace('"ace"', '"smartnic"').replace("contexts = 2", "compress = true")
    text = text.replace("9.96e9", "6.4e9").replace("op = ", "# op = ")

    description, ring = ring_of(text)

    assert ring.engine.compress and ring.engine.clock_hz == 200e6
    assert ring.settings.beats_per_cycle == 1.0
    assert description.endpoint.codec == "bfp16"


ON = '[[endpoint.on]]\nnodes = {nodes}\nlevel = "{level}"\n\n[network]'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"rtl"', '"gates"', "s.toml:9: endpoint.level: must be one of events, cycles, rtl, not '"),
        ('"ace"', '"ideal"', "s.toml:9: endpoint.level: must be 'events' for 'ideal', not 'rtl';"),
        ('"test"', '"tst"', "s.toml:10: endpoint.preset: must be one of test, duo, ring, wide, is"),
        ("contexts", "context", "s.toml:11: endpoint.context: unknown key; did you mean 'contexts"),
        ("contexts = 2", "contexts = 0", "s.toml:11: endpoint.contexts: must be an integer from"),
        (
            "contexts = 2",
            "message_bytes = 64",
            "s.toml:11: endpoint.message_bytes: has no meaning at level 'rtl', only at events: the",
        ),
        ("contexts = 2", "compress = true", "s.toml:11: endpoint.compress: must be false for an e"),
        (
            "9.96e9",
            "40e9",
            "s.toml:4: topology.bandwidth_bytes_per_s: must be at most 1.992e+10, what a bus of 16",
        ),
        (
            "latency_s = 8e-9",
            "efficiency = 0.9",
            "s.toml:5: topology.efficiency: has no meaning at level 'rtl', only at events",
        ),
        ("8e-9", "1.0", "s.toml:5: topology.latency_s: must be at most 1048576 cycles with RTL,"),
        ("[network]", "[scheduler]\nsplits = 2\n[network]", "s.toml:14: scheduler.splits: has no"),
        ("passes = 1", "trace = true", "s.toml:25: run.trace: has no meaning at level 'rtl', only"),
        ("passes = 1", 'fold = "on"', "s.toml:25: run.fold: must be 'off' or 'auto' at level 'rt"),
        ("shape = [4]", "shape = [9]", "s.toml:1: topology: at level 'rtl', must have from 2 to 8"),
        (
            'kind = "ring"\nshape = [4]',
            'kind = "torus"\nshape = [2, 2]',
            "s.toml:7: endpoint.ports: at level 'rtl', must be at least 4, one for each link, no",
        ),
        ('"ring"', '"switch"', "s.toml:1: topology: at level 'rtl', must be one ring, not a switc"),
        ("[network]", ON.format(nodes=[4], level="cycles"), "s.toml:14: endpoint.on[0].nodes: mus"),
        ("[network]", ON.format(nodes=[0], level="events"), "s.toml:15: endpoint.on[0].level: mus"),
        ("[network]", ON.format(nodes=[], level="cycles"), "s.toml:14: endpoint.on[0].nodes: must"),
        ("[memory]", '[host]\nwait = "some"\n[memory]', "s.toml:17: host.wait: must be one of eac"),
        ("0.25", "1.0", "s.toml:14: network.stall_probability: must be at least 0 and below 1, no"),
        ("max_f32", "avg", "s.toml:22: workload.op: must be one of sum_f32, min_f32, max_f32, sum"),
    ],
)
def test_errors_name_file_line_key_value_and_what_is_allowed(old, new, message):
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        ring_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "ideal"\npreset = "test"', "endpoint.preset: must be absent for 'ideal'"),
        ('kind = "ace"\npreset = "test"\n[scheduler]\nsplits = 2', "scheduler.splits: must be abs"),
        ('kind = "ace"\n[memory]\nread_latency_s = 1e-9', "memory: has no meaning without endpoin"),
        ('kind = "ace"\n[network]\nstall_probability = 0.1', "network.stall_probability: has no m"),
        ('kind = "ace"\n[run]\nthreads = 2', "run.threads: has no meaning at level 'events', only"),
    ],
)
def test_keys_without_meaning_in_an_event_simulation_are_refused(text, message):
    start = '[topology]\nkind = "ring"\nshape = [4]\n[workload]\nshipped = "resnet50"\n[endpoint]\n'

    with pytest.raises(ConfigError, match=rf"^s.toml:\d+: {re.escape(message)}"):
        ring_of(start + text)


def tables_of(page):
    """Rows of the tables that begin with a column *key*, by their other columns."""
    found = {}
    for head, body in re.findall(r"^\| key \| (.*) \|\n\|[-|]+\|\n((?:\|.*\|\n)+)", page, re.M):
        rows = (line.strip("| ").split(" | ") for line in body.splitlines())
        found[tuple(head.split(" | "))] = {key: tuple(cells) for key, *cells in rows}
    return found


def test_page_holds_the_table_of_meanings():
    """A key that one level alone knows is in the list of that level."""
    expected = {LEVELS: {}, **{(level,): {} for level in LEVELS}}
    for section, keys in MEANINGS.items():
        for key, meaning in keys.items():
            known = {level: each for level, each in zip(LEVELS, meaning) if each}
            name = f"`{section}`, other keys" if key == ANY else f"`{section}.{key}`"
            if len(known) == 1:
                expected[tuple(known)][name] = tuple(known.values())
            else:
                expected[LEVELS][name] = tuple(known.get(level, "refused") for level in LEVELS)

    assert tables_of(PAGE.read_text("utf-8")) == expected
    assert set(MEANINGS) <= set(SECTIONS)


def test_configuration_of_the_preset_is_the_hardwares():
    description = parse(GOOD.replace("contexts = 2\n", ""), source="s.toml")

    assert description.engine.config == ace_preset("test")
