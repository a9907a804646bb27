# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""AXI buses as signatures: what is equal, what a half is, what is refused."""

import pytest
from amaranth.lib.wiring import In, Out

from hw.common.axi import AXI4LiteSignature, AXI4Signature

FULL_ONLY = {
    "awid", "awlen", "awsize", "awburst", "awlock", "awcache", "awqos", "wlast", "bid",
    "arid", "arlen", "arsize", "arburst", "arlock", "arcache", "arqos", "rid", "rlast",
}


def widths(bus):
    """Name, direction and width of every signal of a bus."""
    return {
        name: (member.flow, member.shape)
        for half in (bus.write, bus.read)
        for name, member in half.members.items()
    }


def test_buses_of_equal_parameters_are_equal():
    bus = AXI4Signature(addr_width=40, data_width=64)

    assert bus == AXI4Signature(addr_width=40, data_width=64, id_width=1)
    assert bus.read == AXI4Signature(addr_width=40, data_width=64).read
    assert bus.flip() == AXI4Signature(addr_width=40, data_width=64).flip()
    assert bus != AXI4Signature(addr_width=32, data_width=64)
    assert bus.read != bus.write
    assert AXI4LiteSignature(addr_width=12) != AXI4Signature(addr_width=12, data_width=32)


def test_a_bus_and_its_halves_tell_their_parameters():
    bus = AXI4Signature(addr_width=40, data_width=64, id_width=3)

    assert repr(bus) == "AXI4Signature(addr_width=40, data_width=64, id_width=3)"
    assert repr(bus.read) == "AXIReadSignature(addr_width=40, data_width=64, id_width=3)"
    for each in (bus, bus.read, bus.write, bus.flip()):
        assert (each.addr_width, each.data_width) == (40, 64)
    assert bus.id_width == 3
    assert repr(AXI4LiteSignature(addr_width=12)) == (
        "AXI4LiteSignature(addr_width=12, data_width=32)"
    )


def test_signals_have_the_directions_and_widths_of_the_standard():
    full = widths(AXI4Signature(addr_width=40, data_width=64, id_width=3))
    lite = widths(AXI4LiteSignature(addr_width=40, data_width=64))

    assert set(full) - set(lite) == FULL_ONLY and set(lite) <= set(full)
    assert all(full[name] == lite[name] for name in set(full) & set(lite))
    inputs = {name for name, (flow, _) in full.items() if flow == In}
    assert inputs == {
        "awready", "wready", "bid", "bresp", "bvalid",
        "arready", "rid", "rdata", "rresp", "rlast", "rvalid",
    }
    assert full["awaddr"] == full["araddr"] == (Out, 40)
    assert full["wstrb"] == (Out, 8) and full["wdata"] == (Out, 64) and full["rdata"] == (In, 64)
    assert full["arlock"] == (Out, 1) and full["arprot"] == (Out, 3)
    assert full["awcache"] == full["awqos"] == (Out, 4)
    assert full["awid"] == (Out, 3) and full["bid"] == (In, 3) and full["awlen"] == (Out, 8)


@pytest.mark.parametrize("bus", [AXI4Signature, AXI4LiteSignature])
@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"addr_width": 0}, ValueError),
        ({"addr_width": 65}, ValueError),
        ({"addr_width": "40"}, TypeError),
        ({"data_width": 48}, ValueError),
        ({"data_width": 2048}, ValueError),
        ({"data_width": None}, TypeError),
    ],
)
def test_widths_that_no_bus_has_are_refused(bus, wrong, error):
    ((name, value),) = wrong.items()

    with pytest.raises(error, match=f"^{bus.__name__} {name} must be .*, not {value!r}$"):
        bus(**{"addr_width": 40, "data_width": 64, **wrong})


def test_a_full_bus_has_identifiers():
    for wrong, error in ((None, TypeError), (0, ValueError)):
        with pytest.raises(error, match=r"^AXI4Signature id_width must be"):
            AXI4Signature(addr_width=40, data_width=64, id_width=wrong)
