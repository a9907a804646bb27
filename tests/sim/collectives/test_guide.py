# SPDX-License-Identifier: Apache-2.0
"""The page on adding a collective does what it says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from sim.collectives import plan as plans
from sim.workload.graph import CollectiveKind
from tests.sim.collectives.test_algorithms import check_on_fsms, vectors_of

PAGE = Path(__file__).parents[3] / "docs/guide/add-your-collective.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the page's code defines, what it has printed, and the folder it ran in."""
    names: dict[str, object] = {}
    printed, folder = io.StringIO(), tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        patch.setattr(plans, "ALGORITHMS", dict(plans.ALGORITHMS))
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            exec(compile(block, PAGE.name, "exec"), names)
    return names, printed.getvalue(), folder


def test_the_page_shows_what_its_code_prints(page):
    names, printed, _ = page
    shown, _ = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert printed.endswith(shown)
    assert f"{names['times']['two_way']:.1f} us in place of {names['times']['ring']:.1f} us" in (
        PAGE.read_text()
    )


def test_the_page_ends_in_a_waveform(page):
    assert "fsm_state" in (page[2] / "build/two_way/signals.vcd").read_text()


@pytest.mark.parametrize("size", range(2, 10))
def test_the_new_collective_works_as_fsm_programs(page, size):
    kind = CollectiveKind.ALL_GATHER
    blocks = vectors_of(kind, size, each=3)
    check_on_fsms(page[0]["TWO_WAY"], kind, blocks)
