# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs about encoder and decoder, for every block of binary32 words and every block of codes.

Yosys writes the logic as SMT-LIB. The law ``encode(decode(b)) = b`` is stated about the logic
itself; rounding and decoding are stated in SMT-LIB's own theory of floating-point numbers, with
binary64 as the exact arithmetic: a magnitude times a power of two loses nothing there. Bitwuzla
looks for a block that breaks the claim.
"""

import time
from pathlib import Path

import bitwuzla
import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen.rtlil import to_rtlil
from gen.yosys import run_yosys
from hw.bfp.decoder import BlockDecoder
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import PRESETS, BlockFormat, preset
from tests.families import quick
from tests.hw.common.prover import Proof, current_test, note

SMALL = {
    "bfp16": BlockFormat(elements=4),
    "bfp12": BlockFormat(elements=4, mantissa_bits=4),
    "bfp24": BlockFormat(elements=2, mantissa_bits=16),
    "short exponent": BlockFormat(elements=4, exponent_bits=5),
    "shortest": BlockFormat(elements=2, exponent_bits=2, mantissa_bits=2),
    "longest": BlockFormat(elements=2, mantissa_bits=24),
    "truncated": BlockFormat(elements=4, rounding="truncate"),
    "saturated": BlockFormat(elements=2, carry="saturate"),
    "MXINT8": BlockFormat(elements=2, sign="complement", carry="saturate"),
    "complement": BlockFormat(elements=2, exponent_bits=6, sign="complement"),
}
STOCHASTIC = BlockFormat(elements=2, mantissa_bits=5, rounding="stochastic")
PRELUDE = """
(define-sort Exact () (_ FloatingPoint 11 53))
(define-sort Single () (_ FloatingPoint 8 24))
(declare-const s |circuit_s|)
"""


class Circuit(wiring.Component):
    """Encoder, decoder and encoder in a row, combinational, with everything in sight."""

    def __init__(self, fmt: BlockFormat) -> None:
        self.fmt = fmt
        members: dict[str, wiring.Member] = {
            "code": Out(fmt.exponent_bits),
            "same": Out(1),
            "any_code": In(fmt.exponent_bits),
        }
        for n in range(fmt.elements):
            members[f"x{n}"] = In(32)
            members[f"m{n}"] = Out(fmt.mantissa_bits)
        members["any_element"] = In(fmt.mantissa_bits)
        members["decoded"] = Out(32)
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fmt = self.fmt
        first, second = (BlockEncoder(fmt, lanes=fmt.elements, stages=0) for _ in range(2))
        between, apart = (BlockDecoder(fmt, lanes=fmt.elements, stages=0) for _ in range(2))
        m.submodules.first, m.submodules.second = first, second
        m.submodules.between, m.submodules.apart = between, apart
        block = first.o.p.data[0]
        m.d.comb += [
            between.i.p.data.eq(block),
            second.i.p.data.eq(between.o.p.data),
            self.same.eq(second.o.p.data[0] == block),
            self.code.eq(block[: fmt.exponent_bits]),
            apart.i.p.data[0].eq(Cat(self.any_code, self.any_element)),
            self.decoded.eq(apart.o.p.data[0]),
        ]
        for n in range(fmt.elements):
            element = block[fmt.exponent_bits :].word_select(n, fmt.mantissa_bits)
            m.d.comb += [
                first.i.p.data[n].eq(getattr(self, f"x{n}")),
                getattr(self, f"m{n}").eq(element),
            ]
        return m


def holds(circuit: wiring.Component, claim: str, folder: Path) -> bool:
    """Whether no input breaks *claim*; registers, where there are any, are free too.

    If so, some input must keep it: what it supposes contradicts nothing.
    """
    begin = time.monotonic()
    (folder / "circuit.il").write_text(to_rtlil(circuit, name="circuit"))
    run_yosys(
        [
            "read_rtlil circuit.il",
            "prep -top circuit -flatten",
            "opt -full",
            "write_smt2 -bv circuit.smt2",
        ],
        cwd=folder,
    )
    logic = (folder / "circuit.smt2").read_text()
    assert claim.count(BROKEN) == 1

    def possible(asserted: str) -> bool:
        problem = folder / "claim.smt2"
        problem.write_text(f"(set-logic ALL)\n{logic}{PRELUDE}{asserted}\n(check-sat)\n")
        parser = bitwuzla.Parser(bitwuzla.TermManager(), bitwuzla.Options())
        parser.parse(str(problem), True, True)
        answer = parser.bitwuzla().check_sat()
        assert answer in (bitwuzla.Result.SAT, bitwuzla.Result.UNSAT), f"no answer: {answer}"
        return bool(answer == bitwuzla.Result.SAT)

    if possible(claim):
        return False
    assert possible(claim.replace(BROKEN, KEPT)), "the claim supposes what cannot be"
    note(Proof(
        test=current_test(), subject=type(circuit).__name__, bound=None,
        covers={"an input keeps the claim": 1}, seconds=round(time.monotonic() - begin, 1),
    ))
    return True


BROKEN, KEPT = "(assert (not ", "(assert (and true "
LAW = "(assert (not (|circuit_n same| s)))"


def net(name: str) -> str:
    return f"(|circuit_n {name}| s)"


def bits(value: int, width: int) -> str:
    return f"(_ bv{value} {width})"


def power(exponent: int, code: str, width: int, *, falling: bool) -> str:
    """2**(exponent - code) or 2**(exponent + code), made from the fields of binary64."""
    wide = f"((_ zero_extend {11 - width}) {code})"
    field = f"({'bvsub' if falling else 'bvadd'} {bits(1023 + exponent, 11)} {wide})"
    return f"((_ to_fp 11 53) (concat #b0 {field} {bits(0, 52)}))"


def signed_value(fmt: BlockFormat, code: str) -> str:
    """An element code as a signed integer, in `Exact`; -0 where there is one."""
    if fmt.sign == "complement":
        return f"((_ to_fp 11 53) RTZ {code})"
    top = fmt.magnitude_bits
    size = f"((_ to_fp_unsigned 11 53) RTZ ((_ extract {top - 1} 0) {code}))"
    return f"(ite (= ((_ extract {top} {top}) {code}) #b1) (fp.neg {size}) {size})"


def rounding_claim(fmt: BlockFormat) -> str:
    """Every finite block gets the least code that will do, and every element is rounded to it.

    And a block is special just if an element is not finite, with the codes that the format says.
    """
    mode = "RNE" if fmt.rounding == "nearest_even" else "RTZ"
    fitting = mode if fmt.carry == "renormalize" else "RTZ"
    width, code, top = fmt.exponent_bits, net("code"), fmt.special_code - 1
    place = fmt.bias + fmt.magnitude_bits - 1
    limit = f"((_ to_fp 11 53) RTZ {float(fmt.largest_magnitude)})"
    lines = [
        f"(define-fun scale () Exact {power(place, code, width, falling=True)})",
        f"(define-fun finer () Exact {power(place + 1, code, width, falling=True)})",
        f"(define-fun limit () Exact {limit})",
    ]
    finite, special, fits, lower = [], [], [], []
    for n in range(fmt.elements):
        x, m = f"x{n}", net(f"m{n}")
        lines += [
            f"(define-fun {x} () Single ((_ to_fp 8 24) {net(x)}))",
            f"(define-fun a{n} () Exact (fp.abs ((_ to_fp 11 53) RTZ {x})))",
            f"(define-fun q{n} () Exact (fp.mul RTZ a{n} scale))",
            f"(define-fun f{n} () Exact (fp.mul RTZ a{n} finer))",
            f"(define-fun r{n} () Exact (fp.roundToIntegral {mode} q{n}))",
            f"(define-fun t{n} () Exact (ite (fp.leq r{n} limit) r{n} limit))",
        ]
        negative = f"(= ((_ extract 31 31) {net(x)}) #b1)"
        value = f"(ite {negative} (fp.neg t{n}) t{n})"
        # fp.eq takes -0 for +0, which is as it should be only where there is no -0.
        equal = "fp.eq" if fmt.sign == "complement" else "="
        finite.append(f"({equal} {signed_value(fmt, m)} {value})")
        fits.append(f"(fp.leq (fp.roundToIntegral {fitting} q{n}) limit)")
        lower.append(f"(fp.gt (fp.roundToIntegral {fitting} f{n}) limit)")
        if fmt.sign == "complement":
            special.append(f"(= {m} {bits(0, fmt.mantissa_bits)})")
        else:
            sign = f"((_ extract 31 31) {net(x)})"
            infinity = f"(concat {sign} {bits(0, fmt.magnitude_bits)})"
            nan = bits(1 << (fmt.magnitude_bits - 1), fmt.mantissa_bits)
            special.append(f"(= {m} (ite (fp.isInfinite {x}) {infinity} {nan}))")
    unbounded = [f"(fp.isNaN x{n}) (fp.isInfinite x{n})" for n in range(fmt.elements)]
    number = f"""(and true {" ".join(finite)}
      (not (= {code} {bits(top + 1, width)}))
      (or (= {code} {bits(top, width)}) (and true {" ".join(fits)}))
      (or (= {code} {bits(0, width)}) {" ".join(lower)}))"""
    poisoned = f"(and (= {code} {bits(top + 1, width)}) {' '.join(special)})"
    lines.append(f"(assert (not (ite (or {' '.join(unbounded)}) {poisoned} {number})))")
    return "\n".join(lines)


def decoding_claim(fmt: BlockFormat) -> str:
    """Any code and element give the binary32 number nearest to what they stand for."""
    code, element, width = net("any_code"), net("any_element"), fmt.exponent_bits
    unit = power(-fmt.bias - fmt.magnitude_bits + 1, code, width, falling=False)
    nan, infinite = bits(0x7FC00000, 32), "false"
    if fmt.sign == "magnitude":
        size = f"((_ extract {fmt.magnitude_bits - 1} 0) {element})"
        infinite = f"(= {size} {bits(0, fmt.magnitude_bits)})"
    sign = f"((_ extract {fmt.magnitude_bits} {fmt.magnitude_bits}) {element})"
    return f"""
(define-fun unit () Exact {unit})
(define-fun exact () Exact (fp.mul RTZ {signed_value(fmt, element)} unit))
(define-fun result () Single ((_ to_fp 8 24) {net("decoded")}))
(assert (not (ite (= {code} {bits(fmt.special_code, width)})
  (= {net("decoded")} (ite {infinite} (concat {sign} {bits(0x7F800000, 31)}) {nan}))
  (and (= result ((_ to_fp 8 24) RNE exact))
       (or (fp.isInfinite result) (= ((_ to_fp 11 53) RTZ result) exact))))))"""


small = pytest.mark.parametrize("fmt", quick(5, SMALL.values()), ids=SMALL.keys())


@small
def test_encoding_what_was_decoded_changes_no_block(fmt: BlockFormat, tmp_path: Path) -> None:
    assert holds(Circuit(fmt), LAW, tmp_path)


def test_stochastic_rounding_changes_no_block_whatever_the_numbers(tmp_path: Path) -> None:
    # The two encoders' generators are in any two states.
    assert holds(Circuit(STOCHASTIC), LAW, tmp_path)


@small
def test_every_block_is_rounded_correctly_to_the_least_code(
    fmt: BlockFormat, tmp_path: Path
) -> None:
    assert holds(Circuit(fmt), rounding_claim(fmt), tmp_path)


@small
def test_every_code_is_decoded_exactly(fmt: BlockFormat, tmp_path: Path) -> None:
    assert holds(Circuit(fmt), decoding_claim(fmt), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", PRESETS)
def test_encoding_what_was_decoded_changes_no_block_of_a_preset(name: str, tmp_path: Path) -> None:
    assert holds(Circuit(preset(name)), LAW, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [name for name, fmt in PRESETS.items() if fmt.rounding != "stochastic"]
)
def test_every_block_of_a_preset_is_rounded_correctly_to_the_least_code(
    name: str, tmp_path: Path
) -> None:
    assert holds(Circuit(preset(name)), rounding_claim(preset(name)), tmp_path)


@pytest.mark.parametrize(
    ("built", "claimed"),
    [
        (SMALL["bfp16"], SMALL["truncated"]),
        (BlockFormat(elements=2), SMALL["saturated"]),
        (SMALL["saturated"], BlockFormat(elements=2)),
    ],
    ids=["rounding", "carry", "saturation"],
)
def test_encoder_of_another_format_is_found_out(
    built: BlockFormat, claimed: BlockFormat, tmp_path: Path
) -> None:
    assert not holds(Circuit(built), rounding_claim(claimed), tmp_path)


class WrongOnce(Circuit):
    """One wrong bit for one value: of the first encoder's second element, and of the decoder."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        with m.If(self.x1 == 0x3F8ABCDE):
            m.d.comb += [self.m1[0].eq(1), self.same.eq(0)]
        with m.If((self.any_code == 200) & (self.any_element == 0x85)):
            m.d.comb += self.decoded.eq(0xE4200001)
        return m


@pytest.mark.parametrize("claim", ["law", "rounding", "decoding"])
def test_one_wrong_bit_is_found(claim: str, tmp_path: Path) -> None:
    fmt = SMALL["bfp16"]
    claims = {"law": LAW, "rounding": rounding_claim(fmt), "decoding": decoding_claim(fmt)}

    assert not holds(WrongOnce(fmt), claims[claim], tmp_path)
