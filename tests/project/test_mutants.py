# SPDX-License-Identifier: Apache-2.0
"""Mutants of hw/ by themselves, and what becomes of those of a small design."""

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bench.mutants import PER_GROUP, Campaign, Judge, pool, summary
from bench.mutation.blocks import BLOCKS, GROUPS, Block, block_of
from bench.mutation.draw import KINDS, draw, mutants
from bench.mutation.proof import changed_modules
from bench.mutation.semantic import SEMANTIC_KINDS
from bench.mutation.trial import Lane, Outcome, Store

ROOT = Path(__file__).resolve().parents[2]

SMALL = '''"""A design; 1 == 1 here is text."""
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

class Small(wiring.Component):
    """Less than, and what is unseen."""

    def __init__(self, width=4):
        assert width > 1, f"width must be above 1, not {width - 1}"
        super().__init__({"a": In(width), "b": In(width), "less": Out(1), "unseen": Out(1)})

    @property
    def latency(self):
        return 1 + 1

    def elaborate(self, platform):
        m = Module()
        limit = Signal(4 + 4, init=3)
        if platform == 7:
            raise ValueError(f"{platform + 1}")
        m.d.comb += [self.less.eq(self.a < self.b), limit.eq(self.a[:2] + 1)]
        with m.If(~self.a.any()):
            m.d.comb += self.unseen.eq(Mux(self.b[0], limit == 1, 0))
        return m
'''

TEST = '''
import pytest
from amaranth.sim import Simulator
from hw.small import Small

@pytest.mark.parametrize("all", [True], ids=["of every - pair"])
def test_less(all):
    dut = Small()

    async def bench(ctx):
        for a in range(16):
            for b in range(16):
                ctx.set(dut.a, a), ctx.set(dut.b, b)
                assert ctx.get(dut.less) == (a < b)

    sim = Simulator(dut)
    sim.add_testbench(bench)
    sim.run()
'''

LESS = "tests/hw/test_small.py::test_less[of every - pair]"

DESIGNS = '''
import sys
from pathlib import Path
from gen.rtlil import to_rtlil
from hw.small import Small

folder = Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
(folder / "0.il").write_text(to_rtlil(Small(), name="design"))
(folder / "0.v").write_text("")
'''

BLOCK = Block(group="fp+bfp", files=("small",), designs="small", tests=("small", "other"))


def _rtlil(**bodies):
    return "".join(
        f"module \\{name.replace('__', '.')}\n{body}end\n" for name, body in bodies.items()
    )


def test_a_proof_begins_at_what_changed():
    port, other = "  wire width 2 input 0 \\a\n", "  wire width 3 input 0 \\a\n"
    source = '  attribute \\src "hw/a.py:7"\n'
    before = {"design": "  cell \\x y\n", "design__a": port, "design__a__b": port, "design__c": ""}

    assert changed_modules(_rtlil(**before), _rtlil(**before)) == []
    assert changed_modules(_rtlil(**before), _rtlil(**before | {"design__c": source})) == []
    inner = before | {"design__a__b": port + "  cell $not $1\n"}
    assert changed_modules(_rtlil(**before), _rtlil(**inner)) == ["design.a.b"]
    ports = before | {"design__a__b": other, "design__c": "  cell $not $1\n"}
    assert changed_modules(_rtlil(**before), _rtlil(**ports)) == ["design.a", "design.c"]
    top = inner | {"design": ""}
    assert changed_modules(_rtlil(**before), _rtlil(**top)) == ["design"]


def test_what_makes_hardware_is_changed_and_nothing_else():
    found = mutants("hw/small.py", SMALL)

    assert [(each.kind, each.before, each.after) for each in found if each.kind != "constant"] == [
        ("comparison", "self.a < self.b", "(self.a < self.b)".replace("<", "<=")),
        ("arithmetic", "self.a[:2] + 1", "(self.a[:2] - 1)"),
        ("dropped", "self.less.eq(self.a < self.b)", "[]"),
        ("dropped", "limit.eq(self.a[:2] + 1)", "[]"),
        ("slice", "2", "(2) + 1"),
        ("logic", "self.a.any()", "(self.a).all()"),
        ("condition", "~self.a.any()", "(~self.a.any()) == 0"),
        ("condition", "~self.a.any()", "(self.a.any())"),
        ("comparison", "limit == 1", "(limit != 1)"),
        ("branches", "Mux(self.b[0], limit == 1, 0)", "Mux(self.b[0], 0, limit == 1)"),
        ("dropped", "m.d.comb += self.unseen.eq(Mux(self.b[0], limit == 1, 0))", "pass"),
    ]
    constants = [(int(each.before), int(each.after[1:-1])) for each in found
                 if each.kind == "constant"]
    assert [before for before, _ in constants] == [3, 1, 0, 1, 0]
    assert all(abs(before - after) == 1 and after >= 0 for before, after in constants)
    assert {each.kind for each in found} == set(KINDS)


def test_every_mutant_is_the_file_with_one_change():
    for mutant in mutants("hw/small.py", SMALL):
        ast.parse(mutant.source)
        assert mutant.source != SMALL
        assert len(mutant.source) - len(SMALL) == len(mutant.after) - len(mutant.before)
    assert len({each.identity for each in mutants("hw/small.py", SMALL)}) > 10


def test_a_draw_hangs_on_the_seed_and_not_on_other_files():
    one, other = mutants("hw/one.py", SMALL), mutants("hw/other.py", SMALL)

    order = draw(one, 1)

    assert draw(list(reversed(one)), 1) == order != draw(one, 2)
    assert [each for each in draw(one + other, 1) if each.path == "hw/one.py"] != []
    assert len({(each.path, each.line) for each in order}) == len(order)
    changed = mutants("hw/one.py", SMALL.replace("A design", "One design, longer"))
    assert [each.identity for each in draw(changed, 1)] == [each.identity for each in order]


def test_every_file_that_makes_hardware_is_in_one_block_whose_tests_exist():
    for path in sorted((ROOT / "hw").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        found = mutants(name, path.read_text(encoding="utf-8"))
        if found:
            assert block_of(name) is not None, f"{name} is in no blocks.toml"
        for mutant in found[::40]:
            ast.parse(mutant.source)
    assert {block.group for block in BLOCKS.values()} == set(GROUPS)
    named = [name for block in BLOCKS.values() for name in block.files]
    assert len(set(named)) == len(named)
    for block in BLOCKS.values():
        for name in block.files:
            assert len(list((ROOT / "hw").glob(f"{name}.py"))) > 0, name
        for test in block.test_paths():
            assert (ROOT / test).is_file(), test


QUEUE = '''"""A place for a packet."""
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring

class Queue(wiring.Component):
    """One at a time."""

    def elaborate(self, platform):
        m = Module()
        count, age, held, owed = Signal(4), Signal(4), Signal(), Signal()
        takes = self.i.valid & self.room & ~self.flush
        with m.If(takes & (count < 7)):
            m.d.sync += [
                age.eq(0), held.eq(self.i.p.source & 0xF), self.row.eq(self.i.p.address),
                self.label.eq(self.i.p.tag),
            ]
        with m.If(self.flush):
            m.d.sync += [count.eq(0), held.eq(0)]
        with m.If(self.o.ready):
            m.d.sync += owed.eq(owed + 1)
        m.d.comb += self.credit.eq(owed != 0)
        self.table.forget(self.place)
        return m
'''


def test_semantic_mutants_are_mistakes_of_meaning():
    found = mutants("hw/queue.py", QUEUE, semantic=True)

    assert {(each.kind, each.before, each.after) for each in found} == {
        ("wrong-guard", "self.i.valid & self.room & ~self.flush",
         "((self.room) & (~self.flush))"),
        ("lost-stall", "self.i.valid & self.room & ~self.flush",
         "((self.i.valid) & (~self.flush))"),
        ("wrong-guard", "self.i.valid & self.room & ~self.flush",
         "((self.i.valid) & (self.room))"),
        ("wrong-guard", "takes & (count < 7)", "((count < 7) & ~(takes))"),
        ("wrong-guard", "takes & (count < 7)", "((takes))"),
        ("bound-off", "count < 7", "(count <= 7)"),
        ("not-renewed", "age.eq(0)", "[]"),
        ("swapped", "self.i.p.source", "self.i.p.destination"),
        ("swapped", "self.row.eq(self.i.p.address),\n                self.label.eq(self.i.p.tag)",
         "self.row.eq(self.i.p.tag), self.label.eq(self.i.p.address)"),
        ("not-flushed", "count.eq(0)", "[]"),
        ("not-flushed", "held.eq(0)", "[]"),
        ("lost-stall", "self.o.ready", "1"),
        ("no-give-back", "m.d.sync += owed.eq(owed + 1)", "pass"),
        ("no-give-back", "m.d.comb += self.credit.eq(owed != 0)", "pass"),
        ("bound-off", "owed != 0", "(owed != (0) + 1)"),
        ("no-give-back", "self.table.forget(self.place)", "pass"),
    }
    assert {each.kind for each in found} == set(SEMANTIC_KINDS)
    for mutant in found:
        ast.parse(mutant.source)
    assert len({each.kind for each in draw(found, 1)[:5]}) == 5


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_semantic_mutants_enough(group):
    found = draw(pool(ROOT, group, semantic=True), 1)

    assert len(found) >= 3 * PER_GROUP["semantic"]
    assert len({each.kind for each in found}) >= 5


def test_a_campaign_names_its_survivors():
    campaign = Campaign("semantic", ["switch", "ace"])
    one, other, *_ = mutants("hw/queue.py", QUEUE, semantic=True)
    campaign.found["switch"] = [
        (one, Outcome(verdict="killed")), (other, Outcome(verdict="survived"))
    ]

    assert campaign.survivors() == f"hw/queue.py:{other.line}:{other.kind}" != "none"
    assert any(str(other) in line for line in campaign.table()) and not campaign.met
    assert set(campaign.killed_by_kind().values()) <= {0.0, 50.0, 100.0}
    campaign.found = {
        group: [(one, Outcome(verdict="killed"))] * 75 for group in ("switch", "ace")
    }
    assert campaign.met and campaign.survivors() == "none"
    campaign.found["ace"][:5] = [(one, Outcome(verdict="timeout"))] * 5
    assert not campaign.met


@pytest.fixture
def judge(tmp_path):
    """Judges mutants of the small design, in a tree that has nothing else."""
    root = tmp_path / "root"
    for name, text in {
        "hw/small.py": SMALL, "tests/hw/test_small.py": TEST,
        "tests/hw/test_other.py": "def test_other():\n    pass\n",
        "bench/mutation/designs.py": DESIGNS, "pyproject.toml": "",
        "hw/__init__.py": "", "bench/__init__.py": "", "bench/mutation/__init__.py": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copytree(ROOT / "gen", root / "gen", ignore=shutil.ignore_patterns("__pycache__"))
    lane = Lane(root, tmp_path / "lane", tmp_path / "warm")
    judge = Judge(
        root, [lane], Store(tmp_path / "store"), tmp_path / "designs", timeout=60, arguments={}
    )
    judge.prepare(BLOCK)
    yield judge
    judge.close()


def the(kind, before):
    return next(
        each for each in mutants("hw/small.py", SMALL) if (each.kind, each.before) == (kind, before)
    )


def test_a_mutant_is_killed_or_proved_equal_or_survives_and_is_not_judged_twice(judge, tmp_path):
    killed, known = judge.judge(the("comparison", "self.a < self.b"), BLOCK)
    assert (killed.verdict, killed.how) == ("killed", LESS)
    assert not known and judge.judge(the("comparison", "self.a < self.b"), BLOCK) == (killed, True)
    judge.confirm([killed.how])

    # Another bit of what is zero wherever it is looked at.
    equal, _ = judge.judge(the("slice", "2"), BLOCK)
    assert (equal.verdict, equal.how) == ("equivalent", "proved equal for ever")

    alive, _ = judge.judge(the("condition", "~self.a.any()"), BLOCK)
    assert alive.verdict == "survived"
    assert summary([killed, equal, alive]) == {
        "mutants": 3, "killed": 1, "equivalent": 1, "survivors": 1, "argued": 0, "killed_pct": 50,
    }


def test_a_change_of_the_tests_asks_the_test_that_killed_before_first(judge, tmp_path):
    mutant = the("dropped", "self.less.eq(self.a < self.b)")
    judge.judge(mutant, BLOCK)
    path = tmp_path / "root" / "tests" / "hw" / "test_small.py"
    path.write_text("def test_slow():\n    pass\n" + TEST)
    lane = judge._lanes.get()
    (lane.tree / path.relative_to(tmp_path / "root")).write_text(path.read_text())
    judge._lanes.put(lane)
    asked = []
    lane.first_failure, ask = lambda tests, **o: asked.append(tests) or ask(tests, **o), \
        lane.first_failure

    outcome, known = judge.judge(mutant, BLOCK)

    assert not known and outcome.verdict == "killed"
    assert asked == [[LESS]]


def test_a_change_of_comments_and_docstrings_is_none(judge, tmp_path):
    mutant, path = the("comparison", "self.a < self.b"), tmp_path / "root" / "hw" / "small.py"
    before, _ = judge.judge(mutant, BLOCK)

    path.write_text(SMALL.replace("Less than", "Below").replace("Module()", "Module()  # logic"))
    assert judge.judge(mutant, BLOCK) == (before, True)

    path.write_text(SMALL.replace("limit == 1", "limit == 2"))
    assert not judge.judge(mutant, BLOCK)[1]


def test_a_change_of_other_tests_leaves_killed_mutants_killed_and_asks_about_survivors(
    judge, tmp_path
):
    killed, alive = the("comparison", "self.a < self.b"), the("condition", "~self.a.any()")
    before = [judge.judge(mutant, BLOCK)[0] for mutant in (killed, alive)]
    assert [each.verdict for each in before] == ["killed", "survived"]
    (tmp_path / "root" / "tests" / "hw" / "test_other.py").write_text("def test_another(): pass\n")

    assert judge.judge(killed, BLOCK) == (before[0], True)
    assert not judge.judge(alive, BLOCK)[1]
    without = replace(BLOCK, tests=("other",))
    assert judge.judge(killed, without)[0].verdict == "survived"


def test_a_test_that_fails_without_a_mutant_proves_nothing(judge, tmp_path):
    lane = judge._lanes.get()
    (lane.tree / "tests" / "hw" / "test_small.py").write_text("def test_less():\n    assert 0\n")
    judge._lanes.put(lane)

    with pytest.raises(RuntimeError, match=r"without any mutant, tests/hw/.*::test_less fails"):
        judge.confirm(["tests/hw/test_small.py::test_less"])


def test_what_cannot_be_built_or_changes_nothing_is_not_counted(judge):
    broken = replace(the("slice", "2"), source=SMALL.replace("self.a[:2]", "self.a[:2, 1]"))
    idle = the("constant", "3")  # the initial value of a signal that is always driven

    assert judge.judge(broken, BLOCK)[0].verdict == "stillborn"
    assert judge.judge(idle, BLOCK)[0].verdict == "idle"


@pytest.mark.parametrize("body", ["time.sleep(60)", "while True:\n        pass"])
def test_tests_that_take_too_long_kill_nothing(judge, body):
    lane = judge._lanes.get()
    (lane.tree / "tests" / "hw" / "test_small.py").write_text(
        f"import time\ndef test_less():\n    {body}\n"
    )
    judge._lanes.put(lane)
    judge._timeout = 2

    assert judge.judge(the("condition", "~self.a.any()"), BLOCK)[0].verdict == "timeout"


def test_an_argument_counts_as_one(tmp_path):
    argued = Outcome(verdict="equivalent", how="argued: nobody sees it")

    assert summary([argued])["argued"] == 1
