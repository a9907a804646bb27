# SPDX-License-Identifier: Apache-2.0
"""The bench of the house notices what is planted, and takes moved code for what it is."""

import subprocess

import pytest

from bench import _headers, house, structure
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
        "sim/network/b.py": "def f():\n    from sim.rtl import driver\n",
        "sim/network/c.py": "if TYPE_CHECKING:\n    from sim.events.record import RunRecord\n",
        "gen/d.py": "import sim.network.a\n",
        "sim/rtl/driver.py": "",
        "sim/events/record.py": "import numpy\nfrom sim.events.kernel import queue\n",
        "sim/events/kernel/queue.py": "from sim.events.record import RunRecord\n",
        "sim/attic.py": "",
    }

    assert upward(files) == [
        "gen/d.py:1: gen imports sim.network.a",
        "sim/attic.py: in no room",
        "sim/events/kernel/queue.py:1: sim.events.kernel imports sim.events.record",
        "sim/network/b.py:2: sim.network imports sim.rtl.driver",
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


# ---- Counts of structure: each notices what is planted, and nothing beside it.


def test_comparisons_with_engines_names_are_noticed_outside_their_records():
    text = (
        'if kind == "ace": pass\n'
        'if kind in ("ideal", "smartnic"): pass\n'
        'match kind:\n    case "in_switch": pass\n'
        'if kind == "ideal" or section == "switch": pass\n'
    )

    assert structure.engine_branches({"sim/run.py": text, "bench/x.py": text}) == [
        "sim/run.py:1", "sim/run.py:2", "sim/run.py:4",
    ]
    assert structure.engine_branches({"sim/engines/ace.py": text}) == []
    assert len(structure.engine_branches({"sim/engines/engine.py": text})) == 3


def test_registries_are_displays_of_two_engines_by_name_or_class():
    text = (
        "from hw.ace.engine import AceEngine\nfrom hw.smartnic.nic import SmartNic\n"
        'a = {"ace": 1, "smartnic": 2}\n'
        "b = (AceEngine, SmartNic)\n"
        'c = {"ace": 1, "ideal": 2}\n'
    )

    assert structure.registries({"foldwire/a.py": text}) == ["foldwire/a.py:3", "foldwire/a.py:4"]


def test_shared_files_know_two_engines_by_module_or_name():
    files = {
        "sim/run.py": "from sim.rtl.ace.ring import AceRing\nx = 'in_switch'\n",
        "bench/a.py": "import hw.switch.switch\nfrom hw.smartnic import config\n",
        "sim/demo/b.py": "from hw.ace.config import preset\n",
        "sim/rtl/ace/ring.py": "from hw.ace.config import A\nfrom hw.smartnic.config import B\n",
        "sim/rtl/space.py": "from sim.network.surface import f\nimport hw.switch.switch\n",
    }

    assert structure.shared_files(files) == [
        "bench/a.py: in_switch, smartnic", "sim/run.py: ace, in_switch",
    ]


def test_circles_count_under_type_checking_too():
    files = {
        "sim/a.py": "if TYPE_CHECKING:\n    from sim.b import B\n",
        "sim/b.py": "from sim import c\n",
        "sim/c.py": "def f():\n    from sim.a import A\n",
        "sim/d.py": "from sim.a import A\n",
    }

    assert structure.circles(files) == ["sim.a <-> sim.b <-> sim.c"]


def test_clashes_are_of_public_classes_in_different_files():
    files = {
        "sim/a.py": "class Port: pass\nclass _State: pass\n",
        "hw/b.py": "class Port: pass\nclass _State: pass\nclass Lone: pass\n",
        "bench/c.py": "class Lone: pass\n",
    }

    assert structure.class_clashes(files) == ["Port: hw/b.py, sim/a.py"]


def test_long_signatures_but_those_that_users_call():
    names = ", ".join(f"p{n}" for n in range(13))
    text = f"def simulate({names}): pass\ndef other(*, {names}): pass\n"

    found = structure.long_signatures({"sim/events/simulate.py": text})

    assert found == ["sim/events/simulate.py:2 other, 13 parameters"]


def test_column_numbers_count_in_compiled_functions_alone():
    body = "    return s.total[n, place, 2] + s.one[3] + s.two[n, place]\n"
    text = f"@compiled\ndef f(s, n):\n{body}\ndef g(s, n):\n{body}"

    assert structure.column_numbers({"sim/a.py": text}) == ["sim/a.py:3 s.total[n, place, 2]"]


def test_riddles_are_docstrings_that_begin_with_a_question():
    text = '"""How long."""\ndef f():\n    """However long."""\nclass A:\n    """Of all."""\n'

    assert structure.riddles({"sim/a.py": text}) == ["sim/a.py:1 How long.", "sim/a.py:4 Of all."]


def test_files_of_ace_programs():
    files = {
        "sim/a.py": "from sim.collectives.partition import Partition\n",
        "sim/b.py": "def f():\n    return direction_of(1)\n",
        "sim/c.py": "partition = 1\n",
    }

    assert structure.program_files(files) == ["sim/a.py: Partition", "sim/b.py: direction_of"]


# ---- The licence's identifier.


@pytest.fixture
def licensed(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nlicense = "Apache-2.0"\n')
    (tmp_path / "sim" / "workload" / "data").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "headed"),
    [
        ("a.py", '"""A."""\n', '# {}\n"""A."""\n'),
        ("a.py", "", "# {}\n"),
        ("a.py", "#!/usr/bin/env python\nx = 1\n", "#!/usr/bin/env python\n# {}\nx = 1\n"),
        ("a.py", "# amaranth: UnusedElaboratable=no\n\nx = 1\n",
         "# amaranth: UnusedElaboratable=no\n# {}\n\nx = 1\n"),
        ("a.py", "# amaranth: UnusedElaboratable=no", "# amaranth: UnusedElaboratable=no\n# {}\n"),
        ("a.py", "x = 1\r\n", "# {}\r\nx = 1\r\n"),
        ("a.cc", "// A.\n", "// {}\n// A.\n"),
        ("a.h", "int a;\n", "/* {} */\nint a;\n"),
        ("a.css", "p {{}}\n", "/* {} */\np {{}}\n"),
        ("a.js", "f();\n", "// {}\nf();\n"),
        ("a.j2", "<p>\n", "{{# {} #}}\n<p>\n"),
    ],
)
def test_identifier_is_asked_for_and_added_where_it_belongs(name, text, headed, licensed):
    path = licensed / "sim" / name
    path.write_bytes(text.replace("{{", "{").replace("}}", "}").encode())

    assert _headers.lacking(licensed) == [f"sim/{name}: no identifier"]
    assert _headers.add(licensed) == [f"sim/{name}"]
    wanted = headed.format("SPDX-License-Identifier: Apache-2.0")
    assert path.read_bytes().decode() == wanted
    assert not _headers.lacking(licensed) and not _headers.add(licensed)
    assert path.read_bytes().decode() == wanted


def test_other_licences_count_but_in_folders_of_others_and_are_left_alone(licensed):
    other = "# SPDX-License-Identifier: MIT\n"
    for name in ("a.py", "workload/data/b.py", "c.txt"):
        (licensed / "sim" / name).write_text(other)
    (licensed / "sim" / "d.py").write_text("x = 1\n# SPDX-License-Identifier: Apache-2.0\n")

    assert _headers.lacking(licensed) == ["sim/a.py: MIT", "sim/d.py: no identifier"]
    assert _headers.add(licensed) == ["sim/d.py"]
    assert (licensed / "sim" / "a.py").read_text() == other


def test_the_house_fails_over_a_file_without_identifier(monkeypatch, capsys):
    monkeypatch.setattr(house, "_counts", lambda tree: {key: [] for key in house.COUNTS})
    monkeypatch.setattr(house.Tree, "read", lambda root: Tree({}, {}))
    monkeypatch.setattr(house.structure, "connects", lambda files, folder: house.CONNECTS[0])
    said = []
    for found in ([], ["sim/a.py: no identifier"]):
        monkeypatch.setattr(_headers, "lacking", lambda root, found=found: found)
        said.append((house.main(["--list", "headers"]), capsys.readouterr().out))

    assert [code for code, _ in said] == [0, 1]
    assert "  sim/a.py: no identifier" in said[1][1] and " headers=1 " in said[1][1]
