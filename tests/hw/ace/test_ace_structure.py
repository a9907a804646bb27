# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""What holds for an engine as it is built: no path through it, its configuration, its registers."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from hw.ace.config import PRESETS, AceConfig, preset
from hw.ace.engine import AceEngine
from hw.ace.registers import ENGINE_ID, INTERRUPTS, CommandError, register_map
from hw.common.engine_registers import VERSION
from sim.rtl.ace.ring import AceRing
from tests.hw.ace.rig import Rig
from tests.hw.common.attributes import assert_attributes
from tests.hw.common.prover import assert_moore

# Paths do not depend on depths, so memories are as small as they may be.
SMALL = AceConfig(
    ports=2, bus_bytes=16, packet_bytes=16, sram_bytes=64, banks=1, alus=1, alu_stages=2, fsms=1,
    contexts=1, program_words=64, memory_ports=1, rx_packets=2, tx_packets=2, max_nodes=2,
    address_bits=24, commands=1,
)


@pytest.mark.full
def test_no_output_depends_on_an_input_in_the_same_cycle(tmp_path):
    assert_moore(AceEngine(SMALL), tmp_path)


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("ports", 0, "from 1 to 8"),
        ("ports", 9, "from 1 to 8"),
        ("bus_bytes", 24, "one of 16, 32, 64, 128"),
        ("packet_bytes", 96, "one of 16, 32, 64, 128, 256"),
        ("packet_bytes", 8, "one of 16, 32, 64, 128, 256"),
        ("packet_bytes", 512, "one of 16, 32, 64, 128, 256"),
        ("banks", 3, "power of two from 1 to 64"),
        ("banks", 128, "power of two from 1 to 64"),
        ("interleave", 2, "one of 0, 1"),
        ("interleave", -1, "one of 0, 1"),
        ("bank_ports", "2rw", "one of '1r1w', '1rw'"),
        ("alus", 0, "from 1 to 8"),
        ("alus", 3, "from 1 to the 2 ports"),
        ("alu_stages", 0, "from 1 to 8"),
        ("alu_stages", 9, "from 1 to 8"),
        ("fsms", 17, "from 1 to 16"),
        ("contexts", 0, "from 1 to 16"),
        ("contexts", 17, "from 1 to 16"),
        ("program_words", 100, "power of two from 64 to 8192"),
        ("memory_ports", 2, "from 1 to the 1 FSMs"),
        ("rx_packets", 1, "from 2 to 4096"),
        ("tx_packets", 1, "from 2 to 256"),
        ("max_nodes", 1, "from 2 to 131071"),
        ("sram_bytes", 2 << 30, "at most 1073741824 bytes"),
        ("address_bits", 65, "from 24 to 64"),
        ("commands", 0, "from 1 to 16"),
        ("sram_bytes", 1000, "multiple of 1 banks x 16 bytes"),
        ("sram_bytes", 0, "an integer at least 1"),
        ("sram_bytes", 256, "at least 512 bytes"),
    ],
)
def test_bad_parameter_is_named_with_its_value_and_what_is_allowed(name, value, allowed):
    with pytest.raises(ValueError) as error:
        replace(preset("test"), **{name: value})
    message = str(error.value)
    assert message.startswith(f"{name} must be ")
    assert allowed in message
    assert message.endswith(f"not {value!r}")


@pytest.mark.parametrize(
    "name, value", [("ports", 2.0), ("ports", True), ("bus_bytes", "16"), ("bank_ports", 1),
                    ("interleave", True), ("interleave", "1")]
)
def test_parameter_of_the_wrong_type_is_a_type_error(name, value):
    with pytest.raises(TypeError, match=f"^{name} must be .*, not {value!r}$"):
        replace(preset("test"), **{name: value})


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"interleave": 3}, "interleave must be one of 0, 1, 2, 4, 8, not 3"),
        ({"interleave": 16}, "interleave must be one of 0, 1, 2, 4, 8, not 16"),
        ({"interleave": 2, "sram_bytes": 3 << 12},
         ("interleave must be 0 or all 8 banks for an SRAM of 768 beats, which are no power of "
          "two, not 2")),
        ({"interleave": 1},
         ("interleave must be a power of two from 2 to 8, so that each of the 4 slots lies in one "
          "group of banks, not 1")),
        ({"banks": 64, "packet_bytes": 16, "contexts": 1, "sram_bytes": 1 << 10},
         "sram_bytes must be at least 2048 bytes, two beats for each bank, not 1024"),
    ],
)
def test_groups_of_banks_that_cannot_be_are_refused_in_one_line(changes, text):
    with pytest.raises(ValueError) as error:
        replace(preset("test"), **{"banks": 8, **changes})
    assert str(error.value) == text


@pytest.mark.parametrize("fsms, contexts", [(1, 1), (1, 3), (2, 2), (3, 2), (6, 4), (5, 7)])
@pytest.mark.parametrize("interleave", [1, 2, 4])
def test_a_slot_lies_in_one_group_of_banks(fsms, contexts, interleave):
    slots = fsms * contexts
    whole = replace(
        preset("test"), fsms=fsms, contexts=contexts, sram_bytes=1 << 14, banks=8
    )
    if slots <= 4 // interleave:  # places for slots are fewer than groups
        with pytest.raises(ValueError, match=r"^interleave must be a power of two from"):
            replace(whole, interleave=interleave)
        return
    config = replace(whole, interleave=interleave)
    places = [range(n * config.slot_beats, (n + 1) * config.slot_beats) for n in range(slots)]
    groups = [{row // config.group_beats for row in place} for place in places]
    assert all(len(each) == 1 for each in groups)
    assert config.slot_banks == interleave * len(set.union(*groups))
    assert whole.slot_beats / 2 < config.slot_beats <= whole.slot_beats
    assert config.group_beats * 8 == 1024 * interleave


def test_unknown_preset_is_named_with_those_that_exist():
    known = "'test', 'duo', 'ring', 'wide', 'isca21', 'torus'"
    with pytest.raises(ValueError, match=f"{known}, not 'tset'"):
        preset("tset")


def test_engine_takes_a_configuration_only():
    with pytest.raises(TypeError, match="config must be an AceConfig, not 'test'"):
        AceEngine("test")


@pytest.mark.parametrize("slot_packets", range(2, 40))
def test_counters_hold_the_largest_block_that_fits_half_a_slot(slot_packets):
    """With an odd number of packets, too: half of them is rounded up."""
    slot_bytes = 64 * slot_packets
    config = replace(preset("test"), contexts=1, sram_bytes=slot_bytes)
    largest_block = config.slot_elements // 2 // config.lanes * config.lanes
    assert config.block_packets >= -(-largest_block // config.packet_elements)


@pytest.mark.parametrize("address_bits", [24, 31, 32, 33, 40, 64])
def test_memory_ends_with_the_address_space_unless_told_otherwise(address_bits):
    registers = register_map(replace(preset("test"), address_bits=address_bits)).registers
    end = registers["memory_end_high"].init << 32 | registers["memory_end_low"].init
    assert end == (1 << address_bits) - 1


@pytest.mark.parametrize("name", PRESETS)
def test_register_map_describes_every_register_and_field(name):
    config = preset(name)
    registers = register_map(config)
    document = registers.markdown()
    for register in registers.registers.values():
        assert f"`{register.name}" in document
        for field in register.fields:
            assert f"`{field.name}`" in document
    for reason in CommandError:
        assert f"{reason.value} = {reason.name}" in document
    for interrupt, meaning in INTERRUPTS.items():
        assert interrupt in document
        assert meaning in document
    assert registers.size <= 4096
    assert registers.registers["damaged"].count == config.ports
    outstanding = {f.name: f.width for f in registers.registers["status"].fields}["outstanding"]
    assert 2 * 16 < 1 << outstanding  # most commands, queued and running


def test_registers_tell_what_the_engine_is(engine):
    rig = engine()
    config = rig.config
    assert rig.read("identity") == {"engine": ENGINE_ID, "version": VERSION}
    shape = rig.read("shape")
    assert shape == {name: getattr(config, name) for name in shape}
    assert rig.read("slot_elements") == {"value": config.slot_elements}


def test_described_configuration_can_be_built_again():
    config = preset("ring")
    assert AceConfig(**config.describe()) == config
    assert set(config.describe()) == {field.name for field in fields(AceConfig)}


def test_every_preset_is_sound():
    for config in PRESETS.values():
        assert config.slot_elements >= 2 * config.packet_elements
        beats = config.partition_beats if config.phased else [config.slot_beats]
        taken = zip(config.slots_by_partition, beats, strict=True)
        assert config.sram_beats >= sum(slots * each for slots, each in taken)


def test_reference_page_lists_every_block():
    page = Path("docs/reference/ace.md").read_text()
    source = "".join(path.read_text() for path in Path("hw/ace").glob("*.py"))
    bases = r"wiring\.Component|ParametricSignature|Engine|_BlockDMA"
    names = re.findall(rf"^class ([A-Z]\w+)\((?:{bases})\)", source, re.MULTILINE)
    inner = {"ALUOperandSignature", "ForwardDataSignature"}  # of signatures that are listed
    assert len(names) > 20
    assert [name for name in names if f"`{name}`" not in page and name not in inner] == []


def test_every_register_that_can_be_read_shows_its_value_after_reset():
    rig = Rig(preset("test"), seed=0, stalls=0)
    rig.settle(60)
    for name, register in rig.registers.registers.items():
        if register.access == "wo":
            continue
        for index in range(register.words):
            read = rig.read(name, index if register.count else None)
            assert read == register.unpack(register.init), name


def test_every_memory_port_says_what_kind_of_access_it_makes():
    assert_attributes(AceRing.compiled(preset("duo")), preset("duo").memory_ports)
