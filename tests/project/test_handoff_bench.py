# SPDX-License-Identifier: Apache-2.0
"""The bench of the folder that is handed over: it accepts what is right, and finds what is not."""

import numpy as np

from bench import handoff
from foldwire.catalog import build


def test_a_whole_folder_is_accepted(tmp_path):
    assert list(handoff.check(build("adder", None, {}), tmp_path)) == []


def test_what_the_folder_lacks_is_said(tmp_path, monkeypatch):
    def written(design, folder):
        made = handoff_write(design, folder)
        (folder / "LICENSES" / "Apache-2.0.txt").unlink()
        text = (folder / "Bender.yml").read_text()
        (folder / "Bender.yml").write_text(text.replace(".sv", ".v"))
        return made

    handoff_write = handoff.write_verilog
    monkeypatch.setattr(handoff, "write_verilog", written)

    said = "; ".join(handoff.check(build("adder", None, {}), tmp_path))

    assert "no licence" in said and "no file adder_binary32.v" in said


def test_all_engines_are_driven():
    assert handoff.driven() == ["ace", "smartnic", "switch-dma"]
    assert list(handoff.drive("switch-dma", 3)) == []


def test_results_that_are_not_numpys_are_said(monkeypatch):
    assert list(handoff.drive("smartnic", 2)) == []
    zeros = [np.zeros(1000)] * 2
    monkeypatch.setattr(handoff, "all_reduced_by_c", lambda design, inputs, op, middle: zeros)
    assert [each.partition(":")[0] for each in handoff.drive("smartnic", 2)] == [
        "SUM_I32", "SUM_F32"]

    def refused(design, inputs, op, middle):
        raise ValueError("refused")

    monkeypatch.setattr(handoff, "all_reduced_by_c", refused)
    assert list(handoff.drive("smartnic", 2)) == ["SUM_I32: refused", "SUM_F32: refused"]
