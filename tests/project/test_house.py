"""The bench of the house notices what is planted, and takes moved code for what it is."""

import subprocess

from bench.house import Tree, duplicates, statements
from bench.rooms import room_of, upward

BODY = """
def total(values, limit):
    found = 0
    for value in values:
        if value > limit:
            found += value * 2
        elif value < -limit:
            found -= value
        else:
            print("small", value)
    return found
"""
OTHER = BODY.replace("total", "count").replace("value", "item").replace('"small"', '"tiny"')


def test_planted_upward_imports_are_noticed_wherever_they_stand():
    files = {
        "sim/network/a.py": "from sim.units import GB\n",
        "sim/network/b.py": "def f():\n    from sim.rtl import host\n",
        "sim/network/c.py": "if TYPE_CHECKING:\n    from sim.events.record import RunRecord\n",
        "gen/d.py": "import sim.network.a\n",
        "sim/rtl/host.py": "",
        "sim/events/record.py": "import numpy\nfrom sim.events.kernel import queue\n",
        "sim/events/kernel/queue.py": "from sim.events.record import RunRecord\n",
        "sim/attic.py": "",
    }

    assert upward(files) == [
        "gen/d.py:1: gen imports sim.network.a",
        "sim/attic.py: in no room",
        "sim/events/kernel/queue.py:1: sim.events.kernel imports sim.events.record",
        "sim/network/b.py:2: sim.network imports sim.rtl.host",
        "sim/network/c.py:2: sim.network imports sim.events.record",
    ]


def test_room_is_the_longest_name_that_fits():
    assert room_of("sim.events.kernel.queue") == "sim.events.kernel"
    assert room_of("sim.eventsource") is None
    assert room_of("gen.verilog") == "gen"


def test_planted_copy_is_noticed_though_its_names_differ():
    assert duplicates({"a.py": BODY, "b.py": '"""About."""\n\n\n' + OTHER}) == [
        "b.py:5, 10 lines as at a.py:2"
    ]
    assert duplicates({"a.py": BODY + OTHER}) == ["a.py:13, 10 lines as at a.py:2"]


def test_lists_imports_and_docstrings_are_no_copies():
    items = "\n".join(f"    call('{n}')," for n in range(20))
    text = f'"""A.\n{"b" * 9}\n"""\nfrom a import (\n    b,\n    c,\n    d,\n)\nx = [\n{items}\n]\n'

    assert not duplicates({"a.py": text, "b.py": text.replace("x = ", "y = ")})


def test_moved_code_is_neither_removed_nor_added():
    before = {"a.py": "from sim.x import f\n" + BODY, "b.py": "f(1)\n"}
    after = {"b.py": '"""New words."""\nf(1)\n', "c.py": BODY + "from sim.y import f\n"}

    assert statements(before) == statements(after)
    assert statements(before).total() == 11  # for, if and elif are one each, without their bodies


def test_body_does_not_count_with_its_head():
    one, two = ({"a.py": f"if x:\n    y = {n}\n    z = 1\n"} for n in (1, 2))

    assert (statements(one) - statements(two)).total() == 1


def test_tree_of_a_commit(tmp_path):
    def git(*arguments):
        identity = "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"
        command = ["git", *identity, *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for folder, text in (("sim", "x = 1\n"), ("tests", "y = 2\n"), ("docs", "z = 3\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(text)
    git("add", "-A")
    git("commit", "-qm", "a")

    tree = Tree.of_commit(tmp_path, "HEAD")

    assert tree == Tree.read(tmp_path) == Tree({"sim/a.py": "x = 1\n"}, {"tests/a.py": "y = 2\n"})
    assert Tree.of_commit(tmp_path, "f" * 40) is None
