# SPDX-License-Identifier: Apache-2.0
"""The emitted register file, against cocotbext-axi."""

import pytest

from hw.common.registers import Field, Register, RegisterFile, RegisterMap
from tb.runner import simulate

pytestmark = pytest.mark.cosim


def test_emitted_register_file_passes_its_bench(simulator: str) -> None:
    registers = RegisterMap(
        "bench",
        [
            Register("status", "ro", [Field("value", 8)]),
            Register("scratch", "rw", [Field("value", 32)], offset=0x10, count=4),
            Register("events", "w1c", [Field("bits", 3)]),
        ],
    )

    results = simulate(
        RegisterFile(registers, addr_width=10),
        "tb.common.cocotb_registers",
        top="register_file",
        seed=1,
        simulator=simulator,
        parameters=registers.to_dict(),
    )

    assert results.ran == {
        "bad_accesses_are_refused_and_counted",
        "bytes_written_are_read_back",
        "status_is_read_and_events_are_cleared",
    }
