# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proof that the adder is IEEE 754 addition, for every pair of operands.

Yosys writes the synthesised logic of the combinational adder as SMT-LIB; the claim is stated in
SMT-LIB's own floating-point theory; Bitwuzla looks for a pair of operands that breaks it.
"""

from pathlib import Path

import bitwuzla
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen.rtlil import to_rtlil
from gen.yosys import run_yosys
from hw.fp.adder import FPAdder
from hw.fp.formats import BINARY16, BINARY32, FloatFormat

CLAIM = """
(declare-const s |adder_s|)
(define-sort Number () (_ FloatingPoint {exponent} {precision}))
(define-fun a () Number ((_ to_fp {exponent} {precision}) (|adder_n a| s)))
(define-fun b () Number ((_ to_fp {exponent} {precision}) (|adder_n b| s)))
(define-fun bits () (_ BitVec {width}) (|adder_n sum| s))
(define-fun total () Number ((_ to_fp {exponent} {precision}) bits))
(assert (not (and
  (= total (fp.add roundNearestTiesToEven a b))
  ; All NaNs are one value to `=`, so the pattern is stated apart.
  (=> (fp.isNaN total) (= bits (_ bv{nan} {width}))))))
(check-sat)
"""


def counterexample_exists(component: wiring.Component, fmt: FloatFormat, folder: Path) -> bool:
    """Ask the solver for operands whose sum is not the IEEE one."""
    claim = CLAIM.format(
        exponent=fmt.exponent, precision=fmt.precision, width=fmt.width, nan=fmt.canonical_nan
    )
    return refuted(component, claim, folder, name="adder")


def refuted(component: wiring.Component, claim: str, folder: Path, *, name: str) -> bool:
    """Whether the solver finds inputs of a combinational component that break *claim*."""
    (folder / f"{name}.il").write_text(to_rtlil(component, name=name))
    run_yosys(
        [
            f"read_rtlil {name}.il",
            f"prep -top {name} -flatten",
            "opt -full",
            f"write_smt2 -bv {name}.smt2",
        ],
        cwd=folder,
    )
    problem = folder / "claim.smt2"
    problem.write_text("(set-logic ALL)\n" + (folder / f"{name}.smt2").read_text() + claim)
    terms = bitwuzla.TermManager()
    parser = bitwuzla.Parser(terms, bitwuzla.Options())
    parser.parse(str(problem), True, True)
    answer = parser.bitwuzla().check_sat()
    assert answer in (bitwuzla.Result.SAT, bitwuzla.Result.UNSAT), f"no answer: {answer}"
    return bool(answer == bitwuzla.Result.SAT)


class WrongOnce(wiring.Component):
    """An adder with a planted mistake: the lowest bit is wrong for a single pair of operands."""

    def __init__(self, fmt: FloatFormat) -> None:
        self.fmt = fmt
        super().__init__({"a": In(fmt.width), "b": In(fmt.width), "sum": Out(fmt.width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.adder = adder = FPAdder(fmt=self.fmt)
        m.d.comb += [adder.a.eq(self.a), adder.b.eq(self.b), self.sum.eq(adder.sum)]
        with m.If((self.a == 0x3C01) & (self.b == 0x1001)):
            m.d.comb += self.sum.eq(adder.sum ^ 1)
        return m


def test_binary16_adder_equals_smtlib_addition_for_all_operands(tmp_path: Path) -> None:
    assert not counterexample_exists(FPAdder(fmt=BINARY16), BINARY16, tmp_path)


def test_one_wrong_bit_for_one_pair_of_operands_is_found(tmp_path: Path) -> None:
    assert counterexample_exists(WrongOnce(BINARY16), BINARY16, tmp_path)


@pytest.mark.full
def test_binary32_adder_equals_smtlib_addition_for_all_operands(tmp_path: Path) -> None:
    assert not counterexample_exists(FPAdder(fmt=BINARY32), BINARY32, tmp_path)
