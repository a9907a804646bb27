# SPDX-License-Identifier: Apache-2.0
"""What stands beside the source: how to contribute and to cite, and what public CI runs."""

import datetime
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from bench.__main__ import _benches
from foldwire import __version__

ROOT = Path(__file__).resolve().parents[2]
CITATION, WORKFLOW = ROOT / "CITATION.cff", ROOT / ".github" / "workflows" / "ci.yml"
SCHEMAS = {CITATION: "vendor.citation-file-format", WORKFLOW: "vendor.github-workflows"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def refused(path, schema):
    """What the validator says of a file; nothing of one that is valid."""
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)],
        capture_output=True, text=True, check=False,
    )
    return done.stdout if done.returncode else ""


def steps(job):
    return [each["run"] for each in workflow()["jobs"][job]["steps"] if "run" in each]


def workflow():
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_file_is_valid_by_its_schema(path):
    assert not refused(path, SCHEMAS[path])


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        (CITATION, "license: Apache-2.0", "license: Apache-2"),
        (WORKFLOW, "runs-on: ubuntu-latest", "run-on: ubuntu-latest"),
    ],
    ids=["citation", "workflow"],
)
def test_a_planted_error_is_refused(path, good, bad, tmp_path):
    text = path.read_text(encoding="utf-8")
    planted = tmp_path / path.name
    planted.write_text(text.replace(good, bad), encoding="utf-8")

    assert good in text and bad.split(":")[0] in refused(planted, SCHEMAS[path])


def test_citation_has_the_version_the_licence_and_the_date_of_the_release():
    cited = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    released = re.search(
        rf"^## {re.escape(__version__)} - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )

    assert (cited["version"], cited["license"]) == (__version__, PROJECT["license"])
    assert released and cited["date-released"] == datetime.date.fromisoformat(released[1])


def test_public_ci_runs_what_a_person_types_on_every_python_that_is_supported():
    own = re.findall(r"^(?:exec )?(make .*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    supported = [each.rpartition(" ")[2] for each in PROJECT["classifiers"]
                 if re.search(r":: 3\.\d+$", each)]

    assert own and steps("check")[-len(own):] == own
    assert any(each.startswith(".ci/system-packages ") for each in steps("check"))
    assert steps("wheel")[0].startswith("python -m pip wheel ")
    for job in workflow()["jobs"].values():
        assert job["strategy"]["matrix"]["python"] == supported
    assert f">={supported[0]}" == PROJECT["requires-python"]


def test_commands_of_the_page_for_contributors_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    made = set(re.findall(r"^(?:.*`)?make ([a-z-]+)", page, re.MULTILINE))
    benches = set(re.findall(r"python -m bench (\w+)", page))

    assert made >= {"setup", "test", "lint"} and made <= set(targets.split())
    assert benches and benches <= _benches().keys()
    for path in re.findall(r"`([\w.-]+/[\w./-]*\.\w+|\.ci/\w+)`", page):
        assert (ROOT / path).exists() or "NAME" in path or "NNNN" in path, path
