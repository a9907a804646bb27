# SPDX-License-Identifier: Apache-2.0
"""Users' scripts pass ``mypy --strict`` against the package as it is installed, with real types."""

import re
import sys
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("architect", "rtl-engineer", "systems-researcher", "ml-researcher", "student",
          "switch-user")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
GIVEN = """\
import numpy as np

import foldwire as fw

run = fw.run({})
link = fw.Dimension(kind="ring", size=4, bandwidth_bytes_per_s=1e9, latency_s=1e-6)
network = fw.Network([link])
job = fw.load_workload("job.txt", shape=(4,))
reduced = fw.all_reduce([np.zeros(4, np.float32)], engine="ace")
trained = fw.train(fw.AllReducer("smartnic"), fw.load_digits(), workers=4, steps=60)
emitted = fw.emit(fw.FPAdder(stages=3), name="adder")
"""
CELL = "str | int | float | bool | None"
TYPES = {
    "run": "Run",
    "run.time_s": "float",
    "run.metrics": "dict[str, float]",
    "run.data": "DataCheck | None",
    "run.record": "RunRecord",
    "run.network": "Network",
    "run.description": "Description",
    "run.limits": "Table",
    "run.layers": "Table",
    "run.links": "Table",
    "run.endpoints": "Table",
    "run.limits['best_percent']": f"list[{CELL}]",
    "run.limits.rows": f"list[Sequence[{CELL}]]",
    "fw.simulate(network, job)": "Run",
    "fw.simulate(network, job, endpoint='ace').limits": "Table",
    "fw.sweep('sweep.toml', 'runs')": "Table",
    "fw.load_run('run')": "Run",
    "fw.load_run('run').metrics": "dict[str, float]",
    "fw.load_run('run').record": "RunRecord",
    "fw.save_run(run, job, 'run')": "Run",
    "run.save('run')": "Run",
    "run.tables": "NamedTables",
    "fw.endpoint('ace')": "Endpoint",
    "fw.preset('ace', 'ring')": "AceConfig",
    "fw.preset('smartnic', 'test')": "SmartNicConfig",
    "fw.preset('in_switch', 'test')": "SwitchSystem",
    "fw.preset('in_switch', 'test').switch": "SwitchConfig",
    "fw.preset('switch-dma', '1-link').links": "int",
    "fw.engine(fw.preset('ace', 'ring'))": "Component[Any]",
    "fw.presets('ace')": "list[str]",
    "reduced": "Reduced",
    "reduced.vectors": "list[ndarray[tuple[Any, ...], dtype[Any]]]",
    "reduced.exact": "bool",
    "reduced.cycles": "int | None",
    "trained.accuracy": "float",
    "trained.losses": "tuple[float, ...]",
    "emitted.text": "str",
    "emitted.lines": "int",
    "fw.emit_files(fw.FPAdder(stages=3), 'out', name='adder')": "list[Path]",
    "fw.compile_model(fw.FPAdder(stages=3), name='adder')": "CompiledModel",
    "fw.synthesize(fw.FPAdder(stages=3), name='adder')": "Table",
}
"""Expression -> its type; of arrays and components, the element and the signature are open."""


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Lines that mypy prints on the code of each guide and on `TYPES`, as a user would see them:
    it takes the packages from ``sys.path``, where they need a ``py.typed``."""
    folder = tmp_path_factory.mktemp("scripts")
    for name in GUIDES:
        page = (ROOT / "docs" / "guide" / f"{name}.md").read_text(encoding="utf-8")
        script = folder / f"{name.replace('-', '_')}.py"
        script.write_text("\n".join(BLOCK.findall(page)), encoding="utf-8")
    asked = "".join(f"reveal_type({expression})\n" for expression in TYPES)
    (folder / "types_of.py").write_text(GIVEN + asked, encoding="utf-8")
    scripts = sorted(path.name for path in folder.glob("*.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", ["", str(ROOT), *sys.path])
        said, trouble, _ = api.run(["--strict", "--config-file=", "--cache-dir=cache", *scripts])
    assert not trouble and f"{len(scripts)} source files" in said
    return said.splitlines()


def test_scripts_of_the_guides_have_no_error(checked):
    assert [line for line in checked if ": error: " in line] == []


def test_results_have_real_types(checked):
    found = [
        re.sub(r"[a-z_A-Z0-9]+\.(?=[A-Za-z_])", "", line.split('"')[1]).replace("builtins.", "")
        for line in checked if "Revealed type is" in line
    ]

    assert dict(zip(TYPES, found, strict=True)) == TYPES
