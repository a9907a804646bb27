import re

import pytest

from sim.describe.collective import ConfigError, SystemConfig, parse, read

GOOD = """# a comment
[topology]
kind = "torus"
shape = [2, 2]

[engine]
preset = "wide"
banks = 4

[link]
latency_cycles = 500
stall_probability = 0

[collective]
kind = "reduce_scatter"
op = "max_f32"
elements = 1001

[run]
seed = 7
"""


def test_every_value_arrives_and_the_rest_is_default():
    system = parse(GOOD, source="s.toml")

    assert system.topology.dimensions == (2, 2)
    assert (system.preset, system.engine.ports, system.engine.banks) == ("wide", 4, 4)
    assert (system.link.latency_cycles, system.link.stall_probability) == (500, 0.0)
    assert (system.collective.op, system.collective.elements) == ("max_f32", 1001)
    assert (system.run.seed, system.memory) == (7, SystemConfig().memory)


def test_empty_description_is_the_default_system():
    assert parse("", source="s.toml") == SystemConfig()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[link]", "[lnk]", "s.toml:10: lnk: unknown key; did you mean 'link'? allowed: topology,"),
        ("banks", "bank", "s.toml:8: engine.bank: unknown key; did you mean 'banks'? allowed:"),
        ("elements", "elemets", "s.toml:17: collective.elemets: unknown key; did you mean"),
        ('"wide"', '"wild"', "s.toml:7: engine.preset: must be one of test, "),
        ("banks = 4", "banks = 3", "s.toml:8: engine.banks: must be a power of two from 1 to 64"),
        ("banks = 4", "banks = 4.0", "s.toml:8: engine.banks: must be an integer, not 4.0"),
        ("1001", "0", "s.toml:17: collective.elements: must be at least 1, not 0"),
        ("1001", "true", "s.toml:17: collective.elements: must be an integer, not True"),
        ("max_f32", "avg", "s.toml:16: collective.op: must be one of sum_f32, min_f32, max_f32"),
        ("500", "0", "s.toml:11: link.latency_cycles: must be at least 1, not 0"),
        ("probability = 0", "probability = 1", "s.toml:12: link.stall_probability: must be at lea"),
        ("[2, 2]", "[1, 2]", "s.toml:4: topology.shape: must be sizes of at least 2"),
        ("[2, 2]", "4", "s.toml:4: topology.shape: must be a list of integers, not 4"),
        ('"torus"', '"tours"', "s.toml:3: topology.kind: must be one of ring, torus, not 'tours'"),
        ('"wide"', '"ring"', "s.toml:6: engine: must be one with at least 4 ports for this torus"),
        ("[topology]", "[topology", "s.toml: not valid TOML: "),
    ],
)
def test_errors_name_file_line_key_value_and_what_is_allowed(old, new, message):
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(GOOD.replace(old, new), source="s.toml")


def test_ring_of_one_node_is_refused():
    text = "[topology]\nkind = 'ring'\nnodes = 1\n"
    with pytest.raises(ConfigError, match=r"s.toml:3: topology.nodes: must be from 2 to 8, not 1"):
        parse(text, source="s.toml")


def test_section_that_is_no_table_is_refused():
    with pytest.raises(ConfigError, match=r"s.toml:1: run: must be a table, \[run\], not 3"):
        parse("run = 3\n", source="s.toml")


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"absent.toml: cannot be read: No such file"):
        read(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read: it is not UTF-8 text"):
        read(tmp_path / "binary.toml")
