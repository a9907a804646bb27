# SPDX-License-Identifier: Apache-2.0
"""One engine stands for a ring of them: the same cycles, beats, counters and bits, or a refusal."""

import re
from dataclasses import replace

import numpy as np
import pytest

import sim.rtl.driver
from hw.ace.config import preset
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from sim.collectives.ace_program import AceProgram
from sim.collectives.fold import check_alike
from sim.collectives.golden import ring_all_reduce
from sim.cycles.ace.model import EngineModel, completion_cycles
from sim.cycles.smartnic.model import check_ring
from sim.fields import FieldError, FoldError
from sim.hosts.command import Command
from sim.hosts.script import Compute, Interrupt, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring, Wire
from sim.network.network import Network
from sim.rtl.ace.ring import AceRing
from sim.rtl.driver import Request
from sim.rtl.harness.specs import HeaderFault
from sim.rtl.harness.system import CycleLimitError
from sim.runs.scripts import run_engines
from sim.workload.graph import CollectiveKind

REDUCE, SCATTER, GATHER = (
    CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER,
)
CALM = {"repeated": 0, "missing": 0, "damaged": 0, "unexpected": 0}


def vectors(settings, kind, elements, *, op=None, seed=0):
    """Vectors of all ranks: those of rank 0, with shards moved on by the rank."""
    rng = np.random.default_rng(seed)
    length = elements if kind is not GATHER else elements // settings.nodes
    own = rng.standard_normal(length).astype(np.float32)
    if op == "sum_i32":
        own = rng.integers(-(2**31), 2**31, length, dtype=np.int32)
    if kind is GATHER:
        return [own] * settings.nodes
    return [np.roll(own, rank * (elements // settings.nodes)) for rank in range(settings.nodes)]


def outcome(config, settings, requests, **options):
    """All that is known of each engine of a run, and the results of rank 0."""
    ring = AceRing(config, settings, **options)
    results = ring.run(*requests)
    run = ring.last_run
    seen = []
    for rank, node in enumerate(ring.nodes):
        ports = [ring.link_activity(rank, port) for port in range(2)]
        counters = [
            (name, index, ring.read(node, name, index))
            for name in ("parked", "starved", "sent", "received", *CALM) for index in range(2)
        ]
        seen.append((
            run.last_host_cycle[rank],
            [(each.beats, each.flits, each.header_flits, each.stalled_cycles, each.first_cycle,
              each.last_cycle) for each in ports],
            counters,
            [ring.read(node, name) for name in ("bank_conflicts", "alu_conflicts", "completed")],
            [ring.system.memory_activity(rank, 0).read_bursts],
        ))
    return (run.first_cycle, run.end_cycle), seen, [each[0].tobytes() for each in results]


def draw(rng, config):
    """A ring that is alike at all ranks, its command and vectors."""
    nodes = int(rng.integers(2, 9))
    settings = Surroundings(
        nodes=nodes, latency_cycles=int(rng.choice([1, 3, 16, 60])),
        beats_per_cycle=float(rng.choice([1.0, 0.6])),
        read_latency_cycles=int(rng.choice([5, 50])),
        write_latency_cycles=int(rng.choice([3, 20])),
        host_bytes_per_cycle=rng.choice([None, 20.0]), bidirectional=bool(rng.integers(2)),
    )
    step = nodes * config.lanes * config.banks
    count = 8 if config.banks > 1 else int(rng.integers(1, 120))
    return settings, rng.choice([REDUCE, SCATTER, GATHER]), step * count


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["test", "duo"])
def test_random_rings_are_equal_in_everything(name, seed):
    config = preset(name)
    settings, kind, elements = draw(np.random.default_rng([seed, len(name)]), config)
    op = str(np.random.default_rng(seed).choice(["sum_f32", "max_f32", "sum_i32"]))
    data = vectors(settings, kind, elements, op=op, seed=seed)
    request = Request(
        inputs=data, collective=kind, elements=elements, op=None if kind is GATHER else op
    )
    clock, ranks, results = outcome(config, settings, [request])
    folded = replace(settings, folded=True)
    one_clock, one, own = outcome(config, folded, [replace(request, inputs=data[:1])])

    assert one_clock == clock
    assert one == ranks[:1] and all(each == one[0] for each in ranks)
    assert own == results


@pytest.mark.parametrize("seed", range(60))
def test_random_rings_of_models_are_equal_in_everything(seed):
    rng = np.random.default_rng(seed)
    name = str(rng.choice(["test", "duo", "ring", "isca21"]))
    config = replace(preset(name), max_nodes=64, program_words=512)
    nodes = int(rng.choice([2, 4, 5, 8, 12, 27]))
    settings = Surroundings(
        nodes=nodes, latency_cycles=int(rng.choice([1, 16, 90, 300])),
        beats_per_cycle=float(rng.choice([1.0, 0.4])),
    )
    program = AceProgram(config=config, nodes=nodes, queues=config.first_fsms)
    counts = rng.permutation(np.arange(1, 200))
    kind = rng.choice([REDUCE, SCATTER, GATHER])
    for count in counts:
        elements = int(count) * nodes * config.lanes
        try:
            check_alike(program, elements, block=None, collective=kind)
        except FoldError:
            continue
        break
    command = Command(collective=kind, elements=elements, destination=4 * elements)
    script = [Compute(cycles=int(rng.integers(50))), Issue(command=0), Interrupt()]
    seen = []
    for each in (settings, replace(settings, folded=True)):
        model = EngineModel(config, each, [command], [script] * each.engines)
        model.run()
        ports = [
            [(found.beats, found.flits, found.header_flits, found.stalled_cycles,
              found.first_cycle, found.last_cycle)
             for found in (model.link_activity(rank, port) for port in range(2))]
            for rank in range(each.engines)
        ]
        state = model.state
        seen.append([
            (model.steps(rank).tolist(), model.completions()[rank].tolist(), ports[rank],
             state.node[rank][["bank_conflicts", "alu_conflicts"]].tolist(),
             state.port[rank]["parked"].tolist(),
             state.port[rank]["credits"][: config.ports].tolist())
            for rank in range(each.engines)
        ])
    whole, folded = seen
    assert folded == whole[:1] and all(each == folded[0] for each in whole)
    assert all(credits == [config.rx_packets] * config.ports for *_, credits in folded)


def test_queued_commands_scripts_and_retry_are_equal_too():
    config, settings = preset("test"), Surroundings(nodes=4, latency_cycles=9)
    data = vectors(settings, REDUCE, 512)
    requests = [
        Request(inputs=data), Request(inputs=data, collective=SCATTER, op="min_f32"),
        Request(inputs=data, in_place=True),
    ]
    for more in ({}, {"retry": RetryConfig(slots=16, timeout_cycles=200, tries=9)}):
        around = replace(settings, **more)
        clock, ranks, results = outcome(config, around, requests)
        one_clock, one, own = outcome(
            config, replace(around, folded=True),
            [replace(each, inputs=data[:1]) for each in requests],
        )
        assert (one_clock, one, own) == (clock, ranks[:1], results)


@pytest.mark.parametrize("level", ["rtl", "cycles"])
def test_scripts_of_hosts_end_in_the_same_cycles(level):
    config, settings = preset("duo"), Surroundings(nodes=5, latency_cycles=21)
    commands = [
        Command(elements=640 * n, source=n << 14, destination=n << 17) for n in (1, 3)
    ]
    script = [Issue(command=0), Compute(cycles=700), Issue(command=1), Reached(count=2)]
    data = [vectors(settings, REDUCE, each.elements) for each in commands]
    runs = [
        run_engines("ace", config, each, commands, [script] * each.engines,
                    [rows[: each.engines] for rows in data], levels=level)
        for each in (settings, replace(settings, folded=True))
    ]
    whole, folded = runs
    assert whole.steps == folded.steps * 5 and whole.begin == folded.begin
    assert (folded.checked, folded.wrong) == ((2, 0) if level == "rtl" else (0, 0))
    assert {key: each.beats for key, each in folded.links.items()} == {
        (0, port): whole.links[0, port].beats for port in range(2)
    }


def test_the_sums_are_those_of_vectors_moved_on():
    for nodes, queues, both, block in ((2, 1, True, None), (5, 2, True, 8), (7, 4, False, 16)):
        program = AceProgram(
            config=replace(preset("ring"), fsms=queues, memory_ports=1), nodes=nodes, queues=queues,
            bidirectional=both,
        )
        block = None if block is None else 2 * block * 8
        cut = program.cut(nodes * 1024, block=block, collective=CollectiveKind.ALL_REDUCE)
        settings = Surroundings(nodes=nodes)
        data = vectors(settings, REDUCE, cut.elements, seed=nodes)
        expected = ring_all_reduce(data, cut, bidirectional=both)
        found = program.rotated(
            data[0], op=ReduceOp.SUM_F32, block=block, collective=CollectiveKind.ALL_REDUCE
        )
        assert found.tobytes() == expected.tobytes()


def test_wrong_sums_of_the_engine_that_stands_for_all_are_seen(monkeypatch):
    """The engine's data are compared, with what is not simply its own vector."""
    settings = Surroundings(nodes=4, folded=True)
    (data,) = vectors(settings, REDUCE, 256)[:1]
    args = "ace", preset("test"), settings, [Command(elements=256, destination=4096)]
    script = [[Issue(command=0), Interrupt()]]
    assert run_engines(*args, script, [[data]]).wrong == 0
    monkeypatch.setattr(AceRing, "start_writes", _as_maximum(AceRing.start_writes))
    assert run_engines(*args, script, [[data]]).wrong == 1


def _as_maximum(start):
    return lambda ring, command, number: start(ring, replace(command, op=ReduceOp.MAX_F32), number)


def test_an_abort_of_all_is_equal_and_the_ring_works_on():
    config, settings = preset("test"), Surroundings(nodes=4, latency_cycles=40)
    data = vectors(settings, REDUCE, 2048)
    seen = []
    for each in (settings, replace(settings, folded=True)):
        ring = AceRing(config, each)
        own = data[: each.engines]
        with pytest.raises(CycleLimitError):
            ring.run(Request(inputs=own), max_cycles=3 * 400)
        ring.system.give_up_waits()
        ring.recover()
        begin = ring.system.cycle
        results = ring.run(Request(inputs=own))[0]
        seen.append((begin, ring.last_run.end_cycle, results[0].tobytes()))
        assert all(got.tobytes() == ring.golden(own).tobytes() for got in results)
    assert seen[0] == seen[1]


# ---- What makes ranks differ.


def rank_cycles(config, settings, kind, elements, *, block=None):
    command = Command(collective=kind, elements=elements, block=block, destination=1 << 20)
    script = [Issue(command=0), Interrupt()]
    model = EngineModel(config, settings, [command], [script] * settings.nodes)
    model.run()
    state = model.state
    return {
        (tuple(model.completions()[rank]), *state.port[rank]["beats"].tolist(),
         int(state.node[rank]["bank_conflicts"]))
        for rank in range(settings.nodes)
    }


@pytest.mark.parametrize(
    "name, nodes, elements, text",
    [
        ("test", 8, 8001, (r"elements cannot be 8001 where one engine stands for all 8 ranks: "
         r"shards of whole beats of 4 would be unequal; it works with 8000 or 8032 elements of")),
        ("test", 8, 3, "elements cannot be 3 .*; it works with 32 elements of 4 B"),
        ("duo", 6, 3000, (r"last block cannot be 20 .*: its 5 beats are no multiple of 2 banks, so "
         r".*; it works with 2976 or 3024 elements of 4 B, or fewer banks, or an interleave of "
         r"1 of the 2 banks$")),
        ("ring", 5, 6400, (r"block cannot be 320 .*: its 20 beats are no multiple of 8 banks, so .*"
         r"; it works with 5120 or 7040 elements of 4 B, or fewer banks, or an interleave of "
         r"4 of the 8 banks$")),
    ],
)
def test_vectors_that_make_ranks_differ_are_refused_with_one_that_does_not(
    name, nodes, elements, text
):
    config, settings = preset(name), Surroundings(nodes=nodes, latency_cycles=20)
    folded = replace(settings, folded=True)
    assert len(rank_cycles(config, settings, REDUCE, elements)) > 1
    for made in (
        lambda: EngineModel(config, folded, [Command(elements=elements)], [[Issue(command=0)]]),
        lambda: completion_cycles(config, folded, REDUCE, 4 * elements),
        lambda: run_engines("ace", config, folded, [Command(elements=elements)], [[]], None),
    ):
        with pytest.raises(FoldError, match=f"^{text}") as error:
            made()
        assert "\n" not in str(error.value)
    for near in map(int, re.findall(r"(\d+)(?= or \d+ elements| elements)", str(error.value))):
        assert len(rank_cycles(config, settings, REDUCE, near)) == 1
        completion_cycles(config, folded, REDUCE, 4 * near)


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"link_stalls": 0.1}, "link_stalls"),
        ({"memory_stalls": 0.1}, "memory_stalls"),
        ({"host_stalls": 0.1}, "host_stalls"),
        ({"link_loss": 0.1}, "link_loss"),
        ({"link_repetition": 0.1}, "link_repetition"),
        ({"link_damage": 0.1}, "link_damage"),
        ({"wiring": EngineWiring.ring(4, latency_cycles=1, beats_per_cycle=1.0)}, "wiring"),
    ],
)
def test_settings_that_make_ranks_differ_are_refused(changes, field):
    Surroundings(nodes=4, **changes)
    with pytest.raises(FoldError, match=f"^{field} must be .* where one engine stands for all"):
        Surroundings(nodes=4, folded=True, **changes)


def torus(shape, style, config, **options):
    network = Network.torus(shape, bandwidth_bytes_per_s=16e9, latency_s=20e-9, **options)
    return EngineWiring.by_dimension(
        network, style=style, fsms=config.fsms, clock_hz=1e9, bus_bytes=16
    )


def config_of(shape):
    links, more = 2 * len(shape), 4 if len(shape) > 2 else 1
    return replace(
        preset("test"), ports=links, alus=links, fsms=links, max_nodes=16 * more,
        program_words=256 * more, memory_ports=2, banks=2, sram_bytes=(64 << 10) * more,
    )


def test_rings_with_places_of_their_own_and_one_slow_link_are_refused():
    network = Network.torus((3, 3), bandwidth_bytes_per_s=16e9)
    hamiltonian = EngineWiring.hamiltonian(network, clock_hz=1e9, bus_bytes=16)
    with pytest.raises(FoldError, match=r"^wiring must be one ring of links alike, or paths"):
        Surroundings(nodes=9, wiring=hamiltonian, folded=True)
    paths = torus((3, 3), "baseline", config_of((3, 3)))
    there, back = paths.links[4]
    slow = replace(there, latency_cycles=99), replace(back, latency_cycles=99)
    unlike = replace(paths, links=(*paths.links[:4], slow, *paths.links[5:]))
    text = "^wiring must have links alike at all ranks .*, not another at port [0-3] of rank [1-8]$"
    with pytest.raises(FoldError, match=text):
        Surroundings(nodes=9, wiring=unlike, folded=True)
    Surroundings(nodes=9, wiring=paths, folded=True)


TORI = [
    ((3, 3), "baseline", {}), ((3, 4), "enhanced", {}), ((4, 2), "baseline", {}),
    ((4, 4), "multi_colour", {}), ((2, 2, 2), "dimension_ordered", {}),
    ((3, 3, 3), "multi_colour", {}), ((3, 3), "halves", {"placement": [4, 2, 0, 1, 3, 5, 8, 7, 6]}),
]


@pytest.mark.parametrize("kind", [REDUCE, SCATTER, GATHER])
@pytest.mark.parametrize(("shape", "style", "options"), TORI, ids=str)
def test_tori_of_models_are_equal_in_everything(shape, style, options, kind):
    config = replace(config_of(shape), fsms=2 * len(shape) if len(shape) < 3 else 12)
    wiring, nodes = torus(shape, style, config, **options), int(np.prod(shape))
    around = Surroundings(nodes=nodes, wiring=wiring)
    command = Command(collective=kind, elements=nodes * 128, destination=1 << 20)
    folded = modelled(config, replace(around, folded=True), command)
    assert modelled(config, around, command) == folded * nodes


def modelled(config, around, command):
    """All that is known of each engine of a model."""
    scripts = [[Issue(command=0), Interrupt()]] * around.engines
    model = EngineModel(config, around, [command], scripts)
    model.run()
    state = model.state
    return [
        (model.steps(rank).tolist(), model.completions()[rank].tolist(),
         state.port[rank][["beats", "flits", "packets", "stalled", "parked"]].tolist(),
         state.node[rank][["bank_conflicts", "alu_conflicts"]].tolist())
        for rank in range(around.engines)
    ]


@pytest.mark.parametrize(("shape", "style", "options"), [TORI[0], TORI[3], TORI[6]], ids=str)
def test_tori_in_rtl_are_equal_and_their_sums_compared(shape, style, options):
    config, nodes = config_of(shape), int(np.prod(shape))
    wiring = torus(shape, style, config, **options)
    folds_in_rtl(config, Surroundings(nodes=nodes, wiring=wiring), nodes * 128)


def folds_in_rtl(config, around, elements):
    """Compare all engines in RTL with the one that stands for them."""
    own = np.random.default_rng(0).standard_normal(elements).astype(np.float32)
    data = AceRing(config, around).program.images(own, collective=CollectiveKind.ALL_REDUCE)
    assert data[0].tobytes() == own.tobytes() != data[1].tobytes()
    seen = []
    for each in (around, replace(around, folded=True)):
        ring = AceRing(config, each)
        own = data[: each.engines]
        results = ring.run(Request(inputs=own))[0]
        assert results[0].tobytes() == ring.golden(own).tobytes()
        done = ring.last_run
        ports = {
            tuple((found.beats, found.stalled_cycles) for found in (
                ring.link_activity(rank, port) for port in range(config.ports)
            ))
            for rank in range(each.engines)
        }
        seen.append((done.end_cycle, {*done.last_host_cycle}, ports, results[0].tobytes()))
    assert seen[0] == seen[1] and len(seen[0][1]) == len(seen[0][2]) == 1


GROUPS = [((2, 2), 2304), ((2, 2, 2), 4608)]
"""Tori, and elements whose runs are a multiple of an interleave of 4 banks alone."""


def with_groups(shape):
    """An engine with groups of banks, and its torus."""
    config = replace(config_of(shape), banks=16, interleave=4)
    wiring = torus(shape, "multi_colour", config)
    return config, Surroundings(nodes=int(np.prod(shape)), wiring=wiring)


@pytest.mark.parametrize(("shape", "elements"), GROUPS, ids=str)
def test_tori_with_groups_of_banks_fold_with_blocks_that_do_not_lie_in_all(shape, elements):
    """Ranks differ without groups."""
    config, around = with_groups(shape)
    whole, folded = replace(config, interleave=0), replace(around, folded=True)
    command = Command(elements=elements, destination=1 << 20)

    assert len({*map(str, modelled(whole, around, command))}) > 1
    with pytest.raises(FoldError, match=r"or an interleave of [48] of the 16 banks$"):
        modelled(whole, folded, command)

    (one,) = modelled(config, folded, command)
    assert modelled(config, around, command) == [one] * around.nodes


@pytest.mark.full
@pytest.mark.parametrize(("shape", "elements"), GROUPS, ids=str)
def test_they_do_in_rtl(shape, elements):
    folds_in_rtl(*with_groups(shape), elements)


def test_a_block_that_is_no_multiple_of_the_interleave_is_refused_with_one_that_works():
    config = replace(config_of((2, 2)), banks=16, interleave=4)
    around = Surroundings(nodes=4, wiring=torus((2, 2), "multi_colour", config), folded=True)
    text = (
        r"^block cannot be 40 where .*: its 10 beats are no multiple of 4 banks, so .* rank; it "
        r"works with .* elements of 4 B, or fewer banks, or an interleave of 2 of the 16 banks$"
    )
    command = Command(elements=640, destination=1 << 20)
    with pytest.raises(FoldError, match=text):
        modelled(config, around, command)
    found = replace(config, interleave=2)
    (one,) = modelled(found, around, command)
    assert modelled(found, replace(around, folded=False), command) == [one] * 4


@pytest.mark.parametrize("folded", [1, "yes", None])
def test_folded_is_true_or_false(folded):
    with pytest.raises(FieldError, match="folded must be True or False, not"):
        Surroundings(nodes=4, folded=folded)


def test_other_engines_do_not_fold():
    with pytest.raises(FoldError, match=r"^folded needs ACE: NICs do not stand for one"):
        check_ring(Surroundings(nodes=4, folded=True))


def test_what_befalls_one_rank_is_refused_before_anything_is_compiled(monkeypatch):
    def compiles(*args, **options):
        raise AssertionError("compiled")

    monkeypatch.setattr(sim.rtl.driver, "compile_configured", compiles)
    monkeypatch.setattr(sim.rtl.driver, "_compiled", compiles)
    folded = Surroundings(nodes=4, folded=True)
    for option in (
        {"faults": [HeaderFault(node=0, port=0, packet=1, bits=(1,))]}, {"ranks": [0, 1]},
    ):
        with pytest.raises(FoldError, match=f"^{next(iter(option))} must be none where one engine"):
            AceRing("test", folded, **option)
    with pytest.raises(FoldError, match=r"^elements cannot be 1001"):
        run_engines("ace", preset("test"), folded, [Command(elements=1001)], [[]], [[]])
    with pytest.raises(FieldError, match="levels must be rtl or cycles, for all or each of 1"):
        run_engines("ace", preset("test"), folded, [], [[]], [], levels=["rtl"] * 3 + ["cycles"])
    with pytest.raises(AssertionError, match="compiled"):
        AceRing("test", folded)


def test_what_befalls_a_node_alone_is_refused_and_the_ring_works_on():
    ring = AceRing("test", Surroundings(nodes=4, folded=True))
    node = ring.nodes[0]
    for name, call in (
        ("reset_engine", node.reset_engine),
        ("pace_memory", node.pace_memory),
        ("fail_memory", lambda: node.fail_memory(0, 64)),
        ("faults", lambda: ring.system.inject(HeaderFault(node=0, port=0, packet=1, bits=(1,)))),
        ("strain", lambda: ring.system.strain(0, 0, loss=0.5)),
        ("cut", lambda: ring.system.cut(0, 1)),
    ):
        with pytest.raises(FoldError, match=f"^{name} cannot befall one node of 4"):
            call()
    data = vectors(ring.settings, REDUCE, 64)[:1]
    with pytest.raises(FoldError, match=r"^start_skew_cycles must be 0 where one engine"):
        ring.run(Request(inputs=data), start_skew_cycles=3)
    text = r"inputs must be one array for the engine that stands for all \(1\), not 4"
    with pytest.raises(ValueError, match=text):
        ring.all_reduce(data * 4)
    assert ring.all_reduce(data)[0].tobytes() == ring.golden(data).tobytes()


def test_the_wire_of_a_folded_ring_leads_back_to_its_engine():
    wiring = Surroundings(nodes=4, latency_cycles=7, folded=True).wired()
    assert wiring.wires == [
        Wire(rank=0, port=0, peer=0, peer_port=1, latency_cycles=7),
        Wire(rank=0, port=1, peer=0, peer_port=0, latency_cycles=7),
    ]


def test_rings_beyond_what_headers_and_programs_name_are_refused():
    config = replace(
        preset("torus"), contexts=4, fsms=2, memory_ports=2, sram_bytes=2 << 20, max_nodes=1024,
        program_words=8192,
    )
    for nodes in (1025, 4096, 97336):
        text = f"nodes must be from 2 to 1024 for this engine, not {nodes}"
        with pytest.raises(ValueError, match=text):
            AceRing(config, Surroundings(nodes=nodes, folded=True))
    AceRing.check(config, Surroundings(nodes=1024, folded=True))
