# SPDX-License-Identifier: Apache-2.0
"""Own algorithms in the programs of ACE: models take the cycles of RTL, sums are numpy's."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from foldwire.cli import main
from sim.collectives import plan as plans
from sim.collectives.algorithm import Algorithm, Group, Listed, Neighbour, Round
from sim.collectives.outcome import check_outcome
from sim.collectives.ring import RING
from sim.describe.reader import ConfigError
from sim.hosts.surroundings import Surroundings
from sim.results.store import load_run
from sim.run import run
from sim.sweep.points import make_points
from sim.sweep.spec import read
from sim.workload.graph import CollectiveKind

ALL_REDUCE = CollectiveKind.ALL_REDUCE


def ring_of(name, first):
    """An all-reduce against the ring's direction, whose block b starts at the member first(b)."""

    def rounds(group):
        size, way = group.size, -group.way
        starts = [first(block, size) for block in range(size)]

        def send(at, turns=0):
            return [[starts.index((rank - way * (at.step + turns)) % size)] for [rank] in at.rank]

        to = Neighbour(way)
        return [
            Round(to=to, send=send, reduce=True, times=size - 1),
            Round(to=to, send=lambda at: send(at, size - 1), times=size - 1),
        ]

    return Algorithm(name=name, collectives={ALL_REDUCE: rounds})


BACK = ring_of("back", lambda block, size: block)
SWAPPED = ring_of("swapped", lambda block, size: 1 - block if block < 2 else block)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(plans, "ALGORITHMS", dict(plans.ALGORITHMS))
    for each in (BACK, SWAPPED):
        plans.register(each)


def described(name, level, *, nodes=4, collective="all_reduce", elements=812, **tables):
    return {
        "topology": {"kind": "ring", "shape": [nodes], "bandwidth_bytes_per_s": 19.92e9,
                     "latency_s": 8e-9},
        "endpoint": {"kind": "ace", "preset": "test", "level": level},
        "algorithm": {"reductions": [name]},
        "workload": {"collective": collective, "size_bytes": 4 * elements},
        "run": {"passes": 1},
        **tables,
    }


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_models_take_the_cycles_of_rtl_whose_sums_are_numpys(nodes):
    rtl = run(described("back", "rtl", nodes=nodes))
    model = run(described("back", "cycles", nodes=nodes))

    assert rtl.data.exact and rtl.data.results == nodes
    assert model.engines.cycles == rtl.engines.cycles
    assert "programs of algorithm back" in rtl.record.notes


def test_an_algorithm_that_differs_from_place_to_place_runs_as_rtl():
    assert run(described("swapped", "rtl")).data.exact
    with pytest.raises(ConfigError, match=r"swapped does not do the same at all places: its all_r"):
        run(described("swapped", "cycles"))


def test_two_commands_and_stalls_with_another_seed():
    more = {
        "run": {"passes": 2, "seed": 5},
        "network": {"stall_probability": 0.2},
        "memory": {"stall_probability": 0.1},
    }
    rtl = run(described("back", "rtl", **more))

    assert rtl.data.exact and rtl.data.results == 8
    # A stall holds back what goes then, so the model has other ones: cycles are alike, not equal.
    cycles = run(described("back", "cycles", **more)).engines.cycles
    assert cycles == pytest.approx(rtl.engines.cycles, rel=0.1)


def test_collectives_that_it_does_not_do_are_those_of_the_ring():
    """Both programs are in the store of the engine."""
    from hw.ace.config import preset
    from sim.collectives.ace_program import AceProgram

    own = AceProgram(config=preset("test"), nodes=4, queues=1, algorithm=BACK)
    ring = AceProgram(config=preset("test"), nodes=4, queues=1)

    gather = CollectiveKind.ALL_GATHER
    assert own.code(gather, fsm=0, rank=1) == ring.code(gather, fsm=0, rank=1)
    assert own.code(ALL_REDUCE, fsm=0, rank=1) != ring.code(ALL_REDUCE, fsm=0, rank=1)
    assert own.algorithm_of(gather) is RING


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("back", {"workload.collective": "all_gather"}, "algorithm that does all_gather, not"),
        ("direct", {}, "does not run at level 'rtl': peers of direct all_reduce must be neighbo"),
        ("back", {"run.fold": "on"}, "algorithm must be None where one engine stands for all"),
        ("back", {"endpoint.on": [{"nodes": [0], "level": "cycles"}]}, "among nodes of several"),
        ("back", {"endpoint.kind": "smartnic", "topology.bandwidth_bytes_per_s": 6.4e9},
         "must be absent for 'smartnic', whose programs are fixed"),
        ("back", {"topology.shape": [4, 2], "topology.kind": "torus", "endpoint.preset": "torus",
                  "algorithm.reductions": ["back", "ring"]}, "where programs have phases"),
        ("bakc", {}, "must be of ring, adding_ring"),
    ],
)
def test_what_no_program_does_is_refused_in_a_line(name, changes, message):
    with pytest.raises(ConfigError, match=r"algorithm|run.fold") as error:
        run(described(name, "rtl"), changes=changes)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_surroundings_take_algorithms_only():
    with pytest.raises(ValueError, match=r"^algorithm must be an Algorithm or None, not 'ring'$"):
        Surroundings(nodes=2, algorithm="ring")


# ---- From the command line.

MINE = """
from dataclasses import replace
from sim.collectives.plan import register
from sim.collectives.algorithm import Algorithm
from sim.collectives.ring import RING

register(Algorithm(name="mine", collectives=dict(RING.collectives)))
"""
SYSTEM = """
[topology]
kind = "ring"
shape = [2]
bandwidth_bytes_per_s = 19.92e9
latency_s = 8e-9
[endpoint]
kind = "ace"
preset = "test"
level = "{level}"
[algorithm]
reductions = ["mine"]
[workload]
collective = "all_reduce"
size_bytes = 800
[run]
passes = 1
"""


@pytest.mark.parametrize("level", ["events", "cycles", "rtl"])
def test_a_file_that_is_loaded_registers_what_a_description_names(tmp_path, capsys, level):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "system.toml").write_text(SYSTEM.format(level=level))
    signals = ["--trace-signals", "*.fsm_state"] if level == "rtl" else []
    code = main(["sim", str(tmp_path / "system.toml"), "--load", str(tmp_path / "mine.py"),
                 "-o", str(tmp_path), *signals])
    captured = capsys.readouterr()

    assert code == 0, captured.err
    told = json.loads((tmp_path / "system" / "run.json").read_text())
    assert f"--load {tmp_path / 'mine.py'}" in json.dumps(told)
    if level == "rtl":
        assert "of 2 results all equal numpy's" in " ".join(captured.out.split())
        assert "fsm_state" in (tmp_path / "system" / "signals.vcd").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "mine.py: cannot be read: no such file; --load takes Python files"),
        ("x = 1\ny = x / 0\n", "mine.py:2: ZeroDivisionError: division by zero"),
        ("def x(\n", "mine.py:1: '(' was never closed"),
        (MINE.replace('"mine"', '"ring"'), "mine.py:7: FieldError: name must not be 'ring', which"),
        ("import sys\nsys.exit(7)\n", "mine.py:2: sys.exit(7): must not end the command that"),
    ],
)
def test_a_file_that_fails_is_one_line(tmp_path, capsys, text, message):
    file: Path = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    (tmp_path / "system.toml").write_text(SYSTEM.format(level="events"))
    code = main(["sim", str(tmp_path / "system.toml"), "--load", str(file), "-o", str(tmp_path)])
    err = capsys.readouterr().err

    assert code == 2
    assert message in err and err.count("\n") == 1


SWEPT = 'base = "system.toml"\n[grid]\nworkload.size_bytes = [400, 800]\n'


def test_processes_of_a_sweep_load_the_file_as_well(tmp_path, capsys):
    for name, text in (("mine.py", MINE), ("system.toml", SYSTEM.format(level="events")),
                       ("sweep.toml", SWEPT)):
        (tmp_path / name).write_text(text)
    command = ["sweep", str(tmp_path / "sweep.toml"), "--workers", "1", "-o", str(tmp_path / "out")]

    def swept():
        plans.ALGORITHMS.pop("mine", None)  # this process is to be a new command
        code = main([*command, "--load", str(tmp_path / "mine.py")])
        captured = capsys.readouterr()
        return code, " ".join(captured.out.split()), captured.err

    code, out, err = swept()
    assert code == 0 and "2 points, 0 of them from before" in out, err
    (tmp_path / "mine.py").write_text("1 / 0\n")
    code, _, err = swept()
    again = make_points(read(tmp_path / "sweep.toml"), runner="", version="",
                        load=[tmp_path / "mine.py"])
    (tmp_path / "mine.py").write_text("1 / 1\n")
    other = make_points(read(tmp_path / "sweep.toml"), runner="", version="",
                        load=[tmp_path / "mine.py"])
    assert {each.key for each in again}.isdisjoint(each.key for each in other)
    assert (code, err.count("\n")) == (2, 1) and "mine.py:1: ZeroDivisionError: division by" in err


def test_what_a_file_prints_does_not_disturb_json(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(MINE + "print('registered')\n")
    (tmp_path / "system.toml").write_text(SYSTEM.format(level="events"))
    load = ["--load", str(tmp_path / "mine.py")]
    assert main(["sim", str(tmp_path / "system.toml"), *load, *load, "--json",
                 "-o", str(tmp_path)]) == 0
    captured = capsys.readouterr()

    assert json.loads(captured.out)["folder"] == str(tmp_path / "system")
    assert captured.err.count("registered") == 1


def test_a_folder_loads_its_files_again(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "system.toml").write_text(SYSTEM.format(level="events"))
    command = ["sim", str(tmp_path / "system.toml"), "--load", str(tmp_path / "mine.py")]
    assert main([*command, "-o", str(tmp_path / "a")]) == 0
    for name in ("mine.py", "system.toml"):
        (tmp_path / name).unlink()
    moved = (tmp_path / "a/system").rename(tmp_path / "moved")
    told = load_run(moved)
    assert "inputs/mine.py" in told.origin["files"]
    assert 'load = [\n    "inputs/mine.py",\n]' in (moved / "system.toml").read_text()

    plans.ALGORITHMS["mine"] = BACK  # as another file of that name has registered it
    assert main(["sim", str(moved / "system.toml"), "-o", str(tmp_path / "b")]) == 0
    assert load_run(tmp_path / "b/moved").metrics == told.metrics
    assert plans.ALGORITHMS.pop("mine") is not BACK
    assert run(moved / "system.toml").metrics == told.metrics
    capsys.readouterr()


def test_files_to_load_may_be_given_to_run(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    saved = run(described("mine", "events"), load=[tmp_path / "mine.py"]).save(
        tmp_path / "a", figures=False)

    assert (tmp_path / "a/inputs/mine.py").read_text() == MINE
    assert run(tmp_path / "a/system.toml").metrics == saved.metrics
    with pytest.raises(ConfigError, match=r"^system: load: must be a list of Python files, as lo"):
        run(described("mine", "events", load="mine.py"))
    with pytest.raises(ConfigError, match=r"no.py: cannot be read: no such file"):
        run(described("mine", "events"), load=["no.py"])


def test_a_folder_says_what_it_needs_where_no_file_registered_it(tmp_path):
    run(described("back", "events")).save(tmp_path, figures=False)

    text = (tmp_path / "system.toml").read_text()
    assert "again: foldwire sim THIS_FILE --load FILE\n# FILE is Python that registers back" in text


# ---- Functions that are wrong.

ALL_GATHER = CollectiveKind.ALL_GATHER


def failing(_):
    return 1 // 0


def lacking(at):
    return (at.rank + 1) % 4


def gather(send=None, **changes):
    """The functions of an all-gather round a ring, with a fault."""
    made = {"to": Neighbour(1), "send": send or (lambda at: (at.rank - at.step) % 4), "times": 3}
    rounds = [Round(**(made | changes))]
    return lambda group: rounds


FAULTS = {
    "block": (gather(lambda at: at.rank - at.step),
              "send must return blocks from 0 to 3, not -1 for rank 0 in step 1"),
    "float": (gather(lambda at: at.rank / 2), "send must return whole numbers of blocks, not arr"),
    "shape": (gather(lambda at: [[0], [1]]),
              "send must return a number, a column or a row for each of"),
    "count": (gather(lambda at: at.rank.repeat(at.step + 1, 1)),
              "send must return as many blocks in every step, 1, not 2 in step 1"),
    "raises": (gather(failing), "ZeroDivisionError: integer division or modulo by zero"),
    "function": (failing, "ZeroDivisionError: integer division or modulo by zero"),
    "rank": (gather(to=Listed((1, 2, 3, 4))), "the peer of rank 3 must be from 0 to 3, or -1 for"),
    "few": (gather(to=Listed((1, 2))), "must be a peer for each of 4, not 2"),
    "to": (gather(to=1), "to must be of Neighbour, Shift, Exchange or Listed, not 1"),
    "times": (gather(times=0), "times must be an integer of at least 1, not 0"),
    "none": (lambda group: None, "must return a list of Round, not None"),
    "empty": (lambda group: [], "must return at least one Round, not []"),
    "lacks": (gather(lacking), "member 0 does not have block 1 to send"),
    "ends": (gather(times=2), "member 0 must end with block 1, and ends with something else"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_function_is_one_line_with_its_place_at_every_level(name):
    function, message = FAULTS[name]
    plans.register(Algorithm(name=name, collectives={ALL_GATHER: function}))
    for level in ("events", "cycles"):
        with pytest.raises(ConfigError) as error:
            run(described(name, level, collective="all_gather", elements=400))
        text = str(error.value)
        assert message in text and "\n" not in text
        line = f":{failing.__code__.co_firstlineno + 1}: " if function is failing else ":"
        assert text.startswith(__file__ + line)
        assert f"algorithm {name}, all_gather in a group of 4" in text


@pytest.mark.parametrize("kind", [*CollectiveKind])
def test_right_algorithms_pass_and_one_wrong_member_does_not(kind):
    rounds = next(each for each in plans.BUILT_IN.values() if each.does(kind)).rounds

    def spoilt(group):
        return [
            replace(each, send=lambda at, send=each.send: send(at) * (at.rank > 0))
            for each in rounds(kind, group)
        ]

    right = Algorithm(name="a", collectives={kind: lambda group: rounds(kind, group)})
    wrong = Algorithm(name="b", collectives={kind: spoilt})
    for size in (2, 4, 8, 96):  # the last as 48
        check_outcome(right, kind, Group(shape=(size,)))
    with pytest.raises(ValueError, match=r"algorithm b, .* in a group of 8: member"):
        check_outcome(wrong, kind, Group(shape=(8,)))
