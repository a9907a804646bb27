# SPDX-License-Identifier: Apache-2.0
"""The emitted codec."""

from dataclasses import asdict

import pytest

from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.format import preset
from tb.runner import simulate
from tests.families import quick

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize("compress", [True, False], ids=["compressor", "decompressor"])
@pytest.mark.parametrize(
    ("name", "lanes", "bus_bits"),
    quick(1, [
        ("bfp16", 8, 256), ("bfp16_stochastic", 8, 64), ("bfp16", 16, 512), ("mxint8", 8, 256),
    ]),
)
def test_emitted_codec_passes_its_bench(
    name: str, lanes: int, bus_bits: int, compress: bool, simulator: str
) -> None:
    fmt = preset(name)
    make = Compressor if compress else Decompressor
    results = simulate(
        make(fmt, lanes=lanes, bus_bits=bus_bits),
        "tb.bfp.cocotb_codec",
        top="codec",
        seed=lanes + bus_bits,
        simulator=simulator,
        parameters={
            "format": asdict(fmt),
            "lanes": lanes,
            "bus_bits": bus_bits,
            "compress": compress,
        },
    )

    assert results.ran == {"every_vector_arrives_whole_and_in_order"}
