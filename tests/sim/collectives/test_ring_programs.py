"""Ring programs, executed as texts: any order of delivery gives the one order of additions."""

import itertools
import random
from dataclasses import replace

import pytest

from hw.ace.config import preset
from hw.ace.isa import Opcode, instruction_layout, program_entry_layout
from sim.collectives.ring import Collective, Instruction, ring_order, ring_program
from sim.rtl.ace_writes import program_words

NEXT, PREVIOUS = 0, 1


class Rank:
    """Executes a program; a block is the tuple of ranks that were added, in order."""

    def __init__(self, program, rank, nodes, collective):
        self.program = program
        gathers_only = collective is Collective.ALL_GATHER
        self.source = dict.fromkeys(range(nodes), (rank,))
        self.result = {rank: (rank,)} if gathers_only else {}
        self.executed = set()
        self.receives = self.sends = 0
        self.outbox = []
        for instruction in program.instructions:
            if instruction.op is Opcode.END:
                break
            assert instruction.op is Opcode.SEND
            held = self.result if instruction.from_result else self.source
            self.send(instruction, held[instruction.block])

    def send(self, instruction, value):
        self.sends += 1
        assert instruction.contributions == len(value)
        self.outbox.append((instruction.port, instruction.peer_step, instruction.block, value))

    def receive(self, step, block, value):
        assert step not in self.executed
        self.executed.add(step)
        self.receives += 1
        instruction = self.program.instructions[step]
        reduces, stores, sends, receives = (instruction.op.value >> bit & 1 for bit in range(4))
        assert receives
        assert instruction.block == block
        if reduces:
            value = (*value, *self.source[block])
        assert instruction.contributions == len(value)
        if stores:
            assert block not in self.result or self.result == {block: value}
            self.result[block] = value
        if sends:
            self.send(instruction, value)


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("collective", list(Collective))
@pytest.mark.parametrize("nodes", range(2, 17))
def test_any_delivery_order_gives_the_golden_order(nodes, collective, direction):
    for seed in range(6):
        rng = random.Random(seed)
        programs = [
            ring_program(
                collective, rank=rank, nodes=nodes, direction=direction, to_port=NEXT,
                from_port=PREVIOUS,
            )
            for rank in range(nodes)
        ]
        ranks = [Rank(programs[rank], rank, nodes, collective) for rank in range(nodes)]
        flying = []
        while True:
            for rank, state in enumerate(ranks):
                flying += [(rank, *packet) for packet in state.outbox]
                state.outbox = []
            if not flying:
                break
            sender, port, step, block, value = flying.pop(rng.randrange(len(flying)))
            assert port == NEXT
            ranks[(sender + direction) % nodes].receive(step, block, value)

        times = (nodes - 1) * (2 if collective is Collective.ALL_REDUCE else 1)
        for rank, state in enumerate(ranks):
            assert state.receives == state.program.receives == times
            assert state.sends == state.program.sends == times
            assert state.program.ready_ports == {PREVIOUS}
            if collective is Collective.ALL_GATHER:
                golden = {block: (block,) for block in range(nodes)}
            else:
                golden = {
                    block: tuple(ring_order(block, nodes=nodes, direction=direction))
                    for block in range(nodes)
                    if collective is Collective.ALL_REDUCE or block == rank
                }
            assert state.result == golden


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
    words = program_words(
        preset("test"), rank=2, nodes=5, direction=direction, ports=(NEXT, PREVIOUS)
    )
    taken = set()
    for collective in Collective:
        table = words[collective.value]
        entry, length = (_field(program_entry_layout, table, n) for n in ("entry", "length"))
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
        ready = _field(program_entry_layout, table, "ready_ports")
        assert ready == (1 << PREVIOUS if direction == 1 else 1 << NEXT)
        for offset, instruction in enumerate(program.instructions):
            word = words[entry + offset]
            for name in ("block", "port", "peer_step", "contributions", "from_result"):
                assert _field(instruction_layout, word, name) == getattr(instruction, name)
            assert word & 15 == instruction.op.value
    assert set(words) == taken | {collective.value for collective in Collective}


def test_programs_that_do_not_fit_are_refused():
    config = replace(preset("test"), max_nodes=64)
    with pytest.raises(ValueError, match="nodes must be few enough for 64 program words, not 20"):
        program_words(config, rank=0, nodes=20, direction=1, ports=(NEXT, PREVIOUS))


def test_steps_that_no_packet_can_name_are_refused():
    config = replace(preset("isca21"), max_nodes=1024)
    words = program_words(config, rank=0, nodes=128, direction=1, ports=(NEXT, PREVIOUS))
    assert len(words) > 500
    with pytest.raises(ValueError, match=r"nodes must be at most 128, for 256 steps .*, not 129"):
        program_words(config, rank=0, nodes=129, direction=1, ports=(NEXT, PREVIOUS))


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
        ring_program(Collective.ALL_REDUCE, **(good | changes))


@pytest.mark.parametrize("name, value", [("block", 4096), ("peer_step", -1), ("port", 16)])
def test_instruction_field_that_does_not_fit_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} must fit .* bits, not {value}"):
        Instruction(op=Opcode.SEND, **{name: value}).encode()
