# SPDX-License-Identifier: Apache-2.0
"""Ring programs, executed as texts: any order of delivery gives the one order of additions."""

import hashlib
import itertools
import random
from dataclasses import replace

import pytest

from hw.ace.config import preset
from hw.ace.isa import ENTRY_WORDS, Opcode, instruction_layout, program_entry_layout
from sim.collectives.ace_program import AceProgram
from sim.collectives.fsm_program import PROGRAM_ENTRY, Instruction, ring_program
from sim.collectives.golden import ring_order
from sim.workload.graph import CollectiveKind
from tests.sim.collectives.fsm import NEXT, PREVIOUS, Rank, run_programs


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("collective", list(PROGRAM_ENTRY))
@pytest.mark.parametrize("nodes", range(2, 17))
def test_any_delivery_order_gives_the_golden_order(nodes, collective, direction):
    ports = {"to_port": NEXT, "from_port": PREVIOUS}
    if direction < 0:
        ports = {"to_port": PREVIOUS, "from_port": NEXT}
    gathers = collective is CollectiveKind.ALL_GATHER
    programs = [
        ring_program(collective, rank=rank, nodes=nodes, direction=direction, **ports)
        for rank in range(nodes)
    ]
    for seed in range(6):
        # A block is the tuple of ranks that were added, in order.
        ranks = [
            Rank(
                program,
                {rank: (rank,)} if gathers else dict.fromkeys(range(nodes), (rank,)),
                add=lambda received, own: received + own,
            )
            for rank, program in enumerate(programs)
        ]
        run_programs(ranks, random.Random(seed))

        times = (nodes - 1) * (2 if collective is CollectiveKind.ALL_REDUCE else 1)
        for rank, state in enumerate(ranks):
            assert state.program.receives == state.program.sends == times
            assert state.program.ready_ports == {ports["from_port"]}
            if gathers:
                golden = {block: (block,) for block in range(nodes)}
            else:
                golden = {
                    block: tuple(ring_order(block, nodes=nodes, direction=direction))
                    for block in range(nodes)
                    if collective is CollectiveKind.ALL_REDUCE or block == rank
                }
            assert {block: state.data[block] for block in golden} == golden


def test_ring_programs_are_instruction_for_instruction_those_of_before():
    digest = hashlib.sha256()
    for nodes in (2, 3, 5, 16):
        for collective in PROGRAM_ENTRY:
            for direction in (1, -1):
                ports = (NEXT, PREVIOUS) if direction == 1 else (PREVIOUS, NEXT)
                for rank in range(nodes):
                    program = ring_program(
                        collective, rank=rank, nodes=nodes, direction=direction,
                        to_port=ports[0], from_port=ports[1],
                    )
                    for i in program.instructions:
                        sends = i.op.value & 4
                        onward = sends and (i.port, i.peer_step)
                        fields = (i.op.value, i.block, i.contributions, onward)
                        digest.update(repr(fields).encode())
    assert digest.hexdigest() == (
        "7ece77e1c587799321fd2b3973f99b8a959167f57d5f59b188f84d6970225819"
    )


@pytest.mark.parametrize("nodes", [2, 5, 16])
def test_order_of_additions_is_once_round_the_ring_and_ends_at_the_owner(nodes):
    for block in range(nodes):
        for direction in (1, -1):
            order = ring_order(block, nodes=nodes, direction=direction)
            assert sorted(order) == list(range(nodes))
            assert order[-1] == block
            assert all((b - a) % nodes == direction % nodes for a, b in itertools.pairwise(order))


def _field(layout, word, name):
    field = layout[name]
    return word >> field.offset & (1 << field.width) - 1


@pytest.mark.parametrize("direction", [1, -1])
def test_program_store_holds_all_collectives_one_after_the_other(direction):
    words = AceProgram(
        config=preset("test"), nodes=5, queues=2, bidirectional=direction < 0
    ).words(1, rank=2)
    taken = set()
    for collective, place_in_table in PROGRAM_ENTRY.items():
        table = words[place_in_table]
        entry, last = (_field(program_entry_layout, table, n) for n in ("entry", "last"))
        entry, length = entry * ENTRY_WORDS, last + 1
        place = set(range(entry, entry + length))
        assert entry >= 16
        assert not place & taken
        taken |= place
        program = ring_program(
            collective, rank=2, nodes=5, direction=direction,
            to_port=NEXT if direction == 1 else PREVIOUS,
            from_port=PREVIOUS if direction == 1 else NEXT,
        )
        assert length == len(program.instructions)
        assert _field(program_entry_layout, table, "receives") == program.receives
        assert _field(program_entry_layout, table, "sends") == program.sends
        assert _field(program_entry_layout, table, "run") == 1
        ready = _field(program_entry_layout, table, "ready_ports")
        assert ready == (1 << PREVIOUS if direction == 1 else 1 << NEXT)
        for offset, instruction in enumerate(program.instructions):
            word = words[entry + offset]
            for name in ("block", "port", "peer_step", "contributions", "arriving", "readies"):
                assert _field(instruction_layout, word, name) == getattr(instruction, name)
            assert word & 15 == instruction.op.value
    assert set(words) == taken | set(PROGRAM_ENTRY.values())


def test_programs_that_do_not_fit_are_left_out_and_refused_when_they_are_wanted():
    config = replace(preset("test"), max_nodes=64)
    program = AceProgram(config=config, nodes=20, queues=1)
    assert program.loaded(0) == [CollectiveKind.ALL_REDUCE]
    assert {*program.words(0, rank=0)} == {0, *range(16, 56)}
    message = "nodes must be few enough for 64 program words; up to all_gather these need 77"
    with pytest.raises(ValueError, match=message):
        program.loaded(0, wanted=CollectiveKind.ALL_GATHER)
    message = "nodes must be few enough for 64 program words; up to all_reduce these need 66"
    with pytest.raises(ValueError, match=message):
        AceProgram(config=config, nodes=25, queues=1).loaded(0)


def test_steps_that_no_packet_can_name_are_refused():
    config = replace(preset("torus"), max_nodes=1024)
    assert len(AceProgram(config=config, nodes=128, queues=1).words(0, rank=0)) > 500
    message = "nodes must be few enough for the 2048 steps .*; all_reduce needs 2050"
    with pytest.raises(ValueError, match=message):
        AceProgram(config=config, nodes=1025, queues=1).loaded(0)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"nodes": 1}, "nodes must be at least 2, not 1"),
        ({"rank": 4}, "rank must be from 0 to 3, not 4"),
        ({"rank": -1}, "rank must be from 0 to 3, not -1"),
        ({"direction": 0}, "direction must be 1 or -1, not 0"),
    ],
)
def test_bad_program_is_named_with_what_is_allowed(changes, message):
    good = {"rank": 0, "nodes": 4, "direction": 1, "to_port": 0, "from_port": 1}
    with pytest.raises(ValueError, match=f"^{message}$"):
        ring_program(CollectiveKind.ALL_REDUCE, **(good | changes))


@pytest.mark.parametrize("name, value", [("block", 1 << 17), ("peer_step", -1), ("port", 16)])
def test_instruction_field_that_does_not_fit_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} must fit .* bits, not {value}"):
        Instruction(op=Opcode.SEND, **{name: value}).encode()
