# SPDX-License-Identifier: Apache-2.0
"""What a context waits for: in the registers of the engine, and in the words of the driver."""

from dataclasses import replace

import pytest

from hw.ace.config import preset
from hw.ace.isa import program_entry_layout
from hw.ace.registers import INSPECTED
from hw.fp.ops import ReduceOp
from hw.link.packet import PacketKind
from sim.collectives.ace_program import AceProgram
from sim.collectives.fsm_program import decode
from sim.collectives.torus_paths import TorusPath, TorusPaths
from sim.rtl.ace.waiting import waiting
from sim.rtl.ace.writes import ready_fields
from sim.rtl.driver import Request
from sim.rtl.errors import NoProgressError
from sim.rtl.harness.specs import PacketFault
from sim.rtl.harness.system import CycleLimitError
from sim.rtl.writes import halves
from sim.workload.graph import CollectiveKind
from tests.hw.ace.exits import assert_exact, start
from tests.hw.ace.neighbours import NEXT

SHOWN = (*INSPECTED, "inspected_chunk", "inspected_readies")
NODES = 3
ENTRY = 16  # word of the first instruction


def look(rig, context, fsm=0):
    """Fields of a context that are not 0, at the time of this call."""
    rig.write("inspect", fsm=fsm, context=context)
    return shown(rig)


def shown(rig):
    found = {}
    for name in SHOWN:
        found |= {field: value for field, value in rig.read(name).items() if value}
    return found


def begin(rig, jobs, elements, block):
    """Start an all-reduce; all ranks are to be asked for its data."""
    (job,) = jobs(rig, NODES, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, elements, block)])
    rig.start(
        job.collective, job.partition, name=job.name, source=job.source,
        destination=job.destination, op=job.op,
    )
    return job


def say_ready(rig, job, chunk=0):
    """The next rank says READY for a chunk."""
    rig.send(
        NEXT, kind=PacketKind.READY.value, collective=job.name, chunk=chunk, fsm=0, context=chunk,
        **ready_fields(rig.program(NODES), job.collective, job.partition.settings, op=job.op),
    )


def test_a_context_is_shown_from_admission_on(engine, jobs):
    rig = engine(rank=1, nodes=NODES, stalls=0)
    assert look(rig, 0) == {}
    rig.stalls = 1  # memory and links stand still
    job = begin(rig, jobs, 192, 64)  # a chunk, in blocks of 4 packets
    rig.settle(100)
    named = {"used": 1, "collective": job.name}
    found = look(rig, 0)
    assert found.items() >= named.items() and not {"loaded", "live", "storing"} & found.keys()

    rig.stalls = 0
    rig.settle(300)
    assert shown(rig) == found  # of the time of the write
    at_start = {**named, "loaded": 1, "live": 1, "instructions": 1, "entry": ENTRY}
    assert look(rig, 0) == {**at_start, "arriving": 16, "leaving": 16}

    say_ready(rig, job)
    rig.settle(300)
    at_end = {**at_start, "step": 1, "arriving": 16, "leaving": 12, "port_0": 1}
    del at_end["instructions"]
    assert look(rig, 0) == at_end
    for context, fsm in ((1, 0), (4, 0), (0, 1), (15, 15)):
        assert look(rig, context, fsm) == {}
    assert look(rig, 0) == at_end


def test_a_link_that_takes_nothing_holds_a_packet_but_no_ready_for_another_one(engine, jobs):
    """Of four chunks, in blocks of 10 packets; the link takes 8 packets, and 2 wait before it."""
    rig = engine(rank=1, nodes=NODES, stalls=0)
    rig.links[NEXT].miserly = True
    job = begin(rig, jobs, 1920, 160)
    for chunk in range(job.partition.chunks):
        say_ready(rig, job, chunk)
    rig.settle(3000)
    found = [look(rig, context) for context in range(rig.config.contexts)]
    assert [each["chunk"] if context else 0 for context, each in enumerate(found)] == [0, 1, 2, 3]
    assert all(each["port_0"] == 1 for each in found)
    assert [each["leaving"] for each in found[:2]] == [40 - 10, 40]  # of the first, one block left
    assert [each.get("held_ports", 0) for each in found[:2]] == [0, 1 << NEXT]
    silent = [each.get("ready_ports", 0) for each in found if each.get("live")]
    assert set(silent) == {0}


# ---- In words.


def change(cluster, rank, address, word, fsm=0):
    """Another word in a program of a rank, before anything is started."""
    node = cluster.nodes[rank]
    cluster.write(node, "program_address", word=address, fsm=fsm)
    cluster.perform(node, halves("program", word))


def no_ready(cluster):
    """Rank 1 tells nobody that it may send."""
    ports = 255 << program_entry_layout["ready_ports"].offset
    for fsm in range(cluster.program.queues):
        change(cluster, 1, 0, cluster.program.words(fsm, rank=1)[0] & ~ports, fsm)


def no_instruction(cluster):
    """The first word of rank 1 is no instruction."""
    change(cluster, 1, ENTRY, 2)


def nothing(cluster):
    pass


LOST = PacketFault(node=1, port=0, packet=11)
"""The last packet that rank 1 sends: nothing comes after it that would show the loss."""


@pytest.mark.parametrize(
    "before, faults, rank, place, waits",
    [
        (
            no_ready, [], 0, "step 0 SEND block 2, 1 to port 0, step 2",
            "READY of the peer on port 0, 6 packets to arrive through port 1, 12 packets to leave",
        ),
        (
            no_instruction, [], 1, "step 0 (word 0x0000000000000002)",
            "3 packets to arrive, 6 packets to leave",
        ),
        (nothing, [LOST], 2, "step 1 END", "1 packet to arrive through port 1"),
    ],
    ids=["ready", "instruction", "packet"],
)
def test_the_rank_that_waits_says_where_and_for_what(
    ring, vectors, before, faults, rank, place, waits
):
    cluster = ring(NODES, options={"faults": faults})
    arrays = vectors(NODES, 100)
    for node in cluster.nodes:
        cluster.write(node, "watchdog", cycles=2000)
    before(cluster)
    with pytest.raises(NoProgressError) as error:
        cluster.all_reduce(arrays)
    assert str(error.value) == (
        f"node {rank} has made no progress for as long as its watchdog allows; commands "
        "outstanding: 1\n"
        f"  rank {rank}, FSM 0, context 0, chunk 0 of collective 0, {place}: waits for {waits}"
    )
    assert all(isinstance(each, NoProgressError) for each in cluster.reports.values())
    for place, word in cluster.program.words(0, rank=1).items():
        change(cluster, 1, place, word)
    assert_exact(cluster, arrays)


@pytest.mark.parametrize("channel, waits", [("r", "its load from memory"),
                                            ("b", "its store to memory")])
def test_memory_that_does_not_answer_is_named_though_no_abort_helps(ring, vectors, channel, waits):
    cluster = ring(NODES)
    for node in cluster.nodes:
        cluster.write(node, "watchdog", cycles=2000)
    cluster.nodes[1].pace_memory(0, [channel])
    said = f"rank 1, FSM 0, context 0, chunk 0 of collective 0: waits for {waits}"
    with pytest.raises(CycleLimitError, match=f"not finished .*; before that, .*\n  {said}$"):
        cluster.all_reduce(vectors(NODES, 100))
    assert str(cluster.reports[1]).endswith(said)


@pytest.mark.parametrize("cycles", [60, 120])
def test_ranks_beside_one_that_was_reset_say_what_they_miss(ring, vectors, cycles):
    cluster = ring(NODES)
    arrays = vectors(NODES, 600)
    start(cluster, arrays)
    for node in cluster.nodes:
        cluster.write(node, "watchdog", cycles=2000)
    cluster.system.advance(cluster.system.cycle + cycles)
    reset = cluster.nodes[1]
    reset.reset_engine(host=True)
    others = [cluster.nodes[rank] for rank in (0, 2)]
    for node in others:
        node.wait_irq()
    cluster.system.run(max_cycles=100_000, drain=False)
    said = {}
    for rank, node in zip((0, 2), others, strict=True):
        with pytest.raises(NoProgressError, match=f"^node {rank} ") as error:
            cluster.acknowledge(rank, node)
        _, *lines = str(error.value).split("\n  ")
        assert lines and all(each.startswith(f"rank {rank}, FSM 0, context ") for each in lines)
        said[rank] = lines
    # It has said no READY, and sent nothing.
    waits = [each.split(": waits for ")[1].split(", ")[0] for each in (*said[0], *said[2])]
    assert waits[:2] == ["READY of the peer on port 0"] * 2
    assert waits[2:] == [f"{packets} packets to arrive through port 1" for packets in (40, 12)]


def test_the_oldest_chunks_come_first_and_few_are_named(ring, vectors):
    """Rank 1 says no READY; of six chunks, in two FSMs, some of rank 0 cannot begin."""
    cluster = ring(NODES, config="duo")
    for node in cluster.nodes:
        cluster.write(node, "watchdog", cycles=2000)
    no_ready(cluster)
    for _ in range(255):
        cluster.next_collective()  # of 256 names; the one after the last is 0 again
    requests = [Request(inputs=vectors(NODES, 900, seed=n)) for n in range(3)]
    with pytest.raises(NoProgressError, match=r"^node 0 .*; commands outstanding: 3\n") as error:
        cluster.run(*requests)
    _, *lines = str(error.value).split("\n  ")
    chunks = [f"chunk {chunk} of collective {name}" for name in (255, 0) for chunk in (0, 1)]
    assert [each.split(", ")[3] for each in lines[:-1]] == chunks
    assert lines[-1] == "and 2 contexts more"


class _Ticket:
    def __init__(self, value):
        self.value = value


class _Stub:
    """An engine that shows one context, and a program word, as they are given."""

    number = 1

    def __init__(self, ring, word, fields):
        self.registers, self.system = ring.registers, self
        self._fields, self._place = fields, None
        self._words = {"program_word_low": word & 0xFFFF_FFFF, "program_word_high": word >> 32}

    def write(self, node, register, **fields):
        if register == "inspect":
            self._place = (fields["fsm"], fields["context"])

    def read(self, offset):
        name = next(n for n in self.registers.registers if self.registers.offset(n) == offset)
        layout = self.registers.registers[name]
        fields = self._fields if self._place == (0, 2) or "program" in name else {}
        known = {field.name: fields.get(field.name, 0) for field in layout.fields}
        return _Ticket(self._words.get(name, layout.pack(**known) if name in SHOWN else 0))

    def delay(self, cycles):
        pass

    def run(self, *, drain):
        assert not drain


LIVE = {"used": 1, "loaded": 1, "live": 1, "entry": ENTRY}


@pytest.mark.parametrize(
    "step, fields, waits",
    [
        (0, {"used": 1, "loaded": 1}, "its FSM to look its program up"),
        (0, {**LIVE, "port_0": 1, "leaving": 4}, "its turn in the FSM, 4 packets to leave"),
        (
            0, {**LIVE, "port_0": 1, "held_ports": 1, "leaving": 4},
            "the link of port 0 to take its packet, 4 packets to leave",
        ),
        (
            1, {**LIVE, "ready_ports": 2, "arriving": 1},
            "its own READY to leave through port 1, 1 packet to arrive through port 1",
        ),
        (1, {**LIVE, "ready_ports": 3}, "its own READY to leave through ports 0, 1"),
        (1, LIVE, "its store to memory"),
    ],
)
def test_everything_that_may_hold_a_context_has_words(ring, step, fields, waits):
    cluster = ring(NODES)
    word = cluster.program.words(0, rank=1)[ENTRY + step]
    stub = _Stub(cluster, word, fields | {"step": step, "collective": 3, "chunk": 5})
    (found,) = waiting(stub, stub, cluster.program, collectives=4)
    assert (found.rank, found.fsm, found.context, found.collective, found.chunk) == (1, 0, 2, 3, 5)
    assert ", ".join(found.awaited) == waits
    assert str(found).endswith(f": waits for {waits}")


def test_every_word_of_a_program_is_decoded(ring):
    """Of all that the compiler makes: decoding is the reverse of encoding."""
    program = ring(NODES).program
    for kind in CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER:
        for each in program.code(kind, fsm=0, rank=2).instructions:
            assert decode(each.encode()) == each
    with pytest.raises(ValueError):
        decode(2)


def test_programs_too_long_to_be_loaded_are_not_looked_for(ring):
    """A context in a program of software's own, on nodes whose reduce-scatter has too many steps.
    """
    paths = tuple(TorusPath(order=(0, 1), way=way, ports=((0, 1), (2, 3))) for way in (1, -1))
    torus = TorusPaths(shape=(48, 48), style="halves", paths=paths)
    config = replace(preset("duo"), ports=4, program_words=1024, max_nodes=4096, sram_bytes=1 << 20)
    program = AceProgram(config=config, nodes=torus.nodes, queues=2, torus=torus)
    stub = _Stub(ring(NODES), 0, {**LIVE, "entry": 512})
    (found,) = waiting(stub, stub, program, collectives=1)
    assert found.instruction == "END"
