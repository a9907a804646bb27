# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Bars on the size of the codec."""

import pytest

from gen.synth import LIBERTY_OSU018, synthesize
from hw.bfp.decoder import BlockDecoder
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import preset

pytestmark = pytest.mark.skipif(not LIBERTY_OSU018.exists(), reason="needs qflow-tech-osu018")


@pytest.mark.parametrize(
    ("make", "kge"),
    [
        # An open MXINT8 converter of 16 elements takes 6.1 kGE, pipelined 11.9.
        (lambda fmt: BlockEncoder(fmt, lanes=16, stages=0), 6.0),
        (lambda fmt: BlockEncoder(fmt, lanes=16), 12.0),
        (lambda fmt: BlockDecoder(fmt, lanes=16), 12.0),
    ],
    ids=["encoder", "pipelined encoder", "pipelined decoder"],
)
def test_codec_of_sixteen_elements_is_no_larger_than_an_open_converter(make, kge) -> None:
    report = synthesize(make(preset("bfp16")), name="codec", target="osu018")

    assert 0 < report.value("codec", "kge") <= kge
