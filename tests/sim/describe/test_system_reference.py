# SPDX-License-Identifier: Apache-2.0
"""The reference pages name every key of a description, with its default."""

import re
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path

import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.describe.astra_params import AstraExtras, AstraParameters, key_of
from sim.describe.astra_text import REFUSED
from sim.describe.sections import (
    MemorySection,
    NetworkSection,
    NodeTrouble,
    RunSection,
    TopologySection,
)
from sim.describe.topologies import TOPOLOGIES
from sim.endpoint.ace import AceEndpoint
from sim.endpoint.background import Background
from sim.endpoint.calibrated import Calibration
from sim.endpoint.kinds import KINDS, BaselineEndpoint, Bus, IdealEndpoint, Npu
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.events.packets import PacketOptions
from sim.events.scheduler import Scheduler
from sim.network.dimension import Dimension
from sim.network.link import LinkFault
from sim.workload.compute_model import Roofline, SystolicArray

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
PAGES = sorted([*REFERENCE.glob("system*.md"), REFERENCE / "machines.md"])
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES) + "\n# End\n"
LONGEST_WORDS = 2500


def section(heading):
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading!r}"
    return found[1]


def documented(heading):
    """Key -> default of the first table of a section."""
    table = re.search(r"(^\|.*\n)+", section(heading), re.MULTILINE)
    return dict(re.findall(r"^\| `([^`]+)` \|[^|]*\| ([^|]*) \|", table[0], re.MULTILINE))


def default_of(each):
    if each.default is MISSING:
        return "required"
    value = each.default
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:.6g}" if value != 1_000_000 else "1000000"


def defaults(kind):
    plain = [each for each in fields(kind) if each.name not in ("npu", "resources", "ring")]
    nested = {"bus", "memory_bus"}
    return {each.name: default_of(each) for each in plain if each.name not in nested}


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("`[topology]`", TopologySection),
        ("`[[dimension]]`", Dimension),
        ("`[endpoint]` kind ideal", IdealEndpoint),
        ("`[endpoint]` kinds baseline...", BaselineEndpoint),
        ("`[endpoint]` kinds ace...", AceEndpoint),
        ("`[endpoint]` kinds smartnic...", SmartNicEndpoint),
        ("`[endpoint.npu]`", Npu),
        ("`[endpoint.bus]`, `[endpoint.memory_bus]`", Bus),
        ("`[algorithm]`", AlgorithmChoice),
        ("`[scheduler]`", Scheduler),
        ("`[[scenario.node]]`", NodeTrouble),
        ("`[[scenario.link]]`", LinkFault),
        ("`[memory]`", MemorySection),
        ("`[switch.background]`", Background),
        ("`[run]`", RunSection),
        ("`[calibration]`", Calibration),
    ],
)
def test_page_has_every_key_with_its_default(heading, kind):
    assert is_dataclass(kind)

    assert documented(heading) == defaults(kind)


def test_page_has_every_key_of_the_network():
    own = defaults(NetworkSection)
    del own["packets"]
    expected = defaults(PacketOptions) | own

    assert documented("`[network]`") == expected


def test_page_has_every_key_of_the_compute_models():
    expected = defaults(SystolicArray) | defaults(Roofline)

    found = documented("`[workload.compute]`")

    assert {key: found[key] for key in expected} == expected
    assert found.keys() - expected.keys() == {"kind", "flops_per_s"}


def test_page_has_table_iii_with_its_defaults():
    row = r"^\| (\d+) \| `([^`]+)` \|[^|]*\| ([^|]*) \|"
    found = {
        int(number): (key, default)
        for number, key, default in re.findall(row, section("Table III"), re.MULTILINE)
    }

    assert found == {
        each.metadata["number"]: (key_of(each), default_of(each))
        for each in fields(AstraParameters)
    }


def test_page_has_every_other_key_of_the_released_code():
    text = section("Further keys of the released code")

    missing = [key_of(each) for each in fields(AstraExtras) if f"`{key_of(each)}`" not in text]
    missing += [key for key in REFUSED if f"`{key}`" not in text]

    assert not missing


def test_page_has_every_endpoint_and_topology():
    for names, heading in ((KINDS, "`[endpoint]`"), (TOPOLOGIES, "`[topology]`")):
        assert set(re.findall(r"^\| `(\w+)` \|", section(heading), re.MULTILINE)) >= set(names)


def test_pages_are_of_a_length_that_one_reads_and_have_each_table_once():
    counts = {page.name: len(page.read_text("utf-8").split()) for page in PAGES}
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)

    assert len(PAGES) == 8
    assert not {name: words for name, words in counts.items() if words > LONGEST_WORDS}
    assert len(headings) == len(set(headings))


def test_the_first_page_leads_to_every_table():
    first = (REFERENCE / "system.md").read_text("utf-8")
    tables = re.findall(r"^## `(\[+\w+\]+)`$", TEXT, re.MULTILINE)

    assert len(tables) == 14
    assert not [table for table in tables if f"`{table}`" not in first]
    others = {page.name for page in PAGES} - {"system.md"}
    assert not [name for name in others if f"]({name}" not in first]
