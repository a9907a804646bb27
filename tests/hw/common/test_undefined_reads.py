# SPDX-License-Identifier: Apache-2.0
"""No engine uses a word of SRAM that was read while it was written, which silicon leaves open."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

import foldwire as fw
from gen import configured
from gen.compile import compile_model
from hw.common.sram import SRAMBank
from hw.common.testing import simulate
from sim.rtl import driver

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def inverting(bank, platform):
    """The memory of *bank*, but a word that is written while it is read comes out inverted."""
    m = Module()
    shape = bank._shape
    inner = SRAMBank(**asdict(shape))
    m.submodules.inner = PLAIN(inner, platform)
    for name in inner.signature.members:
        if name != "r_data":
            m.d.comb += getattr(inner, name).eq(getattr(bank, name))
    clashes = Signal()
    if shape.ports == "1r1w":
        with m.If(bank.r_en):
            m.d.sync += clashes.eq(bank.w_en.any() & (bank.r_addr == bank.w_addr))
    m.d.comb += bank.r_data.eq(inner.r_data ^ clashes.replicate(bank.width))
    return m


PLAIN = SRAMBank.elaborate


@pytest.fixture(autouse=True)
def inverted(monkeypatch):
    """All banks are such; models of engines are known by what is elaborated, not by what for."""
    monkeypatch.setattr(SRAMBank, "elaborate", inverting)
    monkeypatch.setattr(configured, "_key", lambda *_: None)
    monkeypatch.setattr(driver, "_compiled", driver._compiled.__wrapped__)


def test_who_uses_such_a_word_is_found_out():
    bank = SRAMBank(depth=4, width=8)

    async def bench(ctx):
        for value, expected in ((5, ~0 & 0xFF), (6, ~5 & 0xFF)):
            ctx.set(bank.r_en, 1)
            ctx.set(bank.w_en, 1)
            ctx.set(bank.w_data, value)
            await ctx.tick()
            assert ctx.get(bank.r_data) == expected
        ctx.set(bank.w_en, 0)
        await ctx.tick()
        assert ctx.get(bank.r_data) == 6

    simulate(bank, bench)


def test_compiled_models_have_such_words_too(monkeypatch):
    inverted = compile_model(SRAMBank(depth=4, width=8), name="bank").path
    monkeypatch.undo()
    assert compile_model(SRAMBank(depth=4, width=8), name="bank").path != inverted


@pytest.mark.parametrize("engine", ["ace", "smartnic", "in_switch"])
def test_sums_are_right(engine):
    rng = np.random.default_rng(1)
    vectors = [rng.standard_normal(3000, np.float32) for _ in range(4)]
    assert fw.all_reduce(vectors, engine=engine, preset="test").exact


PULLED = {
    "topology": {"kind": "switch", "shape": [4], "latency_s": 20e-9},
    "endpoint": {"kind": "in_switch", "preset": "test"},
    "switch": {"preset": "test", "mode": "pull", "level": "rtl"},
    "workload": {"collective": "all_reduce", "size_bytes": 16384},
}


@pytest.mark.parametrize(
    "job", [pytest.param(EXAMPLES / "torus_rtl.toml", marks=pytest.mark.full), PULLED],
    ids=["torus", "pulled"],
)
def test_jobs_are_right(job):
    assert fw.run(job).metrics["wrong"] == 0
