# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Conversions to and from 16 bits: every 16-bit number, and proofs for every binary32 number."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen.compile import compile_model
from hw.fp.convert import BFLOAT16, FPNarrow, FPWiden
from hw.fp.formats import BINARY16, BINARY32, FloatFormat
from tests.hw.fp.test_adder_proof import refuted

CACHE = Path(__file__).parents[3] / "build" / "cache"
NUMPY = {BINARY16: np.dtype(np.float16), BFLOAT16: np.dtype(ml_dtypes.bfloat16)}
ALL = np.arange(1 << 16, dtype=np.uint32)

CLAIM = """
(declare-const s |dut_s|)
(define-fun given () (_ FloatingPoint {i_exponent} {i_precision})
  ((_ to_fp {i_exponent} {i_precision}) (|dut_n i| s)))
(define-fun bits () (_ BitVec {width}) (|dut_n o| s))
(define-fun found () (_ FloatingPoint {exponent} {precision})
  ((_ to_fp {exponent} {precision}) bits))
(assert (not (and
  (= found ((_ to_fp {exponent} {precision}) roundNearestTiesToEven given))
  ; All NaNs are one value to `=`, so the pattern is stated apart.
  (=> (fp.isNaN found) (= bits (_ bv{nan} {width}))))))
(check-sat)
"""

# The solver knows no bfloat16. A carry goes from the fraction to the exponent, at last to infinity.
UPPER_HALF = f"""
(declare-const s |dut_s|)
(define-fun i () (_ BitVec 32) (|dut_n i| s))
(define-fun half () (_ BitVec 32) ((_ zero_extend 31) ((_ extract 16 16) i)))
(define-fun nan () Bool (bvugt ((_ extract 30 0) i) (_ bv{BINARY32.infinity} 31)))
(assert (not (= (|dut_n o| s) (ite nan (_ bv{BFLOAT16.canonical_nan} 16)
  ((_ extract 31 16) (bvadd i #x00007fff half))))))
(check-sat)
"""

formats = pytest.mark.parametrize("fmt", [BINARY16, BFLOAT16], ids=["binary16", "bfloat16"])


def claim(source: FloatFormat, target: FloatFormat) -> str:
    return CLAIM.format(
        i_exponent=source.exponent, i_precision=source.precision, exponent=target.exponent,
        precision=target.precision, width=target.width, nan=target.canonical_nan,
    )


def hardware(component: wiring.Component, words: np.ndarray) -> np.ndarray:
    name = f"{type(component).__name__.lower()}_{component.fmt.fraction}"
    model = compile_model(Registered(component), name=name, cache_dir=CACHE)
    with model.instance() as instance:
        return instance.run({"i": words.astype(np.uint32)}, ["o"])["o"]


class Registered(wiring.Component):
    """With a clock."""

    def __init__(self, component: wiring.Component) -> None:
        self._component = component
        super().__init__({"i": In(component.i.shape()), "o": Out(component.o.shape())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.component = component = self._component
        m.d.comb += component.i.eq(self.i)
        m.d.sync += self.o.eq(component.o)
        return m


def same(found: np.ndarray, expected: np.ndarray, fmt: FloatFormat) -> None:
    """Equal bits, NaNs as the canonical one."""
    nan = (expected & (1 << fmt.width - 1) - 1) > fmt.infinity
    expected = np.where(nan, fmt.canonical_nan, expected)
    wrong = np.flatnonzero(found != expected)
    assert not len(wrong), [(hex(found[k]), hex(expected[k])) for k in wrong[:10]]


@formats
def test_every_16_bit_number_is_widened_exactly(fmt: FloatFormat) -> None:
    words = hardware(FPWiden(fmt), ALL)
    with np.errstate(invalid="ignore"):
        expected = ALL.astype(np.uint16).view(NUMPY[fmt]).astype(np.float32)
    same(words, expected.view(np.uint32), BINARY32)


@formats
def test_everything_about_every_16_bit_number_is_rounded_to_it(fmt: FloatFormat) -> None:
    """The numbers, the midpoints between them, and the binary32 numbers beside both."""
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = ALL.astype(np.uint16).view(NUMPY[fmt]).astype(np.float32).view(np.uint32)
        halves = numbers.astype(np.int64)[:, None] + (0, 1 << 22 - fmt.fraction)
        near = (halves[:, :, None] + (-1, 0, 1)).ravel() & 0xFFFF_FFFF
        rng = np.random.default_rng(1)
        words = np.concatenate([near, rng.integers(0, 1 << 32, 100_000)]).astype(np.uint32)
        # Subnormal numbers have midpoints of their own.
        tiny = np.arange(-3000, 3000, dtype=np.float32)[:, None] * np.float32(2.0**-26)
        words = np.concatenate([words, (tiny * [1, 1 + 2.0**-23, 1 - 2.0**-24]).astype(np.float32)
                                .view(np.uint32).ravel()])
        expected = words.view(np.float32).astype(NUMPY[fmt]).view(np.uint16)
    same(hardware(FPNarrow(fmt), words), expected, fmt)


def test_binary16_is_converted_as_smtlib_does_for_all_numbers(tmp_path: Path) -> None:
    assert not refuted(FPWiden(BINARY16), claim(BINARY16, BINARY32), tmp_path, name="dut")
    assert not refuted(FPNarrow(BINARY16), claim(BINARY32, BINARY16), tmp_path, name="dut")


def test_bfloat16_is_the_rounded_upper_half_for_all_numbers(tmp_path: Path) -> None:
    assert not refuted(FPNarrow(BFLOAT16), UPPER_HALF, tmp_path, name="dut")


class WrongOnce(wiring.Component):
    """With a planted mistake: the lowest bit is wrong for a single number."""

    def __init__(self) -> None:
        super().__init__({"i": In(32), "o": Out(16)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.narrow = narrow = FPNarrow(BINARY16)
        m.d.comb += [narrow.i.eq(self.i), self.o.eq(narrow.o ^ (self.i == 0x3F80_1001))]
        return m


def test_one_wrong_bit_for_one_number_is_found(tmp_path: Path) -> None:
    assert refuted(WrongOnce(), claim(BINARY32, BINARY16), tmp_path, name="dut")


def test_what_is_no_narrower_format_is_refused() -> None:
    for component in (FPWiden, FPNarrow):
        with pytest.raises(ValueError, match="fewer bits than binary32"):
            component(BINARY32)
        with pytest.raises(TypeError, match="fmt"):
            component(16)
