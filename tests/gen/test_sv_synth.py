# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""What the emitted SystemVerilog is mapped to is as much as what the netlist is mapped to."""

import pytest

from bench.parts import PARTS
from gen.synth import synthesize
from tests.families import full

TOLERANCE = 0.02
NOISE = {"gates": 12, "ff": 0, "sram_macros": 0}
"""What mapping makes of a change of names alone, in a block of any size."""
QUICK = ("StreamFIFO", "AXI4Reader", "SendUnit")


@pytest.mark.parametrize(
    "name",
    [*QUICK, *full(each for each in PARTS if each not in QUICK)],
)
def test_cells_of_a_block_are_those_of_its_netlist(name):
    netlist, text = (
        synthesize(PARTS[name](), name="top", source=source, flat=True)
        for source in ("netlist", "sv")
    )
    assert len(netlist.rows) == len(text.rows) == 1
    for column, noise in NOISE.items():
        expected, found = (table.value("top", column) for table in (netlist, text))
        assert abs(found - expected) <= max(noise, TOLERANCE * expected), (column, expected, found)


def test_another_source_is_refused():
    with pytest.raises(ValueError, match=r"^source must be one of netlist, sv, not 'vhdl'$"):
        synthesize(PARTS["SkidBuffer"](), name="top", source="vhdl")
