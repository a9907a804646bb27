# SPDX-License-Identifier: Apache-2.0
"""The C header and the example of a driver: they compile, and do what the project's own does."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from bench._c_driver import DIALECTS, STRICT, all_reduced_by_c, compiled_driver, compiled_header
from foldwire.catalog import CATALOG, build
from foldwire.handoff.driver import driver_files
from foldwire.handoff.header import c_header
from foldwire.handoff.manual import manual
from gen.rtlil import component_ports
from hw.ace.config import AceConfig
from hw.ace.isa import PROGRAM_ENTRY_FIELDS, Opcode
from hw.common.register_map import Field, Register, RegisterMap
from hw.fp.ops import ReduceOp
from sim.collectives.ace_program import PROGRAM_ENTRY, AceProgram
from sim.collectives.fsm_program import Instruction
from sim.rtl.ace.writes import start_writes
from sim.rtl.harness.system import CosimError
from sim.workload.graph import CollectiveKind

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

DRIVEN = [("ace", "test", 4), ("ace", "duo", 3), ("smartnic", "test", 3), ("switch-dma", "test", 3)]


def middle_of(name):
    """The switch between endpoints."""
    return build("switch", "test", {}) if name == "switch-dma" else None


def vectors(nodes, elements, kind):
    rng = np.random.default_rng(nodes)
    return [rng.integers(-1000, 1000, elements).astype(kind) for _ in range(nodes)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("name", "preset", "nodes"), DRIVEN)
def test_functions_of_the_header_drive_an_all_reduce(name, preset, nodes, dialect):
    for op, kind in ((ReduceOp.SUM_I32, np.int32), (ReduceOp.SUM_F32, np.float32)):
        inputs = vectors(nodes, 301, kind)

        results = all_reduced_by_c(
            build(name, preset, {}), inputs, op, dialect=dialect, middle=middle_of(name))

        # Integers so small that binary32 adds them without rounding, in any order.
        assert len(results) == nodes
        for result in results:
            np.testing.assert_array_equal(result, sum(inputs))


FAULTS = [
    ("ace", ".h", "ELEMENTS_OFFSET UINT32_C(0x48)", "ELEMENTS_OFFSET UINT32_C(0x4c)"),
    ("ace", ".h", "COMMAND_OP_SHIFT 12", "COMMAND_OP_SHIFT 13"),
    ("ace", ".c", "k + 2", "k + 3"),
    ("ace", ".h", "RECV_REDUCE_SEND = 13", "RECV_REDUCE_SEND = 12"),
    ("smartnic", ".h", "DESTINATION_LOW_OFFSET UINT32_C", "DESTINATION_LOW_OFFSET 4 + UINT32_C"),
    ("smartnic", ".h", "_write64(", "_written64("),
    ("switch-dma", ".c", "node_pack(rank, nodes, 0)", "node_pack(rank, nodes - 1, 0)"),
]


def test_the_examples_of_all_presets_compile(tmp_path):
    for name in ("ace", "smartnic", "switch", "switch-dma"):
        for preset in CATALOG[name].presets:
            design = build(name, preset, {})
            compiled_header(driver_files(design), design.top, tmp_path, dialect="c++17")


@pytest.mark.parametrize(("name", "suffix", "pattern", "replacement"), FAULTS)
def test_a_planted_fault_is_found(name, suffix, pattern, replacement):
    def change(files):
        (which,) = [each for each in files if each.endswith(suffix)]
        if which.startswith("switch_test"):
            return
        assert pattern in files[which]
        files[which] = files[which].replace(pattern, replacement)

    inputs = vectors(3, 150, np.int32)
    try:
        results = all_reduced_by_c(
            build(name, "test", {}), inputs, ReduceOp.SUM_I32, change=change,
            middle=middle_of(name))
    except (ValueError, CosimError):
        return
    assert not all(np.array_equal(each, sum(inputs)) for each in results)


def written_by(design, tmp_path, *calls):
    """Writes of the functions `calls` of the example, as (offset, word)."""
    library = compiled_driver(driver_files(design), design.top, tmp_path)
    found, word = [], ctypes.c_uint32
    read = ctypes.CFUNCTYPE(word, ctypes.c_size_t, word)(lambda device, offset: 0)
    write = ctypes.CFUNCTYPE(None, ctypes.c_size_t, word, word)(
        lambda device, offset, value: found.append((offset, value))
    )
    library.connect_bus(read, write)
    answers = [
        library[f"{design.top}_example_{name}"](ctypes.c_size_t(0), *arguments)
        for name, *arguments in calls
    ]
    return found, answers


def stored(writes, registers):
    """Program stores after `writes`: (FSM, word) -> 64 bits."""
    at = {name: registers.offset(f"program_{name}") for name in ("address", "low", "high")}
    place, low, words = None, 0, {}
    for offset, value in writes:
        if offset == at["address"]:
            fields = registers.registers["program_address"].unpack(value)
            place = fields["fsm"], fields["word"]
        elif offset == at["low"]:
            low = value
        elif offset == at["high"]:
            words[place] = value << 32 | low
    return words


@pytest.mark.parametrize("nodes", [2, 3, 8])
@pytest.mark.parametrize("preset", CATALOG["ace"].presets)
def test_the_example_makes_the_programs_and_cuts_that_the_project_makes(preset, nodes, tmp_path):
    design = build("ace", preset, {})
    config, registers = AceConfig(**design.parameters), design.registers
    program = AceProgram(config=config, nodes=nodes, queues=config.first_fsms)
    rank, kind, elements = nodes - 1, CollectiveKind.ALL_REDUCE, 70_001
    long, word = ctypes.c_uint64, ctypes.c_uint32

    writes, answers = written_by(
        design, tmp_path,
        ("set_up", word(rank), word(nodes), long(1 << 24), word(0)),
        ("start", word(nodes), long(0), long(1 << 20), word(elements), ctypes.c_int(0), word(7)),
    )

    assert answers[0] == 0
    mine = stored(writes, registers)
    for fsm in program.fsms:
        words = program.words(fsm, rank=rank)
        for place in {address for each, address in mine if each == fsm}:
            assert mine[fsm, place] == words[place], (fsm, place)
    length = program.length(kind, kind=0)
    assert len([1 for fsm, _ in mine if fsm == 0]) == 1 + config.phased + length
    expected = start_writes(
        registers, kind, program.settings(elements, collective=kind), name=7, source=0,
        destination=1 << 20, op=ReduceOp(0),
    )
    assert writes[-8:] == [(registers.offset(name), value) for name, value in expected]


def test_a_ring_that_is_too_large_is_refused(tmp_path):
    long, word = ctypes.c_uint64, ctypes.c_uint32
    calls = [("set_up", word(0), word(n), long(1 << 20), word(0)) for n in (1, 24, 25, 129)]

    assert written_by(build("ace", "test", {}), tmp_path, *calls)[1] == [-1, 0, -1, -1]


POINTER = """\
#include <assert.h>
#include "fw.h"
int main(void) {
  volatile uint32_t registers[FW_REGISTERS_SIZE / 4] = {0};
  fw_device device = registers;
  fw_node_rank_set(device, 5);
  fw_node_nodes_set(device, 9);
  fw_source_write64(device, UINT64_C(0x123456789));
  fw_command_write(device, fw_command_pack(7, FW_REDUCE_OP_MAX_F32, 1));
  assert(fw_node_read(device) == (9u << 9 | 5u));
  assert(fw_node_rank_get(device) == 5 && fw_node_nodes_get(device) == 9);
  assert(registers[FW_SOURCE_LOW_OFFSET / 4] == 0x23456789);
  assert(registers[FW_SOURCE_HIGH_OFFSET / 4] == 1);
  assert(registers[FW_COMMAND_OFFSET / 4] == (7u | FW_COMMAND_OP_MAX_F32 << 8 | 1u << 10));
  registers[FW_BUSY_OFFSET(0) / 4] = 77;
  assert(fw_busy_read(device, 0) == 77);
  return 0;
}
"""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_device_is_a_pointer_if_nothing_else_is_said(dialect, tmp_path):
    registers = build("smartnic", "test", {}).registers
    (tmp_path / "fw.h").write_text(c_header(registers, name="fw"))
    (tmp_path / "main.c").write_text(POINTER)

    command = ["g++" if "++" in dialect else "gcc", *STRICT, *DIALECTS[dialect], "main.c"]
    done = subprocess.run([*command, "-o", "main"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    subprocess.run([tmp_path / "main"], check=True)


def test_names_that_clash_are_refused():
    def registers(*fields):
        made = [Register(name, "rw", [Field(field)]) for name, field in fields]
        return RegisterMap("a part", made)

    with pytest.raises(ValueError, match="two functions of the header are called 'fw_a_b_c_get'"):
        c_header(registers(("a", "b_c"), ("a_b", "c")), name="fw")


def rule(kind, *, rank, nodes, way, to, start):
    """Instructions of a ring as the manual's table has them, `PROGRAM` from `start` on."""
    gather = kind is CollectiveKind.ALL_GATHER
    last = 2 * nodes - 2 if kind is CollectiveKind.ALL_REDUCE else nodes - 1
    middle = {CollectiveKind.ALL_REDUCE: Opcode.RECV_REDUCE_COPY_SEND,
              CollectiveKind.REDUCE_SCATTER: Opcode.RECV_REDUCE_COPY}
    words = {start + 1: 0}
    for k in range(last + 1):
        if k == 0:
            op = Opcode.SEND
        elif k == nodes - 1 and not gather:
            op = middle[kind]
        elif k == last:
            op = Opcode.RECV
        else:
            op = Opcode.RECV_REDUCE_SEND if k < nodes - 1 and not gather else Opcode.RECV_COPY_SEND
        sends = k < last
        arriving = min(k, 1 if gather else nodes)
        words[start + (k + 1 if k else 0)] = Instruction(
            op=op, block=(rank - way * (k + (not gather))) % nodes, port=to if sends else 0,
            peer_step=2 + k if sends else 0, arriving=arriving,
            contributions=1 if gather else min(k + 1, nodes),
        ).encode()
    return words


@pytest.mark.parametrize("nodes", [2, 3, 7])
@pytest.mark.parametrize("preset", ["test", "duo", "wide"])
def test_the_rule_of_the_manual_makes_all_words(preset, nodes):
    config = AceConfig(**build("ace", preset, {}).parameters)
    program = AceProgram(config=config, nodes=nodes, queues=config.fsms)
    for fsm, rank in ((0, 0), (0, nodes - 1), (config.fsms - 1, 1)):
        words = program.words(fsm, rank=rank)
        backwards = fsm % 2
        for place, kind in enumerate(PROGRAM_ENTRY):
            entry = words.pop(place)
            start = 4 * (entry & 0x7FF)
            made = rule(kind, rank=rank, nodes=nodes, way=-1 if backwards else 1, to=backwards,
                        start=start)
            assert made == {each: words.pop(each) for each in made}, (fsm, kind)
            counts = 2 * nodes - 2 if kind is CollectiveKind.ALL_REDUCE else nodes - 1
            expected = {"last": len(made) - 1, "receives": counts, "sends": counts,
                        "ready_ports": 1 << (1 - backwards), "run": 1}
            lsb = 0
            for name, (bits, _) in PROGRAM_ENTRY_FIELDS.items():
                assert entry >> lsb & (1 << bits) - 1 == expected.get(name, start // 4), name
                lsb += bits
        assert not words


@pytest.mark.parametrize("name", ["ace", "smartnic", "switch", "switch-dma"])
def test_the_manual_has_ports_and_packets(name):
    design = build(name, None, {})
    text = manual(design)

    ports = text.partition("## Ports")[2].partition("\n## ")[0]
    for port in component_ports(design.component):
        assert f"`{port.name}`" in ports or f"`{port.name.rpartition('_')[2]}`" in ports
    packets = re.search(r"\n## (Packets|Frames)\n(.*?)\n\n## ", text, re.DOTALL).group(2)
    bits = [int(each) for each in re.findall(r"^\| (?:\d+:)?(\d+) \|", packets, re.MULTILINE)]
    assert bits == sorted(bits) and bits[0] == 0 and len(bits) > 12
    assert ("AxCACHE" in text) == (name != "switch")


@pytest.mark.parametrize("preset", ["test", "duo", "isca21"])
def test_the_manual_has_all_words_of_a_small_ring(preset):
    design = build("ace", preset, {})
    config = AceConfig(**design.parameters)
    program = AceProgram(config=config, nodes=3, queues=config.first_fsms)
    listed = manual(design).partition("### All words")[2].partition("## Recipe")[0]
    stores = [
        {int(place): int(word, 0) for place, word in re.findall(r"\| (\d+) \| `(0x\w+)`", each)}
        for each in listed.split("\nFSM")[1:]
    ]
    firsts = {program.kind(fsm): fsm for fsm in reversed(program.fsms)}
    assert stores == [program.words(fsm, rank=1) for fsm in sorted(firsts.values())]
